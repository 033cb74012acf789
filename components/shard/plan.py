"""Decide which inputs become which shards, and refuse a corpus that cannot be packed: every fault at once."""

from collections.abc import Iterable, Iterator, Sequence

from components.contracts.dataset import DataOptions, PackingOptions, ShardPlan
from components.contracts.layout import tokenizer_key
from components.contracts.units import format_size
from components.dataset.inputs import EntryWriter, Input
from components.dataset.planning import Unit, check_options, is_too_long, plan_shards
from components.dataset.tokenizer import BYTES
from components.errors import BadInput, Problem
from components.runtime.log import Log
from components.shard.listing import Listing
from components.shard.meaning import why_unused
from components.shard.options import complete_options
from components.shard.plan_file import NAMED, PlanParts, create, leave_witness, publish_plan
from components.shard.progress import Progress
from components.shard.spec import ShardSpec
from components.storage.base import ObjectStore


def make_plan(store: ObjectStore, spec: ShardSpec, *, workdir: str, log: Log) -> tuple[str, ShardPlan]:
    """List the corpus, plan its shards, store the plan; return its id and itself. The same plan may be there already.

    Raises BadInput with every fault of the options and the corpus. Nothing is stored then.
    """
    problems = check_options(spec.options, target_shard_bytes=spec.target_shard_bytes) + _without_meaning(spec)
    folder = store.local_path("data")
    listing = Listing(spec, workdir=workdir, storage=folder and folder.parent)
    done = complete_options(spec, listing, workdir=workdir)
    options = done.options
    writer = EntryWriter(root=listing.root, read=spec.read, options=options)
    seen = _Seen(options, Progress(log, "files listed"))
    with PlanParts() as parts:
        labels = () if isinstance(options, PackingOptions) else options.labels
        for shard in plan_shards(seen.watch(listing.units(options, labels=labels)), target=spec.target_shard_bytes):
            parts.add(writer.line([unit.item for unit in shard]))
        problems += done.problems + listing.problems + _faults(listing, seen, spec) + _not_asked_for(seen, spec)
        if problems:
            raise BadInput("CorpusRefused", f"corpus {spec.corpus} cannot be packed", problems=problems)
        if done.tokenizer is not None and isinstance(options, PackingOptions):
            create(store, tokenizer_key(options.tokenizer.partition(":")[2]), done.tokenizer)
        plan = ShardPlan(
            root=listing.root, read=spec.read, options=options, max_bad_records=spec.max_bad_records,
            num_inputs=listing.num_inputs, input_bytes=listing.size_bytes, parts=parts.finish(),
            bad_records=tuple(sorted(listing.unreadable, key=lambda record: (record.path, record.offset or 0))),
        )  # fmt: skip
        plan_id, was_there = publish_plan(store, plan, parts)
        leave_witness(store, plan_id, listing.newest)
    log.info(
        f"plan {plan_id} {'found' if was_there else 'written'}: {plan.num_inputs} inputs, "
        f"{format_size(plan.input_bytes)}, {plan.num_shards} shards",
        num_inputs=plan.num_inputs, num_bad_records=len(plan.bad_records), root=listing.place,
    )  # fmt: skip
    return plan_id, plan


class _Seen:
    """What the units show on their way into shards."""

    def __init__(self, options: DataOptions, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self.too_long = list[Input]()
        self.num_too_long = 0
        self.weight = 0
        self.kinds = set[str]()

    def watch(self, units: Iterable[Unit]) -> Iterator[Unit]:
        options = self._options
        measured = options if isinstance(options, PackingOptions) and options.tokenizer == BYTES else None
        for unit in units:
            if measured is not None and unit.item.kind == "file" and is_too_long(unit.item, measured):
                self.num_too_long += 1
                if len(self.too_long) < NAMED:
                    self.too_long.append(unit.item)
            self.weight += unit.weight
            self.kinds.add(unit.item.kind)
            self._progress.add(num_bytes=0)
            yield unit


def _without_meaning(spec: ShardSpec) -> list[Problem]:
    read = spec.read
    chosen = {"format": spec.options.format, "read_as": read.read_as, "tokenizer": spec.tokenizer}
    given = {
        "read_as": read.read_as, "tokenizer": spec.tokenizer, "end_of_document": spec.end_of_document,
        "text_field": read.text_field, "key_field": read.key_field, "fields": read.fields,
    }  # fmt: skip
    return [Problem(name, why) for name, value in given.items() if (why := why_unused(name, value, chosen))]


def _not_asked_for(seen: "_Seen", spec: ShardSpec) -> list[Problem]:
    """Settings that nothing in this corpus asks for, where each file is read as what its name says."""
    if not seen.kinds or spec.read.read_as != "auto":
        return []
    is_tokens = isinstance(spec.options, PackingOptions)
    name, value = ("text_field", spec.read.text_field) if is_tokens else ("key_field", spec.read.key_field)
    if value is None or seen.kinds & {"jsonl", "parquet", *(("tar",) if is_tokens else ())}:
        return []
    found = f"is {value!r}, and no input is read as rows" + (" or as a tar" if is_tokens else "")
    return [Problem(name, found, "leave it out, or set read_as to what the inputs are")]


def _faults(listing: Listing, seen: _Seen, spec: ShardSpec) -> list[Problem]:
    if listing.problems and not listing.num_inputs:
        return []  # missing altogether: nothing else can be said about it
    problems = list[Problem]()
    num_bad, budget = len(listing.unreadable), spec.max_bad_records
    if num_bad > budget:
        named = [
            Problem(_where(record.path, record.offset), f"cannot be read: {record.reason}")
            for record in listing.unreadable
        ]
        problems += _named(named, num_bad)
        problems.append(
            Problem("bad_records.max", f"{num_bad} files cannot be read and {budget} may be left out",
                    "make them readable, take them out of the corpus, or raise bad_records.max")
        )  # fmt: skip
    if seen.num_too_long:
        length = getattr(spec.options, "sequence_length", 0)
        too_long = [Problem(item.path, f"{item.size} bytes are more than one sequence") for item in seen.too_long]
        problems += _named(too_long, seen.num_too_long)
        problems.append(
            Problem("over_long", f"is error; {seen.num_too_long} documents exceed sequence_length {length}",
                    "use split, truncate or drop, or a longer sequence_length")
        )  # fmt: skip
    elif not problems and not seen.weight:
        problems.append(Problem(f"corpus {spec.corpus}", *_why_empty(listing, spec)))
    return problems


def _where(path: str, offset: int | None) -> str:
    return path if offset is None else f"{path} at byte {offset}"


def _named(problems: Sequence[Problem], total: int) -> list[Problem]:
    """The first 20 of `problems`, then how many more there are of `total`."""
    named = list(problems[:NAMED])
    return named if total <= len(named) else [*named, Problem("…", f"and {total - len(named)} more")]


def _why_empty(listing: Listing, spec: ShardSpec) -> tuple[str, str]:
    if not listing.num_inputs and spec.read.read_as == "manifest":
        return "it names no record", "check how the manifest was made"
    if not listing.num_inputs:
        return f"no file found in {listing.place}", "check the folder or the glob"
    if not listing.size_bytes:
        return f"all {listing.num_inputs} files found in {listing.place} are empty", "check how the corpus was made"
    return "over_long: drop leaves no document", "use split, or a longer sequence_length"
