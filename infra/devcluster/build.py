"""The programs, built with Go from module versions fixed in `modules/<group>/go.mod`, checked against go.sum.

A group is built again when its go.mod, go.sum, sources, flags or the Go version change, and not otherwise.
"""

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from components.errors import EnvironmentUnfit
from infra.devcluster.commands import run, write
from infra.devcluster.layout import BIN, BUILD, CHECKOUT, KUBECTL

MODULES = Path(__file__).parent / "modules"
KUBERNETES, ARGO = "v1.35.4", "v4.0.5"
ARGO_MODULE = "github.com/argoproj/argo-workflows/v4"
JOBSET_MODULE = "sigs.k8s.io/jobset"
INSTALL_GO = "install Go 1.26 or later"
_GIT = "k8s.io/component-base/version.git"


@dataclass(frozen=True)
class Group:
    """Programs that share one module, since their versions of common libraries agree."""

    name: str
    programs: tuple[str, ...]
    stamped: str = ""
    """Versions the linker writes into them: without, nodes report v0.0.0-master."""
    packages: str = "tool"
    module: Path | None = None

    @property
    def source(self) -> Path:
        return self.module or MODULES / self.name

    @property
    def output(self) -> Path:
        return BIN / self.name


GROUPS = (
    Group(
        "kube",
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", "server"),
        f"-X {_GIT}Version={KUBERNETES} -X {_GIT}Major=1 -X {_GIT}Minor=35",
    ),
    Group("argo", ("argo", "argoexec", "workflow-controller"), f"-X {ARGO_MODULE}.version={ARGO}"),
    Group("jobset", ("jobset",)),
    Group("coredns", ("coredns",)),
    Group("s3", ("versitygw",), module=CHECKOUT / "tests" / "fakes" / "versitygw"),
    Group("pause", ("pause",), packages="."),
)


def build(say: Callable[[str], None]) -> None:
    """Every group that is not built as it would be now, and the manifests that come with Argo and JobSet."""
    with locked(BUILD / "build.lock"):
        for group in GROUPS:
            _build_if_changed(group, say)
        for name in MANIFESTS:
            manifest_path(name)


def build_group(group: Group, say: Callable[[str], None]) -> None:
    """One that is not in every cluster."""
    with locked(BUILD / "build.lock"):
        _build_if_changed(group, say)


def is_built(group: Group) -> bool:
    stamp = group.output / ".built"
    programs = all((group.output / program).exists() for program in group.programs)
    return programs and stamp.exists() and stamp.read_text() == inputs(group)


def inputs(group: Group) -> str:
    """A digest of all that decides what comes out."""
    digest = hashlib.sha256(json.dumps([go_version(), group.stamped, group.packages]).encode())
    for path in sorted(group.source.glob("*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def find_go() -> str | None:
    """On PATH, or where Go's own archive is unpacked."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def go() -> str:
    """Raises EnvironmentUnfit where there is none."""
    found = find_go()
    if found is None:
        raise EnvironmentUnfit("ProgramMissing", "go is not installed", INSTALL_GO)
    return found


def go_version() -> str:
    return run([go(), "env", "GOVERSION"]).strip()


def rendered(name: str, group: Group, module: str, folder: str) -> Path:
    """The objects of a kustomization that comes with a module, rendered once for the versions that are built now.

    JSON: five megabytes of it take seconds to read as YAML.
    """
    path = BUILD / "manifests" / f"{name}-{inputs(group)[:12]}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = run([KUBECTL, "kustomize", _module_folder(group, module) / folder])
        write(path, json.dumps([item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]))
    return path


def _module_folder(group: Group, module: str) -> Path:
    """Where Go keeps that module's files."""
    return Path(run([go(), "list", "-mod=mod", "-m", "-f", "{{.Dir}}", module], cwd=group.source).strip())


def _build_if_changed(group: Group, say: Callable[[str], None]) -> None:
    if not is_built(group):
        began = time.monotonic()
        say(f"building {group.name}: {', '.join(group.programs)}")
        _build(group)
        say(f"built {group.name} in {time.monotonic() - began:.0f} s")


def _build(group: Group) -> None:
    group.output.mkdir(parents=True, exist_ok=True)
    flags = ["-trimpath", f"-ldflags=-s -w {group.stamped}".strip(), "-o", f"{group.output}/"]
    where = group.source
    if group.name == "argo":
        where = _vendored_argo(group)
        flags += ["-mod=vendor", "-overlay", str(where / "overlay.json")]
    run(["nice", "-n", "10", go(), "build", *flags, group.packages], cwd=where, env={"CGO_ENABLED": "0"}, seconds=3600)
    (group.output / ".built").write_text(inputs(group))


def _vendored_argo(group: Group) -> Path:
    """The published module lacks two files: the UI's page and, as module zips drop links, signal_linux.go.

    An overlay supplies them, which cannot touch the module cache; hence the vendored copy. The signal file is the
    module's own signal_darwin.go, to which upstream links it: a new one that forgot to release the process killed what
    it was to stop.
    """
    folder = BUILD / "src" / "argo"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum"):
        shutil.copy(group.source / name, folder / name)
    run([go(), "mod", "vendor", "-e"], cwd=folder)  # "-e": it embeds the page that is absent
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><title>Argo Server</title><p>The module that this server is built from has no UI.</p>\n"
    )
    vendored = folder / "vendor" / ARGO_MODULE
    signals = "workflow/executor/osspecific"
    replaced = {
        str(vendored / "ui/dist/app/index.html"): str(page),
        str(vendored / signals / "signal_linux.go"): str(
            _module_folder(group, ARGO_MODULE) / signals / "signal_darwin.go"
        ),
    }
    (folder / "overlay.json").write_text(json.dumps({"Replace": replaced}))
    return folder


MANIFESTS = {
    "argo-crds": ("argo", ARGO_MODULE, "manifests/base/crds/full"),
    "argo": ("argo", ARGO_MODULE, "manifests/cluster-install-no-crds"),
    "jobset": ("jobset", JOBSET_MODULE, "config/default"),
}
"""Upstream's custom resources and Roles: group, module, kustomization in it."""


def manifest_path(name: str) -> Path:
    """Of one of MANIFESTS, which is rendered if it is not yet."""
    group, module, folder = MANIFESTS[name]
    return rendered(name, next(item for item in GROUPS if item.name == group), module, folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else does this meanwhile; released by the kernel when we die."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
