"""The default recipe from submit to the end: time, what of it is not the ranks' own, and memory."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from components.contracts.clock import parse_utc
from tests.benchmarks.measure import ENTRY, ROOT, Figure, python

BESIDE = {"engine": b"infra.local", "launcher": b"components.launch"}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        began = time.perf_counter()
        run = subprocess.Popen(
            python(ENTRY, "submit"), env={**os.environ, "ARGOSY_HOME": folder}, cwd=ROOT, stdout=subprocess.DEVNULL
        )
        peaks = dict.fromkeys(BESIDE, 0.0)
        while run.poll() is None:
            for name, mark in BESIDE.items():
                peaks[name] = max(peaks[name], _peak_mib(home, mark))
            time.sleep(0.2)
        total = time.perf_counter() - began
        if run.returncode:
            raise SystemExit(f"the default recipe ended with exit code {run.returncode}")
        states = [json.loads(path.read_text()) for path in (home / "storage/runs").glob("*/gang/g*/state.json")]
        ranks = sum(_seconds(attempt) for state in states for attempt in state["attempts"])
        last = states[-1]["steps"][-1]
        yield Figure("default recipe, end to end", total, "s", 60)
        yield Figure("of which the ranks' own (torch import, training)", ranks, "s")
        yield Figure("of which everything else", total - ranks, "s", 12)
        yield Figure(f"loss at step {last['step']}", last["loss"], "nats", 3.0)
        for name, peak in peaks.items():
            yield Figure(f"{name}, peak resident", peak, "MiB", 80)


def _seconds(attempt: dict[str, str]) -> float:
    return (parse_utc(attempt["ended_at"]) - parse_utc(attempt["started_at"])).total_seconds()


def _peak_mib(home: Path, mark: bytes) -> float:
    peak = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "cmdline").read_bytes() and str(home).encode() in (entry / "environ").read_bytes():
                status = (entry / "status").read_text()
                peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
        except (OSError, IndexError):
            continue
    return peak / 1024
