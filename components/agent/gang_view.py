"""What the coordinator knows, as the document people and the launcher read."""

from components.agent.coordinator import Coordinator, Phase
from components.agent.events import Moment
from components.contracts.gang import GangState
from components.contracts.lifecycle import RunState


def gang_state(coordinator: Coordinator, now: Moment) -> GangState:
    """The gang's state at `now`."""
    spec, attempt, verdict = coordinator.spec, coordinator.attempt, coordinator.verdict
    reason, message = _reason(coordinator)
    return GangState(
        run=spec.run, generation=spec.generation, state=_state(coordinator), reason=reason, message=message,
        world_size=spec.world_size, num_joined=len(coordinator.joined), updated_at=now.text,
        created_at=coordinator.created_at.text, ranks=attempt.rank_views() if attempt else (),
        attempts=tuple(other.view() for other in coordinator.attempts), steps=coordinator.curve.views,
        last_step=coordinator.curve.last, total_steps=coordinator.total_steps, checkpoints=coordinator.commits.views,
        restarts_used=coordinator.restarts_used, run_seconds_used=round(coordinator.run_seconds_used(now), 3),
        exit_code=int(verdict.exit_code) if verdict else None,
    )  # fmt: skip


def _state(coordinator: Coordinator) -> RunState:
    if coordinator.verdict is not None:
        return coordinator.verdict.state
    attempt = coordinator.attempt
    if attempt is None or (len(coordinator.attempts) == 1 and coordinator.phase is Phase.STARTING):
        return RunState.STARTING
    is_between = coordinator.phase in (Phase.PREPARING, Phase.STARTING) or attempt.has_failed
    return RunState.RESTARTING if is_between and coordinator.stopping is None else RunState.RUNNING


def _reason(coordinator: Coordinator) -> tuple[str, str]:
    """CamelCase reason and a sentence; empty when there is nothing to explain."""
    if coordinator.verdict is not None:
        return coordinator.verdict.reason, coordinator.verdict.message
    if coordinator.stopping is not None:
        return "Stopping", f"{coordinator.stopping.message}; the ranks may save their work"
    attempt = coordinator.attempt
    if attempt is not None and attempt.outcome == "succeeded":
        return "Finishing", "the ranks are done; their last checkpoint is being committed and verified"
    failed = next((other for other in reversed(coordinator.attempts) if other.failure is not None), None)
    if failed is not None and failed.failure is not None and _state(coordinator) is RunState.RESTARTING:
        return failed.failure.kind.value, failed.failure.message
    return "", ""
