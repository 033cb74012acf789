"""The flags of the stage by hand. Every fault of a command line is found before any is told."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast, get_args

from pydantic import ValidationError

from components.contracts.dataset import FieldType, OverLong, ProofLevel, ReadAs, SampleField
from components.contracts.units import parse_size
from components.shard.meaning import why_unused

_LEVELS = {"0": "files", "1": "digests", "2": "records"}
_NOTHING = "\0"
"""Stands for the value that a flag was not given."""
_EXAMPLES = """
examples:
  python -m components.shard all --corpus text/ --storage data/ --sequence-length 2048 --over-long split
  python -m components.shard all --corpus images/ --storage s3://bucket/data --format webdataset --tasks 8
  python -m components.shard verify --storage data/ --version d-0123456789abcdef --level records
  python -m components.shard export --storage data/ --version d-0123456789abcdef --to shards/
"""


class UsageError(Exception):
    """What is wrong with a command line: the usage of the command, and every fault."""

    def __init__(self, usage: str, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.usage, self.faults = usage, list(faults)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command and its flags. Raises UsageError; `--help` exits."""
    faults = list[str]()
    parser, commands = _parser(faults)
    command = commands.get(argv[0]) if argv else None
    if command is None:
        return parser.parse_args(argv)  # help, or a fault
    given = command.known(argv[1:])
    arguments = argparse.Namespace()
    try:
        arguments = parser.parse_args([argv[0], *given])
    except UsageError as error:
        faults += error.faults
    else:
        faults += _together(arguments)
    if faults:
        raise UsageError(command.format_usage(), faults)
    return arguments


def _together(arguments: argparse.Namespace) -> list[str]:
    """Faults of flags that are each by themselves right."""
    faults, flags = list[str](), vars(arguments)
    if "index" in flags and arguments.index is None:
        if (arguments.tasks or 1) > 1:  # which of them, nobody can guess
            faults.append(
                f"--tasks is {arguments.tasks}: which of them is this? pass --index 0 … {arguments.tasks - 1}"
            )
        arguments.index = 0
    if "format" not in flags or arguments.format is None:
        return faults
    if arguments.format == "tokens" and not (arguments.sequence_length and arguments.over_long):
        faults.append("format tokens needs --sequence-length and --over-long")
    chosen = {name: flags[name] for name in ("format", "read_as", "tokenizer")}
    values = flags | {"fields": tuple(arguments.field)}
    names = (
        "read_as",
        "sequence_length",
        "over_long",
        "tokenizer",
        "end_of_document",
        "text_field",
        "key_field",
        "fields",
    )
    for name in names:
        if why := why_unused(name, values[name], chosen):
            faults.append(f"--{name.removesuffix('s' if name == 'fields' else '').replace('_', '-')} {why}")
    return faults


class _Parser(argparse.ArgumentParser):
    """Collects the faults of values and of flags that are not known; the rest ends the parsing."""

    faults: list[str]

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.format_usage(), [message])

    def flag(self, name: str, type: Callable[[str], Any] = str, **more: Any) -> None:
        """A flag with a value."""

        def convert(text: str) -> Any:
            if text == _NOTHING:
                return None
            try:
                return type(text)
            except argparse.ArgumentTypeError as error:
                self.faults.append(f"argument {name}: {error}")
                return None

        self.add_argument(name, type=convert, **more)

    def known(self, argv: Sequence[str]) -> list[str]:
        """The flags without those that are not known; those without a value have _NOTHING."""
        kept, rest, unknown = list[str](), list(argv), list[str]()
        while rest:
            text = rest.pop(0)
            name, is_given, _ = text.partition("=")
            if text in ("-h", "--help"):
                kept.append(text)
            elif name not in self._option_string_actions:
                unknown.append(text)
                if text.startswith("-") and not is_given and rest and not rest[0].startswith("-"):
                    unknown.append(rest.pop(0))
            elif is_given:
                kept.append(text)
            elif not rest or rest[0].startswith("--"):
                self.faults.append(f"argument {name}: expected a value")
                kept.append(f"{name}={_NOTHING}")
            else:
                kept.append(f"{name}={rest.pop(0)}")
        if unknown:
            self.faults.append(f"unrecognized arguments: {' '.join(unknown)}")
        return kept


