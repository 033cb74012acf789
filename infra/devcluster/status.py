"""What runs, what does not, and whether the nodes are Ready."""

import json
from collections.abc import Callable

from components.errors import ArgosyError
from infra.devcluster import manifests
from infra.devcluster.process import Phase, phase, pid
from infra.devcluster.running import components, running_layout


def status(say: Callable[[str], None]) -> int:
    """0 when everything runs and every node is Ready, else 1."""
    layout = running_layout()
    wrong = 0
    for component in components(layout):
        now = phase(component)
        missing = component.missing() if now in (Phase.RUNNING, Phase.OUTDATED) else "make cluster-up starts it"
        wrong += bool(missing)
        say(f"{component.name:26}{now:10}{pid(component) or '':<8}{missing or 'ready'}")
    try:
        nodes = json.loads(manifests.kubectl(layout, "get", "nodes", "--output=json", "--request-timeout=5s"))["items"]
    except ArgosyError as error:
        say(str(error))
        return 1
    for item in nodes:
        ready = next(c for c in item["status"]["conditions"] if c["type"] == "Ready")
        wrong += ready["status"] != "True"
        say(f"{item['metadata']['name']:26}{'Ready' if ready['status'] == 'True' else ready['message']}")
    return 1 if wrong else 0
