"""Data sets of every format, made as the stage makes them, and what real loaders make of them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from components.contracts.dataset import PackingOptions, ReadOptions, SampleOptions, ShardManifest
from components.runtime.log import Log
from components.shard.export import export_version
from components.shard.spec import ShardSpec
from components.storage.base import ObjectStore
from tests.components.shard.building import shard

LOG = Log({})
READERS = Path(__file__).parents[3] / ".venv-readers" / "bin" / "python"
FORMATS = ("tokens", "webdataset", "parquet", "mds")


def rows(folder: Path, *, count: int = 300, name: str = "rows.jsonl", first: int = 0) -> Path:
    """JSON lines of text, a whole number, a fraction and a list."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"id": f"r{n}", "text": f"number {n} " * (n % 7 + 1), "n": n, "half": n / 2, "tags": ["é", n]})
        for n in range(first, first + count)
    ]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def spec(corpus: object, format: str, *, num_tasks: int = 1, target: int = 4000, **more: Any) -> ShardSpec:
    """`key_field` names the samples of the formats that have names."""
    if format == "tokens":
        more.pop("key_field", None)
    read = ReadOptions(**{key: more.pop(key) for key in list(more) if key in ReadOptions.model_fields})
    options = (
        PackingOptions(sequence_length=more.pop("sequence_length", 16), over_long=more.pop("over_long", "split"))
        if format == "tokens"
        else SampleOptions(format=format)  # type: ignore[arg-type]
    )
    chosen: dict[str, Any] = {"max_bad_records": 0} | more
    return ShardSpec(
        corpus=str(corpus), read=read, options=options, num_tasks=num_tasks, target_shard_bytes=target, **chosen
    )


def made(store: ObjectStore, corpus: object, format: str, **more: Any) -> ShardManifest:
    """The data set of a corpus."""
    return shard(store, spec(corpus, format, **more))


def exported(store: ObjectStore, manifest: ShardManifest, to: Path) -> Path:
    return export_version(store, manifest.data_version, to=to, log=LOG)


def in_readers(program: str, *arguments: object) -> Any:
    """What a program prints as JSON that runs where mosaicml-streaming is installed."""
    done = subprocess.run(
        [str(READERS), "-W", "ignore", "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
