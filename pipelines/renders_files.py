"""A render as a folder that is committed: which file holds what, and what else lies there."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import BadInput, Problem
from pipelines.manifest_text import to_yaml

Object = dict[str, Any]

KUSTOMIZATION = "kustomization.yaml"
_FILES = {
    "WorkflowTemplate": "workflow-template.yaml",
    "CronWorkflow": "cron-workflow.yaml",
    "WorkflowEventBinding": "event-binding.yaml",
}
_ROLES = "roles.yaml"
OURS = (_ROLES, *_FILES.values(), KUSTOMIZATION)
"""Every name a render uses, in the order in which they are applied."""

_HEAD = re.compile(
    r"# Rendered by Argosy as (?P<kind>\w+), for (?P<of>experiment \S+, model version \S+)\. Do not edit"
)
_MAX_NAMED = 10


@dataclass(frozen=True)
class Folder:
    """What lies in a folder of renders."""

    path: Path
    texts: Mapping[str, str]
    """Files that a render made, by name."""
    strangers: Sequence[str]
    """Everything else; never touched."""
    taken: Sequence[str]
    """Those among them that have a name which a render uses."""

    @property
    def kind(self) -> str | None:
        """What was rendered into it, as `--as` says it."""
        head = _HEAD.match(self.texts.get(KUSTOMIZATION, ""))
        return head["kind"] if head else None

    def strangers_named(self) -> str:
        """Some of them, for people."""
        named = ", ".join(self.strangers[:_MAX_NAMED])
        more = len(self.strangers) - _MAX_NAMED
        return f"{named} and {more} more" if more > 0 else named


def files_of(objects: Sequence[Object], *, kind: str, experiment: str, model_version: str) -> dict[str, str]:
    """Text by file name: an object, or several, in each, and a kustomization that lists them."""
    head = (
        f"# Rendered by Argosy as {kind}, for experiment {experiment}, model version {model_version}. Do not edit:\n"
        f"# change the run description, then `python pipelines/train.py compile -c FILE --as {kind} --out FOLDER`.\n"
    )
    texts: dict[str, list[str]] = {}
    for item in objects:
        texts.setdefault(_FILES.get(str(item["kind"]), _ROLES), []).append(to_yaml(item))
    files = {name: head + "---\n".join(texts[name]) for name in OURS if name in texts}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(files),
        # As listed: a schedule that Argo sees before its template stands still for minutes.
        "sortOptions": {"order": "fifo"},
    }  # fmt: skip
    return {**files, KUSTOMIZATION: head + to_yaml(kustomization)}


def read_folder(path: Path) -> Folder:
    """What lies in `path`, which need not exist. Raises BadInput when it cannot be read."""
    texts: dict[str, str] = {}
    strangers: list[str] = []
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise BadInput("NotAFolder", f"cannot read {path}: {error.strerror}", "name a folder") from error
    for name in names:
        text = _text(path / name) if name in OURS else None
        if text is not None and _HEAD.match(text):
            texts[name] = text
        else:
            strangers.append(f"{name}/" if (path / name).is_dir() else name)
    taken = [name for name in strangers if name.rstrip("/") in OURS]
    return Folder(path=path, texts=texts, strangers=strangers, taken=taken)


def require_same_owner(folder: Folder, files: Mapping[str, str]) -> None:
    """Refuse to write over what is not this description's. Raises BadInput with every file."""
    mine = _of(next(iter(files.values())))
    problems = [
        Problem(str(folder.path / name), "is no render", "move it, or choose another folder") for name in folder.taken
    ]
    problems += [
        Problem(str(folder.path / name), f"is a render of {_of(text)}", "choose a folder for each description")
        for name, text in folder.texts.items() if _of(text) != mine
    ]  # fmt: skip
    if problems:
        raise BadInput("FolderTaken", f"{folder.path} holds what this render would destroy", problems=problems)


def _of(text: str) -> str:
    head = _HEAD.match(text)
    return head["of"] if head else ""


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None
