"""From a seed to what is run and what is done to it: which processes, which signals, at which moments."""

import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

CHAIN = str(Path(__file__).parent / "programs/chain.py")
STEPS, EVERY, SEED = 60, 6, 4321

STAGES = ("shard", "preflight", "launcher", "verify", "retain", "finish")
GANG = ("agent", "guard", "rank")
ROLES = ("engine", "supervisor", "submit", *STAGES, *GANG)


@dataclass(frozen=True)
class Moment:
    """When something is done: so long after a process of `role` was first seen, or a step was reached."""

    role: str = ""
    step: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s after {self.role or f'step {self.step}'}"


@dataclass(frozen=True)
class Blow:
    """One signal for one process."""

    role: str
    which: int
    signal: int
    then: int | None = None
    """A second signal, for a process that was stopped."""
    then_seconds: float = 0.0

    def __str__(self) -> str:
        later = f" {signal.Signals(self.then).name} after {self.then_seconds:.1f} s" if self.then else ""
        return f"{signal.Signals(self.signal).name}{later} {self.role}[{self.which}]"


@dataclass(frozen=True)
class Strike:
    """What is done at one moment."""

    moment: Moment
    blows: tuple[Blow, ...]

    def __str__(self) -> str:
        return f"{' + '.join(map(str, self.blows))}, {self.moment}"


@dataclass(frozen=True)
class Plan:
    """One disturbed run."""

    seed: int
    wrapped: bool
    """The program runs below a shell that waits for it."""
    helpers: bool
    """The program leaves processes of many kinds."""
    nproc_per_node: int
    strikes: tuple[Strike, ...]

    def __str__(self) -> str:
        kind = ", ".join(name for name, on in (("wrapped", self.wrapped), ("helpers", self.helpers)) if on)
        strikes = "".join(f"\n    {strike}" for strike in self.strikes)
        return f"seed {self.seed}: 2 x {self.nproc_per_node} ranks{f', {kind}' if kind else ''}{strikes}"

    def run_yaml(self, trace: Path) -> str:
        """The run description, for a file beside a folder `corpus`."""
        command = [sys.executable, "-S", CHAIN, "--steps", str(STEPS), "--seconds", "0.06", "--trace", str(trace)]
        if self.helpers:
            command.append("--helpers")
        if self.wrapped:
            command = ["sh", "-c", '"$@" & wait $!', "wrapper", *command]
        return f"""
experiment: chaos
seed: {SEED}
shard: {{corpus: corpus, sequence_length: 64, over_long: split, num_tasks: 2}}
preflight: {{memory_per_rank: 1MiB, min_free_space: 1MiB}}
launch:
  num_nodes: 2
  nproc_per_node: {self.nproc_per_node}
  command: {command!r}
  limits: {{start: 1m, run: 10m, no_progress: 8s, stop: 5s}}
  max_restarts: 3
checkpoint: {{every_steps: {EVERY}}}
retain: {{keep_last: 2}}
"""


def plan(seed: int) -> Plan:
    """The same seed gives the same plan; the machine makes of it what it will."""
    rng = random.Random(seed)
    strikes = tuple(_strike(rng) for _ in range(rng.choice((1, 2, 3, 4))))
    return Plan(
        seed, wrapped=rng.random() < 0.35, helpers=rng.random() < 0.5, nproc_per_node=rng.choice((1, 1, 2)),
        strikes=strikes,
    )  # fmt: skip


def _strike(rng: random.Random) -> Strike:
    kind = rng.random()
    if kind < 0.5:
        moment = Moment(step=rng.randrange(1, STEPS), seconds=rng.uniform(0, 0.5))
    elif kind < 0.85:
        moment = Moment(role=rng.choice((*STAGES, *GANG)), seconds=rng.expovariate(3))
    else:
        moment = Moment(role=rng.choice(("engine", "submit")), seconds=rng.uniform(0, 2))
    roles = [_role(rng, moment) for _ in range(rng.choice((1, 1, 2)))]
    return Strike(moment, tuple(_blow(rng, role) for role in roles))


def _role(rng: random.Random, moment: Moment) -> str:
    if moment.role in STAGES and rng.random() < 0.5:
        return moment.role
    return rng.choice(("engine", "engine", "supervisor", "submit", "launcher", "verify", "retain", *GANG, *GANG))


def _blow(rng: random.Random, role: str) -> Blow:
    which, kind = rng.randrange(4), rng.random()
    if kind < 0.6:
        return Blow(role, which, signal.SIGKILL)
    if kind < 0.75:
        return Blow(role, which, signal.SIGTERM)
    seconds = rng.choice((0.3, 1.0, 3.0, 7.0))
    return Blow(role, which, signal.SIGSTOP, rng.choice((signal.SIGCONT, signal.SIGKILL)), seconds)
