"""A whole run on a real cluster, seen and disturbed from outside: command line, Kubernetes API and storage."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml

from components.cluster.kinds import JOB_SETS, JOBS, PODS, SECRETS, SERVICES, WORKFLOWS, Kind
from components.contracts.cluster_names import GANG_LABEL, RUN_LABEL
from components.contracts.layout import gang_folder, launch_state_key, report_key, run_folder
from components.ledger.ledger import Ledger
from components.ledger.state import LedgerState
from components.storage.base import ObjectNotFound
from tests.cluster.place import ROOT, Place
from tests.cluster.programs.chain import chain, loss_of

Object = dict[str, Any]
T = TypeVar("T")

PROGRAM = Path(__file__).parent / "programs" / "chain.py"
SEED = 7
PATIENCE_SECONDS = 1200.0
"""Of waits: a loaded machine is slow, and no test is about speed."""
_LOOK_SECONDS = 0.5
OVER = ("Succeeded", "Failed", "Error")


def description(
    place: Place, experiment: str, *, corpus: str, steps: int = 20, seconds: float = 0.2, num_nodes: int = 2,
    nproc_per_node: int = 1, arguments: tuple[str, ...] = (), **changes: Any,
) -> Object:  # fmt: skip
    """A small run of `programs/chain.py`. `changes` by dotted field with `__` for the dot; None takes a field away."""
    program = [*_inline(PROGRAM), "--steps", str(steps), "--seconds", str(seconds), *arguments]
    small = {"cpu": "50m", "memory": "512MiB"}
    value: Object = {
        "experiment": experiment, "seed": SEED, "storage": place.storage, "storage_options": place.storage_options,
        "namespace": place.namespace, "image": place.image, "platform_image": place.platform_image,
        "shard": {
            "corpus": corpus, "sequence_length": 64, "over_long": "split", "num_tasks": 1, "resources": small,
        },
        "preflight": {"memory_per_rank": "32MiB", "resources": small},
        "launch": {
            "num_nodes": num_nodes, "nproc_per_node": nproc_per_node, "command": program,
            "resources": {"cpu": "100m", "memory": "256MiB"},
            "limits": {"start": "10m", "run": "1h", "no_progress": "5m", "stop": "20s"},
            "lost_node": {"policy": "force_after", "after": "20s"},
        },
        "checkpoint": {"every_steps": 5},
        "verify": {"resources": small},
        "retain": {"keep_last": 2, "resources": small},
    }  # fmt: skip
    for path, changed in changes.items():
        *folders, last = path.split("__")
        inner = value
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner.pop(last, None) if changed is None else inner.update({last: changed})
    return value


def expected_loss(step: int) -> float:
    """The loss that an undisturbed run of the program has at `step`."""
    return loss_of(chain(SEED, step))


def _inline(program: Path) -> list[str]:
    """The program without its docstring, as arguments of python."""
    text = program.read_text(encoding="utf-8")
    return ["python3", "-u", "-c", text.partition('"""\n\n')[2]]


