"""What a cluster lacks or refuses is told at submit: what it is, the right exit code, and nothing half-created."""

# ruff: noqa: F811
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.ledger.ledger import Ledger, claim, this_process
from components.storage.s3 import S3Store
from tests.fakes.api_server import answer, let_through
from tests.pipelines.cli.test_on_cluster import DIGEST, FOLDER, JANITOR, Shell, shell, storage  # noqa: F401

SECRETS, CONFIG_MAPS = "/api/v1/namespaces/ml/secrets", "/api/v1/namespaces/ml/configmaps"


def submit(shell: Shell, *more: str) -> tuple[int, str]:
    return shell(
        "submit", "--target", "kubernetes", "--detach", "--set", f"storage={shell.store.uri}",
        "--set", f"platform_image={DIGEST}", *more,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_half_created(shell: Shell, home: Path) -> Iterator[None]:
    yield
    assert shell.workflows() == []
    assert list(home.rglob("*.json")) == []
    assert [item.key for folder in ("runs", "code") for item in shell.store.list(folder)] == []


def test_every_name_that_is_not_there_is_told_at_once(shell: Shell) -> None:
    shell.server.put(f"{SECRETS}/hub", {"metadata": {"name": "hub"}, "data": {"other": "eA=="}})
    code, text = submit(
        shell, "--set", "image_pull_secrets=[registry]", "--set", "ca_bundle.config_map=company-ca",
        "--set", "launch.secrets={HF_TOKEN: {secret: hub, key: token}}", "--set", "launch.env_from=[{secret: wandb}]",
        "--set", "launch.volumes=[{path: /data, claim: corpus}]", "--set", "storage_options.credentials_secret=s3",
    )  # fmt: skip

    assert code == 78
    assert text.startswith("MissingObjects: the description names what namespace ml")
    assert [line.strip() for line in text.splitlines()[1:]] == [
        "image_pull_secrets: there is no Secret registry in namespace ml; create it, or correct the name",
        "ca_bundle: there is no ConfigMap company-ca in namespace ml; create it, or correct the name",
        "launch.secrets.HF_TOKEN: Secret hub in namespace ml has no key token; add it, or correct its name",
        "launch.env_from: there is no Secret wandb in namespace ml; create it, or correct the name",
        "launch.volumes /data: there is no PersistentVolumeClaim corpus in namespace ml; "
        "create it, or correct the name",
        "storage_options.credentials_secret: there is no Secret s3 in namespace ml; create it, or correct the name",
    ]


def test_without_a_janitor_nothing_could_end_the_pods_of_a_lost_node(shell: Shell) -> None:
    del shell.server.objects[JANITOR]

    code, text = submit(shell)

    assert code == 81
    assert "NoJanitor: launch.lost_node is force_after, but Deployment argosy-janitor does not exist in namesp" in text


def test_a_cluster_without_argo_is_told(shell: Shell) -> None:
    shell.server.faults += [
        let_through,
        let_through,
        answer(404, "the server could not find the requested resource"),
    ]

    code, text = submit(shell)

    assert code == 81
    assert "NotServed: the cluster knows no Workflow (argoproj.io/v1alpha1); install what defines workflows.arg" in text


def test_an_argo_that_is_too_old_for_a_field_is_told_which(shell: Shell) -> None:
    fault = 'Workflow in version "v1alpha1" cannot be handled: strict decoding error: unknown field "spec.podGC"'
    shell.server.faults += [let_through, let_through, answer(400, fault)]

    code, text = submit(shell)

    assert code == 78
    assert "Refused: create workflows.argoproj.io tiny-" in text
    assert 'unknown field "spec.podGC"' in text


def test_a_manifest_over_the_limit_is_told(shell: Shell) -> None:
    shell.server.faults += [let_through, let_through, answer(413, "etcdserver: request is too large")]

    code, text = submit(shell)

    assert code == 78
    assert "TooLarge: create workflows.argoproj.io tiny-" in text
    assert "make the object smaller" in text


def test_no_kubeconfig_and_a_wrong_context_are_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = submit(shell, "--context", "prod")
    assert (code, text.partition(":")[0]) == (78, "UnknownContext")
    assert "use one of: here" in text
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/config")
    code, text = submit(shell)
    assert (code, text.partition(";")[0]) == (78, "NoCluster: there is no kubeconfig at /nonexistent/config")


def test_code_stays_here_when_the_workflow_would_not_be_taken(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n")
    exceeded = 'workflows.argoproj.io "tiny" is forbidden: exceeded quota: objects'
    shell.server.faults += [let_through, let_through, answer(403, exceeded)]

    code, text = submit(shell, "--set", "code.folder=src")

    assert code != 0
    assert "exceeded quota: objects" in text


def test_a_bucket_that_cannot_hold_the_code_is_told_before_anything_is_created(
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n")

    code, text = submit(shell, "--set", "code.folder=src", "--set", "storage=s3://no-such-bucket/x")

    assert code == 78
    assert "no-such-bucket" in text


class TestClaims:
    """A claim that a run of this place left."""

    @pytest.fixture
    def held(self, shell: Shell) -> None:
        owner = this_process(target="kubernetes").model_copy(
            update={"cluster": "c1/ml", "host": "pod-1", "boot_id": "b"}
        )
        claim(Ledger(shell.store, "tiny", "v1"), run="tiny-aaaaa", owner=owner, is_gone=lambda _: False)

    @pytest.mark.usefixtures("held")
    def test_a_run_that_cannot_be_seen_holds_its_claim(self, shell: Shell) -> None:
        code, text = submit(shell)
        assert (code, text.partition(":")[0]) == (78, "RunActive")

    @pytest.mark.usefixtures("held")
    def test_a_run_whose_workflow_is_over_does_not_keep_the_next_one_out(self, shell: Shell) -> None:
        labels = {"argosy.dev/run": "tiny-aaaaa"}
        status = {"phase": "Failed", "finishedAt": datetime(2026, 11, 29, tzinfo=UTC).isoformat()}
        path = f"{FOLDER}/tiny-aaaaa"
        shell.server.put(path, {"metadata": {"name": "tiny-aaaaa", "labels": labels}, "spec": {}, "status": status})

        shell.server.faults += [*[let_through] * 3, answer(413, "stop here")]
        assert "TooLarge: create workflows" in submit(shell)[1]
        shell.server.put(path, shell.server.objects[path], "DELETED")

    JOB = "/apis/batch/v1/namespaces/ml/jobs/tiny-aaaaa-g0"

    @pytest.fixture
    def deleted(self, shell: Shell) -> None:
        """Its Workflow was deleted from this very cluster: the one whose pods are told this certificate."""
        shell.server.put(f"{CONFIG_MAPS}/kube-root-ca.crt", {
            "metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "the authority"},
        })  # fmt: skip
        place = hashlib.sha256(b"the authority").hexdigest()[:16]
        owner = this_process(target="kubernetes").model_copy(
            update={"cluster": f"{place}/ml", "host": "pod-1", "boot_id": "b"}
        )
        claim(Ledger(shell.store, "tiny", "v1"), run="tiny-aaaaa", owner=owner, is_gone=lambda _: False)

    @pytest.mark.usefixtures("deleted")
    def test_a_run_whose_workflow_was_deleted_does_not_keep_the_next_one_out(self, shell: Shell) -> None:
        code, text = submit(shell, "--set", "image_pull_secrets=[registry]")
        assert (code, text.partition(":")[0]) == (78, "MissingObjects")  # which is asked after the claim

    @pytest.mark.usefixtures("deleted")
    def test_a_deleted_workflow_whose_gang_is_still_there_holds_its_claim(self, shell: Shell) -> None:
        shell.server.put(self.JOB, {"metadata": {"name": "tiny-aaaaa-g0", "labels": {"argosy.dev/run": "tiny-aaaaa"}}})
        code, text = submit(shell)
        assert (code, text.partition(":")[0]) == (78, "RunActive")
        assert "its Workflow is gone from namespace ml, context here, but tiny-aaaaa-g0 is still there" in text

    @pytest.mark.usefixtures("deleted")
    def test_an_account_that_may_not_look_proves_nothing(self, shell: Shell) -> None:
        shell.server.faults.append(answer(403, 'User "ann" cannot list resource "workflows"'))
        code, text = submit(shell)
        assert (code, text.partition(":")[0]) == (78, "RunActive")
        assert "whether it is over cannot be told: Forbidden" in text


def test_an_unreachable_storage_is_told_and_left_to_the_cluster(shell: Shell, storage: S3Store) -> None:
    shell.server.token = "another"
    code, text = submit(shell, "--set", "storage=s3://no-such-bucket/x")

    assert code == 78
    assert "cannot look into s3://no-such-bucket/x from here, so the cluster will have to: " in text
