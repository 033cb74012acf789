"""Kills at random moments, resumes until the run has finished, and judges what is left.

python -m tests.e2e.chaos [--seed N] [--runs M] [--folder DIR]

Prints each plan and its outcome; exit 1 when something was wrong, and then the run's folder stays.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.run_dir import RunDir
from tests.e2e.chaos_judge import Judge
from tests.e2e.chaos_plan import Blow, Moment, Plan, Strike, plan
from tests.e2e.harness import LocalRun

_LEFT_SECONDS = 10.0
_MAX_RESUMES = 12
_RUN_SECONDS = 240.0
_MARKS = {
    "launcher": b"components.launch", "agent": b"components.agent", "guard": b"guard.py", "rank": b"chain.py",
    "shard": b"components.shard", "preflight": b"components.preflight", "verify": b"components.verify",
    "retain": b"components.retain", "finish": b"components.finish", "engine": b"infra.local",
}  # fmt: skip


@dataclass
class Outcome:
    """How one disturbed run went."""

    wrong: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    """What was really done, in order."""
    num_resumes: int = 0
    seconds: float = 0.0
    slowest_exit_seconds: float = 0.0
    """Longest time from an engine's death to nothing left."""


class Chaos:
    """One run, from its submission to its verdict."""

    def __init__(self, home: Path, planned: Plan) -> None:
        self.run, self.plan, self.judge = LocalRun(home), planned, Judge(home)
        self.outcome = Outcome(wrong=self.judge.wrong)
        self._strikes = list(planned.strikes)
        self._pending: list[tuple[float, int, int | None, Blow]] = []
        self._first_seen: dict[Moment, float] = {}
        (home / "corpus").mkdir()
        (home / "trace").mkdir()
        for number in range(6):
            (home / f"corpus/{number}.txt").write_text(f"file {number}: " + "the quick brown fox. " * 90)
        (home / "run.yaml").write_text(planned.run_yaml(home / "trace"))

    def play(self) -> Outcome:
        """Disturb, resume, finish, judge. Nothing of the run is left when it returns."""
        began = time.monotonic()
        try:
            while not self._has_succeeded():
                if self.outcome.num_resumes > _MAX_RESUMES or time.monotonic() - began > _RUN_SECONDS:
                    self.judge.say(f"not finished after {self.outcome.num_resumes} resumes")
                    break
                self._let_it_run(until=began + _RUN_SECONDS)
            else:
                self.judge.conclude()
                if self.outcome.num_resumes > len(self.outcome.struck):
                    self.judge.say("it was resumed more often than it was struck")
        finally:
            self._end_all()
            self.outcome.seconds = time.monotonic() - began
        return self.outcome

    # --- one incarnation of the engine

    def _let_it_run(self, *, until: float) -> None:
        """Start or resume, strike, and stay until neither the command nor an engine is there."""
        if self._run_dir() is None:
            self.run.start("submit", "-c", "run.yaml")
        else:
            self.outcome.num_resumes += 1
            why = self.run.command("why")
            if why.returncode not in (0, 1) or "Traceback" in why.stderr:
                self.judge.say(f"why: exit code {why.returncode}: {why.stderr}")
            self.run.start("resume")
        self._first_seen.clear()
        looked_at, engine_seen_at = 0.0, time.monotonic()
        while time.monotonic() < until:
            table = self._table()
            if "engine" in table or self._pending:
                engine_seen_at = time.monotonic()
            elif table.keys() - {"submit"}:
                self._saw_orphans(time.monotonic() - engine_seen_at)
            self._send_pending()
            self._strike_when_due(table)
            if time.monotonic() - looked_at > 0.3:
                self.judge.look()
                looked_at = time.monotonic()
            assert self.run.process is not None
            if self.run.process.poll() is not None and "engine" not in table:
                break
            time.sleep(0.03)
        self._expect_nothing_left()

    def _strike_when_due(self, table: dict[str, list[int]]) -> None:
        if not self._strikes:
            return
        strike, now = self._strikes[0], time.monotonic()
        moment = strike.moment
        is_there = moment.role in table if moment.role else self._step() >= moment.step
        if is_there:
            self._first_seen.setdefault(moment, now)
        is_due = moment in self._first_seen and now >= self._first_seen[moment] + moment.seconds
        if is_due and any(blow.role in table for blow in strike.blows):
            self._strikes.pop(0)
            self._hit(strike, table)

    def _hit(self, strike: Strike, table: dict[str, list[int]]) -> None:
        for blow in strike.blows:
            pids = table.get(blow.role, [])
            if not pids:
                continue
            pid = pids[blow.which % len(pids)]
            with suppress(ProcessLookupError):
                os.kill(pid, blow.signal)
                self.outcome.struck.append(f"{blow} ({pid}) at step {self._step()}")
                if blow.then is not None:
                    self._pending.append((time.monotonic() + blow.then_seconds, pid, _started(pid), blow))

    def _send_pending(self) -> None:
        for item in list(self._pending):
            at, pid, started, blow = item
            if time.monotonic() >= at:
                self._pending.remove(item)
                if started is not None and _started(pid) == started and blow.then is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, blow.then)

    def _expect_nothing_left(self) -> None:
        """Within ten seconds of the engine's death; who was stopped from outside is let go on first."""
        while self._pending:
            self._send_pending()
            time.sleep(0.02)
        began = time.monotonic()
        while left := self.run.processes():
            self._saw_orphans(time.monotonic() - began)
            if time.monotonic() - began > _LEFT_SECONDS:
                self.judge.say(f"left after the engine's death: {_describe(left)}")
                break
            time.sleep(0.02)

    def _saw_orphans(self, seconds: float) -> None:
        self.outcome.slowest_exit_seconds = max(self.outcome.slowest_exit_seconds, seconds)

    def _end_all(self) -> None:
        if self.run.process is not None and self.run.process.poll() is None:
            self.run.process.kill()
            self.run.process.wait()
        for _ in range(100):
            if not (left := self.run.processes()):
                return
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    # --- what is there

    def _run_dir(self) -> RunDir | None:
        return next((RunDir(path) for path in (self.run.home / "runs").glob("chaos-?????")), None)

    def _has_succeeded(self) -> bool:
        run_dir = self._run_dir()
        return run_dir is not None and run_dir.state().phase == "Succeeded"

    def _step(self) -> int:
        if self._run_dir() is None:
            return -1
        states = self.run.gang_states()
        return max((state["last_step"]["step"] for state in states if state.get("last_step")), default=-1)

    def _table(self) -> dict[str, list[int]]:
        """Living processes of the run by role, oldest first."""
        table: dict[str, list[int]] = {}
        for pid in self.run.processes():
            with suppress(OSError):
                command, name = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/comm").read_bytes()
                role = "supervisor" if name == b"argosy-pod\n" else _role_of(command)
                if role:
                    table.setdefault(role, []).append(pid)
        process = self.run.process
        if process is not None and process.poll() is None:
            table["submit"] = [process.pid]
        return table


