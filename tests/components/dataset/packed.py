"""Packed data sets as shard merge leaves them, from the tokens that they shall hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = 4


def write(folder: Path, rows_by_shard: list[list[list[int]]], **options: Any) -> Path:
    """Manifest in one folder, shards in another."""
    (folder / "plans").mkdir(parents=True)
    (folder / "versions").mkdir()
    shards = []
    for place, rows in enumerate(rows_by_shard):
        content = np.array(rows, dtype="<u2").tobytes()
        (folder / "plans" / f"{place}.bin").write_bytes(content)
        file = {"path": f"../plans/{place}.bin", "size_bytes": len(content), "sha256": "0" * 64}
        shards.append({"index": place, "files": [file], "num_sequences": len(rows)})
    manifest = {
        "kind": "shard-manifest", "version": 1, "data_version": "d-1", "shards": shards,
        "options": {"dtype": "uint16", "sequence_length": LENGTH, "vocab_size": 257, "end_of_document": 256, **options},
    }  # fmt: skip
    (folder / "versions" / "manifest.json").write_text(json.dumps(manifest))
    return folder / "versions" / "manifest.json"


def numbered(first: int, count: int) -> list[list[int]]:
    """`count` sequences; sequence i holds nothing but i."""
    return [[number] * LENGTH for number in range(first, first + count)]
