"""Objects that a run description names: are they there? A pod that names one which is not waits, and tells nobody."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.cluster.base import Cluster, Forbidden, NotServed
from components.cluster.kinds import CONFIG_MAPS, PRIORITY_CLASSES, RUNTIME_CLASSES, SECRETS, SERVICE_ACCOUNTS, Kind
from components.cluster.kinds import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from components.contracts.pods import CA_KEY, PodOptions
from components.errors import Problem


@dataclass(frozen=True)
class Named:
    """An object, the field that names it, and what it must hold."""

    field: str
    kind: Kind
    name: str
    keys: tuple[str, ...] = ()


def named_objects(options: PodOptions) -> Iterator[Named]:
    """What the gang's pods cannot do without."""
    for name in options.image_pull_secrets:
        yield Named("image_pull_secrets", SECRETS, name)
    if options.service_account:
        yield Named("storage_options.service_account", SERVICE_ACCOUNTS, options.service_account)
    if options.ca_secret:
        yield Named("storage_options.ca_secret", SECRETS, options.ca_secret, (CA_KEY,))
    if options.trusted:
        yield Named("ca_bundle", CONFIG_MAPS, options.trusted.config_map, (options.trusted.key,))
    for variable in options.env:
        source = variable["valueFrom"]["secretKeyRef"]
        yield Named(f"launch.secrets.{variable['name']}", SECRETS, source["name"], (source["key"],))
    for item in options.env_from:
        for kind, reference in ((SECRETS, "secretRef"), (CONFIG_MAPS, "configMapRef")):
            if reference in item:
                yield Named("launch.env_from", kind, item[reference]["name"])
    for mount in options.mounts:
        for kind, source_name, key in (
            (SECRETS, "secret", "secretName"), (CONFIG_MAPS, "configMap", "name"),
            (CLAIMS, "persistentVolumeClaim", "claimName"),
        ):  # fmt: skip
            if source_name in mount.source:
                yield Named(f"launch.volumes {mount.path}", kind, mount.source[source_name][key])
    if options.priority_class:
        yield Named("launch.priority_class", PRIORITY_CLASSES, options.priority_class)
    if options.runtime_class:
        yield Named("launch.runtime_class", RUNTIME_CLASSES, options.runtime_class)


def missing_objects(cluster: Cluster, wanted: Sequence[Named]) -> list[Problem]:
    """Those that are not there, or lack a key. What this account may not see counts as there."""
    unseen: set[Kind] = set()
    problems: list[Problem] = []
    for item in wanted:
        if item.kind in unseen:
            continue
        try:
            found = cluster.read(item.kind, item.name)
        except (Forbidden, NotServed):
            unseen.add(item.kind)
            continue
        where = f" in namespace {cluster.namespace}" if item.kind.is_namespaced else ""
        what = f"{item.kind.kind} {item.name}"
        if found is None:
            problems.append(Problem(item.field, f"there is no {what}{where}", "create it, or correct the name"))
        elif lacking := [key for key in item.keys if key not in _data(found)]:
            seen = f"{what}{where} has no key {' and no '.join(lacking)}"
            problems.append(Problem(item.field, seen, "add it, or correct its name"))
    return problems


def _data(item: Mapping[str, object]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for part in ("data", "binaryData"):
        value = item.get(part)
        found |= value if isinstance(value, dict) else {}
    return found
