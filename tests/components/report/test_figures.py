"""Figures: round ticks, one outlier does not flatten the rest, nothing is drawn of nothing."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from components.report.figures import Line, Mark, line_figure, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (2.31, 5.6, [2, 3, 4, 5, 6]),
        (0.0, 0.23, [0, 0.05, 0.1, 0.15, 0.2, 0.25]),
        (-3.0, 3.0, [-4, -2, 0, 2, 4]),
        (5.0, 5.0, [5, 6]),
        (0.0, 0.0, [0, 0.2]),
    ],
)
def test_ticks_are_round_numbers_around_the_values(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, at_most=5)[: len(expected)] == expected


def test_steps_are_counted_in_whole_numbers() -> None:
    assert ticks(1.0, 3.0, at_most=8, whole=True) == [1, 2, 3]


def figure(points: list[tuple[float, float]], **changed: Any) -> ElementTree.Element:
    made = line_figure(
        [Line(points, "main")], title="Loss <by> step", x_label="step", y_format=lambda value: f"{value:g}", **changed
    )
    return ElementTree.fromstring(made)


def classes(element: ElementTree.Element) -> list[str]:
    return [child.get("class", "") for child in element.iter()]


def test_a_figure_is_well_formed_and_names_itself() -> None:
    element = figure([(1, 5.0), (2, 4.0), (3, 3.5)], marks=[Mark(2, "verified", "step-2: <verified>")])

    assert element.get("aria-label") == "Loss <by> step"
    assert classes(element).count("dot-main") == 3
    assert "mark-verified" in classes(element)


def test_the_first_steps_time_does_not_flatten_the_others() -> None:
    points = [(1.0, 9.0), *((float(step), 0.2) for step in range(2, 80))]

    element = figure(points, from_zero=True)

    labels = [child.text for child in element.iter("text")]
    assert "0.2" in labels
    assert classes(element).count("beyond") == 1
    assert "step 1: 9, beyond this scale" in "".join(element.itertext())


def test_long_curves_carry_no_dots() -> None:
    assert "dot-main" not in classes(figure([(step, 1.0 / step) for step in range(1, 1000)]))


def test_one_point_is_a_dot_and_values_that_are_no_numbers_are_left_out() -> None:
    element = figure([(1, float("nan")), (2, 3.0), (3, float("inf"))])

    assert classes(element).count("dot-main") == 1
    assert "line-main" not in classes(element)


def test_nothing_to_draw_is_no_figure() -> None:
    nothing = line_figure([Line([], "main"), Line([(1, float("nan"))], "main")], title="", x_label="", y_format=str)

    assert nothing == ""
