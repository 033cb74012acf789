"""The checks one node makes once everybody has joined: itself, and its way to its peers. Runs in a worker thread."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.agent.messages import Check, Peer
from components.agent.run_context import RunContext
from components.checks.accelerators import QUERY, is_visible, parse_accelerators
from components.checks.bounded import Probe, ask_all
from components.checks.node import node_checks
from components.checks.pairs import judge_pair, measure_pair, pair_question
from components.checks.ports import port_can_be_reached, reach_question
from components.contracts.checks import CheckReport, CheckResult
from components.contracts.layout import node_checks_key
from components.errors import ArgosyError

_FULL_MESH = 32
"""Up to so many nodes everyone tries everyone; above, agent 0 and two neighbours."""


def device_question() -> list[str]:
    """What the guard runs to see the devices."""
    return ["nvidia-smi", *QUERY]


def visible_gpus(readings: Mapping[str, Any]) -> tuple[int, ...]:
    """Indices of the GPUs the program can see here; empty when there are none or they cannot be counted."""
    devices = readings.get("devices")
    if not devices or devices.get("exit_code") != 0:
        return ()
    try:
        return tuple(
            device.index
            for device in parse_accelerators(devices["output"])
            if is_visible(device, readings.get("visible_devices"))
        )
    except ValueError:
        return ()  # the check of accelerators says so


def check_node(
    context: RunContext, check: Check, readings: Mapping[str, Any], code: tuple[CheckResult, ...] = ()
) -> tuple[CheckResult, ...]:  # fmt: skip
    """All results, that about the code among them; also filed in the store, for people."""
    results = code
    if not any(result.blocks for result in code):  # without its code the program would only be missed, too
        results += _ask(context, check, readings)
    report = CheckReport(subject=context.node, results=results)
    key = node_checks_key(context.spec.run, generation=context.spec.generation, node_rank=context.node_rank)
    try:
        context.store.replace(key, report.to_bytes())
    except ArgosyError as error:
        # A storage that refuses is a finding of the checks themselves.
        context.log.warning("the check report cannot be filed", seen=str(error))
    return results


def _ask(context: RunContext, check: Check, readings: Mapping[str, Any]) -> tuple[CheckResult, ...]:
    own = node_checks(
        context.spec.model_copy(update={"workdir": context.program_folder}), node_rank=context.node_rank,
        workdir=context.workdir, readings=readings, store=context.store,
    )  # fmt: skip
    return own + ask_all([*_to_peers(context, check.peers)])


def _peers_to_try(context: RunContext, peers: Iterable[Peer]) -> list[Peer]:
    num_nodes, here = context.spec.num_nodes, context.node_rank
    near = {0, (here + 1) % num_nodes, (here + 2) % num_nodes} if num_nodes > _FULL_MESH else set(range(num_nodes))
    return [peer for peer in peers if peer.node_rank in near - {here}]


def _to_peers(context: RunContext, peers: Iterable[Peer]) -> Iterator[Probe]:
    """Can everybody be reached; then what is between. Bandwidth only in a ring, so that no two pairs share a wire."""
    chosen, following = _peers_to_try(context, peers), (context.node_rank + 1) % context.spec.num_nodes
    for peer in chosen:
        yield _reach(peer)
        yield _pair(peer, with_bandwidth=peer.node_rank == following)


def _pair(peer: Peer, *, with_bandwidth: bool) -> Probe:
    question = pair_question(host=peer.host, port=peer.port)

    def measure() -> CheckResult:
        reading = measure_pair(peer.host, peer.port, with_bandwidth=with_bandwidth)
        return judge_pair(question, reading, peer=f"node {peer.node_rank}")

    return Probe(question, measure)


def _reach(peer: Peer) -> Probe:
    question = reach_question(host=peer.host, port=peer.port)

    def measure() -> CheckResult:
        begin = time.perf_counter()
        result = port_can_be_reached(question, host=peer.host, port=peer.port)
        milliseconds = 1000 * (time.perf_counter() - begin)
        if result.blocks:
            return result
        return result.model_copy(update={"measured": f"node {peer.node_rank} answers within {milliseconds:.2f} ms"})

    return Probe(question, measure)
