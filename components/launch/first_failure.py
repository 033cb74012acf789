"""Says which failure came first, in one sentence; what went down because of it is not blamed."""

from collections.abc import Sequence

from components.contracts.gang import Failure, GangState
from components.errors import ExitCode
from components.launch.backend import AgentStatus

_MAX_LINE = 300


def first_failure(state: GangState | None) -> Failure | None:
    """The failure that ended the newest attempt, as agent 0 recorded it."""
    if state is None or not state.attempts:
        return None
    return state.attempts[-1].failure


def describe_failure(failure: Failure) -> str:
    """`rank 3 on node 1 exited with code 7 (last line: "CUDA error")`; its own message where no process ended."""
    ending = (
        f"was killed by {failure.signal}" if failure.signal
        else f"exited with code {failure.exit_code}" if failure.exit_code is not None
        else ""
    )  # fmt: skip
    where = "" if failure.node_rank is None else f" on node {failure.node_rank}"
    text = f"rank {failure.rank}{where} {ending}" if ending and failure.rank is not None else failure.message
    line = next((line.strip() for line in reversed(failure.last_lines) if line.strip()), "")
    text += f' (last line: "{line[:_MAX_LINE]}")' if line else ""
    return text + (f"; {failure.also}" if failure.also and failure.also not in text else "")


def lost_agent(agents: Sequence[AgentStatus]) -> AgentStatus | None:
    """The agent that went first, when one did: one that died, before one that only missed its peer (92)."""
    ended = [agent for agent in agents if agent.has_exited and not agent.ended_by_us]
    died = [agent for agent in ended if agent.signal is not None or agent.fate]
    foreign = [agent for agent in ended if agent.exit_code not in (None, *ExitCode)]
    missed = [agent for agent in ended if agent.exit_code == ExitCode.PEER_LOST]
    return next(iter([*died, *foreign, *missed]), None)
