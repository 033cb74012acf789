"""A real PyTorch training, 2 × 2, from a corpus in S3: what comes out is what the same values give on one machine."""

import os
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contracts.layout import node_checks_key
from tests.cluster.harness import PATIENCE_SECONDS, ClusterRun
from tests.cluster.place import HAS_SERVER, Place
from tests.e2e.harness import LocalRun

Object = dict[str, Any]

STEPS = 20
TRAINER = (
    "python",
    "-m",
    "components.trainer",
    "--steps",
    str(STEPS),
    "--layers",
    "1",
    "--width",
    "32",
    "--batch",
    "4",
)
ONLY_FOR_CLUSTERS = ("storage", "storage_options", "namespace", "image", "platform_image")
TORCH_IMAGE = os.environ.get("ARGOSY_TEST_TORCH_IMAGE")
"""Torch and Argosy's code, for clusters that have no claim on an installed torch."""

pytestmark = pytest.mark.skipif(
    "DEVCLUSTER_NAMESPACE" not in os.environ and not TORCH_IMAGE, reason="no torch: ARGOSY_TEST_TORCH_IMAGE names none"
)


@dataclass(frozen=True)
class Trained:
    """The same description, run in both places."""

    cluster: ClusterRun
    local: LocalRun


@pytest.fixture(scope="module")
def trained(place: Place, runs: Callable[..., ClusterRun], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    documents = _documents()
    folder = tmp_path_factory.mktemp("corpus")
    for name, content in documents.items():
        (folder / name).write_bytes(content)
    run = runs(
        "trained", corpus=place.upload("stdlib", documents), num_nodes=2, nproc_per_node=2,
        image=TORCH_IMAGE or place.platform_image, shard__num_tasks=2, preflight__memory_per_rank="600MiB",
        launch__command=list(TRAINER), launch__env={"OMP_NUM_THREADS": "1"},
        launch__resources={"cpu": "100m", "memory": "3GiB"},
    )  # fmt: skip
    local = LocalRun(tmp_path_factory.mktemp("local") / "home")
    same = {key: value for key, value in run.value.items() if key not in ONLY_FOR_CLUSTERS}
    same["shard"] = {**run.value["shard"], "corpus": str(folder)}
    (local.home / "run.yaml").write_text(yaml.safe_dump(same))
    local.start("submit", "-c", "run.yaml", "--target", "local")
    if not TORCH_IMAGE:  # the packages of this checkout, read-only; the code is in the image
        run.value["launch"]["volumes"] = [{"path": "/site-packages", "claim": "site-packages", "read_only": True}]
        run.value["launch"]["env"]["PYTHONPATH"] = "/opt/argosy/code:/site-packages"
        (run.home / "run.yaml").write_text(yaml.safe_dump(dict(run.value)))
    run.start()
    assert local.finish(timeout=PATIENCE_SECONDS) == 0, local.terminal()[-3000:]
    assert run.finish() == 0
    return Trained(run, local)


def test_data_version_and_losses_are_those_of_one_machine(place: Place, trained: Trained) -> None:
    (version,) = {item.key.split("/")[2] for item in place.store.list("data/versions")}
    assert [path.name for path in (trained.local.storage / "data" / "versions").iterdir()] == [version]
    assert _outputs(trained.cluster, "shard-merge")["data_version"] == version
    there, here = trained.cluster.losses(), trained.local.losses()
    assert there[STEPS].hex() == here[STEPS].hex()
    assert there == here


def test_the_last_checkpoint_is_verified_and_retention_holds(place: Place, trained: Trained) -> None:
    entries = list(trained.cluster.ledger().checkpoints.values())
    verified = [entry.step for entry in entries if entry.status == "verified"]
    assert max(verified) == STEPS
    assert len(verified) <= 2  # keep_last: 2
    for entry in entries:
        assert bool(list(place.store.list(entry.folder))) == (entry.status != "retired"), entry.checkpoint


def test_nodes_say_what_they_have_and_what_is_between_them(trained: Trained) -> None:
    for node_rank in (0, 1):
        report = trained.cluster.document(node_checks_key(trained.cluster.name, generation=0, node_rank=node_rank))
        assert report is not None
        measured = {result["name"]: result["measured"] for result in report["results"]}
        print(measured["pair"])
        assert measured["accelerators"] == "none: a CPU run"
        assert measured["reach"].startswith(f"node {1 - node_rank} answers within")
        for words in (f"node {1 - node_rank}: ", " ms there and back", " Gbit/s", "clocks "):
            assert words in measured["pair"]


def test_every_command_answers_as_for_a_run_of_one_machine(trained: Trained) -> None:
    there, here = trained.cluster.ask("status"), _ask(trained.local, "status")
    assert _skeleton(there) == _skeleton(here)
    for field in ("state", "exit_code", "step", "total_steps", "loss", "data_version"):
        assert there[field] == here[field], field
    assert [_stage(stage) for stage in there["stages"]] == [_stage(stage) for stage in here["stages"]]
    why_there, why_here = trained.cluster.ask("why"), _ask(trained.local, "why")
    for field in ("state", "exit_code", "reason", "actor", "who"):
        assert why_there[field] == why_here[field], field
    for run in (trained.cluster, trained.local):
        assert f"launch/rank 0  finished {STEPS} steps" in run.command("logs", run.name, "--rank", "0").stdout
    listed = trained.cluster.command("runs", "--target", "kubernetes").stdout
    assert trained.cluster.name in listed
    assert "Succeeded" in listed


@pytest.mark.skipif(not HAS_SERVER, reason="ARGO_SERVER names no Argo Server")
def test_the_argo_ui_tells_stages_and_what_came_of_them(place: Place, trained: Trained) -> None:
    run = trained.cluster
    drawn = place.ask_server(f"/api/v1/workflows/{place.namespace}/{run.name}")
    annotations = drawn["metadata"]["annotations"]
    assert annotations["workflows.argoproj.io/title"] == "Train trained v1"
    assert "launch (2 x 2 ranks)" in annotations["workflows.argoproj.io/description"]
    shown = {node["displayName"]: node for node in drawn["status"]["nodes"].values()}
    assert {"shard-plan", "shard-merge", "preflight", "launch", "verify", "retain", "finish"} <= shown.keys()
    outputs = {name: _outputs(run, name) for name in ("shard-merge", "preflight", "launch", "verify", "retain")}
    assert outputs["shard-merge"]["data_version"].startswith("d-")
    assert outputs["preflight"]["verdict"] in ("ok", "warn")
    assert (outputs["launch"]["resume_step"], outputs["launch"]["step"]) == ("0", str(STEPS))
    assert outputs["launch"]["checkpoint"] == outputs["verify"]["checkpoint"]
    assert outputs["verify"]["verdict"] == "verified"
    assert outputs["retain"]["kept"]


def _documents() -> dict[str, bytes]:
    """Some of the standard library's sources, as one machine has them and S3 gets them."""
    library = Path(sysconfig.get_paths()["stdlib"])
    return {f"{folder}-{path.name}": path.read_bytes() for folder in ("email", "json", "asyncio")
            for path in sorted((library / folder).glob("*.py")) if path.stat().st_size}  # fmt: skip


def _outputs(run: ClusterRun, task: str) -> dict[str, str]:
    return {item["name"]: item["value"] for item in run.nodes()[task]["outputs"]["parameters"] if "value" in item}


def _ask(run: LocalRun, command: str) -> Any:
    return yaml.safe_load(run.command(command, run.name, "-o", "json").stdout)


def _skeleton(document: Object) -> list[str]:
    """What there is to read, at the top."""
    return sorted(document)


def _stage(stage: Object) -> tuple[Any, ...]:
    return stage["task"], stage["state"], stage["exit_code"], sorted(stage["outputs"])
