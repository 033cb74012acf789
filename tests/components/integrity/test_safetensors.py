"""The safetensors reader: agrees with the library, survives every lie in a header, holds nothing in memory."""

import json
import random
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from components.integrity.fault import Fault
from components.integrity.nonfinite import first_nonfinite
from components.integrity.safetensors import SafetensorsInspector


def inspect(data: bytes, *, chunk_bytes: int = 1 << 20) -> list[Fault]:
    inspector = SafetensorsInspector("model.safetensors", len(data))
    for start in range(0, len(data), chunk_bytes):
        inspector.feed(memoryview(data)[start : start + chunk_bytes])
    return inspector.finish()


def some_tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "f32": rng.standard_normal((17, 5)).astype(np.float32),
        "f64": rng.standard_normal(7),
        "f16": rng.standard_normal(9).astype(np.float16),
        "i64": np.arange(5),
        "bool": np.array([True, False, True]),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.array(1.5, np.float32),
        "u8": np.full(11, 255, np.uint8),
    }


@pytest.mark.parametrize("chunk_bytes", [1, 3, 7, 64, 1 << 20])
def test_what_the_library_wrote_is_in_order(chunk_bytes: int) -> None:
    assert inspect(save(some_tensors(), metadata={"format": "np"}), chunk_bytes=chunk_bytes) == []


@pytest.mark.parametrize("chunk_bytes", [1, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize(
    ("name", "index", "value"), [("f32", (16, 4), "NaN"), ("f64", (6,), "Inf"), ("f16", (0,), "-Inf")]
)
def test_one_value_that_is_not_finite_is_found_at_its_byte(
    name: str, index: tuple[int, ...], value: str, chunk_bytes: int
) -> None:
    tensors = some_tensors()
    tensors[name][index] = float(value)
    data = save(tensors)
    (header_length,) = struct.unpack("<Q", data[:8])
    begin, _ = json.loads(data[8 : 8 + header_length])[name]["data_offsets"]
    flat = int(np.ravel_multi_index(index, tensors[name].shape))

    offset = 8 + header_length + begin + flat * tensors[name].itemsize
    assert inspect(data, chunk_bytes=chunk_bytes) == [
        Fault("model.safetensors", "is not finite", offset, name, "finite values", value)
    ]


@pytest.mark.parametrize(
    ("dtype", "pattern", "value"),
    [
        ("F32", 0x7F7FFFFF, None), ("F32", 0xFF7FFFFF, None), ("F32", 0x7F800000, "Inf"), ("F32", 0xFF800000, "-Inf"),
        ("F32", 0x7F800001, "NaN"), ("F32", 0xFFFFFFFF, "NaN"), ("F64", 0x7FEFFFFFFFFFFFFF, None),
        ("F64", 0xFFF0000000000000, "-Inf"), ("F16", 0x7BFF, None), ("F16", 0xFC00, "-Inf"), ("F16", 0x7E00, "NaN"),
        ("BF16", 0x7F7F, None), ("BF16", 0xFF7F, None), ("BF16", 0x7F80, "Inf"), ("BF16", 0xFFC0, "NaN"),
        ("F8_E5M2", 0x7B, None), ("F8_E5M2", 0x7C, "Inf"), ("F8_E5M2", 0xFD, "NaN"),
        ("F8_E4M3", 0x7E, None), ("F8_E4M3", 0xFE, None), ("F8_E4M3", 0x7F, "NaN"), ("F8_E4M3", 0xFF, "NaN"),
        ("F8_E8M0", 0xFE, None), ("F8_E8M0", 0xFF, "NaN"),
        ("F8_E4M3FNUZ", 0x7F, None), ("F8_E4M3FNUZ", 0xFF, None), ("F8_E4M3FNUZ", 0x80, "NaN"),
        ("F8_E5M2FNUZ", 0x81, None), ("F8_E5M2FNUZ", 0x80, "NaN"), ("C64", 0x7F800000, "Inf"),
    ],
)  # fmt: skip
def test_bit_patterns_are_judged_as_their_format_says(dtype: str, pattern: int, value: str | None) -> None:
    size = {"F64": 8, "F32": 4, "C64": 4, "F16": 2, "BF16": 2}.get(dtype, 1)
    data = bytes(3 * size) + pattern.to_bytes(size, "little") + bytes(2 * size)

    found = first_nonfinite(memoryview(data), dtype)

    assert (None if found is None else (found.offset, found.value)) == (None if value is None else (3 * size, value))


def test_a_name_with_control_characters_is_shown_without_them() -> None:
    (fault,) = inspect(save({"a\x1b[31m\n": np.array([np.nan], np.float32)}))

    assert fault.tensor == "a?[31m?"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_mangled_file_never_crashes_the_reader(seed: int, num_changes: int) -> None:
    rng = random.Random(seed)
    data = bytearray(save(some_tensors()))
    for _ in range(num_changes):
        position = rng.randrange(min(len(data), 600))
        match rng.randrange(4):
            case 0:
                data[position] ^= 1 << rng.randrange(8)
            case 1:
                del data[position : position + rng.randrange(1, 9)]
            case 2:
                data[position:position] = rng.choice(
                    [b"[", b"{", b'"', b"-1", b"99999999999999999999", b"\xff", b"1e999"]
                )
            case 3:
                data[:8] = struct.pack("<Q", rng.choice([0, 1, 2, 7, len(data), 2**63, 2**64 - 1, rng.randrange(900)]))

    for fault in inspect(bytes(data), chunk_bytes=rng.choice([1, 13, 4096])):
        assert str(fault).isprintable()


HOSTILE = """
import struct, sys
from components.integrity.safetensors import SafetensorsInspector
import components.integrity.nonfinite
def header(kind, size):
    unit = {"numbers": b"999,", "brackets": b"[],", "strings": b'"a",', "keys": b'"a":1,', "digits": b"1"}[kind]
    text = (b'{"w":[' if kind != "keys" else b'{"w":{') + unit * (size // len(unit))
    return text.rstrip(b",") + (b"]}" if kind != "keys" else b"}}")
text = header(sys.argv[1], int(sys.argv[2]))
data = struct.pack("<Q", len(text)) + text
inspector = SafetensorsInspector("w", len(data))
inspector.feed(memoryview(data))
problem = inspector.finish()[0].problem
# Not ru_maxrss: that survives an exec, so it would tell how large the test process is.
print(problem, open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.parametrize("kind", ["numbers", "brackets", "strings", "keys", "digits"])
def test_a_hostile_header_of_the_largest_size_stays_within_memory(kind: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", HOSTILE, kind, str((6 << 20) - 64)], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[3], timeout=60,
    )  # fmt: skip

    problem, kib = result.stdout.rsplit(maxsplit=1)
    assert problem
    assert int(kib) < 150 * 1024


def test_memory_does_not_grow_with_the_file() -> None:
    inspector = SafetensorsInspector("w", 8 + 80 + (1 << 30))
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1 << 29], "data_offsets": [0, 1 << 30]}}).encode().ljust(80)
    inspector.feed(memoryview(struct.pack("<Q", 80) + header))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chunk = memoryview(bytes(1 << 20))
    for _ in range(1 << 10):
        inspector.feed(chunk)

    assert inspector.finish() == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024
