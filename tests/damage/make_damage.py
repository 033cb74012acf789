"""Writes the broken checkpoints beside this file: one folder a damage, named by what was done.

    python tests/damage/make_damage.py [folder]

Each holds `checkpoint/` as it lies in the store, `manifest.sha256` as the ledger knows it, and `expected.json`, written
by hand: the lowest level that finds the damage, and every finding word for word. The same bytes come out every time.
"""

import hashlib
import json
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from format_damages import FORMAT_DAMAGES

HERE = Path(__file__).parent
Files = dict[str, bytes]


def tensors(entries: dict[str, tuple[str, list[int], bytes]], **header_changes: object) -> bytes:
    """A safetensors file; `header_changes` replace entries of its header."""
    header: dict[str, object] = {}
    data = b""
    for name, (dtype, shape, raw) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return with_header(json.dumps({**header, **header_changes}).encode(), data)


def with_header(text: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def f32(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def entry(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WEIGHTS = {"layer.0.weight": ("F32", [2, 2], f32(1, 2, 3, 4)), "layer.0.bias": ("F32", [2], f32(5, 6))}
GOOD: Files = {
    "model.safetensors": tensors(WEIGHTS),
    "optimizer.safetensors": tensors({"exp_avg": ("F32", [6], f32(0, 0, 0, 0, 0, 1))}),
    "state.json": b'{"step": 300, "position": 9600}',
}


@dataclass
class Damage:
    """What the program wrote, and what then happened to the store."""

    written: Files = field(default_factory=dict)
    """Replaces files of GOOD before the manifest is made: the program itself wrote nonsense."""
    happened: Callable[[Files], object] = lambda stored: None
    """Changes the stored files, MANIFEST.json among them."""


def flip(path: str, offset: int) -> Callable[[Files], object]:
    def happened(stored: Files) -> None:
        data = bytearray(stored[path])
        data[offset] ^= 0x10
        stored[path] = bytes(data)

    return happened


def cut(path: str, size: int) -> Callable[[Files], object]:
    return lambda stored: stored.update({path: stored[path][:size]})


def swap(stored: Files) -> None:
    stored["a.json"], stored["b.json"] = stored["b.json"], stored["a.json"]


def model(data: bytes) -> Files:
    return {"model.safetensors": data}


MODEL = "model.safetensors"
FOUR = f32(1, 2, 3, 4)
ENTRY = json.dumps(entry(0, 16, [4])).encode()
NAN16, INF_BF16 = b"\x00\x3c\x01\x7e", b"\x80\x3f\x80\xff"

DAMAGES = {
    "bit-flip-in-a-tensor": Damage(happened=flip(MODEL, -1)),
    "bit-flip-in-a-header": Damage(happened=flip(MODEL, 12)),
    "cut-inside-the-data": Damage(happened=cut(MODEL, 170)),
    "cut-to-nothing": Damage(happened=cut("state.json", 0)),
    "file-missing": Damage(happened=lambda stored: stored.pop("optimizer.safetensors")),
    "file-too-many": Damage(happened=lambda stored: stored.update({"left-over.bin": b"x"})),
    "files-swapped": Damage(written={"a.json": b"[1]", "b.json": b"[2]"}, happened=swap),
    "grown-by-one-byte": Damage(happened=lambda stored: stored.update({MODEL: stored[MODEL] + b"\0"})),
    "manifest-missing": Damage(happened=lambda stored: stored.pop("MANIFEST.json")),
    "manifest-edited": Damage(happened=flip("MANIFEST.json", 40)),
    "manifest-cut": Damage(happened=cut("MANIFEST.json", 100)),
    "two-damages-at-once": Damage(happened=lambda stored: (stored.pop("state.json"), flip(MODEL, -1)(stored))
    ),
    "nan-in-f32": Damage(written=model(tensors({"w": ("F32", [4], f32(1, 2, float("nan"), 4))}))),
    "inf-in-f64": Damage(written=model(tensors({"w": ("F64", [1], struct.pack("<d", float("inf")))}))),
    "nan-in-f16": Damage(written=model(tensors({"w": ("F16", [2], NAN16)}))),
    "minus-inf-in-bf16": Damage(written=model(tensors({"w": ("BF16", [2], INF_BF16)}))),
    "nan-in-f8-e4m3": Damage(written=model(tensors({"w": ("F8_E4M3", [2], b"\x01\xff")}))),
    "nan-in-two-tensors": Damage(written=model(tensors({name: ("F32", [1], f32(float("nan"))) for name in ("a", "b")}))
    ),
    "header-length-beyond-the-file": Damage(written=model(struct.pack("<Q", 1 << 40) + b"{}" + FOUR)),
    "header-length-cut": Damage(written=model(b"\x10\0\0")),
    "header-not-json": Damage(written=model(with_header(b"{w: 1}", FOUR))),
    "header-not-an-object": Damage(written=model(with_header(b"[1, 2]", FOUR))),
    "header-nested-too-deep": Damage(written=model(with_header(b'{"a":' + b"[" * 4000, FOUR))),
    "tensor-named-twice": Damage(written=model(with_header(b'{"w":%s,"w":%s}' % (ENTRY, ENTRY), FOUR))),
    "tensors-overlap": Damage(written=model(tensors(WEIGHTS, **{"layer.0.bias": entry(8, 16, [2])}))),
    "hole-between-tensors": Damage(written=model(with_header(json.dumps({"w": entry(4, 16, [3])}).encode(), FOUR))
    ),
    "bytes-no-tensor-owns": Damage(written=model(with_header(json.dumps({"w": entry(0, 12, [3])}).encode(), FOUR))
    ),
    "tensor-beyond-the-file": Damage(written=model(with_header(json.dumps({"w": entry(0, 32, [8])}).encode(), FOUR))
    ),
    "shape-and-size-disagree": Damage(written=model(with_header(json.dumps({"w": entry(0, 16, [5])}).encode(), FOUR))
    ),
    "negative-shape": Damage(written=model(with_header(json.dumps({"w": entry(0, 16, [-4])}).encode(), FOUR))
    ),
    "unknown-dtype": Damage(written=model(with_header(json.dumps({"w": entry(0, 16, [4], "F31")}).encode(), FOUR))
    ),
    "offsets-missing": Damage(written=model(with_header(b'{"w": {"dtype": "F32", "shape": [4]}}', FOUR))),
    "state-not-json": Damage(written={"state.json": b'{"step": 300'}),
    "state-not-utf-8": Damage(written={"state.json": b'{"step": "\xff"}'}),
    "name-leaves-the-folder": Damage(written={"../../log/000000000001.json": b"{}"}),
}  # fmt: skip


def manifest_of(files: Files) -> bytes:
    listed = [
        {"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in sorted(files.items())
    ]
    value = {
        "kind": "checkpoint-manifest", "version": 1, "checkpoint": "step-300-term-2", "experiment": "gpt",
        "model_version": "v1", "data_version": "d-0123456789abcdef", "run": "gpt-aaaaa", "term": 2, "step": 300,
        "world_size": 2, "metrics": {"loss": 2.5}, "files": listed,
    }  # fmt: skip
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def make(folder: Path, damage: Damage) -> None:
    written = {**GOOD, **damage.written}
    manifest = manifest_of(written)
    stored = {**written, "MANIFEST.json": manifest}
    damage.happened(stored)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    for path, data in stored.items():
        if ".." not in path:
            target = folder / "checkpoint" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    (folder / "manifest.sha256").write_text(hashlib.sha256(manifest).hexdigest() + "\n")


def main(root: Path) -> None:
    written = {name: Damage(written=files) for name, files in FORMAT_DAMAGES.items()}
    for name, damage in {**DAMAGES, **written}.items():
        make(root / name, damage)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
