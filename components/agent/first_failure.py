"""Says which rank failed first: the one that ended earliest, for a reason that was neither ours nor another rank."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from components.agent.messages import RankExited
from components.contracts.clock import utc_text
from components.contracts.gang import Failure, FailureKind

_PORT_TAKEN = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)
_PORT = re.compile(r"\bport:? ?(\d+)|:(\d{2,5})\b", re.IGNORECASE)

_PEER_WORDS = re.compile(
    r"connection (was )?(closed|reset) by (remote )?peer|broken pipe|\bECONNRESET\b|\bEPIPE\b|ncclRemoteError"
    r"|remote process exit|NCCL communicator was aborted|collective operation timeout|gloo connectFullMesh failed"
    r"|timed out waiting \d+ ?ms for (send|recv)|TCPStore server has shut down"
    r"|\bpeers?\b.{0,40}\b(gone|lost|died|dead|disconnected|unreachable)\b|\blost (its |a |the |my )?peer",
    re.IGNORECASE,
)
"""Last words of a rank that ends because another one did."""

_SIGNALS_OF_ITS_OWN = ("SIGABRT", "SIGPIPE")
"""Signals by which a process ends itself, also because a peer is gone: NCCL's watchdog aborts."""

_SURE, _UNSURE, _LOST_PEER = range(3)
_DYING_SECONDS = 0.1
"""From a process's last sign to its peers until its guard has seen the end: the kernel takes back its memory."""

EXIT_SECONDS = 0.3
"""For the ranks beside one that exited: what failed first may take longer to exit than who lost it."""
LOST_PEER_SECONDS = 1.0
"""The same when all that exited had lost a peer: somebody else failed."""

_MAX_OTHERS = 3
_CLOCKS_KNOWN_SECONDS = 1.0


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

    @cached_property
    def doubt(self) -> int:
        """How much it looks like the consequence of another one. Asked again at every further end, in large gangs."""
        ending = self.exit
        if ending.error is not None or (ending.signal is not None and ending.signal not in _SIGNALS_OF_ITS_OWN):
            return _SURE
        return _LOST_PEER if any(_PEER_WORDS.search(line) for line in ending.last_lines) else _UNSURE


def first_failure(exits: Sequence[ExitSeen], *, master_port: int, has_stepped: bool) -> Failure | None:
    """The failure that came first, or None when no rank failed by itself. Ranks that we ended are never blamed.

    The clock decides as far as it can: not between ends that are closer than the nodes' clocks, and than the time in
    which a dying process is gone for its peers but not yet for its guard. Then a rank that dies of a signal comes
    before one that exits. A rank whose last words are about a lost peer comes after all others, whatever the clock
    says: the peer it lost is among them.
    """
    failures = sorted((seen for seen in exits if seen.is_failure), key=lambda seen: (seen.exit.at, seen.exit.rank))
    if not failures:
        return None
    causes = [seen for seen in failures if seen.doubt < _LOST_PEER] or failures
    first = min((seen for seen in causes if _is_close(causes[0].exit, seen.exit)), key=lambda seen: seen.doubt)
    ending = first.exit
    if ending.error is not None:
        kind, message = FailureKind.START_FAILED, ending.error
    elif ending.signal is not None:
        kind, message = FailureKind.RANK_SIGNAL, _how(ending)
    elif not has_stepped and (port := _port_taken(ending.last_lines, master_port)):
        kind, message = FailureKind.PORT_TAKEN, f"rank {ending.rank} found {port} taken"
    else:
        kind, message = FailureKind.RANK_EXIT, _how(ending)
    also = _also(ending, [seen.exit for seen in failures if seen is not first])
    return Failure(
        kind=kind, node_rank=first.node_rank, rank=ending.rank, exit_code=ending.exit_code, signal=ending.signal,
        message=f"{message}; {also}" if also else message, also=also, last_lines=ending.last_lines,
        at=utc_text(datetime.fromtimestamp(ending.at, UTC)),
    )  # fmt: skip


def patience_seconds(exits: Sequence[ExitSeen]) -> float:
    """How long the ranks that still run should be left alone, because one may be dying that failed before these.

    0 when there is no doubt: a rank that could not start or died of a signal that others sent, or one that says nothing
    of a lost peer beside one that does.
    """
    doubts = {seen.doubt for seen in exits if seen.is_failure}
    if not doubts or min(doubts) == _SURE or len(doubts) > 1:
        return 0.0
    return LOST_PEER_SECONDS if doubts == {_LOST_PEER} else EXIT_SECONDS


def _is_close(one: RankExited, other: RankExited) -> bool:
    return abs(other.at - one.at) <= one.within + other.within + _DYING_SECONDS


def _how(ending: RankExited) -> str:
    if ending.error is not None:
        return f"rank {ending.rank} could not start"
    if ending.signal is not None:
        return f"rank {ending.rank} was killed by {ending.signal}"
    return f"rank {ending.rank} exited with code {ending.exit_code}"


def _also(first: RankExited, others: Sequence[RankExited]) -> str | None:
    told = []
    for ending in others[:_MAX_OTHERS]:
        gap = ending.at - first.at
        when = f"{abs(gap):.3f} s {'later' if gap >= 0 else 'earlier'}"
        is_known = first.within + ending.within < _CLOCKS_KNOWN_SECONDS
        told.append(f"{_how(ending)} {when if is_known else 'about then'}")
    if len(others) > _MAX_OTHERS:
        told.append(f"{len(others) - _MAX_OTHERS} more ranks failed")
    return ", ".join(told) or None


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
