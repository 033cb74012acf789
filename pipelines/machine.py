"""Is this machine fit for Argosy itself: its Python, its packages, its home, the Linux facilities of the local gang."""

import importlib.metadata
import os
import sys
import tempfile
import threading
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from packaging.requirements import Requirement

from components.checks.bounded import Probe, ask_all
from components.checks.disk import disk_question, disk_space, existing_parent
from components.checks.machine import machine_probes
from components.checks.ports import port_can_be_used, port_question
from components.checks.question import Question
from components.checks.storage import storage_atomic, storage_questions, storage_writable
from components.contracts.checks import CheckReport, CheckResult
from components.runtime.processes import facilities
from components.storage.base import ObjectStore, open_store
from components.storage.location import FileLocation, parse_location
from pipelines.config import TrainConfig

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
ROOT = Path(__file__).resolve().parent.parent


def examine(config: TrainConfig, *, home: Path, storage: str, workdir: Path) -> CheckReport:
    """Every check of this machine, for a run such as `config`. Writes nothing that it does not remove again."""
    launch = config.launch
    python, packages, writable, linux = _questions(home)
    port = port_question(host="127.0.0.1", port=0)
    place = parse_location(storage)
    folder = place.folder if isinstance(place, FileLocation) else home
    # As the local engine sets it: the program finds our interpreter first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    disk = disk_question(
        path=folder, need_bytes=config.preflight.min_free_space,
        what="data and checkpoints" if isinstance(place, FileLocation) else "logs, fetched data and staged checkpoints",
        origin="preflight.min_free_space", scope="environment",
    )  # fmt: skip
    program_folder = workdir / (config.code.folder if config.code else "") / (launch.workdir or "")
    missing = [name for name, is_there in facilities().items() if not is_there]
    probes = [
        Probe(python, lambda: judge_python(python, version=sys.version_info[:3])),
        Probe(packages, lambda: judge_packages(packages, requirements=declared_requirements())),
        Probe(writable, lambda: home_writable(writable, home)),
        Probe(linux, lambda: judge_facilities(linux, missing=missing)),
        Probe(disk, lambda: disk_space(disk, path=folder, need_bytes=config.preflight.min_free_space)),
        Probe(port, lambda: port_can_be_used(port, host="127.0.0.1")),
        *machine_probes(
            num_ranks=launch.num_nodes * launch.nproc_per_node, ranks_per_device_set=launch.nproc_per_node,
            memory_per_rank_bytes=config.preflight.memory_per_rank, accelerator=launch.accelerator,
            command=launch.command, workdir=program_folder, env={"PATH": path, **launch.env},
        ),
    ]  # fmt: skip
    # The storage afterwards: its probes make and remove folders that the others look at.
    results = (
        *ask_all(probes, deadline_seconds=15.0),
        *ask_all(_storage_probes(storage, config), deadline_seconds=15.0),
    )
    return CheckReport(subject="doctor", results=results)


def _storage_probes(storage: str, config: TrainConfig) -> list[Probe]:
    """Whether the storage can be written from here, and keeps its promises. A folder that was missing is so again."""
    writable, atomic = storage_questions(storage)
    name, place, one_at_a_time = f"doctor-{uuid.uuid4().hex[:8]}", parse_location(storage), threading.Lock()

    def store() -> ObjectStore:
        return open_store(storage, config.store_options, is_patient=False)

    def ask(question: Question, check: Callable[..., CheckResult]) -> CheckResult:
        with one_at_a_time, _removing_new_folders(place.folder) if isinstance(place, FileLocation) else nullcontext():
            return check(question, store(), run=name)

    return [
        Probe(writable, lambda: ask(writable, storage_writable)),
        Probe(atomic, lambda: ask(atomic, storage_atomic)),
    ]


@contextmanager
def _removing_new_folders(folder: Path) -> Iterator[None]:
    """Removes `folder` and those above it again that were not there before, as far as nobody put anything in them."""
    before, new = existing_parent(folder), folder.absolute()
    try:
        yield
    finally:
        with suppress(OSError):
            while new != before:
                new.rmdir()
                new = new.parent


def judge_python(question: Question, *, version: tuple[int, ...]) -> CheckResult:
    text = ".".join(map(str, version))
    return question.ok(text) if PYTHON_FROM <= version[:2] < PYTHON_BELOW else question.fail(text)


def declared_requirements(root: Path = ROOT) -> list[str]:
    """What pyproject.toml says Argosy needs at run time."""
    with open(root / "pyproject.toml", "rb") as file:
        declared: list[str] = tomllib.load(file)["project"]["dependencies"]
    return declared


def judge_packages(question: Question, *, requirements: Iterable[str]) -> CheckResult:
    """Looks every requirement up by its metadata; imports none of them."""
    faults, count = [], 0
    for requirement in map(Requirement, requirements):
        count += 1
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            faults.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            faults.append(f"{requirement.name} is {version}, not {requirement.specifier}")
    return question.fail("; ".join(faults)) if faults else question.ok(f"all {count} are there")


def home_writable(question: Question, home: Path) -> CheckResult:
    """Creates and removes a file in `home`, or in the nearest folder above it that exists."""
    folder = existing_parent(home)
    if not folder.is_dir():
        return question.fail(f"{folder} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return question.fail(f"cannot write in {folder}: {error.strerror}")
    where = "writable" if folder == home else f"not there yet, will be made in {folder}"
    return question.ok(f"{where}, as user {os.geteuid()}")


def judge_facilities(question: Question, *, missing: list[str]) -> CheckResult:
    return question.fail(f"missing: {', '.join(missing)}") if missing else question.ok("all there")


def _questions(home: Path) -> tuple[Question, Question, Question, Question]:
    oldest, newest = ".".join(map(str, PYTHON_FROM)), f"{PYTHON_BELOW[0]}.{PYTHON_BELOW[1] - 1}"
    return (
        Question(
            name="python", scope="environment", subject=sys.executable, expected=f"{oldest} to {newest}",
            origin="pyproject.toml", remedy="make the environment anew: make install PYTHON=python3.11",
        ),
        Question(
            name="packages", scope="environment", subject=sys.prefix, expected="every package Argosy needs",
            origin="pyproject.toml", remedy="install from the lock file: make install",
        ),
        Question(
            name="home", scope="environment", subject=str(home), expected="a folder to keep runs in",
            origin="ARGOSY_HOME, by default ~/.local/state/argosy", remedy="set ARGOSY_HOME to a folder you may write",
        ),
        Question(
            name="linux_facilities", scope="environment", subject=sys.platform,
            expected="child processes that die with their parent, subreapers, /proc",
            origin="the local gang leaves no process behind", remedy="run on Linux; compile and validate work anywhere",
        ),
    )  # fmt: skip
