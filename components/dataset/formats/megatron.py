"""Megatron-Core's indexed dataset: `.bin` holds the tokens and nothing else, `.idx` says where each sequence lies.

The index, little endian: MMIDIDX and two zero bytes, version u64 = 1, dtype code u8, number of sequences u64, number of
documents + 1 u64; then int32 lengths, int64 byte offsets, int64 document starts. Here every packed sequence is one
document of its own: Megatron must not move the boundaries that packing chose.
"""

import struct

import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
DTYPE_CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def index_bytes(num_sequences: int, *, sequence_length: int, dtype: str) -> bytes:
    """The `.idx` of `num_sequences` sequences of equal length."""
    header = MAGIC + struct.pack("<QBQQ", VERSION, DTYPE_CODES[dtype], num_sequences, num_sequences + 1)
    lengths = np.full(num_sequences, sequence_length, dtype="<i4")
    offsets = np.arange(num_sequences, dtype="<i8") * (sequence_length * np.dtype(dtype).itemsize)
    document_starts = np.arange(num_sequences + 1, dtype="<i8")
    return header + lengths.tobytes() + offsets.tobytes() + document_starts.tobytes()
