"""S3 through our store against plain boto3 on the same server, in pairs; what a folder costs stands beside it."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.benchmarks.measure import Figure
from tests.fakes.s3_server import S3Server

NUM_SMALL, SMALL_BYTES = 150, 4 << 10
NUM_LARGE, LARGE_BYTES = 5, 64 << 20


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        server = S3Server(Path(folder, "s3"))
        try:
            yield from _small(server.new_store(), server.client)
            yield from _large(server.new_store(), server.client, Path(folder))
        finally:
            server.close()
        store = LocalStore(Path(folder, "storage"))
        yield Figure("create 4 KiB in a folder, durable", _seconds(_creates(store), NUM_SMALL) * 1e3, "ms")


def _small(store: S3Store, client: Any) -> Iterator[Figure]:
    data, bucket = os.urandom(SMALL_BYTES), store.uri.removeprefix("s3://")
    plain = {"put": _plain_puts(client, bucket, data), "get": _plain_gets(client, bucket)}
    ours = {"put": _creates(store, data), "get": lambda number: store.read(f"ours/{number}")}
    for verb in ("put", "get"):
        ratio, seconds = _paired(ours[verb], plain[verb], NUM_SMALL)
        yield Figure(f"{verb} 4 KiB, conditional and checksummed / plain boto3", ratio, "ratio", 1.3)
        yield Figure(f"{verb} 4 KiB", seconds * 1e3, "ms")


def _large(store: S3Store, client: Any, folder: Path) -> Iterator[Figure]:
    path, bucket = folder / "large", store.uri.removeprefix("s3://")
    path.write_bytes(os.urandom(LARGE_BYTES))

    def plain_put(number: int) -> None:
        with path.open("rb") as file:
            client.put_object(Bucket=bucket, Key=f"plain/{number}", Body=file)

    def plain_get(number: int) -> None:
        for _ in client.get_object(Bucket=bucket, Key=f"plain/{number}")["Body"].iter_chunks(1 << 20):
            pass

    def our_get(number: int) -> None:
        buffer = bytearray(1 << 20)
        with store.open(f"ours/{number}") as stream:
            while stream.readinto(buffer):  # type: ignore[attr-defined]
                pass

    put, seconds = _paired(lambda number: store.create_from(f"ours/{number}", path), plain_put, NUM_LARGE)
    yield Figure("put 64 MiB from a file / plain boto3", put, "ratio", 1.3)
    yield Figure("put 64 MiB from a file", LARGE_BYTES / 1e6 / seconds, "MB/s")
    get, seconds = _paired(our_get, plain_get, NUM_LARGE)
    yield Figure("get 64 MiB as a stream / plain boto3", get, "ratio", 1.2)
    yield Figure("get 64 MiB as a stream", LARGE_BYTES / 1e6 / seconds, "MB/s")


def _plain_puts(client: Any, bucket: str, data: bytes) -> Callable[[int], object]:
    return lambda number: client.put_object(Bucket=bucket, Key=f"plain/{number}", Body=data)


def _plain_gets(client: Any, bucket: str) -> Callable[[int], object]:
    return lambda number: client.get_object(Bucket=bucket, Key=f"plain/{number}")["Body"].read()


def _creates(store: ObjectStore, data: bytes = b"x" * SMALL_BYTES) -> Callable[[int], object]:
    return lambda number: store.create(f"ours/{number}", data)


def _paired(ours: Callable[[int], object], plain: Callable[[int], object], count: int) -> tuple[float, float]:
    """Median of (ours / plain), each pair measured back to back, and the median of ours in seconds."""
    ratios, seconds = [], []
    for number in range(count):
        began = time.perf_counter()
        plain(number)
        between = time.perf_counter()
        ours(number)
        ended = time.perf_counter()
        ratios.append((ended - between) / (between - began))
        seconds.append(ended - between)
    return statistics.median(ratios), statistics.median(seconds)


def _seconds(work: Callable[[int], object], count: int) -> float:
    began = time.perf_counter()
    for number in range(count):
        work(number)
    return (time.perf_counter() - began) / count
