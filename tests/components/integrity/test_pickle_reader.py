"""Pickles are read, never run: plain values come out right, hostile ones end in bounded time and memory."""

import contextlib
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.integrity.dcp_metadata import read_dcp_metadata
from components.integrity.pickle_reader import read_pickle
from components.integrity.pickle_values import BadPickle, Made, Pairs, RunsCode, TooLarge
from components.integrity.torch_pickle import read_torch_pickle
from tests.damage.torch_like import chunk, described, metadata, placed

ROOT = Path(__file__).parents[3]
SOUND = ROOT / "tests" / "sound"
METADATA = (SOUND / "torchtitan" / "step-300" / ".metadata").read_bytes()

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


def as_plain(value: Any) -> Any:
    """What the reader yields, as the values it stands for."""
    if isinstance(value, Pairs):
        return {value[i]: as_plain(value[i + 1]) for i in range(0, len(value), 2)}
    if isinstance(value, list | tuple):
        return type(value)(as_plain(item) for item in value)
    return value


@settings(max_examples=200, deadline=None, derandomize=True)
@given(plain, st.integers(0, 5))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    assert as_plain(read_pickle(pickle.dumps(value, protocol))) == value


def test_a_value_that_contains_itself_is_read() -> None:
    value: list[Any] = []
    value.append(value)

    read = read_pickle(pickle.dumps(value))

    assert read[0] is read


class Harm:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("depth", [0, 3])
def test_a_call_is_named_and_never_made(tmp_path: Path, protocol: int, depth: int) -> None:
    value: Any = Harm(tmp_path / "harm")
    for _ in range(depth):
        value = {"inner": [value, (1, value)]}
    data = pickle.dumps(value, protocol)

    made = read_pickle(data)
    with pytest.raises(RunsCode, match=r"would run posix\.system when it is loaded"):
        read_torch_pickle(data)
    with pytest.raises(RunsCode, match=r"names posix\.system, which no distributed checkpoint needs"):
        read_dcp_metadata(data, path=".metadata")

    assert isinstance(made, Made if depth == 0 else Pairs)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"), ("posix", "system"), ("nt", "system"), ("subprocess", "Popen"), ("builtins", "eval"),
        ("builtins", "exec"), ("builtins", "__import__"), ("builtins", "open"), ("__builtin__", "compile"),
        ("runpy", "run_path"), ("socket", "socket"), ("importlib", "import_module"), ("pty", "spawn"),
        ("shutil", "rmtree"), ("torch", "load"), ("torch.hub", "load"), ("torch.serialization", "os.system"),
        ("numpy.testing._private.utils", "runstring"), ("types", "CodeType"), ("operator", "attrgetter"),
        ("builtins", "list.__class__"), ("multiprocessing.util", "spawnv_passfds"), ("pickle", "loads"),
    ],
)  # fmt: skip
def test_what_runs_code_is_told(module: str, name: str) -> None:
    data = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93."

    with pytest.raises(RunsCode):
        read_torch_pickle(data)


