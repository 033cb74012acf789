"""A program that trains until told that it is enough: a step every quarter of a second, each told with its time.

Standard library only, so any image with python3 runs it. Told by a file in the ranks' containers: `/tmp/enough` holds
the step to stop at.
Ranks do not wait for each other: what one does while another is gone shows.
"""

import json
import os
import pathlib
import signal
import time

env = os.environ
rank, resume = int(env["RANK"]), env["ARGOSY_RESUME"]
step = json.loads(pathlib.Path(resume, "state.json").read_text())["step"] if resume else 0
every, enough = int(env["ARGOSY_CHECKPOINT_EVERY_STEPS"]), pathlib.Path("/tmp/enough")
folder, stop = pathlib.Path(env["ARGOSY_CHECKPOINTS"]), pathlib.Path(env["ARGOSY_STOP"])
last = 8000


def tell(event: str) -> None:
    print("DRILL", json.dumps({"event": event, "rank": rank, "step": step, "at": time.time()}), flush=True)


signal.signal(signal.SIGTERM, signal.SIG_IGN)  # comes with the file of ARGOSY_STOP, at which rank 0 saves
tell("begins")
while step < last and not stop.exists():
    step += 1
    time.sleep(0.25)
    tell("step")
    if enough.exists():
        last = int(enough.read_text() or last)
    with open(env["ARGOSY_PROGRESS"], "a") as progress:
        progress.write(json.dumps({"step": step, "loss": 5.0 * 0.999**step, "total_steps": last}) + "\n")
    if rank == 0 and (step % every == 0 or step == last or stop.exists()):
        target = folder / f"step-{step}"
        target.mkdir(parents=True)
        (target / "state.json").write_text(json.dumps({"step": step}))
        (target / "READY").touch()
tell("ends")
