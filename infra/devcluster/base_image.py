"""The base of our images: the smallest Debian with python3, from the mirrors this host's apt uses."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from components.errors import EnvironmentUnfit
from infra.devcluster.commands import run
from infra.devcluster.layout import BUILD

SUITE = "bookworm"
PACKAGES = ("python3-minimal", "python3", "python-is-python3", "ca-certificates")
LEFT_OUT = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./usr/share/doc/*",
            "./usr/share/locale/*", "./usr/share/man/*")  # fmt: skip


def base_archive(say: Callable[[str], None]) -> Path:
    """A tar of its root file system, made once for one list of packages."""
    key = hashlib.sha256(json.dumps([SUITE, PACKAGES, LEFT_OUT]).encode()).hexdigest()[:12]
    archive = BUILD / "images" / f"base-{key}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        say(f"debootstrap of {SUITE} with {', '.join(PACKAGES)}")
        with tempfile.TemporaryDirectory(prefix="argosy-base-") as folder:
            root = Path(folder) / "root"
            try:
                run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root, _mirror()])
                fresh = archive.with_suffix(".new")
                run(["tar", "-C", root, "-cf", fresh, "--sort=name", *(f"--exclude={p}" for p in LEFT_OUT), "."])
                fresh.rename(archive)
            finally:
                _unmount_below(root)
    return archive


def _mirror() -> str:
    """The host's own Debian mirror: no address of one is kept here."""
    for line in run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI) $(CODENAME) $(COMPONENT)"]
    ).splitlines():
        _, uri, codename, component = [*line.split(), "", "", "", ""][:4]
        if codename == SUITE and component == "main":
            return uri
    raise EnvironmentUnfit(
        "NoDebianMirror", f"apt knows no source of {SUITE} main", "apt-get update, or add such a source"
    )


def _unmount_below(root: Path) -> None:
    """What an interrupted debootstrap left mounted must not be deleted through."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[1].startswith(f"{root}/"):
            run(["umount", "--lazy", line.split()[1]])
