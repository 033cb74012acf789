"""Durations and sizes, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("250ms", 0.25), ("1.5h", 5400), ("1h 30m", 5400)],
)
def test_a_duration_is_read_as_written(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["90", "h", "1x", "", "1h30", "-5s", "5 minutes", "1h-5m"])
def test_a_duration_without_a_known_unit_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example 90s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("512MiB", 512 * 2**20), ("2GB", 2 * 10**9), ("1.5KiB", 1536), ("7 B", 7)]
)
def test_a_size_is_read_as_written(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["512", "MiB", "1 mib", "", "-1GB", "1PiB"])
def test_a_size_without_a_known_unit_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example 512MiB"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_formatted_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000

    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=0.001)


def test_sizes_are_shown_rounded() -> None:
    assert [format_size(number) for number in (0, 1023, 536_870_912, 3 * 2**40)] == [
        "0 B",
        "1023 B",
        "512.0 MiB",
        "3.0 TiB",
    ]
