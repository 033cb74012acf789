"""Plays Job controller and kubelets behind the fake API server: the pods of an Indexed Job as real processes.

A pod is what its manifest says, with `/argosy` in a folder of its own and every container a process: the init step,
the agent as native sidecar (started again when it ends early), the program's container. Deleting a Job or a pod sends
SIGTERM to the program only; the sidecar gets it when the program has ended. Every name is this machine's.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.fakes.api_server import FakeApiServer

Object = dict[str, Any]

JOBS, PODS = "/apis/batch/v1/namespaces/ml/jobs", "/api/v1/namespaces/ml/pods"
_PYTHONS = {"python": sys.executable, "python3": sys.executable}


@dataclass
class Pod:
    """One pod and its processes."""

    path: str
    manifest: Object
    folder: Path
    env: dict[str, str]
    agent: "subprocess.Popen[bytes]"
    program: "subprocess.Popen[bytes]"
    is_told: bool = False
    is_cut_off: bool = False
    """Its node does not answer: nothing of it is seen, and no wish reaches it."""


@dataclass
class Kubelet:
    """All nodes."""

    server: FakeApiServer
    folder: Path
    environ: dict[str, str]
    pods: dict[str, Pod] = field(default_factory=dict)
    seen_jobs: dict[str, Object] = field(default_factory=dict)
    holds_back: bool = False
    """No pod is bound to a node."""
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self) -> None:
        while not self.stopping.wait(0.05):
            with self.lock:
                self._jobs()
                for pod in list(self.pods.values()):
                    if not pod.is_cut_off:
                        self._sync(pod)

    def close(self) -> None:
        self.stopping.set()
        with self.lock:
            for pod in self.pods.values():
                for process in (pod.program, pod.agent):
                    process.kill()
                    process.wait()

    def pod(self, index: int, generation: int = 0) -> Pod:
        with self.lock:
            return next(pod for name, pod in self.pods.items() if f"-g{generation}-{index}-" in name)

    def delete_pod(self, pod: Pod, **condition: Any) -> None:
        """As somebody, or an eviction, does."""
        self._ask_to_go(pod, **condition)

    # --- the Job controller

    def _jobs(self) -> None:
        jobs = {path: item for path, item in self.server.objects.items() if path.startswith(f"{JOBS}/")}
        for path, job in jobs.items():
            if job["spec"].get("suspend"):
                for pod in self._pods_of(job["metadata"]["name"]):
                    self._ask_to_go(pod)
            elif path not in self.seen_jobs and not self.holds_back:
                self.seen_jobs[path] = job
                for index in range(job["spec"]["completions"]):
                    self._create_pod(job, index)
        for path in [path for path in self.seen_jobs if path not in jobs]:
            job = self.seen_jobs[path]["metadata"]["name"]
            for pod in self._pods_of(job):
                self._ask_to_go(pod)
            living = {pod.path for pod in self.pods.values()}
            for place, item in list(self.server.objects.items()):
                is_of_job = (item["metadata"].get("labels") or {}).get("job-name") == job
                if is_of_job and place.startswith(f"{PODS}/") and place not in living:
                    self.server.put(place, item, "DELETED")

    def _pods_of(self, job: str) -> list[Pod]:
        return [pod for name, pod in self.pods.items() if name.startswith(f"{job}-")]

    def _fail_job(self, pod: Pod) -> None:
        """`backoffLimit: 0`: the first failed pod takes the others along."""
        job = pod.manifest["metadata"]["labels"]["job-name"]
        for other in self._pods_of(job):
            if other is not pod:
                self._ask_to_go(other)

    # --- a kubelet

    def _create_pod(self, job: Object, index: int) -> None:
        name = f"{job['metadata']['name']}-{index}-{os.urandom(3).hex()}"
        template = job["spec"]["template"]
        metadata = {
            "name": name, "uid": f"uid-of-{name}",
            "labels": {**template["metadata"]["labels"], "job-name": job["metadata"]["name"]},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "creationTimestamp": _now(),
        }  # fmt: skip
        spec = {**template["spec"], "nodeName": f"node-{index}"}
        folder = self.folder / name
        self._write_secret(spec, folder)
        env = {**self.environ, "JOB_COMPLETION_INDEX": str(index), "ARGOSY_NODE": f"node-{index}"}
        for container in spec["initContainers"]:
            for variable in container.get("env", ()):
                if "value" in variable:
                    env[variable["name"]] = variable["value"].replace("/argosy/", f"{folder}/")
        init, agent = spec["initContainers"]
        subprocess.run(_argv(init, folder), env=env, check=True, cwd=Path.cwd())
        pod = Pod(
            f"{PODS}/{name}", {"metadata": metadata, "spec": spec}, folder, env,
            agent=_start(agent, folder, env), program=_start(spec["containers"][0], folder, _program_env()),
        )  # fmt: skip
        self.pods[name] = pod
        self._show(pod, {"running": {}}, "Running")

    def _write_secret(self, spec: Object, folder: Path) -> None:
        for part in ("bin", "work", "cache", "gang"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (name,) = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
        secret = self.server.objects[f"/api/v1/namespaces/ml/secrets/{name}"]
        for key in ("spec.json", "secret"):
            data = base64.b64decode(secret["data"][key])
            if key == "spec.json":
                port_file = self.folder / f"{name}.port"
                if not port_file.exists():
                    port_file.write_text(str(_free_port()))
                data = json.dumps(
                    json.loads(data) | {"coordinator_host": "0.0.0.0", "coordinator_port": int(port_file.read_text())}
                ).encode()
            (folder / "gang" / key).write_bytes(data)

    def _sync(self, pod: Pod) -> None:
        if pod.path not in self.server.objects:  # deleted by force, or as somebody wished
            self._ask_to_go(pod)
        code = pod.program.poll()
        if code is None:
            if pod.agent.poll() is not None:
                pod.agent = _start(pod.manifest["spec"]["initContainers"][1], pod.folder, pod.env)
            return
        if pod.agent.poll() is None:
            pod.agent.send_signal(signal.SIGTERM)
            return
        code = code if code >= 0 else 128 - code
        name = pod.manifest["metadata"]["name"]
        del self.pods[name]
        state = {"terminated": {"exitCode": code, "finishedAt": _now()}}
        self._show(pod, state, "Succeeded" if code == 0 else "Failed")
        if "deletionTimestamp" in pod.manifest["metadata"]:
            self.server.put(pod.path, self.server.objects.get(pod.path, pod.manifest), "DELETED")
        elif code != 0:
            self._fail_job(pod)

    def _ask_to_go(self, pod: Pod, **condition: Any) -> None:
        if pod.is_told:
            return
        pod.is_told = True
        grace = pod.manifest["spec"]["terminationGracePeriodSeconds"]
        at = datetime.now(UTC) + timedelta(seconds=grace)
        pod.manifest["metadata"] |= {
            "deletionTimestamp": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "deletionGracePeriodSeconds": grace,
        }
        if condition:
            pod.manifest["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", **condition}]
        self.server.put(pod.path, pod.manifest)
        if not pod.is_cut_off and pod.program.poll() is None:
            pod.program.send_signal(signal.SIGTERM)

    def _show(self, pod: Pod, state: Object, phase: str) -> None:
        conditions = pod.manifest.get("status", {}).get("conditions", [])
        pod.manifest["status"] = {
            "phase": phase,
            "containerStatuses": [{"name": "program", "state": state}],
            "conditions": conditions,
        }
        self.server.put(pod.path, pod.manifest)


def _argv(container: Object, folder: Path) -> list[str]:
    words = [word.replace("/argosy/", f"{folder}/") for word in container["command"]]
    return [_PYTHONS.get(words[0], words[0]), *words[1:]]


def _start(container: Object, folder: Path, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    with (folder / f"{container['name']}.out").open("ab") as out:
        return subprocess.Popen(
            _argv(container, folder), env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            cwd=Path.cwd() if container["name"] == "agent" else folder,
        )  # fmt: skip


def _program_env() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
