"""report.json: the curve that counts, each checkpoint with its fate, each attempt with its end."""

from components.contracts.gang import StepView
from components.contracts.retention import Decision, RetentionPlan
from components.report.report import RunReport, build_report, curve
from tests.components.report.views import NOW, a_checkpoint, a_step, at, bare_view, failed_view, succeeded_view


def numbers(steps: list[StepView] | tuple[StepView, ...]) -> list[int]:
    return [step.step for step in steps]


def test_a_step_made_twice_counts_as_made_the_second_time() -> None:
    made = [a_step(step, step) for step in (1, 2, 3, 4)] + [a_step(step, 10 + step) for step in (3, 4, 5)]

    counting, abandoned = curve(made)

    assert numbers(counting) == [1, 2, 3, 4, 5]
    assert [step.at for step in counting] == [at(1), at(2), at(13), at(14), at(15)]
    assert [numbers(part) for part in abandoned] == [[3, 4]]


def test_each_restart_leaves_its_own_abandoned_stretch() -> None:
    made = [a_step(step, place) for place, step in enumerate((1, 2, 3, 2, 3, 1, 2))]

    counting, abandoned = curve(made)

    assert numbers(counting) == [1, 2]
    assert [numbers(part) for part in abandoned] == [[2, 3], [1, 2, 3]]


def test_a_thinned_curve_may_skip_the_step_it_goes_back_to() -> None:
    counting, abandoned = curve([a_step(step, place) for place, step in enumerate((10, 20, 30, 25, 35))])

    assert numbers(counting) == [10, 20, 25, 35]
    assert [numbers(part) for part in abandoned] == [[30]]


def test_the_report_reads_back_as_itself() -> None:
    for view in (succeeded_view(), failed_view(), bare_view()):
        report = build_report(view, NOW)

        assert RunReport.from_bytes(report.to_bytes(), where="report.json") == report


def test_the_summaries_of_a_run_with_one_restart() -> None:
    report = build_report(succeeded_view(), NOW)

    assert report.ended_at == at(39.4)  # retain's end; the exit handler still runs
    assert report.data is not None
    assert (report.data.num_sequences, report.data.num_tokens) == (123166, 31526986)
    assert report.training is not None
    assert numbers(report.training.steps) == list(range(1, 61))
    assert [numbers(part) for part in report.training.abandoned] == [list(range(21, 29))]
    assert report.gang is not None
    assert [(item.generation, item.term, item.outcome, item.charged) for item in report.gang.attempts] == [
        (0, 1, "failed", False), (0, 2, "succeeded", True),
    ]  # fmt: skip


def test_step_times_leave_out_the_first_step_of_every_attempt() -> None:
    report = build_report(succeeded_view(), NOW)

    assert report.training is not None
    assert report.training.median_step_seconds is not None
    assert 0.19 < report.training.median_step_seconds < 0.23
    assert report.training.tokens_per_second is not None
    assert 35_000 < report.training.tokens_per_second < 45_000


def test_every_checkpoint_is_listed_with_what_retention_decided() -> None:
    report = build_report(succeeded_view(), NOW)

    assert [(row.checkpoint, row.decision, row.decision_reason) for row in report.checkpoints] == [
        ("step-60-term-2", "keep", "one of the 3 newest verified"),
        ("step-50-term-2", "keep", "one of the 3 newest verified"),
        ("step-40-term-2", "keep", "one of the 3 newest verified"),
        ("step-30-term-2", "none", ""),
        ("step-20-term-1", "delete", "3 newer verified ones are kept"),
        ("step-10-term-1", "delete", "3 newer verified ones are kept"),
    ]


def test_a_retired_checkpoint_is_deleted_even_when_the_plan_on_record_kept_it() -> None:
    plan = RetentionPlan(decisions=(Decision(checkpoint="step-9-term-1", step=9, action="keep", reason="newest"),))
    view = succeeded_view(checkpoints=(a_checkpoint(9, status="retired", reason="pushed out"),), retention=plan)

    (row,) = build_report(view, NOW).checkpoints

    assert (row.decision, row.decision_reason) == ("delete", "pushed out")


def test_a_run_that_barely_began_has_a_diagnosis_and_little_else() -> None:
    report = build_report(bare_view(), NOW)

    assert report.diagnosis.reason == "CorpusRefused"
    assert (report.data, report.gang, report.training, report.checkpoints) == (None, None, None, ())
