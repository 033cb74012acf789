"""Writes the sound and the damaged data sets in `data/` beside this file: one folder a damage, named by what was done.

    python -m tests.damage.make_data_damage [folder]

`sound-<format>/` is a whole data set, as it lies in the storage. `<format>-<damage>/` holds the files that are there
instead of its own, and `expected.json`: which are gone, the lowest level that tells, and what each level says, word for
word. Review the difference: that is where the expectations are checked.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.contracts.dataset import ProofLevel, ShardManifest
from components.dataset.merkle import data_version
from components.dataset.sidecars import sidecars
from components.errors import ArgosyError
from components.runtime.log import Log
from components.shard.verify import verify_version
from components.storage.local import LocalStore
from tests.components.shard.formats import FORMATS, made, rows
from tests.damage.data_damages import BEFORE_IT_WAS_HASHED, DAMAGED, DataSet, Files, damages_of

HERE = Path(__file__).parent / "data"
MADE_IN = Path("/tmp/argosy-make-data-damage")
"""Shards are named by their inputs, the corpus included: the same place gives the same names."""
LEVELS: tuple[ProofLevel, ...] = ("files", "digests", "records")


def sound_data_set(folder: Path, format: str) -> DataSet:
    """Three shards of a few rows; their plan and receipts, which tell of this machine, are left out."""
    corpus = rows(folder / "rows", count=9)
    os.utime(corpus / "rows.jsonl", ns=(0, 0))
    store = LocalStore(folder / format)
    version = made(store, corpus, format, target=300, key_field="id").data_version
    files = {info.key: store.read(info.key) for info in store.list("data") if "data/plans/" not in info.key}
    return DataSet(format, version, files)


def hashed_again(sound: DataSet, files: Files) -> DataSet:
    """As if the damaged shard had been written so: every digest is that of what is there."""
    manifest = ShardManifest.from_bytes(files[f"{sound.folder}/manifest.json"], where="manifest.json")
    shard = manifest.shards[DAMAGED]
    now = []
    for file in shard.files:
        content = files[os.path.normpath(f"{sound.folder}/{file.path}")]
        digest = hashlib.sha256(content).hexdigest()
        now.append(file.model_copy(update={"size_bytes": len(content), "sha256": digest}))
    shards = list(manifest.shards)
    shards[DAMAGED] = shard.model_copy(update={"files": tuple(now)})
    version = data_version(manifest.options, shards)
    manifest = manifest.model_copy(update={"data_version": version, "shards": tuple(shards)})
    kept = {key: data for key, data in files.items() if not key.startswith(sound.folder)}
    written = {**sidecars(manifest), "manifest.json": manifest.to_bytes()}
    beside = {f"data/versions/{version}/{name}": data for name, data in written.items()}
    return DataSet(sound.format, version, {**kept, **beside})


def said_by_every_level(storage: Path, version: str) -> dict[str, list[str]]:
    """What verify finds; for a manifest that cannot be read, that."""
    said = {}
    for level in LEVELS:
        said[level] = list[str]()
        try:
            verify_version(LocalStore(storage), version, level=level, log=Log({}, io.StringIO()))
        except ArgosyError as error:
            lines = str(error).replace(str(storage), "<storage>").removesuffix(f"; {error.fix}").splitlines()
            said[level] = [line.strip() for line in lines[1:]] or lines
    return said


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for key, data in files.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)


def main(root: Path) -> None:
    with contextlib.ExitStack() as cleaning:
        cleaning.callback(shutil.rmtree, MADE_IN)
        for format in FORMATS:
            sound = sound_data_set(MADE_IN, format)
            shutil.rmtree(root / f"sound-{format}", ignore_errors=True)
            write(root / f"sound-{format}", sound.files)
            for damage, happen in damages_of(format).items():
                files = dict(sound.files)
                happen(sound, files)
                _write_damaged(root / f"{format}-{damage}", sound, DataSet(format, sound.version, files))
                if damage in BEFORE_IT_WAS_HASHED[format]:
                    _write_damaged(root / f"{format}-{damage}-before-it-was-hashed", sound, hashed_again(sound, files))


def _write_damaged(folder: Path, sound: DataSet, damaged: DataSet) -> None:
    assert damaged.files != sound.files, folder.name
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), damaged.files)
        said = said_by_every_level(Path(name), damaged.version)
    write(folder, {key: data for key, data in damaged.files.items() if sound.files.get(key) != data})
    expected: dict[str, Any] = {
        "version": damaged.version, "gone": sorted(set(sound.files) - set(damaged.files)),
        "level": next((level for level in LEVELS if said[level]), None), "said": said,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "expected.json").write_text(json.dumps(expected, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
