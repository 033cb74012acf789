"""One packer packs the same samples once, in a process of its own: time, CPU and peak memory as a line of JSON.

    python packers.py CASE PROFILE FOLDER

Standard library at the top: mosaicml-streaming's environment runs this file too. Samples come out of memory for every
packer; only the whole stage reads them from tars.
"""

import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROFILES = {"small": (120_000, 1024, 4096), "large": (2_000, 102_400, 102_400)}
"""Number of samples, and their least and greatest size."""
SHARD_BYTES = 64 << 20


def samples(profile: str) -> Iterator[bytes]:
    count, least, most = PROFILES[profile]
    chance = random.Random(11)
    pool = chance.randbytes(16 << 20)
    for _ in range(count):
        size = least if least == most else chance.randint(least, most)
        start = chance.randrange(len(pool) - most)
        yield pool[start : start + size]


def nothing(profile: str, folder: Path) -> None:
    """What making the samples takes, to be subtracted."""
    for _ in samples(profile):
        pass


def raw(profile: str, folder: Path) -> None:
    """One write a sample, and nothing else: no packer can be faster."""
    number, size = 0, 0
    file = open(folder / "0", "wb", buffering=1 << 20)  # noqa: SIM115
    for sample in samples(profile):
        if size + len(sample) > SHARD_BYTES:
            file.close()
            number, size = number + 1, 0
            file = open(folder / str(number), "wb", buffering=1 << 20)  # noqa: SIM115
        file.write(sample)
        size += len(sample)
    file.close()


def webdataset(profile: str, folder: Path) -> None:
    from webdataset import ShardWriter

    with ShardWriter(f"{folder}/%06d.tar", maxsize=SHARD_BYTES, maxcount=1 << 40, verbose=0, mtime=0) as writer:
        for number, sample in enumerate(samples(profile)):
            writer.write({"__key__": f"{number:09d}", "bin": sample})


def streaming(profile: str, folder: Path) -> None:
    from streaming import MDSWriter

    with MDSWriter(
        out=str(folder / "mds"), columns={"bin": "bytes"}, size_limit=SHARD_BYTES, hashes=["sha256"]
    ) as writer:
        for sample in samples(profile):
            writer.write({"bin": sample})


def ours(profile: str, folder: Path, format: str) -> None:
    """What a task does with each shard once it has the samples: format, digests of blocks, SHA-256, atomic publish."""
    from components.contracts.dataset import SampleField
    from components.dataset.batches import Column, Sample, batched
    from components.dataset.formats import mds, webdataset
    from components.dataset.output import Outputs
    from components.shard.pack import without_collector
    from components.shard.publish import publish_from
    from components.storage.local import LocalStore

    columns, store, source = (Column("bin", "bytes"),), LocalStore(folder / "storage"), enumerate(samples(profile))

    def some() -> Iterator[Sample]:
        size = 0
        for number, sample in source:
            yield Sample(f"{number:09d}", columns, (sample,))
            size += len(sample)
            if size > SHARD_BYTES:
                return

    for shard in range(1 << 30):
        with Outputs() as outputs, without_collector():
            is_mds = format == "mds"
            writer = (
                mds.MdsWriter((SampleField(name="bin", type="bytes"),), outputs)
                if is_mds
                else webdataset.WebdatasetWriter(outputs)
            )
            for batch in batched(some()):
                writer.add(batch)
            if not writer.num_samples:
                return
            (file,) = writer.finish()
            sha256 = publish_from(store, f"{shard}.{format}", file.path)
            if is_mds:
                mds.hashes_of(file, sha256=sha256)


def stage(profile: str, folder: Path, format: str) -> None:
    """A whole task: the samples are read from tars and their headers checked."""
    from components.contracts.dataset import SampleOptions
    from components.runtime.log import Log
    from components.shard.plan import make_plan
    from components.shard.spec import ShardSpec
    from components.shard.task import run_task
    from components.storage.local import LocalStore

    store, log = LocalStore(folder / "storage"), Log({}, sys.stderr)
    spec = ShardSpec(
        corpus=str(folder.parent / f"tars-{profile}"), options=SampleOptions(format=format),  # type: ignore[arg-type]
        max_bad_records=0, num_tasks=1, target_shard_bytes=SHARD_BYTES,
    )  # fmt: skip
    plan_id, _ = make_plan(store, spec, workdir="", log=log)
    run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=log)


CASES: dict[str, Callable[[str, Path], None]] = {
    "nothing": nothing, "raw": raw, "webdataset": webdataset, "streaming": streaming,
    "ours-webdataset": lambda profile, folder: ours(profile, folder, "webdataset"),
    "ours-mds": lambda profile, folder: ours(profile, folder, "mds"),
    "stage-webdataset": lambda profile, folder: stage(profile, folder, "webdataset"),
    "stage-mds": lambda profile, folder: stage(profile, folder, "mds"),
    "stage-parquet": lambda profile, folder: stage(profile, folder, "parquet"),
}  # fmt: skip
_IMPORTS = {
    "webdataset": ["webdataset"], "streaming": ["streaming"],
    "ours": ["components.shard.pack", "components.storage.local"],
    "stage": ["components.shard.pack", "components.shard.plan"],
}  # fmt: skip


def main(case: str, profile: str, folder: Path) -> None:
    import importlib

    for name in _IMPORTS.get(case.partition("-")[0], []):
        importlib.import_module(name)  # what a library takes to load is measured apart
    folder.mkdir(parents=True)
    cpu, began = time.process_time(), time.perf_counter()
    CASES[case](profile, folder)
    os.sync()
    print(json.dumps({
        "cpu": time.process_time() - cpu, "wall": time.perf_counter() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "bytes": sum(len(sample) for sample in samples(profile)), "samples": PROFILES[profile][0],
    }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
