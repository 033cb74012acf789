"""Decide which inputs become which shards, and refuse a corpus that cannot be packed: every fault at once."""

from collections.abc import Sequence

from components.contracts.dataset import PlannedInput, ShardPlan, plan_id_of
from components.contracts.layout import plan_key
from components.contracts.units import format_size
from components.dataset.corpus import Corpus, list_corpus, root_folder
from components.dataset.planning import check_options, extracts, plan_shards, too_long
from components.errors import BadInput, Problem
from components.runtime.log import Log
from components.shard.plan_file import NAMED
from components.shard.spec import ShardSpec
from components.storage.base import AlreadyExists, ObjectStore


def make_plan(store: ObjectStore, spec: ShardSpec, *, workdir: str, log: Log) -> tuple[str, ShardPlan]:
    """List the corpus, plan its shards, store the plan; return its id and itself. The same plan may be there already.

    Raises BadInput with every fault of the options and the corpus.
    """
    storage_folder = store.local_path("data")
    corpus = list_corpus(spec.corpus, workdir=workdir, storage=storage_folder and storage_folder.parent)
    problems = check_options(spec.options, target_shard_bytes=spec.target_shard_bytes)
    problems += corpus.problems + _faults(corpus, spec)
    if problems:
        raise BadInput("CorpusRefused", f"corpus {spec.corpus} cannot be packed", problems=problems)
    plan = ShardPlan(
        root=corpus.root, inputs=tuple(corpus.inputs),
        shards=tuple(plan_shards(corpus.inputs, spec.options, target_shard_bytes=spec.target_shard_bytes)),
        options=spec.options, max_bad_records=spec.max_bad_records, bad_records=tuple(corpus.unreadable),
    )  # fmt: skip
    data = plan.to_bytes()
    plan_id = plan_id_of(data)
    try:
        store.create(plan_key(plan_id), data)
        found = "written"
    except AlreadyExists:
        found = "found"  # its name is its digest: the same plan, made before
    log.info(
        f"plan {plan_id} {found}: {len(plan.inputs)} files, {_size(plan.inputs)}, {len(plan.shards)} shards",
        num_inputs=len(plan.inputs), num_bad_records=len(plan.bad_records), root=root_folder(plan.root),
    )  # fmt: skip
    return plan_id, plan


def _faults(corpus: Corpus, spec: ShardSpec) -> list[Problem]:
    if corpus.problems and not corpus.inputs:
        return []  # missing altogether: nothing else can be said about it
    problems = list[Problem]()
    num_bad, budget = len(corpus.unreadable), spec.max_bad_records
    if num_bad > budget:
        problems += _named([Problem(f"{item.path}", f"cannot be read: {item.reason}") for item in corpus.unreadable])
        problems.append(
            Problem("bad_records.max", f"{num_bad} files cannot be read and {budget} may be left out",
                    "make them readable, take them out of the corpus, or raise bad_records.max")
        )  # fmt: skip
    refused, length = too_long(corpus.inputs, spec.options), spec.options.sequence_length
    if refused:
        problems += _named(
            [Problem(item.path, f"{item.size_bytes} bytes are more than one sequence") for item in refused]
        )
        problems.append(
            Problem("over_long", f"is error; {len(refused)} documents exceed sequence_length {length}",
                    "use split, truncate or drop, or a longer sequence_length")
        )  # fmt: skip
    elif not problems and not _has_tokens(corpus.inputs, spec):
        problems.append(Problem(f"corpus {spec.corpus}", *_why_empty(corpus)))
    return problems


def _named(problems: Sequence[Problem]) -> list[Problem]:
    """The first 20 of `problems`, then how many more there are."""
    if len(problems) <= NAMED:
        return list(problems)
    return [*problems[:NAMED], Problem("…", f"and {len(problems) - NAMED} more")]


def _has_tokens(inputs: Sequence[PlannedInput], spec: ShardSpec) -> bool:
    shards = plan_shards(inputs, spec.options, target_shard_bytes=spec.target_shard_bytes)
    return any(extract.counts["input_bytes"] for shard in shards for extract in extracts(inputs, shard, spec.options))


def _why_empty(corpus: Corpus) -> tuple[str, str]:
    where = root_folder(corpus.root)
    if not corpus.inputs:
        return f"no file found in {where}", "check the folder or the glob"
    if not any(planned.size_bytes for planned in corpus.inputs):
        return f"all {len(corpus.inputs)} files found in {where} are empty", "check how the corpus was made"
    return "over_long: drop leaves no document", "use split, or a longer sequence_length"


def _size(inputs: Sequence[PlannedInput]) -> str:
    return format_size(sum(planned.size_bytes for planned in inputs))
