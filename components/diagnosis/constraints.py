"""Reads the scheduler's message: which constraint removes how many nodes. Pure, of the text alone.

    0/10 nodes are available: 4 Insufficient nvidia.com/gpu, 6 node(s) had untolerated taint {gpu: yes}. preemption: ...

Wordings from Kubernetes 1.18 to 1.37 stand side by side. A part that no row knows stays a part of unknown kind: it is
shown, never guessed at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Limit(StrEnum):
    """What kind of constraint removes a node."""

    RESOURCE = "resource"
    NODE_DOWN = "node down"
    """A taint that Kubernetes itself puts on nodes that do not answer, are cordoned or ill."""
    TAINT = "taint"
    SELECTOR = "selector"
    POD_AFFINITY = "affinity between pods"
    SPREAD = "topology spread"
    VOLUME = "volume"
    CLAIM_MISSING = "claim missing"
    PORTS = "ports"
    GATE = "gang"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Removal:
    """One constraint, and how many nodes it removes."""

    limit: Limit
    num_nodes: int
    what: str
    """The resource, the taint, the claim; for an unknown part its words."""
    text: str
    """The scheduler's words."""


@dataclass(frozen=True)
class Verdict:
    """The whole message."""

    num_nodes: int | None
    removals: tuple[Removal, ...]

    def of(self, limit: Limit) -> tuple[Removal, ...]:
        return tuple(item for item in self.removals if item.limit is limit)

    def removed(self, limit: Limit) -> int:
        """Nodes that this kind of constraint removes, at most all: a node short of two resources is told twice."""
        total = sum(item.num_nodes for item in self.of(limit))
        return total if self.num_nodes is None else min(total, self.num_nodes)


_MAIN = re.compile(r"(?P<good>\d+)/(?P<all>\d+) nodes are available[:.]?(?P<rest>.*)", re.DOTALL)
_TAIL = re.compile(r"\.?\s*(?:preemption: .*|Preemption is not helpful.*|no new claims to deallocate.*)", re.DOTALL)
_PART = re.compile(r"(?:(?<=^)|(?<=, ))(?:(?P<num>\d+) )?(?P<text>.+?)(?=, \d+ |$)", re.DOTALL)

_DOWN = ("not-ready", "unreachable", "unschedulable", "out-of-service", "network-unavailable", "disk-pressure",
         "memory-pressure", "pid-pressure", "uninitialized", "shutdown")  # fmt: skip
_BRACES = re.compile(r"\{(?P<taint>[^}]*)\}")

_ROWS: tuple[tuple[re.Pattern[str], Limit], ...] = tuple(
    (re.compile(pattern), limit)
    for pattern, limit in (
        (r"Insufficient (\S+)", Limit.RESOURCE),
        (r"(Too many pods)", Limit.RESOURCE),
        (r"(cannot allocate all claims)", Limit.RESOURCE),
        (r"node\(s\) were (unschedulable)", Limit.NODE_DOWN),
        (r"node\(s\) were (not ready)", Limit.NODE_DOWN),
        (r"node\(s\) had (?:un)?tolerated taint|node\(s\) had taint", Limit.TAINT),
        (r"node\(s\) didn't match (?:Pod's )?node (?:affinity|selector)", Limit.SELECTOR),
        (r"node\(s\) didn't match the requested node name", Limit.SELECTOR),
        (r"node\(s\) didn't match pod topology spread constraints", Limit.SPREAD),
        (r"node\(s\) didn't match (?:pod |existing pods )?(?:anti-)?affinity|node\(s\) didn't satisfy existing pods",
         Limit.POD_AFFINITY),
        (r"persistentvolumeclaim \\?\"([^\"\\]+)\\?\" (?:not found|is being deleted)", Limit.CLAIM_MISSING),
        (r"persistentvolumeclaim \\?\"([^\"\\]+)\\?\"", Limit.VOLUME),
        (r"unbound immediate PersistentVolumeClaims|volume node affinity conflict|available persistent volumes? to bind"
         r"|exceed max volume count|no available volume zone|bound persistent volumes?|volume zone|storage class|"
         r"did not have enough free storage|unavailable due to (?:one or more )?PersistentVolume", Limit.VOLUME),
        (r"node\(s\) didn't have free ports for the requested pod ports", Limit.PORTS),
        (r"[Pp]od ?[Gg]roup|gang|minCount|minMember", Limit.GATE),
    )
)  # fmt: skip


@lru_cache(maxsize=1024)
def read_verdict(message: str) -> Verdict:
    """The constraints a scheduler's message names."""
    match = _MAIN.search(message)
    rest = match["rest"] if match else message
    body = _TAIL.sub("", rest).strip().rstrip(".")
    total = int(match["all"]) if match else None
    return Verdict(total, tuple(_removals(body, total)))


def _removals(body: str, total: int | None) -> Iterator[Removal]:
    for part in _PART.finditer(body):
        text = part["text"].strip().rstrip(",.")
        if not text or text.startswith("no new claims"):
            continue
        # A part without a number speaks of the pod itself, so of every node.
        num = int(part["num"]) if part["num"] else total or 0
        yield _removal(text, num)


def _removal(text: str, num: int) -> Removal:
    for pattern, limit in _ROWS:
        match = pattern.search(text)
        if match is None:
            continue
        what = next((group for group in match.groups() if group), "")
        if limit is Limit.TAINT:
            braces = _BRACES.search(text)
            what = braces["taint"].strip() if braces else ""
            if any(mark in what for mark in _DOWN) and "node.kubernetes.io/" in what + text:
                limit = Limit.NODE_DOWN
                what = what.rstrip(": ").removeprefix("node.kubernetes.io/")
        return Removal(limit, num, what.rstrip(": "), text)
    return Removal(Limit.UNKNOWN, num, text, text)
