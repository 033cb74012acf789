"""How many bits a value of each dtype has, and which dtype a torch name means. Codes are those of safetensors."""

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""What a safetensors file may hold."""

_TORCH_ONLY = {"C32": 32, "C128": 128, "QI8": 8, "QU8": 8, "QI32": 32, "QU4X2": 8, "QU2X4": 8}

_OF_DTYPE = {
    "float32": "F32", "float": "F32", "float64": "F64", "double": "F64", "float16": "F16", "half": "F16",
    "bfloat16": "BF16", "int8": "I8", "uint8": "U8", "int16": "I16", "short": "I16", "int32": "I32", "int": "I32",
    "int64": "I64", "long": "I64", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "complex32": "C32", "chalf": "C32", "complex64": "C64", "cfloat": "C64", "complex128": "C128", "cdouble": "C128",
    "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "qint8": "QI8", "quint8": "QU8", "qint32": "QI32", "quint4x2": "QU4X2", "quint2x4": "QU2X4",
}  # fmt: skip

_OF_STORAGE = {
    "FloatStorage": "F32", "DoubleStorage": "F64", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "CharStorage": "I8", "ByteStorage": "U8", "ShortStorage": "I16", "IntStorage": "I32", "LongStorage": "I64",
    "BoolStorage": "BOOL", "ComplexFloatStorage": "C64", "ComplexDoubleStorage": "C128", "UntypedStorage": "U8",
    "QInt8Storage": "QI8", "QUInt8Storage": "QU8", "QInt32Storage": "QI32", "QUInt4x2Storage": "QU4X2",
    "QUInt2x4Storage": "QU2X4",
}  # fmt: skip


def of_torch_dtype(name: str) -> str | None:
    """`bfloat16` -> `BF16`; None for a name that torch does not know."""
    return _OF_DTYPE.get(name)


def of_torch_storage(name: str) -> str | None:
    """`BFloat16Storage` -> `BF16`; an untyped storage counts bytes."""
    return _OF_STORAGE.get(name)


def size_of(dtype: str) -> int:
    """Bytes of one value of a torch dtype."""
    return (BITS.get(dtype) or _TORCH_ONLY[dtype]) // 8
