"""`compile --cluster`: what the cluster has, beside what would be rendered now; whose hand it shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.cluster.base import Forbidden, NotServed
from components.cluster.kinds import (
    CRON_WORKFLOWS,
    ROLE_BINDINGS,
    ROLES,
    WORKFLOW_EVENT_BINDINGS,
    WORKFLOW_TEMPLATES,
    Kind,
)
from components.contracts.cluster_names import CONTENT_LABEL
from infra.argo.argo import Argo
from pipelines.cli.targets import PlaceOptions, resolve_target

Object = Mapping[str, Any]

_LOOKED_AT: Mapping[str, Kind] = {
    kind.kind: kind for kind in (WORKFLOW_TEMPLATES, CRON_WORKFLOWS, WORKFLOW_EVENT_BINDINGS, ROLES, ROLE_BINDINGS)
}
"""Not Secrets, which nobody needs to read for this, and not accounts, which hold nothing."""


def drift_lines(objects: Sequence[Object], place: PlaceOptions) -> tuple[str, list[str]]:
    """Where was looked, for people, and every difference from `objects`; what may not be looked at counts as one."""
    asked = place if place.target else replace(place, target=_default_target(place))
    target = resolve_target(asked)
    described = str(objects[0]["metadata"].get("namespace") or "")
    if described and not target.is_namespace_given:
        target = replace(target, namespace=described)
    argo = target.connect()
    lines: list[str] = []
    for item in objects:
        if item["kind"] in _LOOKED_AT:
            lines += _lines_of(item, argo)
    return argo.place, lines


def _default_target(place: PlaceOptions) -> str | None:
    """The configured cluster; a machine whose target is local still has a kubeconfig."""
    from pipelines.cli.targets import Target

    configured: Target = resolve_target(PlaceOptions())
    return "kubernetes" if configured.is_local else None


def _lines_of(item: Object, argo: Argo) -> Iterator[str]:
    from pipelines.cli.compile_check import shortened
    from pipelines.renders_diff import differences

    kind, name = str(item["kind"]), str(item["metadata"]["name"])
    try:
        live = _read(item, argo)
    except (Forbidden, NotServed) as error:
        yield f"{kind} {name}: cannot be looked at: {error}"
        return
    if live is None:
        yield f"{kind} {name}: is not there; apply the render"
        return
    found = [str(line) for line in differences(_comparable(live, item), item)]
    if found:
        yield f"{kind} {name}: differs (cluster → rendered now); {_whose(live)}"
        yield from (f"  {line}" for line in shortened(found))


def _read(item: Object, argo: Argo) -> Object | None:
    from infra.argo.kubernetes import ArgoByKubernetes

    kind, name = str(item["kind"]), str(item["metadata"]["name"])
    if isinstance(argo, ArgoByKubernetes):
        return argo.cluster.read(_LOOKED_AT[kind], name)
    if kind == WORKFLOW_TEMPLATES.kind:
        return argo.template(name)
    raise NotServed("NotServed", "the Argo Server shows WorkflowTemplates only", "use --target kubernetes")


def _comparable(live: Object, item: Object) -> dict[str, Any]:
    """`live` without what servers and other tools note on every object."""
    metadata = live.get("metadata") or {}
    wanted = item["metadata"]
    kept: dict[str, Any] = {key: metadata[key] for key in ("name", "namespace") if key in wanted and key in metadata}
    for key in ("labels", "annotations"):
        if key in wanted:
            kept[key] = {name: value for name, value in (metadata.get(key) or {}).items() if name in wanted[key]}
    rest = {key: value for key, value in live.items() if key not in ("metadata", "status", "apiVersion", "kind")}
    # The Argo Server leaves out what an object is.
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept, **rest}


def _whose(live: Object) -> str:
    """An edit in the cluster, or another render; and who wrote last, as far as the server noted it."""
    from infra.argo.content import is_edited

    if CONTENT_LABEL not in ((live.get("metadata") or {}).get("labels") or {}):
        what = f"label {CONTENT_LABEL} is gone, so it was edited in the cluster or was never rendered"
    else:
        what = "it was edited in the cluster" if is_edited(live) else "another render was applied"
    writers = [
        entry for entry in (live.get("metadata") or {}).get("managedFields") or ()
        if entry.get("time") and not entry.get("subresource")
    ]  # fmt: skip
    last = max(writers, key=lambda entry: str(entry["time"]), default=None)
    return f"{what}, last by {last.get('manager', 'somebody')} at {last['time']}" if last else what