class ClusterRun:
    """One run of a description, in an ARGOSY_HOME of its own, submitted with just the rights of a submitter."""

    def __init__(self, place: Place, value: Mapping[str, Any], *, target: str = "kubernetes", home: str = "") -> None:
        self.place, self.value, self.target = place, value, target
        self.home = place.folder / "homes" / (home or str(value["experiment"]))
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "run.yaml").write_text(yaml.safe_dump(dict(value), sort_keys=False))
        self.log = self.home / "terminal.log"
        self.env = {
            **os.environ, "ARGOSY_HOME": str(self.home), "KUBECONFIG": str(place.submitter), "PYTHONUNBUFFERED": "1",
            "XDG_CONFIG_HOME": str(self.home / "config"), "ARGO_TOKEN": f"Bearer {place.token}",
            "ARGO_NAMESPACE": place.namespace,
        }  # fmt: skip
        if ca_file := os.environ.get("ARGO_SERVER_CA"):
            (self.home / "config" / "argosy").mkdir(parents=True, exist_ok=True)
            (self.home / "config" / "argosy" / "config.yaml").write_text(f"argo_server: {{ca_file: {ca_file}}}\n")
        self.process: subprocess.Popen[bytes] | None = None
        self._earlier: set[str] = set()

    def start(self, *arguments: str) -> "ClusterRun":
        """`submit` (or another command) in the background, its output in `terminal.log`."""
        self._earlier = set(self._noted())
        words = arguments or ("submit", "-c", "run.yaml", "--target", self.target)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "pipelines" / "train.py"), *words],
                env=self.env, cwd=self.home, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return self

    def command(self, *arguments: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
        """Another command of the entry point, to its end."""
        return subprocess.run(
            [sys.executable, str(ROOT / "pipelines" / "train.py"), *arguments],
            env=self.env, cwd=self.home, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def ask(self, command: str, *arguments: str) -> Any:
        """What `command -o json` says of this run."""
        done = self.command(command, self.name, *arguments, "-o", "json")
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
        return json.loads(done.stdout)

    def finish(self, timeout: float = PATIENCE_SECONDS) -> int:
        """The exit code of what `start` began."""
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not finished after {timeout} s:\n{self.terminal()[-3000:]}") from None

    def close(self) -> None:
        """End what `start` began and nobody waited for; the run itself goes on."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def has_ended(self) -> bool:
        """What `start` began."""
        return self.process is not None and self.process.poll() is not None

    def terminal(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    @cached_property
    def name(self) -> str:
        """The run's, once it is submitted."""
        return wait_until(self._newest, what="a run to be noted as submitted", give_up=self._has_failed)

    def _newest(self) -> str | None:
        return next((name for name in self._noted() if name not in self._earlier), None)

    def _noted(self) -> list[str]:
        return [path.stem for path in sorted((self.home / "submitted").glob("[!.]*.json"))]

    def _has_failed(self) -> str:
        is_lost = self.has_ended() and self._newest() is None
        return f"the command ended first:\n{self.terminal()[-3000:]}" if is_lost else ""

    def compiled(self) -> Object:
        """The Workflow of the description."""
        done = self.command("compile", "-c", "run.yaml", "-o", "json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def as_template(self, name: str, change: Callable[[Object], None] = lambda _: None) -> None:
        """Put it on the cluster as a WorkflowTemplate, its spec changed: what a description cannot say, tests may."""
        manifest = self.compiled()
        change(manifest["spec"])
        labels = manifest["metadata"]["labels"]
        self.place.apply({**manifest, "kind": "WorkflowTemplate", "metadata": {"name": name, "labels": labels}})

    # The cluster

    def workflow(self) -> Object:
        """The Workflow; an empty object when it is gone."""
        return self.place.cluster.read(WORKFLOWS, self.name) or {}

    def nodes(self) -> dict[str, Object]:
        """Argo's nodes by their name below the Workflow's: `launch`, `launch(0)`, `onExit[0].finish`."""
        found = (self.workflow().get("status") or {}).get("nodes") or {}
        return {str(node["name"]).removeprefix(f"{self.name}."): node for node in found.values()}

    def pods(self, task: str = "") -> list[Object]:
        """The Workflow's pods, of one template if named, oldest first."""
        pods = self.place.cluster.list(PODS, labels=f"workflows.argoproj.io/workflow={self.name}").items
        chosen = [pod for pod in pods if f"-{task}-" in str(pod["metadata"]["name"]).removeprefix(self.name)]
        return sorted(chosen if task else pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def workers(self) -> list[Object]:
        """The gangs' pods, oldest first."""
        pods = self.place.cluster.list(PODS, labels=f"{RUN_LABEL}={self.name},{GANG_LABEL}").items
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def gang_objects(self) -> list[str]:
        """Everything of this run's gangs that is still there."""
        return [
            f"{kind.kind} {item['metadata']['name']}"
            for kind in self._gang_kinds()
            for item in self.place.cluster.list(kind, labels=f"{RUN_LABEL}={self.name},{GANG_LABEL}").items
        ]

    def _gang_kinds(self) -> list[Kind]:
        kinds = [JOBS, PODS, SECRETS, SERVICES]
        return [JOB_SETS, *kinds] if self.place.cluster.serves(JOB_SETS) else kinds

    def wait_for_pod(self, task: str, phase: str = "Running") -> Object:
        """The newest pod of that template, once it is in `phase`."""

        def look() -> Object | None:
            return next((pod for pod in reversed(self.pods(task)) if pod["status"].get("phase") == phase), None)

        return wait_until(look, what=f"a pod of {task} to be {phase}", give_up=self.over)

    def wait_for_workers(self, number: int) -> list[Object]:
        """The gang's pods, once so many run."""

        def look() -> list[Object] | None:
            running = [pod for pod in self.workers() if pod["status"].get("phase") == "Running"]
            return running if len(running) >= number else None

        return wait_until(look, what=f"{number} workers to run", give_up=self.over)

    def wait_for_step(self, step: int) -> None:
        """Until rank 0 was seen at `step` or later."""

        def reached() -> bool:
            states = self.gang_states()
            return bool(states) and (states[-1].get("last_step") or {"step": -1})["step"] >= step

        wait_until(reached, what=f"step {step}", give_up=self.over)

    def wait_until_over(self) -> Object:
        """Argo's status, once it is done with the Workflow."""

        def look() -> Object | None:
            status: Object = self.workflow().get("status") or {}
            return status if status.get("phase") in OVER else None

        return wait_until(look, what="the Workflow to end")

    def wait_until_gone(self) -> float:
        """Until nothing of its gangs is left; seconds this took."""
        begin = time.monotonic()
        wait_until(lambda: not self.gang_objects(), what="the gang to be gone")
        return time.monotonic() - begin

    def over(self) -> str:
        """Why nothing more will happen; empty while it may."""
        status = self.workflow().get("status") or {}
        return f"the Workflow is {status['phase']}: {status.get('message')}" if status.get("phase") in OVER else ""

    # The storage

    def document(self, key: str) -> Object | None:
        try:
            return dict(json.loads(self.place.store.read(key)))
        except ObjectNotFound:
            return None

    def gang_states(self) -> list[Object]:
        """Agent 0's account of each generation, oldest first."""
        number = (self.launch_state() or {"generations": ()}).get("generations") or ()
        found = [self.document(f"{gang_folder(self.name, generation=k)}/state.json") for k in range(len(number) + 1)]
        return [state for state in found if state is not None]

    def launch_state(self) -> Object | None:
        return self.document(launch_state_key(self.name))

    def report(self) -> Object | None:
        return self.document(report_key(self.name, suffix="json"))

    def ledger(self) -> LedgerState:
        version = str(self.value.get("model_version", "v1"))
        return Ledger(self.place.store, str(self.value["experiment"]), version).state()

    def losses(self) -> dict[int, float]:
        """Loss of each step; of a step that was trained twice, the later one."""
        return {step["step"]: step["loss"] for state in self.gang_states() for step in state["steps"]}

    def evidence(self) -> str:
        """For whoever reads a failed test."""
        parts = [f"terminal:\n{self.terminal()[-6000:]}"]
        try:
            status = self.workflow().get("status") or {}
            nodes = [
                f"  {node['name']}: {node['phase']} {node.get('message', '')}"
                for node in (status.get("nodes") or {}).values()
            ]
            parts.append("\n".join([f"Workflow {status.get('phase')}: {status.get('message')}", *nodes]))
            parts.append(f"gang: {self.gang_objects()}")
            for pod in [*self.pods("launch"), *self.pods("finish"), *self.workers()]:
                name = str(pod["metadata"]["name"])
                parts.append(
                    f"{name}:\n{self.place.kubectl('logs', name, '--all-containers', '--tail=40', may_fail=True)}"
                )
            folder = [f"  {item.key}" for item in self.place.store.list(run_folder(self.name))]
            parts.append("\n".join(["storage:", *folder]))
            parts.append(f"launch state: {json.dumps(self.launch_state())[:6000]}")
        except Exception as error:  # what can be told is told
            parts.append(f"more could not be told: {error!r}")
        return "\n".join(parts)


def wait_until(
    look: Callable[[], T | None], *, what: str, give_up: Callable[[], str] = lambda: "",
    timeout: float = PATIENCE_SECONDS,
) -> T:  # fmt: skip
    """The first true answer of `look`. Fails after `timeout` seconds, or when `give_up` says why it will never come."""
    deadline = time.monotonic() + timeout
    while True:
        reason = give_up()
        answer = look()
        if answer:
            return answer
        assert not reason, f"waited for {what}, but {reason}"
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s for {what}"
        time.sleep(_LOOK_SECONDS)
