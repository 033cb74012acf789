"""Tables and commands of the documentation are those of the code: neither lacks what the other has."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from components.contracts import outputs
from components.errors import ExitCode
from components.ledger import records
from infra.devcluster.__main__ import _parser as devcluster_parser
from infra.kubernetes.permissions import ACCOUNTS, Account
from infra.kubernetes.tenant.tenant import Tenant
from pipelines.cli.main import cli
from pipelines.cli.targets import PlaceOptions, resolve_target
from pipelines.config import TrainConfig

ROOT = Path(__file__).parent.parent
_LISTED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
TRACKED = [name for name in _LISTED if (ROOT / name).is_file()]
PAGES = [name for name in TRACKED if name.endswith(".md") and not name.startswith("tests/damage/")]
SOURCES = [name for name in TRACKED if name.endswith(".py")]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, heads and rules left out."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        for line in table.splitlines()[2:]:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def section(text: str, head: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(head)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, head
    return found[1]


def code_lines() -> Iterator[tuple[str, str]]:
    """Every line of every block of code, with its page."""
    for name in PAGES:
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```|((?:^    .*\n)+)", page(name), re.MULTILINE | re.DOTALL):
            for line in "".join(block).splitlines():
                yield name, line.strip()


# --- exit codes, reasons


def test_the_readme_has_every_exit_code() -> None:
    table = section(page("README.md"), "When something goes wrong").split("| symptom")[0]
    told = {int(code) for cells in rows(table) for code in re.findall(r"\d+", cells[0])}

    assert told == set(ExitCode)


def test_the_architecture_page_has_every_exit_code_with_its_name() -> None:
    text = section(page("ARCHITECTURE.md"), "Exit codes").split("Argo tries again")[0]
    told = {int(code): words for code, words in re.findall(r"\b(\d+) ([a-z ]+?)\s*[,.]", text.replace("\n", " "))}

    assert set(told) == set(ExitCode)
    assert told[78] == "bad input"


def reasons_of(folder: str) -> set[str]:
    """First arguments of errors that are raised there, and verdicts by their name."""
    found = set()
    for name in SOURCES:
        if name.startswith(f"{folder}/"):
            for node in ast.walk(ast.parse(page(name))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                    first = node.exc.args[0]
                    if isinstance(first, ast.Constant) and re.fullmatch(r"[A-Z]\w+", str(first.value)):
                        found.add(str(first.value))
    return found


def test_the_page_of_launch_has_every_reason_it_ends_with() -> None:
    from components.launch.failure_policy import StopCause

    cells = [cells[0] for cells in rows(section(page("components/launch/README.md"), "Reasons"))]
    told = set(re.findall(r"`(\w+)`", " ".join(cells)))

    assert reasons_of("components/launch") - told == set()
    assert {cause.value for cause in StopCause} - told == set()


def test_help_has_every_exit_code() -> None:
    told = re.sub(
        r"(\d+)-(\d+)", lambda ends: " ".join(map(str, range(int(ends[1]), int(ends[2]) + 1))), cli.epilog or ""
    )

    assert {int(code) for code in re.findall(r"\d+", told)} == set(ExitCode)


# --- rights

RESOURCES = {
    "Workflows": "workflows", "JobSets": "jobsets", "Jobs": "jobs", "Services": "services", "Secrets": "secrets",
    "pods": "pods", "events": "events", "templates": "workflowtemplates", "pods' logs": "pods/log",
    "one Deployment": "deployments", "LocalQueues": "localqueues", "Workloads": "workloads",
    "ResourceQuotas": "resourcequotas", "workflowtaskresults": "workflowtaskresults",
}  # fmt: skip


@pytest.mark.parametrize("account", ACCOUNTS, ids=lambda account: account.name)
def test_the_table_of_rights_is_what_each_account_may(account: Account) -> None:
    told: dict[str, set[str]] = {}
    for cells in rows(section(page("infra/kubernetes/README.md"), "Who needs which right")):
        if cells[0].startswith(f"`{account.name}`"):
            for rule in cells[1].replace("`", "").split("; "):
                names, _, verbs = rule.partition(": ")
                for name in names.split(", "):
                    told.setdefault(RESOURCES[name], set()).update(verbs.split(", "))
    may: dict[str, set[str]] = {}
    for rule_of_table in account.rules:
        for resource in rule_of_table.resources:
            may.setdefault(resource, set()).update(rule_of_table.verbs)

    assert told == may


# --- what the code lists


def test_the_table_of_checks_has_every_question() -> None:
    asked = set()
    for name in SOURCES:
        if name.startswith(("components/checks/", "components/preflight/")):
            for node in ast.walk(ast.parse(page(name))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Question", "replace"):
                    asked |= {ast.literal_eval(word.value) for word in node.keywords if word.arg == "name"}
    table = section(page("components/preflight/README.md"), "The checks")

    assert {match[0] for cells in rows(table) if (match := re.findall(r"^`(\w+)`", cells[0]))} == asked


def test_the_table_of_stages_has_every_output() -> None:
    told = {
        cells[0].strip("`"): tuple(re.findall(r"`(\w+)`", cells[2])) for cells in rows(page("components/README.md"))
    }

    assert told == {
        "shard plan": outputs.SHARD_PLAN, "shard task": (), "shard merge": outputs.SHARD_MERGE,
        "preflight": outputs.PREFLIGHT, "launch": outputs.LAUNCH, "verify": outputs.VERIFY, "retain": outputs.RETAIN,
        "finish": outputs.FINISH,
    }  # fmt: skip


def test_the_table_of_records_has_every_kind_that_the_ledger_knows() -> None:
    told = [kind for cells in rows(page("components/ledger/README.md")) for kind in re.findall(r"`(\w+)`", cells[0])]
    kinds = re.findall(r'kind: Literal\["(\w+)"\]', Path(records.__file__).read_text(encoding="utf-8"))

    assert sorted(told) == sorted(kind for kind in kinds if "-" not in kind)


@pytest.mark.parametrize(
    ("folder", "readme"),
    [
        ("components/launch", "components/launch/README.md"), ("infra", "infra/README.md"),
        ("infra/argo", "infra/README.md"), ("infra/local", "infra/README.md"), ("pipelines", "pipelines/README.md"),
        ("templates", "templates/README.md"), ("tests/cluster", "tests/cluster/README.md"),
    ],
)  # fmt: skip
def test_the_table_of_files_has_every_file(folder: str, readme: str) -> None:
    files = {Path(name).name for name in SOURCES if str(Path(name).parent) == folder}
    if folder == "tests/cluster":
        files = {name for name in files if name.startswith("test_") and "drills" not in name}
    told = {
        name.removesuffix(".py")
        for cells in rows(page(readme))
        for name in re.findall(r"`([\w*]+(?:\.py)?)`", cells[0])
    }
    unsaid = {"__init__.py", "__main__.py", "spec.py", "train.py"}
    named = [name for name in files - unsaid if any(Path(name).match(f"{pattern}.py") for pattern in told)]

    assert files - unsaid - set(named) == set()


def test_every_python_file_that_a_page_names_exists() -> None:
    gone = []
    for name in PAGES:
        for path in re.findall(r"`([\w./]+\.py)`", page(name)):
            if path != "train.py" and not any(f"/{source}".endswith(f"/{path}") for source in SOURCES):
                gone.append(f"{name}: {path}")

    assert gone == []


def test_every_variable_of_ours_stands_in_a_page_and_in_the_code() -> None:
    pattern = r"\bARGOSY_[A-Z0-9_]*[A-Z0-9]\b"
    told = {found for name in PAGES for found in re.findall(pattern, page(name))}
    shipped = [name for name in SOURCES if not name.startswith("tests/")]
    read = {found for name in shipped for found in re.findall(pattern, page(name))}
    of_tests = {found for name in SOURCES for found in re.findall(pattern, page(name))} - read

    assert read - told == set()
    assert told - read - of_tests == set()
    assert {name for name in of_tests if name.startswith("ARGOSY_TEST_")} - told == set()


def test_the_page_of_the_development_cluster_has_every_command_and_variable() -> None:
    text = page("infra/devcluster/README.md")
    parser = devcluster_parser()
    (commands,) = (action.choices for action in parser._actions if isinstance(action.choices, dict))
    given = re.findall(r'"([A-Z][A-Z0-9_]+)": ', page("infra/devcluster/access.py"))
    lacks = [
        name for name in commands if not re.search(rf"`{name}[ `]|, `?{name}|cluster-{name}|devcluster {name}", text)
    ]

    assert len(given) >= 15
    assert [name for name in given if f"`{name}`" not in text] == []
    assert lacks == []


def test_the_counts_of_causes_are_those_of_the_table_and_its_cases() -> None:
    table = page("components/diagnosis/README.md")
    causes = len(re.findall(r"^\| (?:● )?`\w+` \| ", table, re.MULTILINE))
    recorded = len(re.findall(r"^\| ● `\w+` \| ", table, re.MULTILINE))
    cases = len(
        [name for name in TRACKED if re.match(r"tests/components/diagnosis/cases/(?!expected)[\w-]+\.json", name)]
    )

    assert f"{causes} causes ([all of them]" in page("README.md")
    assert f"{recorded} of them in {cases} cases" in page("README.md")
    assert f"`why` knows {causes} causes" in page("CHANGELOG.md")


# --- commands and descriptions as they are printed


def test_every_target_of_make_that_a_page_names_exists() -> None:
    known = set(re.findall(r"^([a-z-]+):.*##", page("Makefile"), re.MULTILINE))
    named = set()
    for name in PAGES:
        for words in re.findall(r"(?:`|^|… )make ([a-z-]+(?: [a-z]+-[a-z]+)*)", page(name), re.MULTILINE):
            named |= set(words.split())

    assert len(named) >= 12
    assert named - known == set()


def test_every_command_that_a_page_shows_is_one_with_these_options() -> None:
    wrong, count = [], 0
    for name, line in code_lines():
        text = re.sub(r"\s+#.*", "", line.replace("[", " ").replace("]", " "))
        match = re.match(r"(?:python pipelines/train\.py |(?=(?:compile|submit) -))(.*)", text)
        if match is None:
            continue
        words, count = shlex.split(match[1]), count + 1
        command: click.Command | None = cli
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        known = {option for parameter in command.params for option in parameter.opts} if command else set()
        wrong += [
            f"{name}: {line}: {word}" for word in words if word.startswith("-") and word.split("=")[0] not in known
        ]

    assert count >= 15
    assert wrong == []


def test_every_module_that_a_page_runs_is_there_with_these_options() -> None:
    wrong, count = [], 0
    for name in PAGES:
        for module, rest in re.findall(r"python -m ((?:components|infra|tests)(?:\.\w+)+)([^\n`#|]*)", page(name)):
            path, count = module.replace(".", "/"), count + 1
            files = [f"{path}/__main__.py", f"{path}.py"]
            if not set(files) & set(TRACKED):
                wrong.append(f"{name}: {module}")
            text = "".join(page(source) for source in SOURCES if source.startswith((f"{path}/", f"{path}.py")))
            wrong += [f"{name}: {module} {option}" for option in re.findall(r"--[a-z-]+", rest) if option not in text]

    assert count >= 15
    assert wrong == []


def shown_yaml(name: str) -> dict[str, Any]:
    """The one description that a page shows, its gaps filled."""
    (text,) = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    return dict(yaml.safe_load(text.replace("sha256:…", f"sha256:{'0' * 64}")))


def test_what_other_pages_show_of_a_description_is_valid() -> None:
    small = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page("README.md"), re.DOTALL)[0])
    storage, queue = shown_yaml("components/storage/README.md"), shown_yaml("infra/kubernetes/README.md")

    TrainConfig.model_validate({**small, **storage}, strict=False)
    TrainConfig.model_validate({**small, **queue, "launch": {**small["launch"], **queue["launch"]}}, strict=False)


def test_the_configuration_file_and_the_tenant_that_pages_show_are_valid(tmp_path: Path) -> None:
    (tmp_path / "argosy").mkdir()
    (tmp_path / "argosy" / "config.yaml").write_text(
        yaml.safe_dump(shown_yaml("pipelines/README.md")), encoding="utf-8"
    )
    target = resolve_target(PlaceOptions(), {"XDG_CONFIG_HOME": str(tmp_path)})

    assert (target.name, target.context, target.instance_id) == ("kubernetes", "dev", "team-a")
    assert Tenant.model_validate(shown_yaml("infra/kubernetes/tenant/README.md")).queue == "main"


def test_the_descriptions_that_the_readme_shows_are_valid() -> None:
    small, cluster = re.findall(r"```yaml\n(.*?)```", page("README.md"), re.DOTALL)
    small = yaml.safe_load(small)
    cluster = yaml.safe_load(
        cluster.replace("http://…", "http://s3.example:9000").replace("sha256:…", f"sha256:{'0' * 64}")
    )

    TrainConfig.model_validate(small, strict=False)
    TrainConfig.model_validate({**small, **cluster, "launch": {**small["launch"], **cluster["launch"]}}, strict=False)
