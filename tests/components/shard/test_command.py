"""`python -m components.shard` by hand: a folder in, a data version out, and everything said in exit code and lines."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.log import Log
from components.shard.command import main
from components.shard.progress import Progress
from tests.components.shard.formats import rows


def shard(folder: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "components.shard", *arguments]
    if arguments[:1] not in [("--help",), ()] and "--help" not in arguments:
        argv += ["--storage", str(folder / "storage")]
    return subprocess.run(argv, capture_output=True, text=True, env=os.environ | env, timeout=120)


def values(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


LABELLED = ("--read-as", "labelled_folders")
TOKENS = ("--sequence-length", "16", "--over-long", "split", "--target-shard-size", "4KiB")


def test_all_is_plan_tasks_and_merge_and_the_same_whatever_the_tasks(tmp_path: Path) -> None:
    corpus = str(rows(tmp_path / "rows", count=200))

    together = values(shard(tmp_path, "all", "--corpus", corpus, *TOKENS, "--tasks", "2"))
    plan = values(shard(tmp_path / "other", "plan", "--corpus", corpus, *TOKENS))["plan_id"]
    for index in ("2", "0", "1"):
        values(shard(tmp_path / "other", "task", "--plan", plan, "--index", index, "--tasks", "3"))
    apart = values(shard(tmp_path / "other", "merge", "--plan", plan, "--tasks", "3"))

    assert plan == together["plan_id"]
    assert apart["data_version"] == together["data_version"]
    assert apart["num_sequences"] == together["num_sequences"]


def test_verify_and_export_say_what_they_did(tmp_path: Path) -> None:
    made = values(shard(tmp_path, "all", "--corpus", str(rows(tmp_path / "rows")), "--format", "webdataset"))
    version = made["data_version"]

    assert values(shard(tmp_path, "verify", "--version", version, "--level", "2"))["level"] == "records"
    assert values(shard(tmp_path, "export", "--version", version, "--to", str(tmp_path / "out")))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "README.md", "manifest.json", "shard-000000.tar", "shards.txt", "wids.json",
    ]  # fmt: skip

    (file,) = (tmp_path / "storage" / "data" / "shards").glob("*.tar")
    file.write_bytes(file.read_bytes()[:-1024] + b"x" * 1024)
    done = shard(tmp_path, "verify", "--version", version)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 96
    assert any(line.get("shard") == 0 and line["file"].endswith(file.name) and "offset" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "usage: python -m components.shard"),
        (("pack",), "invalid choice"),
        (("all", "--corpus", "x", "--tasks", "0"), "'0' is not a number of 1 or more"),
        (("plan", "--corpus", "x", "--field", "a:colour"), "the type is one of bytes, text, int, float, json"),
        (("plan", "--corpus", "x", "--target-shard-size", "9 parsecs"), "not a size"),
        (("plan", "--corpus", "x", "--target-shard-size", "0B"), "'0B' is nothing; write 1B or more"),
        (("verify", "--version", "d-1", "--level", "7"), "none of 0 files, 1 digests, 2 records"),
        (("all", "--corpus", "nowhere-at-all"), "format tokens needs --sequence-length and --over-long"),
        (("all", "--corpus", "nowhere-at-all", *TOKENS), "nowhere-at-all does not exist"),
        (("merge", "--plan", "p-0000000000000000"), "run shard plan first"),
        (("task", "--plan", "p-0000000000000000", "--index", "9"), "pass --index 0, or more --tasks"),
        (("verify", "--version", "d-1", "--index", "2", "--tasks", "2"), "pass --index 0 … 1"),
    ],
)
def test_usage_and_input_errors_are_78_in_words(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = shard(tmp_path, *arguments)

    assert done.returncode == 78
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_all_faults_of_a_command_line_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["all", "--read-as", "colour", "--tasks", "x", "--text", "body", "--corpus", "--verify=9", "--more=1",
         "--target-shard-size", "9 parsecs", "--field", "a:b", "--field", "c:d"]
    )  # fmt: skip

    told = capsys.readouterr()
    assert (code, told.out) == (78, "")
    usage, *lines = told.err.split("python -m components.shard: ")
    assert usage.startswith("usage: python -m components.shard all [-h] --storage STORAGE")
    assert [line.strip() for line in lines] == [
        "argument --corpus: expected a value",
        "unrecognized arguments: --text body --more=1",
        "argument --read-as: 'colour' is none of auto, file, grouped_files, labelled_folders, lines, jsonl, parquet, "
        "tar, manifest",
        "argument --tasks: 'x' is not a number of 1 or more",
        "argument --verify: '9' is none of 0 files, 1 digests, 2 records",
        "argument --target-shard-size: not a size: '9 parsecs'; write a number and a unit (B, kB, MB, GB, "
        "KiB, MiB, GiB), for example 512MiB",
        "argument --field: 'a:b': the type is one of bytes, text, int, float, json",
        "argument --field: 'c:d': the type is one of bytes, text, int, float, json",
        "the following arguments are required: --storage",
    ]


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (("plan", "--tasks", "2", *TOKENS), ["unrecognized arguments: --tasks 2"]),
        (("verify", "--tasks", "3", "--version", "d"), ["--tasks is 3: which of them is this? pass --index 0 … 2"]),
        (("task", "--tasks", "3", "--plan", "p"), ["--tasks is 3: which of them is this? pass --index 0 … 2"]),
        (("all", *TOKENS, "--key-field", "id", "--field", "a", "--end-of-document", "x", *LABELLED), [
            "--read-as labelled_folders has no meaning with format tokens, where each file is a document; use file",
            "--end-of-document has no meaning with tokenizer bytes, whose documents end with 256; leave it out, or "
            "name a tokenizer.json",
            "--key-field has no meaning with format tokens; leave it out",
            "--field has no meaning with format tokens; leave it out",
        ]),
        (("all", *TOKENS, "--format", "mds", "--tokenizer", "t.json", "--text-field", "a"), [
            f"--{name} has no meaning with format mds; leave it out"
            for name in ("sequence-length", "over-long", "tokenizer", "text-field")
        ]),
        (("all", *TOKENS, "--read-as", "lines", "--text-field", "a"), [
            "--text-field has no meaning with read_as lines: the whole line is the document; leave it out"
        ]),
        (("all", "--format", "mds", "--read-as", "grouped_files", "--key-field", "a"), [
            "--key-field has no meaning with read_as grouped_files: each file has a name; leave it out"
        ]),
    ],
)  # fmt: skip
def test_flags_that_would_be_ignored_are_refused_by_name(
    arguments: tuple[str, ...], faults: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = ("--corpus", "x") if arguments[0] in ("plan", "all") else ()

    assert main([*arguments, *corpus, "--storage", "x"]) == 78
    _, *lines = capsys.readouterr().err.split("python -m components.shard: ")
    assert [line.strip() for line in lines] == faults


def test_an_error_that_is_a_bug_is_70_with_its_traceback(tmp_path: Path) -> None:
    plan = values(shard(tmp_path, "plan", "--corpus", str(rows(tmp_path / "rows")), *TOKENS))["plan_id"]
    program = (
        "import sys\nfrom components.shard import command\ndef broken(*arguments, **named): raise KeyError('a bug')\n"
        "command.run_task = broken\nsys.exit(command.main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", program, "task", "--plan", plan, "--storage", str(tmp_path / "storage")]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)

    (line,) = map(json.loads, done.stderr.splitlines())
    assert done.returncode == 70
    assert line["message"] == "Bug: KeyError: 'a bug'"
    assert "in broken" in line["traceback"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sha256": "x" * 64}, "files[0].sha256: String should match pattern"),
        ({"sha256": "ab"}, "files[0].sha256: String should match pattern"),
        ({"path": "/etc/passwd"}, "'/etc/passwd' is not a relative path within the storage"),
        ({"path": "../../../../x"}, "'../../../../x' is not a relative path within the storage"),
        ({"path": "a/../../x"}, "'a/../../x' is not a relative path within the storage"),
        ({"path": ".."}, "'..' is not a relative path within the storage"),
        ({"path": ""}, "'' is not a relative path within the storage"),
    ],
)
@pytest.mark.parametrize("command", ["merge", "verify", "export"])
def test_a_damaged_digest_or_path_in_a_receipt_or_manifest_is_78_in_words(
    tmp_path: Path, command: str, changed: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> int:
        return main([*arguments, "--storage", str(tmp_path / "storage")])

    assert run("all", "--corpus", str(rows(tmp_path / "rows")), "--format", "webdataset") == 0
    made = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines() if "=" in line)
    name = "receipts/000001/000000.json" if command == "merge" else "manifest.json"
    (path,) = (tmp_path / "storage").glob(f"data/*/*/{name}")
    document = json.loads(path.read_text())
    document["shards"][0]["files"][0] |= changed
    path.write_text(json.dumps(document))

    flags = ("--plan", made["plan_id"]) if command == "merge" else ("--version", made["data_version"])
    more = ("--to", str(tmp_path / "out")) if command == "export" else ()
    assert run(command, *flags, *more) == 78
    assert said in capsys.readouterr().err.replace("\\", "")


def test_help_names_every_command_with_examples() -> None:
    done = subprocess.run([sys.executable, "-m", "components.shard", "--help"], capture_output=True, text=True)

    assert done.returncode == 0
    for word in ("plan", "task", "merge", "all", "verify", "export", "examples:"):
        assert word in done.stdout


def test_a_disk_that_is_full_mid_shard_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    corpus = rows(tmp_path / "rows", count=20_000)
    argv = [sys.executable, "-m", "components.shard", "all", "--corpus", str(corpus), "--format", "mds"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = subprocess.run(
        [*argv, "--storage", str(tmp_path / "storage")], capture_output=True, text=True, preexec_fn=limit, timeout=120
    )

    assert done.returncode == 81
    assert "cannot build a shard in" in done.stderr
    assert "set TMPDIR to another disk" in done.stderr
    assert not (tmp_path / "storage" / "data" / "shards").exists()


def test_progress_is_told_with_rate_and_time_left_and_as_n_of_m(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now, file = [0.0], tmp_path / "progress"
    os.environ["ARGOSY_PROGRESS_FILE"] = str(file)
    try:
        progress = Progress(Log({}), "shards", total=4, clock=lambda: now[0])
        shown = [file.read_text()]
        for _ in range(2):
            now[0] += 20
            progress.add(num_bytes=40 << 20)
            shown.append(file.read_text())
    finally:
        del os.environ["ARGOSY_PROGRESS_FILE"]

    assert shown == ["0/4", "1/4", "2/4"]
    lines = [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["1 of 4 shards, 2.0 MiB/s, about 1m left", "2 of 4 shards, 2.0 MiB/s, about 40s left"]


def test_the_stage_starts_without_the_heavy_packages() -> None:
    program = (
        "import sys, components.shard.run\n"
        "print(*(m for m in ('torch', 'numpy', 'pyarrow', 'boto3') if m in sys.modules))"
    )

    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []
