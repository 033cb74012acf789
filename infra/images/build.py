"""Builds Argosy's two images for a registry, with buildah: `python -m infra.images.build --base IMAGE --out FOLDER`.

The base is an image by digest with Python of this interpreter's minor version, as `python3` and `python`, and
certificates. Each image becomes an OCI archive, `skopeo copy oci-archive:FILE docker://…` takes it to a registry; its
digest, by which run descriptions name it, is printed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from components.errors import ArgosyError, BadInput, EnvironmentUnfit
from infra.devcluster.images import needed_names, runtime_requirements

CHECKOUT = Path(__file__).parent.parent.parent
CODE = ("components", "infra", "pipelines", "templates")
TARGETS = {"argosy-platform": "platform", "argosy-train": "train"}
"""Images and their stages in the Containerfile."""


def build(base: str, out: Path, *, tag: str, names: Iterable[str] = TARGETS) -> dict[str, str]:
    """Archives `<out>/<name>.tar`; each image's digest by its name. Raises EnvironmentUnfit with what buildah said."""
    out.mkdir(parents=True, exist_ok=True)
    digests = {}
    with tempfile.TemporaryDirectory(prefix="argosy-image-") as folder:
        context = Path(folder)
        fill(context)
        for name in names:
            archive = out / f"{name}.tar"
            archive.unlink(missing_ok=True)  # buildah adds to an archive that exists
            _run(
                [
                    "buildah", "build", "--build-arg", f"BASE={base}", "--target", TARGETS[name], "--file",
                    str(CHECKOUT / "infra" / "images" / "Containerfile"), "--tag", f"oci-archive:{archive}:{tag}",
                    str(context),
                ]
            )  # fmt: skip
            digests[name] = digest_of(archive)
    return digests


def fill(context: Path) -> None:
    """What the Containerfile copies: the locked packages that the code needs, installed by hash, and the code."""
    lock = context / "packages.lock"
    lock.write_text(runtime_requirements((CHECKOUT / "requirements.lock").read_text(), needed_names()))
    _run(
        [
            str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--python", sys.executable,
            "--target", str(context / "packages"), "--no-deps", "--require-hashes", "--link-mode=copy",
            "--compile-bytecode", "-r", str(lock),
        ]
    )  # fmt: skip
    for folder in CODE:
        target = context / "argosy" / folder
        shutil.copytree(CHECKOUT / folder, target, ignore=shutil.ignore_patterns("__pycache__", "devcluster"))
    _run([sys.executable, "-m", "compileall", "-q", "-d", "/opt/argosy/code", str(context / "argosy")])


def digest_of(archive: Path) -> str:
    """Digest of the one image in an OCI archive."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None  # an archive of buildah
        manifests = json.load(index)["manifests"]
    return str(manifests[0]["digest"])


def _run(argv: Sequence[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentUnfit(
            "ProgramMissing", f"{argv[0]} is not installed", "install it, for example by apt"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise EnvironmentUnfit("CommandFailed", f"exit {done.returncode} of {' '.join(argv)[:300]}: {said}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.images.build", allow_abbrev=False, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--base", required=True, help="an image with Python, by digest; what buildah's FROM takes")
    parser.add_argument("--out", required=True, type=Path, help="folder for the archives")
    parser.add_argument("--tag", default="dev", help="the images' tag in their archives")
    parser.add_argument("--only", choices=TARGETS, help="one of the two")
    arguments = parser.parse_args(argv)
    try:
        if "@sha256:" not in arguments.base and not arguments.base.startswith(("oci-archive:", "localhost/")):
            fix = "write name@sha256:…, so that the same is built tomorrow"
            raise BadInput("NoDigest", f"--base {arguments.base} names no digest", fix)
        names = [arguments.only] if arguments.only else list(TARGETS)
        for name, digest in build(arguments.base, arguments.out, tag=arguments.tag, names=names).items():
            print(f"{name} {digest} {os.path.abspath(arguments.out / name)}.tar")
    except ArgosyError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
