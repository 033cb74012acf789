"""Images: built with buildah from the Containerfiles, kept as OCI archives, imported into each node by digest."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import tarfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from components.errors import EnvironmentUnfit
from infra.devcluster.base_image import base_archive
from infra.devcluster.build import GROUPS, inputs, locked
from infra.devcluster.commands import run, write
from infra.devcluster.control import EXECUTOR_IMAGE
from infra.devcluster.layout import BIN, BUILD, CHECKOUT, PYTHON, Node
from infra.devcluster.node import PAUSE_IMAGE

FOLDER = BUILD / "images"
CODE = ("components", "infra", "pipelines", "templates")
_STORAGE = ("--root", str(FOLDER / "storage"), "--runroot", str(FOLDER / "run"), "--storage-driver", "vfs")
_REGISTRY = "localhost/"
_ENVIRONMENT = {"BUILDAH_ISOLATION": "chroot"}


@dataclass(frozen=True)
class Image:
    """An archive with one image; `digest` is its manifest's."""

    name: str
    tag: str
    digest: str
    archive: Path

    @property
    def repository(self) -> str:
        return f"{_REGISTRY}{self.name}"

    @property
    def reference(self) -> str:
        """By digest, as workflows name it."""
        return f"{self.repository}@{self.digest}"


def build_all(say: Callable[[str], None]) -> tuple[Image, ...]:
    """The four images; one whose inputs did not change is not built again."""
    with locked(BUILD / "images.lock"):
        built = _build_all(say)
        records = [{"name": i.name, "tag": i.tag, "digest": i.digest, "archive": str(i.archive)} for i in built]
        write(FOLDER / "images.json", json.dumps(records))
        return built


def last_built() -> tuple[Image, ...]:
    """As `build_all` left them."""
    if not (FOLDER / "images.json").exists():
        raise EnvironmentUnfit("NotBuilt", f"there is no {FOLDER / 'images.json'}", "make cluster-build")
    records = json.loads((FOLDER / "images.json").read_text())
    return tuple(Image(r["name"], r["tag"], r["digest"], Path(r["archive"])) for r in records)


def _build_all(say: Callable[[str], None]) -> tuple[Image, ...]:
    base = base_archive(say)
    programs = {group.name: group for group in GROUPS}
    own = Path(__file__).parent / "Containerfile"
    shared = CHECKOUT / "infra" / "images" / "Containerfile"
    cluster = inputs(programs["argo"]) + inputs(programs["pause"])
    packages = _packages(say)
    return (
        _image(say, *_name_and_tag(PAUSE_IMAGE), "pause", own, base, cluster, _programs),
        _image(say, *_name_and_tag(EXECUTOR_IMAGE), "argoexec", own, base, cluster, _programs),
        _image(say, "argosy-train", "dev", "train", shared, base, "", _nothing),
        _image(
            say, "argosy-platform", "dev", "platform", shared, base, packages.name + code_digest(), _platform(packages)
        ),
    )


def import_into(node: Node, images: Iterable[Image]) -> None:
    """Those that the node does not have yet. A name by digest and the tagged name point at the same image."""
    present = set(_ctr(node, "images", "list", "--quiet").split())
    for image in images:
        tagged = f"{image.repository}:{image.tag}"
        if image.reference not in present:
            _ctr(node, "images", "import", "--base-name", image.repository, image.archive)
            _ctr(node, "images", "tag", "--force", tagged, image.reference)
        elif tagged not in present:
            _ctr(node, "images", "tag", "--force", image.reference, tagged)


def forget_containers(node: Node) -> None:
    """Those of an earlier cluster, which its image store still lists. None of them runs."""
    if names := _ctr(node, "containers", "list", "--quiet").split():
        _ctr(node, "containers", "delete", *names)


def import_everywhere(nodes: Iterable[Node], images: Iterable[Image]) -> None:
    chosen = tuple(images)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: import_into(node, chosen), nodes))


def _ctr(node: Node, *words: str | Path) -> str:
    return run(["ctr", "--address", node.containerd_socket, "--namespace", "k8s.io", *words])


