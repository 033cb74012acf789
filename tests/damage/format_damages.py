"""What a program can write wrongly in each format: recorded with the right digests, and damaged all the same."""

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable

from torch_like import (
    Called,
    Named,
    archive,
    chunk,
    described,
    metadata,
    pickled,
    placed,
    tensor,
    zipped,
)

Files = dict[str, bytes]


def f32(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def safetensors(**tensors: bytes) -> bytes:
    header, data = {}, b""
    for name, raw in tensors.items():
        header[name] = {"dtype": "F32", "shape": [len(raw) // 4], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


FOUR, NAN = f32(1, 2, 3, 4), f32(1, float("nan"), 3, 4)
STATE = {"model": {"w": tensor("0", [2, 2]), "b": tensor("1", [1])}, "step": 300}
MODEL = archive(STATE, {"0": FOUR, "1": f32(5)})
W, B = archive({"w": tensor("0", [2, 2])}, {"0": FOUR}), archive({"b": tensor("0", [1])}, {"0": f32(5)})


def edited(data: bytes, change: Callable[[bytearray], object]) -> bytes:
    copy = bytearray(data)
    change(copy)
    return bytes(copy)


def replaced(data: bytes, old: bytes, new: bytes, *, which: int = 0) -> bytes:
    at = -1
    for _ in range(which + 1):
        at = data.index(old, at + 1)
    return data[:at] + new + data[at + len(old) :]


def runs(module: str, name: str, *args: object) -> bytes:
    return pickled({"model": {"w": tensor("0", [2, 2])}, "surprise": Called(Named(module, name), *args)})


def torch_file(pickle: bytes) -> Files:
    return {"model.pt": archive(None, {"0": FOUR}, pickle=pickle)}


SOURCE = "open('harm', 'w')"
HIDDEN = Called(Named("builtins", "getattr"), Called(Named("builtins", "list")), "__class__")
LONG_WORDS = b"\x80\x02" + b"\x8d" + struct.pack("<Q", 1 << 60) + b"w" + b"."
# Sixty lists, each fifty times the one before it: small, unless somebody walks it.
MEMO_BOMB = b"\x80\x02(lq\x00" + b"".join(b"0(" + b"h\x00" * 50 + b"lq\x00" for _ in range(60)) + b"."
NESTED = b"\x80\x02" + b"(" * 40_000 + b"t" * 40_000 + b"."

TORCH: dict[str, Files] = {
    "pt-bit-flip-under-its-crc": {"model.pt": replaced(MODEL, FOUR, f32(1, 2, 3, -4))},
    "pt-cut-in-half": {"model.pt": MODEL[: len(MODEL) // 2]},
    "pt-empty": {"model.pt": b""},
    "pt-only-zeros": {"model.pt": bytes(64)},
    "pt-not-torch": {"model.pt": b"<html>404 Not Found</html>"},
    "pt-nan": {"model.pt": archive(STATE, {"0": NAN, "1": f32(5)})},
    "pt-inf-in-bf16": {
        "model.pt": archive({"h": tensor("0", [2], kind="BFloat16Storage")}, {"0": b"\x80\x3f\x80\x7f"})
    },
    "pt-storage-missing": {"model.pt": archive(STATE, {"0": FOUR})},
    "pt-storage-too-short": {"model.pt": archive(STATE, {"0": FOUR[:12], "1": f32(5)})},
    "pt-storage-nobody-uses": {"model.pt": archive(STATE, {"0": FOUR, "1": f32(5), "2": f32(6)})},
    "pt-tensor-beyond-its-storage": {"model.pt": archive({"w": tensor("0", [2, 2], offset=2, count=4)}, {"0": FOUR})},
    "pt-storage-of-two-sizes": {
        "model.pt": archive({"a": tensor("0", [4]), "b": tensor("0", [2], count=2)}, {"0": FOUR})
    },
    "pt-compressed-like-a-bomb": {
        "model.pt": zipped({"m/data.pkl": pickled({}), "m/data/0": bytes(100_000)}, method=zipfile.ZIP_DEFLATED)
    },
    "pt-entries-overlap": {
        "model.pt": replaced(MODEL, struct.pack("<I", MODEL.index(b"PK\x03\x04", 40)) + b"archive/byteorder",
                             struct.pack("<I", 8) + b"archive/byteorder")
    },
    "pt-directory-elsewhere": {
        "model.pt": edited(MODEL, lambda data: data.__setitem__(slice(-6, -2), struct.pack("<I", 1 << 30)))
    },
    "pt-entry-named-twice": {
        "model.pt": MODEL.replace(b"archive/data/1", b"archive/data/0")
    },
    "pt-pickle-cut": torch_file(pickled(STATE)[:-20]),
    "pt-pickle-recalls-nothing": torch_file(b"\x80\x02h\x07."),
    "pt-pickle-of-a-huge-text": torch_file(LONG_WORDS),
    "pt-pickle-of-a-huge-number": torch_file(b"\x80\x02\x8b" + struct.pack("<i", 2000) + bytes(2000) + b"."),
    "pt-pickle-memo-bomb": torch_file(MEMO_BOMB),
    "pt-pickle-nested-too-deep": torch_file(NESTED[:-2]),
    "pt-runs-os-system": torch_file(runs("os", "system", "touch harm")),
    "pt-runs-eval": torch_file(runs("builtins", "eval", SOURCE)),
    "pt-runs-posix-behind-a-dot": torch_file(runs("torch.serialization", "os.system", "touch harm")),
    "pt-takes-objects-apart": torch_file(pickled({"x": HIDDEN})),
    "pt-plain-pickle-runs-subprocess": {
        "model.pt": pickled(Called(Named("subprocess", "check_call"), ["touch", "harm"]))
    },
    "bin-runs-code": {"pytorch_model.bin": torch_file(runs("__builtin__", "exec", SOURCE))["model.pt"]},
    "ckpt-cut-at-its-head": {"last.ckpt": b"\0\0" + MODEL[2:]},
}  # fmt: skip


DATA = "__0_0.distcp"


def dcp(table: bytes | None = None, **files: bytes) -> Files:
    """Two tensors in one file, or what is said instead."""
    return {".metadata": TABLE if table is None else table, "__0_0.distcp": W + B, **files}


def table(**changes: object) -> bytes:
    tensors = {"w": described([2, 2], [chunk([0, 0], [2, 2])]), "b": described([1], [chunk([0], [1])])}
    places = {
        "w": placed("w", [0, 0], "__0_0.distcp", 0, len(W)),
        "b": placed("b", [0], "__0_0.distcp", len(W), len(B)),
    }
    for name, change in changes.items():
        kind, _, tensor_name = name.partition("_")
        (tensors if kind == "type" else places)[tensor_name] = change  # type: ignore[index,assignment]
    return metadata(tensors, [place for place in places.values() if place is not None])


TABLE = table()
HALVES = [chunk([0, 0], [1, 2]), chunk([1, 0], [1, 2])]
BAD_W = archive({"w": tensor("0", [2, 2])}, {"0": NAN})
assert len(BAD_W) == len(W)

DISTRIBUTED: dict[str, Files] = {
    "dcp-bit-flip-under-its-crc": dcp(**{"__0_0.distcp": replaced(W + B, f32(5), f32(-5))}),
    "dcp-nan": dcp(**{"__0_0.distcp": BAD_W + B}),
    "dcp-file-missing": {".metadata": TABLE},
    "dcp-file-of-another-save": dcp(**{"__1_0.distcp": W}),
    "dcp-file-cut": dcp(**{"__0_0.distcp": W + B[:-30]}),
    "dcp-bytes-nobody-owns": dcp(**{"__0_0.distcp": W + B + b"left over"}),
    "dcp-pieces-overlap": dcp(table(place_b=placed("b", [0], "__0_0.distcp", len(W) - 100, len(B)))),
    "dcp-piece-beyond-the-file": dcp(table(place_b=placed("b", [0], "__0_0.distcp", 1 << 40, len(B)))),
    "dcp-chunk-has-no-place": dcp(table(type_w=described([2, 2], HALVES))),
    "dcp-chunks-cover-too-little": dcp(table(type_w=described([4, 2], [chunk([0, 0], [2, 2])]))),
    "dcp-chunk-outside-its-tensor": dcp(table(type_w=described([2, 2], [chunk([1, 0], [2, 2])]))),
    "dcp-tensor-without-place": dcp(table(place_b=None), **{"__0_0.distcp": W}),
    "dcp-other-shape-than-said": dcp(table(type_w=described([1, 4], [chunk([0, 0], [1, 4])]))),
    "dcp-other-dtype-than-said": dcp(table(type_b=described([1], [chunk([0], [1])], dtype="bfloat16"))),
    "dcp-pieces-swapped": dcp(**{"__0_0.distcp": B + W}),
    "dcp-metadata-cut": dcp(TABLE[:200]),
    "dcp-metadata-empty": dcp(b""),
    "dcp-metadata-not-of-a-checkpoint": dcp(pickled({"a": 1})),
    "dcp-metadata-runs-code": dcp(pickled(Called(Named("os", "system"), "touch harm"))),
    "dcp-metadata-runs-code-inside": dcp(table(type_w=Called(Named("builtins", "exec"), SOURCE))),
    "dcp-metadata-names-a-foreign-class": dcp(table(type_w=Called(Named("my.package", "Tensor")))),
    "dcp-metadata-path-leaves-the-folder": dcp(table(place_b=placed("b", [0], "../secret", 0, 10))),
    "dcp-metadata-memo-bomb": dcp(MEMO_BOMB),
    "dcp-metadata-negative-place": dcp(table(place_b=placed("b", [0], "__0_0.distcp", -5, len(B)))),
}  # fmt: skip


def sharded(total: int = 20, **changes: bytes | None) -> Files:
    weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = {"metadata": {"total_size": total}, "weight_map": weights}
    files: dict[str, bytes | None] = {
        "model.safetensors": None, weights["a"]: safetensors(a=FOUR), weights["b"]: safetensors(b=f32(5)),
        "model.safetensors.index.json": json.dumps(index).encode(), **changes,
    }  # fmt: skip
    return {path: data for path, data in files.items() if data is not None}


SECOND = "model-00002-of-00002.safetensors"
INDEXED: dict[str, Files] = {
    "index-file-missing": sharded(**{SECOND: None}),
    "index-tensor-missing": sharded(16, **{SECOND: safetensors()}),
    "index-tensor-too-many": sharded(24, **{SECOND: safetensors(b=f32(5), c=f32(6))}),
    "index-file-too-many": sharded(**{"model-00003-of-00003.safetensors": safetensors(z=f32(1))}),
    "index-of-another-size": sharded(4_000),
    "index-without-weights": sharded(**{"model.safetensors.index.json": b'{"weight_map": 3}'}),
}


def megatron(**digests: str) -> Files:
    files = {"common.pt": MODEL}
    said = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()} | digests
    return files | {"integrity.json": json.dumps({"algorithm": "sha256", "files": said}).encode()}


MEGATRON: dict[str, Files] = {
    "megatron-digest-differs": megatron(**{"common.pt": "0" * 64}),
    "megatron-file-missing": megatron(**{"__0_0.distcp": "0" * 64}),
    "megatron-digests-unreadable": megatron() | {"integrity.json": b'{"algorithm": "sha256", "files": [1]}'},
}

FORMAT_DAMAGES = TORCH | DISTRIBUTED | INDEXED | MEGATRON
