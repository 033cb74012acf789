"""A run description is either read as meant, or every fault in it is told with its place and its cure."""

from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput
from pipelines.config import TrainConfig, default_storage, load_config
from pipelines.recipes import RECIPES, find_recipe

MINIMAL = """\
experiment: gpt-tiny
shard:
  corpus: ./texts
  sequence_length: 128
  over_long: split
launch:
  num_nodes: 2
  nproc_per_node: 1
  command: [python, train.py]
checkpoint: none
"""


def a_file(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def faults(text: str, *overrides: str) -> list[str]:
    a_file(Path.cwd(), text)
    with pytest.raises(BadInput) as caught:
        load_config(Path("run.yaml"), overrides=overrides)
    assert caught.value.exit_code == 78
    return [str(problem) for problem in caught.value.problems]


def replaced(old: str, new: str) -> str:
    assert old in MINIMAL
    return MINIMAL.replace(old, new)


def test_a_short_description_is_filled_with_defaults(here: Path) -> None:
    config = load_config(a_file(here, MINIMAL))

    assert config.checkpoint is None
    assert config.launch.command == ("python", "train.py")
    assert config.launch.limits.run == 86400
    assert config.shard.target_shard_size == 64 * 2**20
    assert config.storage is None


def test_durations_and_sizes_are_written_as_people_do(here: Path) -> None:
    text = MINIMAL + "verify: {timeout: 1h30m}\npreflight: {memory_per_rank: 1.5GiB}\n"

    config = load_config(a_file(here, text))

    assert config.verify.timeout == 5400
    assert config.preflight.memory_per_rank == 1536 * 2**20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "sharrd: 1\n", "run.yaml:11 sharrd: unknown key; did you mean shard?"),
        (
            replaced("num_nodes: 2", "num_node: 2"),
            "run.yaml:7 launch.num_node: unknown key; did you mean num_nodes?",
        ),
        (
            MINIMAL + "resume: {source: latest}\n",
            "run.yaml:11 resume.source: unknown key; known here: from, on_new_data",
        ),
        (
            replaced("  over_long: split\n", ""),
            "run.yaml:2 shard.over_long: required, but missing; add over_long: What happens to a document longer than",
        ),
        (
            replaced("over_long: split", "over_long: cut"),
            "run.yaml:5 shard.over_long: is 'cut'; write split, truncate,",
        ),
        (replaced("num_nodes: 2", "num_nodes: two"), "run.yaml:7 launch.num_nodes: is 'two'; write a whole number"),
        (replaced("num_nodes: 2", "num_nodes: 2.5"), "run.yaml:7 launch.num_nodes: is 2.5; write a whole number"),
        (replaced("num_nodes: 2", "num_nodes: 0"), "run.yaml:7 launch.num_nodes: is 0; set 1 or more"),
        (replaced("num_nodes: 2", "num_nodes: true"), "run.yaml:7 launch.num_nodes: is true; write a whole number"),
        (replaced("num_nodes: 2", "num_nodes:"), "run.yaml:7 launch.num_nodes: is empty; write a whole number"),
        (
            replaced("[python, train.py]", "[python, 60]"),
            'run.yaml:9 launch.command[1]: is 60, not a string; put it in quotes: "60"',
        ),
        (replaced("[python, train.py]", "[]"), "run.yaml:9 launch.command: is an empty list; write at least one"),
        (
            replaced("[python, train.py]", "python train.py"),
            "run.yaml:9 launch.command: is 'python train.py', not a list; write a list",
        ),
        (
            replaced("[python, train.py]", '[python, "a\\0b"]'),
            "run.yaml:9 launch.command[1]: holds a NUL character",
        ),
        (
            replaced("experiment: gpt-tiny", "experiment: GPT"),
            "run.yaml:1 experiment: is 'GPT'; write lowercase letters",
        ),
        (
            replaced("experiment: gpt-tiny", "experiment: " + "a" * 41),
            f"run.yaml:1 experiment: is '{'a' * 41}' (41 characters); write lowercase letters, digits and hyphens",
        ),
        (MINIMAL + "model_version: v1-\n", "run.yaml:11 model_version: is 'v1-'; write lowercase"),
        (
            MINIMAL + "verify: {timeout: 30}\n",
            "run.yaml:11 verify.timeout: is 30, without a unit; write for example 90s",
        ),
        (MINIMAL + "verify: {timeout: 3 weeks}\n", "run.yaml:11 verify.timeout: not a duration: '3 weeks'"),
        (MINIMAL + "verify: {timeout: 0s}\n", "run.yaml:11 verify.timeout: is 0s; set more than 0"),
        (MINIMAL + "verify: {timeout: 31d}\n", "run.yaml:11 verify.timeout: is 31d; set more than 0 and at most 30d"),
        (
            MINIMAL + "verify: {level: deep}\n",
            "run.yaml:11 verify.level: is 'deep'; write files, digests, tensors or load",
        ),
        (
            MINIMAL + "preflight: {min_free_space: 5}\n",
            "run.yaml:11 preflight.min_free_space: is 5, without a unit; write for example",
        ),
        (MINIMAL + "retain: {keep_last: 1}\n", "run.yaml:11 retain.keep_last: is 1; set 2 or more"),
        (MINIMAL + "verify: 3\n", "run.yaml:11 verify: is 3, not a section; write its fields below it: timeout,"),
        (
            MINIMAL + "storage: gs://x\n",
            "run.yaml:11 storage: not a storage: 'gs://x'; write file:///absolute/folder or s3://bucket/prefix",
        ),
        (
            MINIMAL + "storage: s3://key:secret@bucket\n",
            "run.yaml:11 storage: not a storage: it holds an @, as if credentials were in it; write "
            "s3://bucket/prefix; credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, a role)",
        ),
        (
            MINIMAL + "storage: s3://bucket\nstorage_options: {endpoint: minio, ca_bundle: ca.pem}\n",
            "run.yaml:12 storage_options.endpoint: is 'minio', not http(s)://host[:port]; write http(s)://host[:port]; "
            "credentials come from the environment",
        ),
        (
            MINIMAL + "storage_options: {region: eu-1}\n",
            "run.yaml:11 storage_options: has no effect without an s3:// storage; set storage, or leave it out",
        ),
        (MINIMAL + "storage: file:///x/{{y}}\n", "run.yaml:11 storage: holds braces"),
        (MINIMAL + "image: '{{workflow.name}}'\n", "run.yaml:11 image: holds braces"),
        (MINIMAL + "resume: {from: Other@latest}\n", "run.yaml:11 resume.from: not a resume point: 'Other@latest'"),
        (MINIMAL + "resume: {from: step-3}\n", "run.yaml:11 resume.from: not a resume point: 'step-3'; write latest,"),
        (replaced("checkpoint: none", "checkpoint: no"), "run.yaml:10 checkpoint: is false, not a section; write"),
        (replaced("checkpoint: none", "checkpoint:"), "run.yaml:10 checkpoint: is empty; write `none`"),
        (replaced("checkpoint: none", "checkpoint: {}"), "run.yaml:10 checkpoint.every_steps: required, but missing"),
        ("- 1\n", "run.yaml:1: is a list, not a section; write its fields below it: experiment"),
        ("", "run.yaml:1 experiment: required, but missing"),
    ],
)
def test_a_fault_names_file_line_field_and_cure(text: str, expected: str, here: Path) -> None:
    found = faults(text)

    assert any(fault.startswith(expected) for fault in found), found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "text_field: body\n  read_as: lines",
            "text_field: has no meaning with read_as lines: the whole line is the docu",
        ),
        ("end_of_document: </s>", "end_of_document: has no meaning with tokenizer bytes, whose documents end with 256"),
        ("key_field: id", "key_field: has no meaning with format tokens; leave it out"),
        (
            "read_as: labelled_folders",
            "format: is tokens, and read_as labelled_folders has no meaning with format tokens",
        ),
        ("format: mds\n  tokenizer: t.json", "tokenizer: has no meaning with format mds; leave it out"),
        ("format: mds", "over_long: has no meaning with format mds; leave it out"),
        ("format: mds\n  read_as: tar\n  key_field: id", "key_field: has no meaning with read_as tar: each member has"),
    ],
)
def test_a_setting_of_shard_that_would_be_ignored_is_refused_by_name(lines: str, expected: str, here: Path) -> None:
    found = faults(replaced("  over_long: split", f"  over_long: split\n  {lines}"))

    assert any(fault.partition(" shard.")[2].startswith(expected) for fault in found), found


