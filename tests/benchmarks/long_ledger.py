"""A ledger of ten thousand records on a real S3 server: reading it, selecting from it, and retention beside it."""

import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from components.contracts.gang import ResumeRule
from components.contracts.retention import RetentionPolicy
from components.ledger.log import Ledger
from components.ledger.select import select_source
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.benchmarks.measure import Figure
from tests.fakes.s3_proxy import S3Proxy, running_proxy
from tests.fakes.s3_server import S3Server

ROUNDS = 5


def figures(filled: LocalStore, folder: Path) -> Iterator[Figure]:
    """`filled` holds the ledger e/v1 and, as its newest, one real checkpoint."""
    server = S3Server(folder)
    try:
        store = server.new_store()
        keys = [item.key for item in filled.list("checkpoints")]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.replace(key, filled.read(key)), keys))
        num_records = Ledger(store, "e", "v1").state().seq
        best = min(_seconds_to_fold(store) for _ in range(ROUNDS))
        yield Figure(f"S3: fold of {num_records} records, best of {ROUNDS}", best, "s", 1.0)
        with running_proxy(server.port) as proxy:
            seen = S3Store(store._place, server.client_of(proxy.endpoint))
            yield from _requests(seen, proxy)
    finally:
        server.close()


def _seconds_to_fold(store: S3Store) -> float:
    began = time.perf_counter()
    Ledger(store, "e", "v1").state()
    return time.perf_counter() - began


def _requests(store: S3Store, proxy: S3Proxy) -> Iterator[Figure]:
    Ledger(store, "e", "v1").state()
    yield Figure("S3: listings to fold it", _num_listings(proxy), "", 1)
    rule = ResumeRule(source="latest", on_new_data="refuse")
    began = time.perf_counter()
    select_source(Ledger(store, "e", "v1"), store, resume=rule, data_version="d-0", run="r2")
    yield Figure("S3: select from it, through a proxy", time.perf_counter() - began, "s", 1.0)
    policy = RetentionPolicy(keep_last=2, keep_every_steps=1)
    for sweeps in (False, True):
        proxy.behave()
        ledger, log = Ledger(store, "e", "v1"), Log({}, io.StringIO())
        apply_retention(ledger, policy, run="r", log=log, now=datetime.now(UTC), sweeps=sweeps)
        what = "with a sweep for orphans" if sweeps else "beside running ranks"
        yield Figure(f"S3: listings of a retention {what}", _num_listings(proxy), "", 6)


def _num_listings(proxy: S3Proxy) -> int:
    return sum(method == "GET" and "list-type=2" in path for method, path in proxy.seen)
