"""A training program that keeps to the contract of `launch.command` without training anything. Standard library only.

    worker.py --steps 40 [--seconds 0.05] [--fault RANK:STEP:HOW [--once FILE]] [--children]

HOW is `exit<code>`, `kill` or `hang`; with --once only the first program that gets there does it. The "loss" depends on
the steps made since the beginning, so a run that lost or repeated one ends differently.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--fault", default="")
    parser.add_argument("--once", type=Path)
    parser.add_argument("--children", action="store_true", help="leave a shell and a daemon of a daemon running")
    arguments = parser.parse_args()
    rank, resume, checkpoints = (
        int(os.environ["RANK"]),
        os.environ["ARGOSY_RESUME"],
        os.environ.get("ARGOSY_CHECKPOINTS", ""),
    )
    every = int(os.environ.get("ARGOSY_CHECKPOINT_EVERY_STEPS") or 0)
    state = json.loads(Path(resume, "state.json").read_text()) if resume else {"step": 0, "loss": 5.0}
    if arguments.children:
        daemon = "import os,time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
        subprocess.Popen(["sh", "-c", "sleep 600; true"])
        subprocess.Popen([sys.executable, "-S", "-c", daemon])
    print(f"rank {rank} starts at step {state['step']}", flush=True)
    while state["step"] < arguments.steps:
        time.sleep(arguments.seconds)
        state = {"step": state["step"] + 1, "loss": state["loss"] * 0.99 + 0.001 * (state["step"] % 7)}
        fail(arguments, rank, state["step"])
        with open(os.environ["ARGOSY_PROGRESS"], "a") as progress:
            progress.write(json.dumps({**state, "total_steps": arguments.steps}) + "\n")
        stopping = Path(os.environ["ARGOSY_STOP"]).exists()
        if rank == 0 and every and (state["step"] % every == 0 or stopping or state["step"] == arguments.steps):
            save(Path(checkpoints, f"step-{state['step']}"), state)
        if stopping:
            break
    return 0


def save(folder: Path, state: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "READY").touch()


def fail(arguments: argparse.Namespace, rank: int, step: int) -> None:
    if not arguments.fault:
        return
    who, when, how = arguments.fault.split(":")
    if (rank, step) != (int(who), int(when)):
        return
    if arguments.once:
        try:
            arguments.once.touch(exist_ok=False)
        except FileExistsError:
            return
    print(f"rank {rank} fails at step {step}: {how}", flush=True)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    sys.exit(int(how.removeprefix("exit")))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the stop file says the same, and lets the step end
    sys.exit(main())