def _parser(faults: list[str]) -> tuple[_Parser, Mapping[str, _Parser]]:
    parser = _Parser(
        prog="python -m components.shard", description="Pack a corpus into shards with one data version.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parsers = parser.add_subparsers(dest="command", required=True, metavar="plan|task|merge|all|verify|export")
    commands = dict[str, _Parser]()
    for name, said, flags in (
        ("plan", "decide which inputs become which shards; prints plan_id", (_corpus_flags,)),
        ("task", "make every n-th shard of a plan; tasks may run in any order, and again",
         (_tasks_flags, _plan_flags, _index_flags, _proof_flags)),
        ("merge", "join the tasks' receipts into a data version", (_tasks_flags, _plan_flags)),
        ("all", "plan, all tasks side by side, merge", (_tasks_flags, _corpus_flags, _proof_flags)),
        ("verify", "prove a data version; names shard, offset, expected, found",
         (_tasks_flags, _version_flags, _index_flags, _level_flags)),
        ("export", "copy a data version into a folder that other loaders read", (_version_flags, _to_flags)),
    ):  # fmt: skip
        command = commands[name] = parsers.add_parser(name, help=said, description=said, allow_abbrev=False)
        command.faults = faults
        command.flag("--storage", required=True, help="folder, file:///folder or s3://bucket/prefix")
        for add in flags:
            add(command)
    return parser, commands


def _tasks_flags(parser: _Parser) -> None:
    parser.flag("--tasks", _positive, default=1, help="how many share the work; never changes the bytes")


def _corpus_flags(parser: _Parser) -> None:
    add = parser.flag
    add("--corpus", required=True, help="folder, file, glob, manifest, s3://bucket/prefix or python:stdlib")
    add("--read-as", **_one_of(get_args(ReadAs)), default="auto", help="how records are found; auto goes by suffix")
    add("--format", **_one_of(("tokens", "webdataset", "parquet", "mds")), default="tokens", help="what comes out")
    add("--sequence-length", _positive, help="tokens: tokens in every packed sequence")
    add("--over-long", **_one_of(get_args(OverLong)), help="tokens: what happens to longer documents")
    add("--tokenizer", default="bytes", help="tokens: bytes, or a tokenizer.json")
    add("--end-of-document", help="tokens: the tokenizer's token that ends a document")
    add("--text-field", help="tokens: the field that holds the document")
    add("--key-field", help="other formats: the field of a row that names its sample")
    add("--field", _field, action="append", default=[], metavar="NAME:TYPE",
        help="other formats: a field to keep; again for more")  # fmt: skip
    add("--max-bad-records", _count, default=0, help="records that may be left out, with a quarantine file")
    add("--target-shard-size", _size, default=64 << 20, help="input bytes after which a new shard begins")


def _plan_flags(parser: _Parser) -> None:
    parser.flag("--plan", required=True, help="plan_id, as printed by plan")


def _index_flags(parser: _Parser) -> None:
    parser.flag("--index", _count, help="which of the tasks this is: 0 to tasks - 1")


def _version_flags(parser: _Parser) -> None:
    parser.flag("--version", required=True, help="data version, d-…")


def _to_flags(parser: _Parser) -> None:
    parser.flag("--to", required=True, help="folder to make")


def _level_flags(parser: _Parser) -> None:
    parser.flag("--level", _level, default="digests", help="0 files, 1 digests, 2 records")


def _proof_flags(parser: _Parser) -> None:
    said = "how each task proves the shards it leaves: 0 files, 1 digests, 2 records"
    parser.flag("--verify", _level, default="digests", help=said)


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    def convert(text: str) -> str:
        if text not in values:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(values)}")
        return text

    return {"type": convert, "metavar": f"{{{','.join(values)}}}"}


def _level(text: str) -> ProofLevel:
    level = _LEVELS.get(text, text)
    if level not in get_args(ProofLevel):
        raise argparse.ArgumentTypeError(f"{text!r} is none of 0 files, 1 digests, 2 records")
    return cast(ProofLevel, level)


def _field(text: str) -> SampleField:
    name, _, kind = text.rpartition(":")
    try:
        return SampleField(name=name or text, type=cast(FieldType, kind if name else "bytes"))
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: the type is one of {', '.join(get_args(FieldType))}") from error


def _size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is nothing; write 1B or more")
    return size


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
