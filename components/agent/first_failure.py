"""Says which rank failed first: the one that ended earliest, for a reason that was not ours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from components.agent.messages import RankExited
from components.contracts.clock import utc_text
from components.contracts.gang import Failure, FailureKind

_PORT_TAKEN = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)
_PORT = re.compile(r"\bport:? ?(\d+)|:(\d{2,5})\b", re.IGNORECASE)


@dataclass(frozen=True)
class ExitSeen:
    """A rank's end, and the node it came from."""

    node_rank: int
    exit: RankExited

    @property
    def is_failure(self) -> bool:
        ending = self.exit
        return not ending.ended_by_us and (
            ending.error is not None or ending.signal is not None or ending.exit_code != 0
        )


def first_failure(exits: Sequence[ExitSeen], *, master_port: int, has_stepped: bool) -> Failure | None:
    """The earliest failure, or None when no rank failed by itself. Ranks that we ended are never blamed."""
    failures = sorted((seen for seen in exits if seen.is_failure), key=lambda seen: seen.exit.at)
    if not failures:
        return None
    first = failures[0]
    ending = first.exit
    if ending.error is not None:
        kind, message = FailureKind.START_FAILED, ending.error
    elif ending.signal is not None:
        kind, message = FailureKind.RANK_SIGNAL, f"rank {ending.rank} was killed by {ending.signal}"
    elif not has_stepped and (port := _port_taken(ending.last_lines, master_port)):
        kind, message = FailureKind.PORT_TAKEN, f"rank {ending.rank} found {port} taken"
    else:
        kind, message = FailureKind.RANK_EXIT, f"rank {ending.rank} exited with code {ending.exit_code}"
    return Failure(
        kind=kind, node_rank=first.node_rank, rank=ending.rank, exit_code=ending.exit_code, signal=ending.signal,
        message=message, last_lines=ending.last_lines, at=utc_text(datetime.fromtimestamp(ending.at, UTC)),
    )  # fmt: skip


def _port_taken(lines: Sequence[str], master_port: int) -> str:
    """Which port may have kept the ranks from meeting, in words; empty when none did.

    A port of the program's own that is taken is the program's failure, not the rendezvous'. Most programs do not say
    which one it was.
    """
    for line in lines:
        if _PORT_TAKEN.search(line):
            named = {int(number) for pair in _PORT.findall(line) for number in pair if number}
            if not named:
                return f"a port, perhaps the rendezvous port {master_port},"
            if master_port in named:
                return f"the rendezvous port {master_port}"
    return ""
