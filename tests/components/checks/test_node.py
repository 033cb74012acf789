"""All checks of a node together, against a real packed data set."""

from pathlib import Path
from typing import Any

import pytest

from components.checks.node import node_checks
from components.contracts.checks import CheckResult, CheckStatus
from components.contracts.dataset import PackingCounts, PackingOptions, Shard, ShardManifest, StoredFile
from components.contracts.gang import GangLimits, GangSpec, ResumeRule
from components.contracts.layout import shard_key, shard_manifest_key
from components.storage.local import LocalStore

DATA = "d-0123456789abcdef"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Holds a data set of one shard of 4 bytes and an index of 2."""
    store = LocalStore(tmp_path / "storage")
    files = []
    for suffix, content in (("bin", b"abcd"), ("idx", b"xy")):
        key = shard_key("e-1", suffix=suffix)
        store.create(key, content)
        files.append(StoredFile(path=f"../../../{key}", size_bytes=len(content), sha256="0" * 64))
    shard = Shard(index=0, files=tuple(files), num_sequences=1, num_tokens=2, num_padding=0, num_documents=1)
    manifest = ShardManifest(
        data_version=DATA, plan_id="p-1", options=PackingOptions(sequence_length=2, over_long="split"), shards=(shard,),
        bad_records=(), counts=PackingCounts(),
    )  # fmt: skip
    store.create(shard_manifest_key(DATA), manifest.to_bytes())
    return store


def results(
    store: LocalStore, tmp_path: Path, *, readings: Any = None, node_rank: int = 0, **changes: Any
) -> dict[str, CheckResult]:
    (tmp_path / "train.py").touch()
    spec = GangSpec(
        run="r-1", generation=0, experiment="e", model_version="v1", storage=store.uri, data_version=DATA, num_nodes=2,
        nproc_per_node=2, command=("sh", "-c", "true"), start="rank", workdir=str(tmp_path), env={}, seed=1,
        limits=GangLimits(start_seconds=1.0, run_seconds=1.0, no_progress_seconds=1.0, stop_seconds=1.0),
        run_seconds_used=0.0, max_restarts=0, checkpoint=None, resume=ResumeRule(source="latest", on_new_data="refuse"),
        memory_per_rank_bytes=1 << 20, begin_reason="first", begin_charged=False, coordinator_host="127.0.0.1",
        coordinator_port=0, coordinator_file=str(tmp_path / "port"),
    )  # fmt: skip
    answers = node_checks(
        spec.model_copy(update=changes), node_rank=node_rank, workdir=tmp_path / "node", readings=readings or {},
        store=store,
    )  # fmt: skip
    return {answer.name: answer for answer in answers}


def test_a_fit_node_passes_everything(store: LocalStore, tmp_path: Path) -> None:
    answers = results(store, tmp_path)
    assert [name for name, answer in answers.items() if answer.blocks] == []
    assert set(answers) == {
        "program", "torch", "memory", "cores", "accelerators", "shared_memory", "open_files", "disk_space",
        "storage_writable", "clock", "shard_manifest", "port",
    }  # fmt: skip
    assert answers["shard_manifest"].measured == "2 files of 1 shards"


def test_only_the_first_node_needs_a_port_to_meet_at(store: LocalStore, tmp_path: Path) -> None:
    assert "port" not in results(store, tmp_path, node_rank=1)


def test_what_the_guard_measured_is_judged_instead_of_this_machine(store: LocalStore, tmp_path: Path) -> None:
    readings = {
        "memory_available_bytes": 3 << 20, "memory_origin": "cgroup limit 3.0 MiB", "cores": 1.0, "shm_bytes": 5,
        "open_files": 10, "devices": {"is_there": True, "exit_code": None, "output": ""}, "visible_devices": None,
        "packages": {"torch": "2.0+cpu"},
    }  # fmt: skip
    answers = results(store, tmp_path, readings=readings)
    assert answers["memory"].measured == "3.0 MiB available (cgroup limit 3.0 MiB): room for 3 of 4 ranks"
    assert answers["accelerators"].status is CheckStatus.UNKNOWN
    assert answers["torch"].measured == "torch 2.0+cpu, gloo"
    assert {answers[name].status for name in ("cores", "shared_memory", "open_files")} == {CheckStatus.WARN}


def test_a_pod_whose_own_limit_is_too_small_fits_on_no_other_node_either(store: LocalStore, tmp_path: Path) -> None:
    limited = {"memory_available_bytes": 3 << 20, "memory_origin": "container limit", "memory_limit_bytes": 4 << 20}
    program = {"path": "/bin/true", "obstacle": ""}

    in_a_pod = results(store, tmp_path, readings={**limited, "program": program})["memory"]
    assert (in_a_pod.status, in_a_pod.scope) == (CheckStatus.FAIL, "input")
    assert in_a_pod.measured == "3.0 MiB available (container limit 4.0 MiB): room for 3 of 4 ranks"
    assert in_a_pod.remedy.startswith("raise launch.resources.memory")

    here = results(store, tmp_path, readings=limited)["memory"]
    assert (here.status, here.scope) == (CheckStatus.FAIL, "node")


def test_devices_the_description_hides_do_not_count(store: LocalStore, tmp_path: Path) -> None:
    readings = {
        "devices": {"is_there": True, "exit_code": 0, "output": "0, T4, 15360, 550.1\n"}, "visible_devices": None,
    }  # fmt: skip
    answer = results(store, tmp_path, readings=readings, env={"CUDA_VISIBLE_DEVICES": ""})["accelerators"]
    assert answer.measured == "none visible (CUDA_VISIBLE_DEVICES=): a CPU run"


def test_agents_on_different_machines_count_their_own_ranks_only(store: LocalStore, tmp_path: Path) -> None:
    answers = results(store, tmp_path, coordinator_file="", readings={"memory_available_bytes": 3 << 20})
    assert answers["memory"].status is CheckStatus.OK
    assert answers["memory"].expected == "2.0 MiB for 2 ranks of 1.0 MiB"


def test_a_program_that_is_not_there_is_told(store: LocalStore, tmp_path: Path) -> None:
    answer = results(store, tmp_path, command=("./nothing",))["program"]
    assert (answer.status, answer.scope) == (CheckStatus.FAIL, "input")


def test_the_path_of_the_description_decides_which_program_it_is(store: LocalStore, tmp_path: Path) -> None:
    answer = results(store, tmp_path, command=("sh",), env={"PATH": "/nowhere"})["program"]
    assert "PATH (/nowhere)" in answer.measured


def test_a_shard_that_is_missing_or_cut_is_named(store: LocalStore, tmp_path: Path) -> None:
    path = store.root / shard_key("e-1", suffix="bin")
    path.write_bytes(b"abc")
    (store.root / shard_key("e-1", suffix="idx")).unlink()
    answer = results(store, tmp_path)["shard_manifest"]
    assert (answer.status, answer.scope) == (CheckStatus.FAIL, "environment")
    assert "e-1.bin has 3 bytes instead of 4" in answer.measured
    assert "e-1.idx is missing" in answer.measured


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "does not exist"), (b"{", "is not a readable ShardManifest"), (b"{}", "is not a readable ShardManifest")],
)
def test_a_manifest_that_is_missing_or_damaged_is_told(
    store: LocalStore, tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = store.root / shard_manifest_key(DATA)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert told in results(store, tmp_path)["shard_manifest"].measured


def test_a_manifest_of_another_data_version_is_refused(store: LocalStore, tmp_path: Path) -> None:
    other = "d-ffffffffffffffff"
    store.create(shard_manifest_key(other), store.read(shard_manifest_key(DATA)))
    assert results(store, tmp_path, data_version=other)["shard_manifest"].measured == f"the manifest is of {DATA}"
