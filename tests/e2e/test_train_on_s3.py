"""The whole product with its storage on a real S3 server: same data, same losses, and nothing secret written."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.storage.location import S3Location
from components.storage.s3 import S3Store
from tests.e2e.harness import LocalRun
from tests.e2e.test_kills import EVERY, STEPS, prepare, untouched
from tests.fakes.s3_server import CREDENTIALS, S3Server

__all__ = ["untouched"]  # a fixture: one run on disk serves both files

pytestmark = pytest.mark.e2e


class RunOnS3(LocalRun):
    """The same, with its storage in a bucket of its own."""

    def __init__(self, home: Path, server: S3Server) -> None:
        super().__init__(home)
        self.bucket = server.new_bucket()
        self.store = S3Store(S3Location(self.bucket, "team/argosy"), server.client)
        environment = dict(server.environment)
        self.endpoint = environment.pop("AWS_ENDPOINT_URL_S3")  # the description says where, the environment who
        environment.pop("AWS_REGION")
        self.env.update(environment)

    def gang_states(self) -> list[dict[str, Any]]:
        keys = [item.key for item in self.store.list(f"runs/{self.name}/gang") if item.key.endswith("/state.json")]
        return [json.loads(self.store.read(key)) for key in keys]


def test_a_run_on_s3_that_loses_a_rank_ends_as_an_untouched_one_on_disk(
    s3_server: S3Server, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, untouched: dict[int, float]
) -> None:
    run = RunOnS3(prepare(tmp_path / "home").home, s3_server)
    run.start(
        "submit", "-c", "run.yaml", "--set", f"storage={run.store.uri}",
        "--set", f"storage_options={{endpoint: '{run.endpoint}', region: us-east-1}}",
    )  # fmt: skip
    run.wait_for_step(EVERY + 5)
    run.kill("rank", which=-1)
    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()

    attempts = run.gang_states()[0]["attempts"]
    assert len(attempts) == 2
    assert attempts[1]["resumed_step"] >= EVERY
    assert run.losses()[STEPS].hex() == untouched[STEPS].hex()
    (version,) = {item.key.split("/")[2] for item in run.store.list("data/versions")}
    on_disk = tmp_path_factory.getbasetemp().parent / "untouched/storage/data/versions"
    assert [path.name for path in on_disk.iterdir()] == [version]
    assert_commands_tell(run)
    assert_nothing_secret(run)


def assert_commands_tell(run: RunOnS3) -> None:
    assert json.loads(run.store.read(f"runs/{run.name}/report.json"))["run"] == run.name
    assert json.loads(run.command("status", "-o", "json").stdout)["run"] == run.name
    assert "rank 0" in run.command("logs", "--stage", "launch").stdout
    assert run.command("why").returncode == 0
    newest = json.loads(run.command("checkpoints", "list", "-o", "json").stdout)["checkpoints"][0]
    assert newest["step"] == STEPS
    assert newest["uri"].startswith(f"s3://{run.bucket}/team/argosy/checkpoints/kills/v1/d-")


def assert_nothing_secret(run: RunOnS3) -> None:
    secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode()
    files = [path for path in run.home.rglob("*") if path.is_file()]
    assert [path for path in files if secret in path.read_bytes()] == []
    assert [item.key for folder in ("runs", "data", "checkpoints") for item in run.store.list(folder)
            if secret in run.store.read(item.key)] == []  # fmt: skip
