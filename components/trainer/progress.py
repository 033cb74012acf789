"""Progress for machines (JSON lines in ARGOSY_PROGRESS) and for people (lines on stdout)."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Step:
    """What one step did. Seconds are this rank's; loss and tokens are the whole gang's."""

    step: int
    total_steps: int
    loss: float
    """Mean over all targets of the step."""
    tokens: int
    step_s: float
    data_s: float
    compute_s: float
    comm_s: float


class Progress:
    """Appends a JSON line a step to `path`; with `log_every`, prints a line every so many steps."""

    def __init__(self, path: Path | None, *, log_every: int | None) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1) if path is not None else None
        self._log_every = log_every
        self._tokens, self._since = 0, time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def record(self, step: Step) -> None:
        if self._file is not None:
            self._file.write(json.dumps(asdict(step)) + "\n")
        self._tokens += step.tokens
        if self._log_every and (step.step % self._log_every == 0 or step.step in (1, step.total_steps)):
            now = time.perf_counter()
            rate, self._tokens, self._since = self._tokens / (now - self._since), 0, now
            print(f"step {step.step} of {step.total_steps}: loss {step.loss:.4f}, {rate:.0f} tokens/s", flush=True)
