"""How a gang ends: an exit code for each agent, a state and a sentence for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.agent.messages import Trouble
from components.contracts.checks import CheckReport, CheckResult
from components.contracts.gang import FailureKind
from components.contracts.lifecycle import RunState
from components.errors import ExitCode


@dataclass(frozen=True)
class Verdict:
    """Final."""

    exit_code: int
    state: RunState
    reason: str
    message: str
    unfit_nodes: tuple[int, ...] = ()
    """With NODE_UNFIT: only these leave with that code, so that the launcher avoids them; the others lost a peer."""

    def exit_code_of(self, node_rank: int) -> int:
        if self.unfit_nodes and node_rank not in self.unfit_nodes:
            return ExitCode.PEER_LOST
        return self.exit_code

    @classmethod
    def of_trouble(cls, trouble: Trouble) -> "Verdict":
        state = RunState.STOPPED if trouble.exit_code == ExitCode.STOPPED else RunState.FAILED
        return cls(trouble.exit_code, state, trouble.reason, trouble.message)

    @classmethod
    def of_node(cls, trouble: Trouble, *, node_rank: int) -> "Verdict":
        """One node cannot do its part; whether others could, its exit code says."""
        unfit = (node_rank,) if trouble.exit_code == ExitCode.NODE_UNFIT else ()
        text = f"node {node_rank}: {trouble.message}"
        return cls(trouble.exit_code, RunState.FAILED, trouble.reason, text, unfit)

    @classmethod
    def of_unsaved(cls, trouble: Trouble) -> "Verdict":
        """The ranks succeeded, but their last checkpoint could not be saved: its staged files are still there."""
        message = f"the ranks succeeded, but the last checkpoint could not be saved: {trouble.message}"
        return cls(trouble.exit_code, RunState.FAILED, trouble.reason, message)


@dataclass(frozen=True)
class Stopping:
    """The gang was told to stop, or a limit says so."""

    reason: str
    message: str
    since: float
    """Monotonic seconds."""
    kind: FailureKind | None = None
    """Set when a limit was reached."""

    def verdict(self) -> Verdict:
        return Verdict(ExitCode.STOPPED, RunState.STOPPED, self.reason, self.message)


_PRECEDENCE = (ExitCode.BAD_INPUT, ExitCode.ENVIRONMENT_UNFIT, ExitCode.NODE_UNFIT, ExitCode.STOPPED)


def checks_verdict(results: Mapping[int, Sequence[CheckResult]]) -> Verdict | None:
    """None when every node is fit. Otherwise every blocking check is named, once."""
    reports = {rank: CheckReport(subject=f"node {rank}", results=tuple(found)) for rank, found in results.items()}
    codes = {rank: report.exit_code() for rank, report in reports.items() if report.blocking}
    if not codes:
        return None
    code = next(code for code in _PRECEDENCE if code in codes.values())
    sentences: dict[str, list[int]] = {}
    for rank, report in reports.items():
        for found in report.blocking:
            sentences.setdefault(_sentence(found), []).append(rank)
    message = "; ".join(f"{list_nodes(ranks)}: {sentence}" for sentence, ranks in sentences.items())
    unfit = tuple(rank for rank, own in codes.items() if own == code) if code == ExitCode.NODE_UNFIT else ()
    state = RunState.STOPPED if code == ExitCode.STOPPED else RunState.FAILED
    return Verdict(code, state, "ChecksFailed", message, unfit)


def _sentence(found: CheckResult) -> str:
    about = f" {found.subject}" if found.subject else ""
    remedy = f"; {found.remedy}" if found.remedy else ""
    return f"check {found.name}{about} is {found.status}: {found.measured}, expected {found.expected}{remedy}"


def list_nodes(ranks: Sequence[int]) -> str:
    """`node 1`, `nodes 0, 2`."""
    return f"node {ranks[0]}" if len(ranks) == 1 else f"nodes {', '.join(str(rank) for rank in ranks)}"
