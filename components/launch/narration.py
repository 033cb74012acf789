"""Says in the launcher's log what the gang's state document newly tells: starts, failures, checkpoints, once each."""

from components.contracts.gang import AttemptView, CheckpointView, GangState
from components.launch.first_failure import describe_failure
from components.runtime.log import Log
from components.runtime.progress import tell_progress


class Narrator:
    """Remembers what was said about one generation."""

    def __init__(self, log: Log, *, generation: int) -> None:
        self._log = log.bind(generation=generation)
        self._said: set[object] = set()

    def tell(self, state: GangState | None) -> None:
        """Say what is new in `state`."""
        if state is None:
            return
        for attempt in state.attempts:
            self._attempt(attempt, state)
        for checkpoint in state.checkpoints:
            self._checkpoint(checkpoint)
        if state.last_step is not None and state.total_steps is not None:
            tell_progress(state.last_step.step, state.total_steps)

    def _attempt(self, attempt: AttemptView, state: GangState) -> None:
        if self._is_new(("started", attempt.attempt)):
            source = f"from {attempt.resumed_from}" if attempt.resumed_from else "from step 0"
            self._log.info(f"{state.world_size} ranks start {source}", gang_attempt=attempt.attempt, term=attempt.term)
        failure = attempt.failure
        if failure and self._is_new(("failed", attempt.attempt)):
            self._log.error(
                describe_failure(failure), gang_attempt=attempt.attempt, kind=failure.kind.value,
                failed_rank=failure.rank, last_lines=list(failure.last_lines),
            )  # fmt: skip

    def _checkpoint(self, checkpoint: CheckpointView) -> None:
        if self._is_new((checkpoint.checkpoint, checkpoint.state)):
            because = f": {checkpoint.reason}" if checkpoint.reason else ""
            self._log.info(f"checkpoint {checkpoint.checkpoint} {checkpoint.state}{because}", step=checkpoint.step)

    def _is_new(self, what: object) -> bool:
        is_new = what not in self._said
        self._said.add(what)
        return is_new
