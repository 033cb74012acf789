"""Accelerators, told by an nvidia-smi of our own making on PATH."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.checks.accelerators import (
    SmiAnswer,
    accelerator_question,
    ask_nvidia_smi,
    judge_accelerators,
    parse_accelerators,
)
from components.contracts.checks import CheckResult, CheckStatus
from components.contracts.gang import AcceleratorRule

Executable = Callable[[str, str], Path]
H100 = "NVIDIA H100 80GB HBM3"
TWO_H100 = f"0, {H100}, 81559, 550.54.15\n1, {H100}, 81559, 550.54.15\n"
RULE = AcceleratorRule(model="NVIDIA-H100-80GB-HBM3", min_memory_gib=79.0, min_driver="550")


def asked(
    folder: Path | None, rule: AcceleratorRule | None = None, *, ranks: int = 2, visible: str | None = None,
    deadline: float = 10.0,
) -> CheckResult:  # fmt: skip
    env = {"PATH": f"{folder}:/bin:/usr/bin" if folder else "/nowhere"}
    answer = ask_nvidia_smi(env, deadline_seconds=deadline)
    question = accelerator_question(rule, num_ranks=ranks)
    return judge_accelerators(question, rule=rule, num_ranks=ranks, answer=answer, visible=visible)


def smi(output: str, code: int = 0) -> str:
    return f"cat <<'END'\n{output}END\nexit {code}"


def test_no_nvidia_smi_is_a_cpu_run() -> None:
    result = asked(None)
    assert (result.status, result.measured) == (CheckStatus.OK, "none: a CPU run")


def test_no_nvidia_smi_fails_a_run_that_asks_for_accelerators() -> None:
    result = asked(None, RULE)
    assert (result.status, result.scope) == (CheckStatus.FAIL, "node")
    assert result.expected == "2 × NVIDIA-H100-80GB-HBM3, at least 79 GiB each, driver 550 or newer"


def test_accelerators_as_asked_for_pass(executable: Executable) -> None:
    result = asked(executable("nvidia-smi", smi(TWO_H100)), RULE)
    assert (result.status, result.measured) == (CheckStatus.OK, f"2 × {H100}, driver 550.54.15")


def test_the_query_is_what_the_parser_reads(executable: Executable) -> None:
    folder = executable("nvidia-smi", 'echo "$*" > "$(dirname $0)/asked"')
    asked(folder)
    assert (folder / "asked").read_text().split() == [
        "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("output", "rule", "ranks", "told"),
    [
        (TWO_H100, RULE, 4, "2 for 4 ranks"),
        ("0, NVIDIA A100, 81559, 550.1\n", RULE, 1, "GPU 0 is NVIDIA A100"),
        (f"0, {H100}, 40960, 550.1\n", RULE, 1, "GPU 0 has 40.0 GiB"),
        (f"0, {H100}, 81559, 535.161.08\n", RULE, 1, "GPU 0 has driver 535.161.08"),
        ("", RULE, 1, "none: 0 for 1 ranks"),
        (TWO_H100, AcceleratorRule(min_driver="550.60"), 2, "GPU 1 has driver 550.54.15"),
    ],
)
def test_accelerators_not_as_asked_for_fail_with_the_difference(
    executable: Executable, output: str, rule: AcceleratorRule, ranks: int, told: str
) -> None:
    result = asked(executable("nvidia-smi", smi(output)), rule, ranks=ranks)
    assert result.status is CheckStatus.FAIL
    assert told in result.measured


def test_a_newer_driver_with_fewer_digits_is_newer(executable: Executable) -> None:
    folder = executable("nvidia-smi", smi(f"0, {H100}, 81559, 1000.1\n"))
    assert asked(folder, AcceleratorRule(min_driver="550.54.15"), ranks=1).status is CheckStatus.OK


def test_without_a_rule_what_is_there_is_said(executable: Executable) -> None:
    result = asked(executable("nvidia-smi", smi(TWO_H100)))
    assert (result.status, result.measured) == (CheckStatus.OK, f"2 × {H100}, driver 550.54.15")


def test_without_a_rule_fewer_than_ranks_is_a_warning(executable: Executable) -> None:
    assert asked(executable("nvidia-smi", smi(TWO_H100)), ranks=3).status is CheckStatus.WARN


def test_hidden_devices_do_not_count(executable: Executable) -> None:
    folder = executable("nvidia-smi", smi(TWO_H100))
    assert asked(folder, visible="").measured == "none visible (CUDA_VISIBLE_DEVICES=): a CPU run"
    assert asked(folder, RULE, visible="1").status is CheckStatus.FAIL
    assert asked(folder, RULE, ranks=1, visible="1").status is CheckStatus.OK
    assert asked(folder, RULE, visible="GPU-8f2b,GPU-77aa").status is CheckStatus.OK


def test_an_nvidia_smi_that_hangs_is_unknown_with_and_without_a_rule(executable: Executable) -> None:
    folder = executable("nvidia-smi", "exec sleep 60")
    for rule in (None, RULE):
        began = time.monotonic()
        result = asked(folder, rule, deadline=0.2)
        assert time.monotonic() - began < 30
        assert (result.status, result.blocks) == (CheckStatus.UNKNOWN, True)


def test_an_nvidia_smi_that_hangs_with_a_child_is_left_behind_in_time(executable: Executable) -> None:
    # The grandchild keeps the pipe open; waiting for its end of file would take 20 seconds.
    began = time.monotonic()
    assert asked(executable("nvidia-smi", "sleep 20; true"), deadline=0.2).status is CheckStatus.UNKNOWN
    assert time.monotonic() - began < 15


def test_a_broken_driver_is_a_warning_for_a_cpu_run_and_fails_another(executable: Executable) -> None:
    folder = executable("nvidia-smi", smi("NVIDIA-SMI has failed because it couldn't communicate\n", 9))
    relaxed, strict = asked(folder), asked(folder, RULE)
    assert (relaxed.status, strict.status) == (CheckStatus.WARN, CheckStatus.FAIL)
    assert "exit code 9: NVIDIA-SMI has failed" in strict.measured


def test_output_nobody_can_read_is_unknown(executable: Executable) -> None:
    result = asked(executable("nvidia-smi", smi("some, thing\n")), RULE)
    assert result.status is CheckStatus.UNKNOWN
    assert "some, thing" in result.measured


def test_a_model_name_with_a_comma_in_quotes_is_one_column() -> None:
    (device,) = parse_accelerators('0, "Tesla, T4", 15360, 470.1\n')
    assert (device.model, device.memory_mib) == ("Tesla, T4", 15360.0)


def test_what_the_guard_sent_is_judged_like_what_was_asked_here() -> None:
    question = accelerator_question(RULE, num_ranks=2)
    answer = SmiAnswer(is_there=True, exit_code=0, output=TWO_H100)
    assert judge_accelerators(question, rule=RULE, num_ranks=2, answer=answer).status is CheckStatus.OK
