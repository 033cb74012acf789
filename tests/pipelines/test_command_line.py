"""The command line as a process: what it imports, what it prints where, and with which code it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines.cli.main as command_line
from pipelines.recipes import RECIPES

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"hera", "kubernetes", "boto3", "botocore", "torch", "numpy", "rich", "matplotlib", "argo_workflows"}


def argosy(
    *arguments: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    return subprocess.run(
        [sys.executable, str(ROOT / "pipelines/train.py"), *arguments], cwd=cwd, env=env, capture_output=True, text=True
    )


def imported_by(*arguments: str) -> set[str]:
    code = (
        "import sys; from pipelines.cli.main import run; code = run(sys.argv[1:]); "
        "print('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_help_imports_no_command_and_no_library_besides_click() -> None:
    imported = imported_by("--help")

    assert imported & (HEAVY | {"pydantic", "yaml"}) == set()
    assert "click" in imported


@pytest.mark.parametrize("arguments", [("validate",), ("validate", "-o", "json"), ("recipes",), ("schema",)])
def test_light_commands_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments) & HEAVY == set()


def test_compile_imports_neither_a_cluster_client_nor_torch() -> None:
    assert imported_by("compile") & {"kubernetes", "boto3", "torch", "numpy", "argo_workflows"} == set()


def test_every_command_is_there_and_helped_as_the_table_says() -> None:
    import importlib

    for name, entry in command_line.COMMANDS.items():
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert (name, (command.help or "").split("\n")[0]) == (name, entry.help)
    help_lines = argosy("--help", env={**os.environ, "COLUMNS": "80"}).stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in help_lines[: help_lines.index("")]] == list(command_line.COMMANDS)


def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('shadowed')")

    done = argosy("validate", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "recipe tiny: valid, experiment tiny\n", "")


def test_the_file_of_the_entry_point_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "argosy").symlink_to(ROOT / "pipelines/train.py")

    done = subprocess.run([sys.executable, tmp_path / "argosy", "validate"], cwd=tmp_path, capture_output=True)

    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("validat",), "there is no command 'validat'; did you mean 'validate'?"),
        (("validate", "--nope"), "no such option"),
        (("validate", "-c", "a", "--recipe", "tiny"), "both -c and --recipe are given"),
        (("compile", "-o", "xml"), "'xml' is not one of 'yaml', 'json'"),
        (("validate", "-c", "/no/such.yaml"), "cannot read /no/such.yaml: No such file or directory"),
        ((), "Usage: train.py"),
    ],
)
def test_a_wrong_command_line_is_bad_input(arguments: tuple[str, ...], expected: str) -> None:
    done = argosy(*arguments)

    assert done.returncode == 78
    assert done.stdout == ""
    assert expected.lower() in done.stderr.lower()


def test_faults_are_json_for_those_who_ask_for_json() -> None:
    done = argosy("validate", "--set", "launch.num_nodes=0", "-o", "json")

    assert done.returncode == 78
    assert done.stdout == ""
    assert json.loads(done.stderr) == {
        "error": {
            "reason": "BadDescription",
            "seen": "recipe tiny has 1 fault",
            "fix": "correct what is listed",
            "problems": [{"where": "--set launch.num_nodes", "seen": "is 0", "fix": "set 1 or more"}],
            "exit_code": 78,
        }
    }


def test_init_writes_a_valid_description_and_never_overwrites_one(tmp_path: Path) -> None:
    assert argosy("init", cwd=tmp_path).returncode == 0
    assert argosy("validate", "-c", "run.yaml", cwd=tmp_path).returncode == 0
    (tmp_path / "run.yaml").write_text("mine")

    done = argosy("init", cwd=tmp_path)

    assert done.returncode == 78
    assert "run.yaml exists" in done.stderr
    assert (tmp_path / "run.yaml").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_compile_writes_the_same_bytes_to_a_file_and_to_stdout(tmp_path: Path) -> None:
    done = argosy("compile", "--out", "wf.yaml", cwd=tmp_path)
    again = argosy("compile", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "wf.yaml").read_text() == again.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["wf.yaml"]


@pytest.mark.parametrize(
    ("out", "seen"),
    [
        ("/nowhere/wf.yaml", "No such file or directory"),
        ("/dev/null/wf.yaml", "Not a directory"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_a_file_that_cannot_be_written_is_bad_input(out: str, seen: str) -> None:
    done = argosy("compile", "--out", out)

    assert (done.returncode, done.stderr) == (78, f"CannotWrite: cannot write {out}: {seen}; choose another place\n")


def test_compile_writes_json_where_the_name_says_so(tmp_path: Path) -> None:
    argosy("compile", "--out", "wf.json", cwd=tmp_path)

    assert json.loads((tmp_path / "wf.json").read_text())["kind"] == "Workflow"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    done = subprocess.run(
        f"set -o pipefail; {sys.executable} pipelines/train.py recipes tiny | head -1",
        shell=True,
        executable="bash",
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# Recipe tiny")


def test_output_that_cannot_be_written_is_no_bug_of_ours() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "pipelines/train.py", "recipes", "tiny"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip

    assert done.returncode == 81
    assert done.stderr == (
        b"OutputRefused: cannot write what this command prints: No space left on device; print it elsewhere\n"
    )


def test_closed_standard_streams_are_no_bug_of_ours(tmp_path: Path) -> None:
    command = f"{sys.executable} {ROOT}/pipelines/train.py compile --out wf.yaml <&- >&- 2>&-"

    assert subprocess.run(command, shell=True, cwd=tmp_path).returncode == 0
    assert (tmp_path / "wf.yaml").read_text().startswith("apiVersion: ")


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("/dev/null/x", (81, "HomeNotReadable: cannot list /dev/null/x/runs: Not a directory; ")),
        ("~nobody-of-that-name", (78, "NoHome: ARGOSY_HOME is '~nobody-of-that-name', ")),
    ],
)
def test_a_home_that_is_none_is_said_by_every_command(home: str, expected: tuple[int, str]) -> None:
    for command in ("runs", "status", "stop", "submit"):
        done = subprocess.run(
            [sys.executable, "pipelines/train.py", command], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "ARGOSY_HOME": home},
        )  # fmt: skip
        seen = expected if command != "submit" else (expected[0], "")
        assert (done.returncode, done.stderr[: len(seen[1])]) == seen
        assert "Traceback" not in done.stderr


def test_every_command_that_prints_takes_o_json(tmp_path: Path) -> None:
    assert json.loads(argosy("schema", "-o", "json").stdout)["type"] == "object"
    assert json.loads(argosy("init", "-o", "json", cwd=tmp_path).stdout)["file"] == "run.yaml"
    for name in command_line.COMMANDS:
        if name != "checkpoints":  # a group; its commands take it
            assert "--output" in argosy(name, "--help").stdout


def test_recipes_are_listed_and_printed() -> None:
    listed = json.loads(argosy("recipes", "-o", "json").stdout)

    assert [item["name"] for item in listed] == list(RECIPES)
    assert json.loads(argosy("recipes", "smoke", "-o", "json").stdout)["description"]["experiment"] == "smoke"


def test_doctor_says_what_is_missing(tmp_path: Path) -> None:
    done = argosy("doctor", "--set", "launch.command=[no-such-program]", "-o", "json")

    body = json.loads(done.stdout)
    assert done.returncode == 81
    assert body["fit"] is False
    assert [result["name"] for result in body["results"] if result["hard"] and result["status"] == "fail"] == [
        "program"
    ]