@pytest.mark.parametrize("name", ["RANK", "MASTER_ADDR", "ARGOSY_DATA", "PET_NNODES"])
def test_a_variable_of_the_gang_cannot_be_set(name: str, here: Path) -> None:
    found = faults(replaced("  command:", f"  env: {{{name}: 'x'}}\n  command:"))

    assert found == [f"run.yaml:9 launch.env.{name}: {name} is set by Argosy for every rank; choose another name"]


def test_every_fault_is_told_at_once(here: Path) -> None:
    text = MINIMAL.replace("num_nodes: 2", "num_nodes: 0").replace("over_long: split", "over_long: cut")

    found = faults(text + "verify: {timeout: 30}\nexperiment: twice\nmodel: x\n")

    assert [fault.split(": ")[0].removeprefix("run.yaml:") for fault in found] == [
        "5 shard.over_long",
        "7 launch.num_nodes",
        "11 verify.timeout",
        "12 experiment",
        "13 model",
    ]


def test_a_syntax_error_names_its_line(here: Path) -> None:
    assert faults("experiment: [x\nshard: 1\n")[0].startswith("run.yaml:2: not valid YAML")


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (
            "launch.timeout=25h",
            "launch.timeout: is 1d1h, but launch.limits and launch.max_restarts allow for 1d1h29m",
        ),
        ("deadline=2h", "deadline: is 2h, but the stages' timeout and retries allow for 4d19h27m39s"),
        ("resume.from=step:300", "resume.from: is step:300, but checkpoint is none, so there is nothing to resume"),
        ("launch.accelerator={}", "launch.accelerator: asks for nothing; set model, min_memory_gib or min_driver"),
        (
            "launch.resources.memory=256MiB",
            "launch.resources.memory: is 256MiB, but preflight.memory_per_rank and launch.nproc_per_node ask for "
            "600MiB on each node; set at least 600MiB, or lower preflight.memory_per_rank to what a rank needs",
        ),
        (f"launch.command=[a, {'x' * 16000}]", "launch.command: makes the description 1"),
    ],
)
def test_a_rule_about_two_fields_names_both(added: str, expected: str, here: Path) -> None:
    assert faults(MINIMAL, added)[0].startswith(f"--set {added.split('=')[0]}: {expected.split(': ', 1)[1]}")


