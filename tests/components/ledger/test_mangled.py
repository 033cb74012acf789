"""Records, snapshots, manifests and receipts with anything in them: refused clearly, no crash, nothing deleted."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.retention import RetentionPolicy
from components.errors import ArgosyError
from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger, LedgerDamaged
from components.ledger.publish import receipts_present
from components.ledger.snapshots import BLOCK
from components.retain.apply import apply_retention
from components.runtime.log import Log
from tests.components.ledger.building import NOW, a_begun_run, a_checkpoint, a_ledger, a_stage, selected
from tests.components.ledger.memory import MemoryStore

LOG = "checkpoints/gpt/v1/log"
ODD_VALUES = [None, True, -1, 0, 2**63, 10**400, 1e308, "", "\x00", "\ud800", "../..", [], {}, [[]], {"kind": "begin"}]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Four checkpoints, three of them verified."""
    store, stage = MemoryStore(), a_stage(tmp_path_factory.mktemp("stage"))
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    for step in (10, 20, 30, 40):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors" if step < 40 else None)
    return store.objects


def mangled(rng: random.Random, data: bytes) -> bytes:
    """Another object: bits, cuts, pieces of JSON where others stood, depth, size."""
    match rng.randrange(7):
        case 0:
            at = rng.randrange(len(data))
            return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[: rng.randrange(len(data))]
        case 2:
            return rng.randbytes(rng.randrange(64))
        case 3:
            return rng.choice(
                [b"[" * 200_000, b'{"change":' * 100_000, b"1" * 1_000_000, b"null", b'"', b"{}", b"\xff\xfe{}"]
            )
        case 4:
            return data + rng.choice([b"}", b" ", b"\n", b"\0", data])
        case _:
            return json.dumps(_with_odd_value(rng, json.loads(data))).encode()


def _with_odd_value(rng: random.Random, value: object) -> object:
    """One field, however deep, is missing, extra or something else."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(sorted(value))
        return rng.choice(
            [
                lambda: {**value, name: _with_odd_value(rng, value[name])},
                lambda: {**value, name: _with_odd_value(rng, value[name])},
                lambda: {key: item for key, item in value.items() if key != name},
                lambda: {**value, "another": rng.choice(ODD_VALUES)},
            ]
        )()
    if isinstance(value, list) and value and rng.random() < 0.8:
        return [*value[:-1], _with_odd_value(rng, value[-1])]
    return rng.choice(ODD_VALUES)


def refused(work: Callable[[], object]) -> ArgosyError | None:
    found: ArgosyError | None = None
    try:
        work()
    except ArgosyError as error:
        found = error
    assert str(found or "").replace("\n", " ").isprintable()
    return found


def cleaned(ledger: Ledger) -> None:
    apply_retention(ledger, RetentionPolicy(keep_last=2), run="r", log=Log({}, io.StringIO()), now=NOW)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), seq=st.integers(1, 9))
def test_a_mangled_record_stops_everything_and_deletes_nothing(objects: dict[str, bytes], seed: int, seq: int) -> None:
    key = f"{LOG}/{seq:012d}.json"
    data = mangled(random.Random(seed), objects[key])
    store = MemoryStore({**objects, key: data})

    error = refused(lambda: a_ledger(store).state())

    assert isinstance(error, LedgerDamaged) or seq == 9 or data == objects[key]
    if error is not None:
        assert any(
            f"{number:012d}.json" in str(error) or f"record {number} " in str(error) for number in (seq, seq + 1)
        )
        assert refused(lambda: cleaned(a_ledger(store)))
        assert refused(lambda: selected(a_ledger(store), "gpt-bbbbb"))
        assert store.objects == {**objects, key: data}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), step=st.sampled_from([10, 20, 30]))
def test_a_mangled_manifest_is_a_damaged_checkpoint_and_another_one_is_resumed_from(
    objects: dict[str, bytes], seed: int, step: int
) -> None:
    entry = a_ledger(MemoryStore(objects)).state().checkpoints[f"step-{step}-term-1"]
    key = f"{entry.folder}/MANIFEST.json"
    data = mangled(random.Random(seed), objects[key])
    store = MemoryStore({**objects, key: data})
    if data == objects[key]:
        return

    faults = verify_checkpoint(store, entry.folder, entry.manifest_sha256, "tensors")
    assert [fault.file for fault in faults] == ["MANIFEST.json"]
    assert str(faults[0]).isprintable()
    assert selected(a_ledger(store), "gpt-bbbbb").step == (20 if step == 30 else 30)
    cleaned(a_ledger(store))
    good = [item for item in a_ledger(store).state().newest_first("verified") if item.step != step]
    assert len(good) >= 2 or step == 10


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_mangled_receipt_is_refused(objects: dict[str, bytes], seed: int) -> None:
    entry = a_ledger(MemoryStore(objects)).state().checkpoints["step-10-term-1"]
    key = f"{entry.folder}/receipts/000000.json"
    store = MemoryStore({**objects, key: mangled(random.Random(seed), objects[key])})

    error = refused(lambda: receipts_present(store, folder=entry.folder, node_ranks=[0]))

    assert error is None or key in str(error)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["snapshot-000000000256.jsonl", "snapshot-newest"]))
def test_a_mangled_snapshot_changes_nothing(long_log: dict[str, bytes], seed: int, name: str) -> None:
    key = f"{LOG}/{name}"
    rng = random.Random(seed)
    lines = long_log[key].splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = mangled(rng, lines[at])
    store = MemoryStore({**long_log, key: b"".join(lines)})

    assert a_ledger(store).state().term == BLOCK + 1


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    from tests.components.ledger.test_snapshots import next_term

    store = MemoryStore()
    ledger = a_ledger(store)
    for _ in range(BLOCK + 1):
        ledger.append(next_term, from_known=True)
    return store.objects


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path) -> None:
    class Growing(MemoryStore):
        def open(self, key: str) -> io.BytesIO:  # type: ignore[override]
            data = self.read(key)
            return io.BytesIO(data + b"more" if key.endswith(".safetensors") else data)

    store = Growing()
    ledger = a_ledger(store)
    manifest = a_checkpoint(ledger, a_stage(tmp_path / "stage"), step=10, term=a_begun_run(ledger))
    entry = ledger.state().checkpoints[manifest.checkpoint]

    (fault,) = verify_checkpoint(store, entry.folder, entry.manifest_sha256, "tensors")

    assert str(fault).startswith("model.safetensors, byte ")
    assert "changed while it was being read" in str(fault)