def describe(archive: Path, name: str, tag: str) -> Image:
    """An OCI archive with one image, ours or somebody's."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        assert member is not None
        index = json.load(member)
    return Image(name, tag, index["manifests"][0]["digest"], archive)


def code_digest() -> str:
    digest = hashlib.sha256()
    for path in _code_files():
        digest.update(str(path.relative_to(CHECKOUT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _code_files() -> Iterator[Path]:
    for folder in CODE:
        for path in sorted((CHECKOUT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "devcluster" not in path.parts:
                yield path


def _image(
    say: Callable[[str], None], name: str, tag: str, target: str, containerfile: Path, base: Path, contents: str,
    fill: Callable[[Path], None],
) -> Image:  # fmt: skip
    key = hashlib.sha256("\0".join([containerfile.read_text(), base.name, contents]).encode()).hexdigest()[:16]
    archive = FOLDER / f"{name}-{key}.tar"
    if not archive.exists():
        say(f"building image {name}")
        context = FOLDER / "context" / name
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir(parents=True)
        fill(context)
        fresh = FOLDER / f"{name}.new"
        fresh.unlink(missing_ok=True)
        run(
            [
                "buildah", *_STORAGE, "build", "--layers", "--build-arg", f"BASE={_base_image(base)}",
                "--target", target, "--file", containerfile, "--tag", f"oci-archive:{fresh}:{tag}", context,
            ],
            env=_ENVIRONMENT,
        )  # fmt: skip
        for old in FOLDER.glob(f"{name}-*.tar"):
            old.unlink()
        fresh.rename(archive)
        shutil.rmtree(context)
    return describe(archive, name, tag)


def _name_and_tag(reference: str) -> tuple[str, str]:
    name, _, tag = reference.removeprefix(_REGISTRY).rpartition(":")
    return name, tag


def _base_image(archive: Path) -> str:
    """The base as an image in buildah's own storage."""
    name = f"localhost/argosy-base:{archive.stem}"
    if name not in run(["buildah", *_STORAGE, "images", "--format", "{{.Name}}:{{.Tag}}"], env=_ENVIRONMENT).split():
        container = run(["buildah", *_STORAGE, "from", "scratch"], env=_ENVIRONMENT).strip()
        run(["buildah", *_STORAGE, "add", "--quiet", container, archive, "/"], env=_ENVIRONMENT)
        run(["buildah", *_STORAGE, "config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container], env=_ENVIRONMENT)
        run(["buildah", *_STORAGE, "commit", "--quiet", "--rm", container, name], env=_ENVIRONMENT)
    return name


def _nothing(context: Path) -> None:
    """An image without files of ours."""


def _programs(context: Path) -> None:
    shutil.copy(BIN / "argo" / "argoexec", context)
    shutil.copy(BIN / "pause" / "pause", context)


def _platform(packages: Path) -> Callable[[Path], None]:
    def fill(context: Path) -> None:
        shutil.copytree(packages, context / "packages", symlinks=True, copy_function=os.link)
        for source in _code_files():
            target = context / "argosy" / source.relative_to(CHECKOUT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        # Valid in the image because buildah keeps modification times.
        run([PYTHON, "-m", "compileall", "-q", "-d", "/opt/argosy/code", context / "argosy"])

    return fill


def _packages(say: Callable[[str], None]) -> Path:
    """The locked dependencies of the code, torch and test tools left out, installed for the image's Python by hash."""
    wanted = runtime_requirements((CHECKOUT / "requirements.lock").read_text(), needed_names())
    folder = FOLDER / f"packages-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not folder.exists():
        say("installing the platform image's packages")
        fresh = FOLDER / "packages.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (FOLDER / "packages.lock").write_text(wanted)
        run([
            PYTHON.with_name("uv"), "pip", "install", "--quiet", "--python", PYTHON, "--target", fresh, "--no-deps",
            "--require-hashes", "--compile-bytecode", "--link-mode=copy", "-r", FOLDER / "packages.lock",
        ])  # fmt: skip
        for old in FOLDER.glob("packages-*"):
            shutil.rmtree(old)
        fresh.rename(folder)
    return folder


def needed_names() -> set[str]:
    """The project's dependencies and theirs, as installed here; extras `train` and `dev` are no part of them."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]["parquet"]
    todo = [Requirement(text) for text in [*project["dependencies"], *optional]]
    names: set[str] = set()
    done: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        name = _normal(wanted.name)
        for extra in ["", *wanted.extras]:
            if (name, extra) not in done and (wanted.marker is None or wanted.marker.evaluate({"extra": extra})):
                done.add((name, extra))
                names.add(name)
                todo += [
                    r for text in importlib.metadata.requires(name) or [] if (r := Requirement(text)).marker is None
                    or r.marker.evaluate({"extra": extra})
                ]  # fmt: skip
    return names


def runtime_requirements(lock: str, names: set[str]) -> str:
    """Those entries of a lock file whose package is among `names`, with their hashes."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock)
    chosen = [entry.rstrip() for entry in entries if _normal(re.split(r"[=\[ ;<>]", entry, maxsplit=1)[0]) in names]
    return "\n".join(chosen) + "\n"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
