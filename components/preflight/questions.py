"""Which questions preflight asks, and what each is measured with."""

import os
from dataclasses import replace
from pathlib import Path

from components.checks.bounded import Probe
from components.checks.disk import disk_question, disk_space
from components.checks.machine import machine_probes
from components.checks.ports import port_can_be_used, port_question
from components.checks.question import Question
from components.checks.storage import clock_question, storage_atomic, storage_clock, storage_questions, storage_writable
from components.contracts.checks import CheckResult
from components.contracts.layout import shard_manifest_key
from components.dataset.blobs import is_uri
from components.dataset.corpus import open_corpus
from components.ledger.log import Ledger
from components.preflight.resume_point import claim_question, nobody_else_runs, resume_point, resume_question
from components.preflight.spec import PreflightSpec
from components.runtime.stage import StageContext
from components.storage.base import ObjectStore

_PACKED_BYTES_PER_BYTE = 2.1
"""A byte becomes a 16-bit token; padding and indices add a little."""


def all_probes(context: StageContext, spec: PreflightSpec, store: ObjectStore, *, is_local: bool) -> list[Probe]:
    """Every question of this run; those about a machine only when the ranks will run on this one."""
    probes = _storage_probes(context, store) + _disk_probes(context, spec, store) + _ledger_probes(context, spec, store)
    return probes + (_machine_probes(context, spec) if is_local else [])


def _storage_probes(context: StageContext, store: ObjectStore) -> list[Probe]:
    writable, atomic = storage_questions(store.uri)
    clock = clock_question(store.uri)
    return [
        Probe(writable, lambda: storage_writable(writable, store, run=context.run)),
        Probe(atomic, lambda: storage_atomic(atomic, store, run=context.run)),
        Probe(clock, lambda: storage_clock(clock, store, run=context.run)),
    ]


def _disk_probes(context: StageContext, spec: PreflightSpec, store: ObjectStore) -> list[Probe]:
    path = store.local_path("data")
    if path is None:  # an object store has no end that could be measured
        return []
    free = disk_question(
        path=path.parent, need_bytes=spec.min_free_bytes, what="checkpoints and logs", scope="environment",
        origin="preflight.min_free_space",
    )  # fmt: skip
    shards = replace(
        free, name="disk_space_for_shards", expected="room for the packed corpus beside that",
        origin="size of shard.corpus, two bytes a token", hard=not _was_ever_packed(store),
    )  # fmt: skip
    return [
        Probe(free, lambda: disk_space(free, path=path, need_bytes=spec.min_free_bytes)),
        Probe(shards, lambda: _disk_for_shards(shards, context, spec, path)),
    ]


def _was_ever_packed(store: ObjectStore) -> bool:
    """With packed data there already, this corpus may be among it and need no more room: then a lack only warns."""
    folder = store.local_path(shard_manifest_key("any"))
    return folder is not None and folder.parent.parent.is_dir()


def _disk_for_shards(question: Question, context: StageContext, spec: PreflightSpec, path: Path) -> CheckResult:
    if is_uri(spec.corpus):
        return question.ok("not measured: the corpus lies in a store")
    corpus = open_corpus(spec.corpus, workdir=context.workdir)
    size_bytes = sum(found.size for found in corpus)
    if corpus.problems or not size_bytes:
        return question.ok("not measured: the corpus cannot be listed; the shard stage says why")
    need_bytes = int(size_bytes * _PACKED_BYTES_PER_BYTE)
    return disk_space(question, path=path, need_bytes=need_bytes + spec.min_free_bytes)


def _ledger_probes(context: StageContext, spec: PreflightSpec, store: ObjectStore) -> list[Probe]:
    ledger = Ledger(store, spec.experiment, spec.model_version)
    resume, claim = resume_question(spec), claim_question(spec)
    probes = [Probe(claim, lambda: nobody_else_runs(claim, ledger, run=context.run))]
    if spec.checkpoint is not None:
        probes.append(Probe(resume, lambda: resume_point(resume, ledger, source=spec.resume.source, run=context.run)))
    return probes


def _machine_probes(context: StageContext, spec: PreflightSpec) -> list[Probe]:
    port = port_question(host="127.0.0.1", port=0)
    workdir = Path(os.path.normpath(os.path.join(context.workdir or os.getcwd(), spec.workdir)))
    return [
        *machine_probes(
            num_ranks=spec.num_nodes * spec.nproc_per_node, ranks_per_device_set=spec.nproc_per_node,
            memory_per_rank_bytes=spec.memory_per_rank_bytes, accelerator=spec.accelerator, command=spec.command,
            workdir=workdir, env=spec.env,
        ),
        Probe(port, lambda: port_can_be_used(port, host="127.0.0.1")),
    ]  # fmt: skip
