"""`kubectl apply -k infra/kubernetes` installs all there is, with the rights of the table."""

from pathlib import Path
from typing import Any

import yaml

from infra.kubernetes.permissions import JANITOR, role

FOLDER = Path(__file__).parent.parent.parent.parent / "infra" / "kubernetes"


def installed(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def test_the_janitor_is_installed_with_the_role_of_the_table() -> None:
    roles = [item for item in installed("janitor/janitor.yaml") if item["kind"] == "Role"]

    assert roles == [role(JANITOR)]


def test_everything_that_is_applied_exists() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))

    assert [name for name in kustomization["resources"] if not (FOLDER / name).is_file()] == []


def test_a_kustomization_of_ones_own_decides_in_which_namespace_the_accounts_are() -> None:
    """`namespace:` replaces that of a ClusterRoleBinding's subject only where none is written."""
    items = [item for name in ("access.yaml", "janitor/janitor.yaml") for item in installed(name)]

    assert [subject for item in items for subject in item.get("subjects", ()) if "namespace" in subject] == []