HOSTILE = {
    "lists": b"]" * (8 << 20),
    "dictionaries": b"}" * (8 << 20),
    "marks": b"(" * (8 << 20),
    "tuples in tuples": b")" + b"\x85" * (8 << 20),
    "lists in lists": b"]" + b"]a" * (4 << 20),
    "memo": b"N" + b"".join(b"r" + struct.pack("<I", i) for i in range(1_500_000)),
    "twice the last": b"N" + b"2\x86" * (4 << 20),
    "a list into itself": b"]q\x00" + b"h\x00a" * (2 << 20),
    "texts": b"X\x04\x00\x00\x00word" * 900_000,
    "numbers": b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f" * 800_000,
    "long lines": (b"cos\n" + b"x" * 1000 + b"\n") * 8_000,
    "globals": b"".join(b"ca%06d\nb\n" % i for i in range(700_000)),
    "persistent": b"N" + b"Q" * (8 << 20),
    "calls": b"ca\nb\n" + b")R" * (4 << 20),
    "builds": b"ca\nb\n)\x81" + b"Nb" * (4 << 20),
    "bytes": b"C\x40" + b"x" * 64 + (b"C\x40" + b"x" * 64) * 100_000,
    "digits": b"I" + b"9" * 2_000 + b"\n.",
    "endless text": b"\x8d" + b"\xff" * 8,
    "endless bytes": b"\x8e" + b"\x7f" * 8,
    "endless number": b"\x8b\xff\xff\xff\x7f",
    "endless frame": b"\x95" + b"\xff" * 8,
}
PROGRAM = """
import resource, sys, time
from pathlib import Path
from components.integrity.pickle_values import BadPickle, TooLarge
from components.integrity.torch_pickle import read_torch_pickle
from tests.damage.torch_like import chunk, described, metadata, placed
data = Path(sys.argv[1]).read_bytes()
before = time.process_time()
try:
    read_torch_pickle(data)
    print("read", end=" ")
except (BadPickle, TooLarge) as error:
    print(type(error).__name__, end=" ")
print(time.process_time() - before, open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_ends_soon_and_stays_small(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes((b"\x80\x02" + HOSTILE[name])[: 8 << 20])

    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )

    verdict, seconds, kib = result.stdout.split()
    assert verdict in ("BadPickle", "TooLarge", "RunsCode")
    assert float(seconds) < 30
    assert int(kib) < 150 * 1024


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_pickle, read_torch_pickle, lambda text: read_dcp_metadata(text, path=".metadata")):
        with contextlib.suppress(BadPickle, TooLarge):
            read(data)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_a_mangled_metadata_is_read_or_refused(seed: int, num_changes: int) -> None:
    rng = random.Random(seed)
    data = bytearray(METADATA)
    for _ in range(num_changes):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randrange(1, 40)]
            case 2:
                data[at:at] = rng.choice([b"(", b"t", b"R", b"0", b"2", b"N", b"\x94", b"h\x00", b"J\xff\xff\xff\xff"])
            case 3:
                other = rng.randrange(len(data))
                data[at : at + 20] = data[other : other + 20]
    try:
        table = read_dcp_metadata(bytes(data), path=".metadata")
    except (BadPickle, TooLarge):
        return
    assert all(str(fault).isprintable() for fault in table.faults)


def test_the_metadata_of_two_ranks_is_read_whole() -> None:
    table = read_dcp_metadata(METADATA, path=".metadata")

    assert [(tensor.name, tensor.spelled) for tensor in table.tensors] == [
        ("model.layer.weight", "F32[4,3]"), ("model.layer.bias", "BF16[4]"), ("model.count", "I64[3]"),
    ]  # fmt: skip
    assert {file: [piece.name for piece in pieces] for file, pieces in table.pieces.items()} == {
        "__0_0.distcp": ["model.layer.weight", "model.layer.bias", "model.count"],
        "__1_0.distcp": ["train_state.step", "model.layer.weight", "model.layer.bias", "model.count"],
    }
    assert table.faults == []


def wide_metadata(*, num_tensors: int, num_chunks: int) -> bytes:
    names = [f"model.layers.{i}.attention.wq.weight" for i in range(num_tensors)]
    chunks = [chunk([8 * i, 0], [8, 64]) for i in range(num_chunks)]
    return metadata(
        {name: described([8 * num_chunks, 64], chunks) for name in names},
        [placed(name, [8 * i, 0], f"__{i}_0.distcp", at * 2000, 2000)
         for at, name in enumerate(names) for i in range(num_chunks)],
    )  # fmt: skip


def test_a_large_metadata_is_read_quickly() -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    table = read_dcp_metadata(wide_metadata(num_tensors=1_500, num_chunks=8), path=".metadata")

    assert (len(table.tensors), len(table.pieces), table.faults) == (1_500, 8, [])
    assert time.process_time() - started < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 90 * 1024
