"""A tenant's render on disk: files of ours are replaced or removed, anybody else's are left alone and named."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from components.errors import BadInput, EnvironmentUnfit
from infra.kubernetes.permissions import Manifest
from infra.kubernetes.tenant.render import TENANT_LABEL

HEADER = "# Written by `python -m infra.kubernetes.tenant`; change the tenant's file, not this one.\n"


class _Dumper(yaml.SafeDumper):
    """Writes the same part twice, not once and a reference: people read these files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def write_render(folder: Path, files: Mapping[str, Sequence[Manifest]]) -> list[str]:
    """Make `folder` hold these files. Returns the names of what else is there. The same objects give the same bytes.

    Raises BadInput when somebody else's file stands where ours would go; nothing is written then.
    """
    try:
        there = {path.name: path for path in folder.iterdir()} if folder.exists() else {}
        ours = {name for name, path in there.items() if is_ours(path)}
        taken = sorted(files.keys() & (there.keys() - ours))
        if taken:
            names = ", ".join(str(folder / name) for name in taken)
            raise BadInput("ForeignFile", f"{names}: not written by this command", "move it away, or use another --out")
        folder.mkdir(parents=True, exist_ok=True)
        for name, objects in files.items():
            text = HEADER + "---\n".join(yaml.dump(item, Dumper=_Dumper, sort_keys=False) for item in objects)
            temporary = folder / f".{name}.new"
            temporary.write_text(text, encoding="utf-8")
            temporary.rename(folder / name)
        for name in ours - files.keys():
            (folder / name).unlink()
    except OSError as error:
        raise EnvironmentUnfit("NotWritten", f"cannot write {folder}: {error}", "choose another --out") from error
    return sorted(there.keys() - ours)


def no_longer_rendered(folder: Path, files: Mapping[str, Sequence[Manifest]]) -> list[str]:
    """What the render in `folder` has and `files` have not, as words for `kubectl delete`. `kubectl apply` leaves such
    objects in the cluster, also those that give a right.
    """
    try:
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()) if is_ours(path)]
        before = [item for text in texts for item in yaml.safe_load_all(text)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []  # no render is there, or none that could be applied
    now = set(_named(item for items in files.values() for item in items))
    return [words for words in _named(before) if words not in now]


def _named(items: Iterable[object]) -> Iterable[str]:
    for item in items:
        # Without a tenant's label it is not this tenant's alone.
        if isinstance(item, dict) and TENANT_LABEL in ((item.get("metadata") or {}).get("labels") or {}):
            group = str(item.get("apiVersion", "")).rpartition("/")[0].partition("/")[0]
            kind = f"{str(item['kind']).lower()}{f'.{group}' if group else ''}"
            place = item["metadata"].get("namespace")
            yield f"{kind} {item['metadata'].get('name')}{f' --namespace {place}' if place else ''}"


def is_ours(path: Path) -> bool:
    """Whether this command wrote it."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()
