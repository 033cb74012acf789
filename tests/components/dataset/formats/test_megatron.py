"""The index file, read back by a reader written from the format's description alone."""

import struct
from pathlib import Path

import numpy as np

from components.dataset.formats.megatron import index_bytes
from components.dataset.packing import SequencePacker


def test_the_index_is_byte_for_byte_megatron_cores() -> None:
    assert index_bytes(2, sequence_length=3, dtype="uint16") == (
        b"MMIDIDX\x00\x00"
        b"\x01\x00\x00\x00\x00\x00\x00\x00"  # version
        b"\x08"  # uint16
        b"\x02\x00\x00\x00\x00\x00\x00\x00"  # sequences
        b"\x03\x00\x00\x00\x00\x00\x00\x00"  # documents + 1
        b"\x03\x00\x00\x00\x03\x00\x00\x00"  # lengths
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"  # byte offsets
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    )


def read_indexed_dataset(prefix: Path) -> list[list[int]]:
    """All sequences of a .bin/.idx pair."""
    index, tokens = prefix.with_suffix(".idx").read_bytes(), prefix.with_suffix(".bin").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, num_sequences, num_documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    kind = {4: "<i4", 8: "<u2"}[code]
    place = 34
    lengths = struct.unpack_from(f"<{num_sequences}i", index, place)
    place += 4 * num_sequences
    offsets = struct.unpack_from(f"<{num_sequences}q", index, place)
    place += 8 * num_sequences
    starts = struct.unpack_from(f"<{num_documents}q", index, place)
    assert place + 8 * num_documents == len(index)
    assert starts == tuple(range(num_sequences + 1))
    return [
        np.frombuffer(tokens, dtype=kind, count=length, offset=offset).tolist()
        for length, offset in zip(lengths, offsets, strict=True)
    ]


def test_a_packed_pair_is_read_by_an_independent_reader(tmp_path: Path) -> None:
    for dtype in ("uint16", "int32"):
        rows = bytearray()
        packer = SequencePacker(sequence_length=4, end_of_document=256, dtype=dtype, write=rows.extend)
        packer.add(np.frombuffer(b"hello", dtype=np.uint8))
        packer.finish()
        (tmp_path / "x.bin").write_bytes(rows)
        (tmp_path / "x.idx").write_bytes(index_bytes(2, sequence_length=4, dtype=dtype))

        assert read_indexed_dataset(tmp_path / "x") == [[104, 101, 108, 108], [111, 256, 256, 256]]
