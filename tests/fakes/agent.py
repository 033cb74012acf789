"""A gang agent at the wire: its command line, exit codes and documents, but no ranks. Standard library only.

What it does is told by the run's `launch.env`: FAKE_AGENT is a JSON list with an entry a generation (the last one
repeats), each an object from node rank to `<verb>[:<argument>[:<seconds>]]`; a node that is not named follows agent 0.

    exit:<code>:<s>     run, then leave with that verdict            kill:<signal>:<s>   die by it
    forever             run until told to stop                       stubborn            the same, but never stop
    never               run, but never report that ranks started     silent              report once, then never again
    daemon              like forever, with a child that escaped the process group and the session
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

POLL = 0.05


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Stop(Exception):
    pass


class Agent:
    def __init__(self) -> None:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        for name in ("spec-file", "workdir"):
            parser.add_argument(f"--{name}", type=Path, required=True)
        for name in ("node-rank", "secret-fd"):
            parser.add_argument(f"--{name}", type=int, required=True)
        arguments = parser.parse_args()
        self.spec = json.loads(arguments.spec_file.read_text())
        self.node = arguments.node_rank
        self.gang = arguments.workdir.parent
        with os.fdopen(arguments.secret_fd) as stream:
            assert len(stream.read()) >= 32, "no secret came through the descriptor"
        self.storage = Path(self.spec["storage"].removeprefix("file://"))
        plan = json.loads(self.spec["env"].get("FAKE_AGENT", "[{}]"))
        self.plan = plan[min(self.spec["generation"], len(plan) - 1)]
        self.started_at = now()
        (self.gang / f"pid-{self.node}").write_text(str(os.getpid()))

    def main(self) -> int:
        verb, argument, seconds = (self.plan.get(str(self.node), "follow") + "::").split(":")[:3]
        signal.signal(signal.SIGTERM, signal.SIG_IGN if verb == "stubborn" else self.on_sigterm)
        if verb == "daemon":
            code = "import os,time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
            subprocess.Popen([sys.executable, "-S", "-c", code])
        try:
            code = self.follow() if verb == "follow" else self.act(verb, argument, float(seconds or 0.2))
        except Stop:
            code = 83
        self.leave(code)
        return code

    def on_sigterm(self, signum: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stop

    def act(self, verb: str, argument: str, seconds: float) -> int:
        self.report("Starting" if verb == "never" else "Running")
        if verb in ("exit", "kill"):
            self.stay(seconds)
            if verb == "kill":
                os.kill(os.getpid(), int(argument) if argument.isdigit() else getattr(signal, argument))
            return int(argument)
        while not (lost := self.peer_lost()):
            time.sleep(POLL)
            if verb not in ("silent", "stubborn"):
                self.report("Starting" if verb == "never" else "Running")
        self.report("Running", failure={"kind": "AgentLost", "node_rank": lost, "message": f"node {lost} is gone"})
        return 92

    def stay(self, seconds: float) -> None:
        time.sleep(seconds)

    def follow(self) -> int:
        while True:
            time.sleep(POLL)
            verdict = self.gang / "verdict"
            if verdict.exists():
                return int(verdict.read_text())
            pid = self.gang / "pid-0"
            if pid.exists() and not Path("/proc", pid.read_text()).exists():
                return 92

    def peer_lost(self) -> int | None:
        for node in range(1, self.spec["num_nodes"]):
            pid = self.gang / f"pid-{node}"
            if pid.exists() and not running(pid.read_text()):
                return node
        return None

    def leave(self, code: int) -> None:
        if self.node == 0:
            failure = None
            if code in (90, 91, 94):
                self.log_line("boom")
                failure = {
                    "kind": "RankExit", "node_rank": 0, "rank": 0, "exit_code": 7, "message": "rank 0 exited with 7",
                    "last_lines": ["boom"],
                }  # fmt: skip
            states = {0: "Succeeded", 83: "Stopped"}
            if code != 92:
                self.report(states.get(code, "Failed"), exit_code=code, failure=failure)
            (self.gang / "verdict").write_text(str(code))

    def report(self, state: str, *, exit_code: int | None = None, failure: dict[str, object] | None = None) -> None:
        if self.node != 0:
            return
        attempt = {
            "term": 0, "attempt": 0, "started_at": self.started_at, "first_step": 1, "last_step": 5,
            "outcome": {None: "running", 0: "succeeded", 83: "stopped"}.get(exit_code, "failed"),
        }  # fmt: skip
        if failure:
            attempt["failure"] = {"at": now(), **failure}
        document = {
            "kind": "gang-state", "version": 1, "run": self.spec["run"], "generation": self.spec["generation"],
            "state": state, "world_size": self.spec["num_nodes"] * self.spec["nproc_per_node"],
            "num_joined": self.spec["num_nodes"], "updated_at": now(), "created_at": self.started_at,
            "attempts": [] if state == "Starting" else [attempt], "restarts_used": self.spec["restarts_used"],
        }  # fmt: skip
        if exit_code is not None:
            document["exit_code"] = exit_code
        self.put("state.json", json.dumps(document))

    def log_line(self, message: str) -> None:
        line = {"at": now(), "level": "info", "message": message, "rank": 0, "node": "node-0"}
        self.put("logs/node-0.rank-0.attempt-0/000000000.jsonl", json.dumps(line) + "\n")

    def put(self, name: str, text: str) -> None:
        path = self.storage / "runs" / self.spec["run"] / "gang" / f"g{self.spec['generation']}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".tmp-{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(path)


def running(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(Agent().main())
