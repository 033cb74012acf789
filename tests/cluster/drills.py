"""A run on a cluster that is disturbed while it trains: how it is seen, and what must hold in the end.

Nobody's word is taken for what happened: steps and their times are what the ranks themselves wrote, terms are the
ledger's.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from components.contracts.cluster_names import COMPLETION_INDEX_ANNOTATION, GANG_LABEL
from components.contracts.layout import ledger_folder
from components.errors import ArgosyError
from tests.cluster.drills_judge import Told, assert_trained_once
from tests.cluster.harness import ClusterRun, description, wait_until
from tests.cluster.place import ROOT, Place

PROGRAM = Path(__file__).parent / "programs" / "drill.py"
EVERY_STEPS = 40
RANKS = (0, 1)
T = TypeVar("T")
Object = dict[str, Any]


class Drill(ClusterRun):
    """Two ranks on two nodes, which train until told that it is enough."""

    def __init__(self, place: Place, experiment: str, *, corpus: str) -> None:
        program = ["python3", "-u", "-c", PROGRAM.read_text(encoding="utf-8")]
        changes: Mapping[str, Any] = {
            "launch__command": program, "checkpoint__every_steps": EVERY_STEPS, "verify__level": "digests",
            "launch__max_restarts": 6, "launch__limits__stop": "10s", "launch__limits__run": "1h",
            "launch__lost_node__after": "15s",
        }  # fmt: skip
        super().__init__(place, description(place, experiment, corpus=corpus, **changes))
        self._chunks: dict[str, list[Told]] = {}

    # What is seen of it

    def records(self) -> list[Object]:
        """The ledger, in order."""
        folder = ledger_folder(str(self.value["experiment"]), "v1")
        keys = sorted(item.key for item in self.place.store.list(folder))
        return [json.loads(self.place.store.read(key)) for key in keys if key.rpartition("/")[2][0].isdigit()]

    def begins(self) -> list[Object]:
        """The STARTs, each with its time in Unix seconds."""
        records = self.records()
        return [{**item["change"], "at": moment(item["at"])} for item in records if item["change"]["kind"] == "begin"]

    def told(self) -> list[Told]:
        """Every line of every rank, by time."""
        for item in list(self.place.store.list(f"runs/{self.name}/gang")):
            if item.key not in self._chunks and ".rank-" in item.key and item.key.endswith(".jsonl"):
                self._chunks[item.key] = list(_lines(item.key, self.place.store.read(item.key)))
        return sorted((line for lines in self._chunks.values() for line in lines), key=lambda line: line.at)

    def steps(self, *, after: float = 0.0) -> list[Told]:
        return [line for line in self.told() if line.event == "step" and line.at > after]

    def living_workers(self) -> list[Object]:
        """Pods of the newest generation that nobody asked to go, by node rank."""
        pods = [pod for pod in self.workers() if "deletionTimestamp" not in pod["metadata"]]
        newest = max((str(pod["metadata"]["labels"][GANG_LABEL]) for pod in pods), key=_number, default="")
        own = [pod for pod in pods if pod["metadata"]["labels"][GANG_LABEL] == newest]
        return sorted(own, key=lambda pod: int(pod["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION]))

    def launcher(self) -> Object | None:
        """The launch stage's pod that runs now."""
        running = [pod for pod in self.pods("launch") if pod["status"]["phase"] == "Running"]
        return next((pod for pod in reversed(running) if "deletionTimestamp" not in pod["metadata"]), None)

    def node_of_launcher(self) -> str:
        return str(self.wait(self.launcher, "a launcher")["spec"]["nodeName"])

    def generation(self) -> int:
        """The newest."""
        return int((self.launch_state() or {})["generations"][-1]["generation"])

    def created_at(self, generation: int) -> float:
        """When the launcher decided that there shall be this generation: Unix seconds."""
        found = (self.launch_state() or {})["generations"]
        return moment(next(item["created_at"] for item in found if item["generation"] == generation))

    # Waiting

    def wait(self, look: Callable[[], T | None], what: str) -> T:
        """The first true answer. A store or an API server that does not answer is asked again."""

        def patiently() -> T | None:
            try:
                return look()
            except ArgosyError:
                return None

        return wait_until(patiently, what=what, give_up=self._is_over)

    def wait_for_begin(self, number: int) -> Object:
        """The START of that number, from 1."""
        return self.wait(lambda: self.begins()[number - 1 : number], f"START {number}")[0]

    def wait_for_steps(self, number: int, *, after: float = 0.0) -> float:
        """Until every rank told of so many steps after that time; when all had made their first."""

        def look() -> list[list[Told]] | None:
            steps = self.steps(after=after)
            found = [[line for line in steps if line.rank == rank] for rank in RANKS]
            return found if min(len(lines) for lines in found) >= number else None

        return max(lines[0].at for lines in self.wait(look, f"{number} more steps of every rank"))

    def wait_for_verified(self, *, after: float) -> None:
        """Until a checkpoint is verified that was committed after that time."""

        def look() -> bool:
            changes = [item["change"] | {"at": moment(item["at"])} for item in self.records()]
            fresh = {item["checkpoint"] for item in changes if item["kind"] == "commit" and item["at"] > after}
            return any(item["kind"] == "verified" and item["checkpoint"] in fresh for item in changes)

        self.wait(look, "a verified checkpoint")

    def another_launcher(self, than: Object) -> Object:
        """One that has taken the gang over."""

        def look() -> Object | None:
            found = self.launcher()
            if found is None or found["metadata"]["uid"] == than["metadata"]["uid"]:
                return None
            said = self.place.kubectl("logs", found["metadata"]["name"], "--container=main", may_fail=True)
            return found if "is taken over" in said else None

        return self.wait(look, "another launcher")

    def move_launcher(self, node: str) -> Object:
        """Off that node; the new one."""
        launcher = self.wait(self.launcher, "a launcher")
        self.place.kubectl("cordon", node)
        try:
            self.place.kubectl("delete", "pod", launcher["metadata"]["name"], "--wait=false")
            return self.another_launcher(launcher)
        finally:
            self.place.kubectl("uncordon", node)

    def complete(self) -> None:
        """Tell the ranks when it is enough, later than anybody ever was; see the run through, and judge it."""
        seen = max(line.step for line in self.steps())
        last = (seen // EVERY_STEPS + 2) * EVERY_STEPS
        for pod in self.living_workers():
            self.run_in(pod, "python3", "-c", f"open('/tmp/enough', 'w').write('{last}')")
        assert self.finish() == 0, self.terminal()[-3000:]
        assert self.ledger().claim is None
        assert_trained_once([item["change"] for item in self.records()], self.steps(), last=last, ranks=RANKS)

    def kill_rank(self, rank: int) -> float:
        """With SIGKILL; when."""
        state = self.gang_states()[-1]
        [seen] = [item for item in state["ranks"] if item["rank"] == rank]
        pod = self.living_workers()[seen["node_rank"]]
        at = now()
        self.run_in(pod, "python3", "-c", f"import os; os.kill({seen['pid']}, 9)")
        return at

    def run_in(self, pod: Object, *argv: str) -> None:
        """In the program's container."""
        self.place.kubectl("exec", str(pod["metadata"]["name"]), "--container=program", "--", *argv)

    def _is_over(self) -> str:
        try:
            return self.over()
        except ArgosyError:
            return ""

    def longest_silence(self, *, since: float) -> float:
        """The longest time that any rank was without a step from then on, in seconds."""
        steps = self.steps(after=since - 2)
        return max(
            later - earlier
            for rank in RANKS
            for earlier, later in pairwise(line.at for line in steps if line.rank == rank)
        )


def devcluster(*words: str) -> None:
    """`python -m infra.devcluster …`, to its end."""
    argv = [sys.executable, "-m", "infra.devcluster", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"


def now() -> float:
    """Unix seconds: all of a development cluster has one clock."""
    return time.time()


def moment(text: str) -> float:
    """Unix seconds of a UTC text."""
    return datetime.fromisoformat(text).timestamp()


def _number(gang: str) -> int:
    return int(gang.rpartition("-g")[2])


def _lines(key: str, data: bytes) -> Iterator[Told]:
    generation, _, stream, _ = key.split("/")[-4:]
    attempt = int(stream.rpartition("attempt-")[2])
    for line in data.splitlines():
        head, mark, text = str(json.loads(line).get("message", "")).partition("DRILL ")
        if mark and not head:
            said = json.loads(text)
            yield Told(int(generation[1:]), attempt, said["rank"], said["event"], said["step"], said["at"])