def _role_of(command: bytes) -> str | None:
    """By the first words: further on there are Specs, which speak of other programs."""
    words = b"\0".join(command.split(b"\0")[:4])
    return next((role for role, mark in _MARKS.items() if mark in words), None)


def _started(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def _describe(pids: Iterable[int]) -> str:
    lines = []
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            lines.append(f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()} {command[:160]}")
    return "; ".join(lines)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.chaos")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the runs live; by default a temporary folder")
    arguments = parser.parse_args(argv)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    num_wrong = 0
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        planned = plan(seed)
        print(planned, flush=True)
        outcome = Chaos(folder / str(seed), planned).play()
        for struck in outcome.struck:
            print(f"    did {struck}")
        for text in outcome.wrong:
            print(f"    WRONG {text}")
        verdict = f"WRONG, see {folder / str(seed)}" if outcome.wrong else "ok"
        print(
            f"  {verdict}: {outcome.num_resumes} resumes, {outcome.seconds:.1f} s, nothing left after at most "
            f"{outcome.slowest_exit_seconds:.2f} s",
            flush=True,
        )
        num_wrong += bool(outcome.wrong)
        if not outcome.wrong:
            shutil.rmtree(folder / str(seed))
    print(f"{arguments.runs} runs, {num_wrong} wrong")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
