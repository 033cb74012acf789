"""`python -m components.verify PLACE`: verifies any checkpoint anywhere, without a workflow and without a ledger."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from time import monotonic
from typing import Any, NoReturn

from components.contracts.checkpoint import VerifyLevel
from components.contracts.units import format_size
from components.errors import ArgosyError, ExitCode
from components.integrity.examine import Examination
from components.integrity.examine_place import examine_place
from components.integrity.layouts import Layout, recognise
from components.integrity.place import Place, find_place
from components.verify.load import load_files

_NUM_SHOWN = 50
_EPILOG = """\
levels, each with everything before it:
  files    the files are those that were recorded, each of its size
  digests  SHA-256 of every byte, where digests were recorded (MANIFEST.json, Megatron's integrity.json)
  tensors  zip structure and CRC-32 of .pt, .ckpt, .bin and .distcp; header and coverage of .safetensors; .metadata and
           *.index.json against the files they name; NaN and Inf in every tensor. Nothing is unpickled, no torch needed
  load     torch loads it, weights only, in a process of its own without network and with limits

layouts: Argosy, Megatron iter_<n>, HF Trainer checkpoint-<n>, torchtitan step-<n>, Lightning .ckpt, distributed
checkpoints (.metadata), safetensors with or without an index, .pt .pth .bin

exit codes: 0 nothing is wrong, 96 something is, 78 there is no checkpoint that can be read, 75 the storage did not
answer, 81 level load lacks torch or memory

examples:
  python -m components.verify ~/runs/checkpoint-500
  python -m components.verify s3://team-bucket/gpt/step-1000 --level tensors --workers 4 -o json
"""


def is_standalone(argv: Sequence[str]) -> bool:
    """Whether these are a person's arguments, not a stage's."""
    return not any(argument == "--spec" or argument.startswith("--spec=") for argument in argv)


def main(argv: Sequence[str]) -> int:
    """Verify what `argv` names, print what was found, return the exit code."""
    arguments = _parse(argv)
    started = monotonic()
    try:
        place = find_place(arguments.place)
        layout = recognise(place)
        found = _look(place, arguments.level, arguments.workers)
    except ArgosyError as error:
        if arguments.output == "json":
            print(json.dumps({"place": arguments.place, "reason": error.reason, "error": str(error), "fix": error.fix}))
        print(error, file=sys.stderr)
        return int(error.exit_code)
    seconds = monotonic() - started
    if arguments.output == "json":
        print(json.dumps(_as_json(place, layout, arguments.level, found, seconds)))
    else:
        _print(place, layout, arguments.level, found, seconds)
    return int(ExitCode.VERIFICATION_FAILED if found.faults else ExitCode.OK)


def _look(place: Place, level: VerifyLevel, workers: int | None) -> Examination:
    found = examine_place(place, level, workers=workers)
    if level != "load" or found.faults:
        return found
    loaded = load_files(place.store, place.folder, place.files)
    return replace(found, faults=loaded.faults, notes=(*found.notes, *loaded.notes))


def _as_json(place: Place, layout: Layout, level: str, found: Examination, seconds: float) -> dict[str, Any]:
    return {
        "place": place.uri, "layout": layout.kind, "steps": layout.steps, "level": level,
        "verdict": "damaged" if found.faults else "good", "num_files": len(place.files),
        "size_bytes": found.size_bytes, "num_tensors": found.num_tensors, "seconds": round(seconds, 3),
        "faults": [asdict(fault) for fault in found.faults], "notes": list(found.notes),
    }  # fmt: skip


def _print(place: Place, layout: Layout, level: str, found: Examination, seconds: float) -> None:
    for fault in found.faults[:_NUM_SHOWN]:
        print(fault)
    if len(found.faults) > _NUM_SHOWN:
        print(f"and {len(found.faults) - _NUM_SHOWN} more")
    for note in found.notes:
        print(f"note: {note}")
    step = next(iter(layout.steps.values()), None)
    of = f"{layout.kind}, step {step}" if step is not None else layout.kind
    verdict = f"{len(found.faults)} faults" if found.faults else "good"
    print(
        f"{place.uri}: {verdict} ({of}, level {level}): {len(place.files)} files, {format_size(found.size_bytes)},"
        f" {found.num_tensors} tensors, {seconds:.2f} s"
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(int(ExitCode.BAD_INPUT))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m components.verify", description=__doc__, epilog=_EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("place", metavar="PLACE", help="folder, file, file:///... or s3://bucket/...")
    parser.add_argument("--level", choices=("files", "digests", "tensors", "load"), default="tensors")
    parser.add_argument("--workers", type=_count, metavar="N", help="files read at a time (default: one a core)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args(list(argv))


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 64:
        raise argparse.ArgumentTypeError(f"{value} is not between 1 and 64")
    return value
