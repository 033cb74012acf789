"""Fills in what a description leaves to the tokenizer and the corpus: the vocabulary, the labels, the columns."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from components.contracts.dataset import DataOptions, PackingOptions, SampleField, SampleOptions
from components.dataset.batches import Column, type_of_suffix
from components.dataset.blobs import Unreadable, is_uri, split_uri
from components.dataset.planning import Unit
from components.dataset.sources.findings import Findings
from components.errors import ArgosyError, BadInput, Problem
from components.shard.listing import Listing
from components.shard.spec import ShardSpec
from components.storage.base import ObjectNotFound, open_store

_NAMED_BY_PLACE = ("lines", "jsonl", "parquet")


@dataclass
class Completed:
    """Options that decide every byte, or what is in the way."""

    options: DataOptions
    tokenizer: bytes | None = None
    problems: list[Problem] = field(default_factory=list)


def complete_options(spec: ShardSpec, listing: Listing, *, workdir: str) -> Completed:
    """The options with nothing left open."""
    if isinstance(spec.options, PackingOptions):
        return _complete_tokens(spec, spec.options, workdir)
    return _complete_samples(spec, spec.options, listing)


def _complete_tokens(spec: ShardSpec, options: PackingOptions, workdir: str) -> Completed:
    if spec.tokenizer == "bytes":
        return Completed(options)
    from components.dataset.tokenizer import read_vocabulary

    try:
        data = _read_tokenizer(spec.tokenizer, workdir)
        vocabulary = read_vocabulary(data, where=spec.tokenizer, end_of_document=spec.end_of_document)
    except BadInput as error:
        return Completed(options, problems=[Problem("tokenizer", error.seen, error.fix)])
    return Completed(vocabulary.options(options), tokenizer=data)


def _complete_samples(spec: ShardSpec, options: SampleOptions, listing: Listing) -> Completed:
    if spec.read.read_as == "labelled_folders":
        options = options.model_copy(update={"labels": listing.labels()})
    if spec.read.fields:
        names = [field.name for field in spec.read.fields]
        twice = [Problem("fields", f"{name!r} is named twice", "name every field once")
                 for name in dict.fromkeys(names) if names.count(name) > 1]  # fmt: skip
        return Completed(options.model_copy(update={"fields": spec.read.fields}), problems=twice)
    if options.format == "webdataset":
        return Completed(options)
    fields, why = _fields_of_first_record(spec, listing, listing.first_units(options, labels=options.labels))
    if not fields and not listing.problems:
        seen = f"no record could be read to take them from{why and ': '}{why}"
        return Completed(options, problems=[Problem("fields", seen, "check the corpus, or set shard.fields")])
    return Completed(options.model_copy(update={"fields": fields}))


def _fields_of_first_record(
    spec: ShardSpec, listing: Listing, units: list[Unit]
) -> tuple[tuple[SampleField, ...], str]:
    """The fields, or what was wrong with the first that could not be read."""
    from components.dataset.sources.read import samples

    findings, why = Findings(max_bad_records=len(units)), ""
    for start in range(len(units)):
        inputs = [unit.item for unit in units[start:]]
        try:
            item, _, batch, _ = next(samples(inputs, listing.blobs, findings, spec.read, ()))
        except (BadInput, Unreadable) as error:
            why = why or (error.seen if isinstance(error, BadInput) else str(error))
            continue
        except StopIteration:
            continue
        columns = [_typed(column) for column in batch.columns]
        if item.kind not in _NAMED_BY_PLACE and all(column.name != "key" for column in columns):
            columns.insert(0, Column("key", "text"))
        fields = tuple(SampleField(name=name, type=kind) for name, kind in columns)
        return fields, "" if fields else f"the first record of {item.path} has no field with a value"
    bad = [f"{record.path}{f' at {record.offset}' if record.offset is not None else ''}: {record.reason}"
           for record in findings.bad[:1]]  # fmt: skip
    return (), next(iter(bad), why)


def _typed(column: Column) -> Column:
    return Column(column.name, type_of_suffix(column.name)) if column.type == "bytes" else column


def _read_tokenizer(place: str, workdir: str) -> bytes:
    try:
        if is_uri(place):
            base, key = split_uri(place)
            return open_store(base).read(key)
        return Path(os.path.join(os.path.abspath(workdir or "."), os.path.expanduser(place))).read_bytes()
    except (ObjectNotFound, OSError) as error:
        seen = error.seen if isinstance(error, ArgosyError) else str(error)
        raise BadInput("NoTokenizer", seen, "name a tokenizer.json, or write tokenizer: bytes") from error
