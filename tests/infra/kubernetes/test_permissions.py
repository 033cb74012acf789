"""The YAML that is installed is the table, and the table allows nothing that would let a run take over a namespace."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.kubernetes.permissions import ACCOUNTS, Account, access_yaml
from templates.pods import LAUNCHER_SERVICE_ACCOUNT, STAGE_SERVICE_ACCOUNT

FOLDER = Path(__file__).parent.parent.parent.parent / "infra" / "kubernetes"


def installed(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def test_the_installed_file_is_the_table() -> None:
    assert (FOLDER / "access.yaml").read_text(encoding="utf-8") == access_yaml()


def test_the_accounts_that_stages_name_are_installed() -> None:
    made = {item["metadata"]["name"] for item in installed("access.yaml") if item["kind"] == "ServiceAccount"}

    assert made == {STAGE_SERVICE_ACCOUNT, LAUNCHER_SERVICE_ACCOUNT}


@pytest.mark.parametrize("account", ACCOUNTS, ids=lambda account: account.name)
def test_nobody_may_more_than_by_name_of_verb_and_resource(account: Account) -> None:
    for rule in account.rules:
        assert "*" not in (*rule.verbs, *rule.resources, rule.group)
        assert rule.why
        # Reading every Secret, running in pods, or giving rights away would be the namespace.
        assert not ("secrets" in rule.resources and {"list", "watch"} & set(rule.verbs))
        assert not {"pods/exec", "roles", "rolebindings", "serviceaccounts/token"} & set(rule.resources)
        assert not ("pods" in rule.resources and "create" in rule.verbs)