def test_keep_every_steps_that_meets_no_checkpoint_is_refused(here: Path) -> None:
    text = replaced("checkpoint: none", "checkpoint: {every_steps: 300}") + "retain: {keep_every_steps: 1000}\n"

    assert faults(text) == [
        "run.yaml:11 retain.keep_every_steps: is 1000, but checkpoint.every_steps is 300: "
        "most of those steps have no checkpoint; set a multiple of 300"
    ]


def test_several_rules_about_two_fields_are_told_together(here: Path) -> None:
    assert len(faults(MINIMAL, "deadline=2h", "resume.from=step:3", "launch.accelerator={}")) == 3


@pytest.mark.parametrize("point", ["latest", "fresh", "step:300", "step-300-term-2", "other@latest"])
def test_a_resume_point_is_one_of_five_kinds(point: str, here: Path) -> None:
    text = replaced("checkpoint: none", "checkpoint: {every_steps: 10}") + f"resume: {{from: {point}}}\n"

    assert load_config(a_file(here, text)).resume.source == point


def test_an_override_wins_and_is_named_when_it_is_wrong(here: Path) -> None:
    a_file(here, MINIMAL)

    config = load_config(Path("run.yaml"), overrides=["launch.num_nodes=4", "launch.limits.run=2h", "experiment=other"])

    assert (config.launch.num_nodes, config.launch.limits.run, config.experiment) == (4, 7200, "other")
    assert faults(MINIMAL, "launch.num_nodes=x", "launch.limit=3", "seed", "=3", "a..b=1") == [
        "--set seed: not an assignment; write --set section.field=value",
        "--set =3: not an assignment; write --set section.field=value",
        "--set a..b=1: not an assignment; write --set section.field=value",
        "--set launch.num_nodes: is 'x'; write a whole number",
        "--set launch.limit: unknown key; did you mean limits?",
    ]


def test_an_override_is_yaml(here: Path) -> None:
    config = load_config(recipe="tiny", overrides=["launch.command=[python, 'x y', '3']", "checkpoint=none"])

    assert config.launch.command == ("python", "x y", "3")
    assert config.checkpoint is None
    with pytest.raises(BadInput, match=r"has 1 fault;.*\n  --set launch.command: not valid YAML"):
        load_config(recipe="tiny", overrides=["launch.command=[python"])


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda path: None, "cannot read run.yaml: No such file or directory; make one with"),
        (lambda path: path.mkdir(), "cannot read run.yaml: Is a directory"),
        (lambda path: path.write_bytes(b"a: \xff\n"), "run.yaml is not UTF-8 text"),
        (lambda path: path.write_text("a" * 300_000), "run.yaml is larger than 262144 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(prepare: Any, expected: str, here: Path) -> None:
    prepare(Path("run.yaml"))

    with pytest.raises(BadInput, match=expected):
        load_config(Path("run.yaml"))


def test_a_byte_order_mark_is_no_part_of_the_first_key(here: Path) -> None:
    (here / "run.yaml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())

    assert load_config(Path("run.yaml")).experiment == "gpt-tiny"


def test_an_unknown_recipe_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="there is no recipe 'tinny'; did you mean tiny"):
        load_config(recipe="tinny")


@pytest.mark.parametrize("name", RECIPES)
def test_a_description_reads_back_from_what_it_is_stored_as(name: str) -> None:
    import json

    config = find_recipe(name)[1]

    assert TrainConfig.model_validate_json(json.dumps(config.as_json())) == config


def test_no_checkpoints_are_stored_as_the_word_none() -> None:
    config = load_config(recipe="tiny", overrides=["checkpoint=none"])

    assert config.as_json()["checkpoint"] == "none"


def test_the_deadlines_follow_from_the_limits() -> None:
    config = load_config(recipe="tiny")

    # 4 * (20 min + 1 min) + 2 h + 5 min
    assert config.launch_timeout == 12540
    # shard 3 * (3 * 1 h + 12 s), launch 4 * 12540 s + 39 s, verify 3 * 1 h + 12 s, retain 3 * 30 min + 12 s
    assert config.critical_path == 32436 + 50199 + 10812 + 5412
    assert config.workflow_deadline == config.critical_path


def test_the_default_storage_lies_below_the_home() -> None:
    assert default_storage(Path("/srv/argosy")) == "file:///srv/argosy/storage"
    with pytest.raises(BadInput, match="braces"):
        default_storage(Path("/srv/{{x}}"))
