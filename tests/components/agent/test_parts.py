"""The small parts: staging marks, log chunks, environments, the curve, the Specs of verify and retain."""

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from components.agent.logs import LogStreams
from components.agent.messages import Start
from components.agent.node_checks import visible_gpus
from components.agent.ranks import AttemptPaths, node_processes, rank_environment
from components.agent.staging import Staging, ready_marks
from components.agent.step_curve import StepCurve
from components.agent.upkeep import retain_spec, verify_spec
from components.contracts.document import read_spec
from components.contracts.gang import GangSpec, StepView
from components.errors import ArgosyError
from components.retain.spec import RetainSpec
from components.storage.base import AlreadyExists
from components.storage.local import LocalStore
from components.verify.spec import VerifySpec
from tests.components.agent.test_coordinator import a_spec

# --- staging


def a_step(folder: Path, name: str, *marks: str) -> None:
    (folder / name).mkdir()
    for mark in marks:
        (folder / name / mark).touch()


def test_a_step_is_handed_out_once_in_order_when_its_mark_is_there(tmp_path: Path) -> None:
    staging = Staging(tmp_path, ["READY"])
    a_step(tmp_path, "step-10")
    assert staging.poll() == []
    (tmp_path / "step-10/READY").touch()
    a_step(tmp_path, "step-9", "READY")
    a_step(tmp_path, "step-11.tmp", "READY")
    a_step(tmp_path, "step-x", "READY")
    assert [step for step, _ in staging.poll()] == [9, 10]
    assert staging.poll() == []


def test_a_step_below_the_last_one_comes_too_late(tmp_path: Path) -> None:
    staging = Staging(tmp_path, ["READY"])
    a_step(tmp_path, "step-10", "READY")
    staging.poll()
    a_step(tmp_path, "step-5", "READY")
    assert staging.poll() == []


def test_a_linked_folder_is_no_step(tmp_path: Path) -> None:
    a_step(tmp_path, "elsewhere", "READY")
    (tmp_path / "step-1").symlink_to(tmp_path / "elsewhere")
    assert Staging(tmp_path, ["READY"]).poll() == []


@pytest.mark.parametrize(
    ("writers", "ranks", "marks"),
    [
        ("rank0", [0, 1], ["READY"]),
        ("rank0", [2, 3], []),
        ("all", [2, 3], ["READY.2", "READY.3"]),
    ],
)
def test_whose_marks_a_node_waits_for(writers: str, ranks: list[int], marks: list[str]) -> None:
    assert ready_marks(writers=writers, ranks=ranks) == marks


def test_a_node_without_writers_publishes_nothing(tmp_path: Path) -> None:
    a_step(tmp_path, "step-1", "READY")
    assert Staging(tmp_path, []).poll() == []


# --- logs


class _Refusing(LocalStore):
    """A store at the wire's end that refuses, or loses its answer."""

    trouble = ""

    def create_from(self, key: str, source: Path) -> str:
        if self.trouble == "refuses":
            raise ArgosyError("StorageRefused", "no")
        digest = super().create_from(key, source)
        if self.trouble == "loses the answer":
            raise ArgosyError("StorageNotAnswering", "?")
        return digest


@pytest.mark.parametrize("trouble", ["refuses", "loses the answer"])
def test_chunks_that_cannot_be_uploaded_are_kept_and_come_in_order(tmp_path: Path, trouble: str) -> None:
    store = _Refusing(tmp_path / "store")
    streams = LogStreams(tmp_path / "spool", store, lambda stream, number: f"logs/{stream}/{number}")
    stream = streams.get("a")
    stream.write(b"one\n")
    store.trouble = trouble
    assert streams.upload() is not None
    stream.write(b"two\n")
    store.trouble = ""
    assert streams.upload() is None
    assert [store.read(f"logs/a/{number}") for number in (0, 1)] == [b"one\n", b"two\n"]
    assert list((tmp_path / "spool/a").iterdir()) == []


def test_nothing_new_uploads_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    streams = LogStreams(tmp_path / "spool", store, lambda stream, number: f"logs/{stream}/{number}")
    streams.get("a").write(b"one\n")
    streams.upload()
    streams.upload()
    assert [info.key for info in store.list("logs")] == ["logs/a/0"]
    with pytest.raises(AlreadyExists):
        store.create("logs/a/0", b"")


def test_a_flood_is_uploaded_in_chunks(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    streams = LogStreams(tmp_path / "spool", store, lambda stream, number: f"logs/{stream}/{number}")
    for _ in range(10):
        streams.get("a").write(b"x" * (1 << 20))
    streams.upload()
    assert [info.size_bytes >> 20 for info in store.list("logs")] == [4, 4, 2]


# --- environment

START = Start(attempt=2, term=3, master_addr="10.0.0.1", master_port=4711)


def environment(
    spec: GangSpec, process: int, devices: Sequence[int] = (), **inherited: str
) -> dict[str, str | None]:  # fmt: skip
    return rank_environment(
        spec, START, node_rank=process // spec.nproc_per_node, process=process, paths=AttemptPaths(Path("/w/a")),
        data="/s/manifest.json", resume="", inherited=inherited, devices=devices,
    )  # fmt: skip


def test_a_rank_finds_torchruns_variables() -> None:
    found = environment(a_spec(nproc_per_node=4), 6)
    expected = {
        "RANK": "6", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1", "NODE_RANK": "1",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4711", "TORCHELASTIC_RUN_ID": "toy-bcdfg-g0-2",
        "TORCHELASTIC_RESTART_COUNT": "2", "ARGOSY_DATA": "/s/manifest.json", "ARGOSY_RESUME": "", "ARGOSY_SEED": "1",
        "ARGOSY_CHECKPOINTS": "/w/a/checkpoints", "ARGOSY_CHECKPOINT_EVERY_STEPS": "10", "ARGOSY_STOP": "/w/a/stop",
        "ARGOSY_PROGRESS": "/w/a/progress/rank-6.jsonl", "ARGOSY_RUN": "toy-bcdfg", "ARGOSY_EXPERIMENT": "toy",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert not any(name.startswith("PET_") for name in found)


def test_a_node_process_finds_torchruns_options_and_no_rank() -> None:
    found = environment(a_spec(nproc_per_node=4, start="node"), 4, RANK="9", PET_NNODES="77")
    assert node_processes(a_spec(nproc_per_node=4, start="node"), 1) == [4]
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"], found["PET_NODE_RANK"]) == ("2", "4", "1")
    assert (found["PET_MASTER_PORT"], found["PET_MAX_RESTARTS"]) == ("4711", "0")
    assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"]) == (None, None, None)


def test_stale_variables_of_an_outer_torchrun_are_removed() -> None:
    found = environment(a_spec(), 0, PET_NNODES="77", ARGOSY_OUT="/x")
    assert (found["PET_NNODES"], found["ARGOSY_OUT"], found["ARGOSY_STOP_FILE"]) == (None, None, None)


def test_the_description_may_set_threads_but_not_the_rank() -> None:
    found = environment(a_spec(env={"OMP_NUM_THREADS": "3", "RANK": "9", "LR": "0.1"}), 0)
    assert (found["OMP_NUM_THREADS"], found["RANK"], found["LR"]) == ("3", "0", "0.1")


def test_threads_are_shared_by_the_ranks_of_a_machine() -> None:
    cores = len(os.sched_getaffinity(0))
    here = environment(a_spec(num_nodes=2, coordinator_file="/f"), 0)
    assert here["OMP_NUM_THREADS"] == str(max(1, cores // 2))
    assert "OMP_NUM_THREADS" not in environment(a_spec(num_nodes=2, coordinator_file="/f"), 0, OMP_NUM_THREADS="8")
    assert "OMP_NUM_THREADS" not in environment(a_spec(num_nodes=2), 0)


def test_the_nodes_of_one_machine_share_its_gpus_out() -> None:
    spec = a_spec(num_nodes=2, nproc_per_node=2, coordinator_file="/f")
    seen = [environment(spec, process, devices=(0, 2, 3, 5, 7))["CUDA_VISIBLE_DEVICES"] for process in range(4)]
    assert seen == ["0,2", "0,2", "3,5", "3,5"]


def test_gpus_are_left_alone_when_there_are_too_few_or_each_node_has_its_own() -> None:
    too_few = environment(a_spec(num_nodes=2, nproc_per_node=2, coordinator_file="/f"), 0, devices=(0, 1, 2))
    elsewhere = environment(a_spec(num_nodes=2, nproc_per_node=2), 0, devices=(0, 1, 2, 3))
    assert "CUDA_VISIBLE_DEVICES" not in too_few
    assert "CUDA_VISIBLE_DEVICES" not in elsewhere


@pytest.mark.parametrize(
    ("readings", "gpus"),
    [
        ({}, ()),
        ({"devices": {"exit_code": None, "output": ""}}, ()),
        ({"devices": {"exit_code": 0, "output": "0, H100, 81559, 550\n1, H100, 81559, 550\n"}}, (0, 1)),
        (
            {"devices": {"exit_code": 0, "output": "0, H100, 81559, 550\n1, H100, 81559, 550"}, "visible_devices": "1"},
            (1,),
        ),
        ({"devices": {"exit_code": 0, "output": "garbage"}}, ()),
    ],
)
def test_gpus_are_counted_from_what_the_guard_saw(readings: dict[str, Any], gpus: tuple[int, ...]) -> None:
    assert visible_gpus(readings) == gpus


def test_without_checkpoints_there_is_no_staging_folder() -> None:
    found = environment(a_spec(checkpoint=None), 0)
    assert (found["ARGOSY_CHECKPOINTS"], found["ARGOSY_CHECKPOINT_EVERY_STEPS"]) == (None, None)


# --- the curve


def a_view(step: int) -> StepView:
    return StepView(step=step, at="2026-11-29T12:00:00.000Z", loss=1.0 / (step + 1))


def test_a_long_curve_keeps_its_shape_and_its_end() -> None:
    curve = StepCurve()
    for step in range(1, 10_001):
        curve.add(a_view(step), {})
    steps = [view.step for view in curve.views]
    assert 300 < len(steps) <= 1000
    assert steps[0] == 1
    gaps = {later - earlier for earlier, later in itertools.pairwise(steps[1:])}
    assert max(gaps) <= 2 * min(gaps)
    assert curve.last == a_view(10_000)


def test_steps_made_again_replace_those_that_were_lost() -> None:
    curve = StepCurve()
    for step in (1, 2, 3, 4):
        curve.add(a_view(step), {"loss": float(step)})
    curve.add(a_view(3), {"loss": 30.0})
    assert [view.step for view in curve.views] == [1, 2, 3]
    assert curve.metrics_at(3) == {"loss": 30.0}
    assert curve.metrics_at(9) == {"loss": 30.0}
    assert curve.metrics_at(0) == {}


# --- children


def test_verify_and_retain_understand_what_they_are_told() -> None:
    spec = a_spec()
    assert spec.checkpoint is not None
    verify = read_spec(VerifySpec, json.dumps(verify_spec(spec, spec.checkpoint)))
    retain = read_spec(RetainSpec, json.dumps(retain_spec(spec, spec.checkpoint)))
    assert (verify.experiment, verify.level, verify.has_checkpoints) == ("toy", "files", True)
    assert retain.policy == spec.checkpoint.retain
