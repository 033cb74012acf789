"""Schedules and zones that Argo's controller takes; `argo lint` 4.0.5 agrees with each of these."""

import zoneinfo

import pytest

from pipelines.schedules import schedule, zone


@pytest.mark.parametrize(
    "text",
    ["30 3 * * 1-5", "@daily", "*/15 0-6,22 1,15 * *", "0 0 * * MON-FRI", "0 0 29 feb *", "5/10 * * * *", "0 0 31 2 1",
     "*/90 * * * *"],
)  # fmt: skip
def test_what_fires_is_taken_as_it_is(text: str) -> None:
    assert schedule(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("60 * * * *", "minute '60' is not 0 to 59"),
        ("0 24 * * *", "hour '24' is not 0 to 23"),
        ("0 0 0 * *", "day of month '0' is not 1 to 31"),
        ("0 0 * 13 *", "month '13' is not 1 to 12 or jan feb"),
        ("0 0 * * 7", "day of week '7' is not 0 to 6 or sun mon"),
        ("*/0 * * * *", "minute '*/0' is not"),
        ("5-1 * * * *", "minute '5-1' is not"),
        ("0 0 L * *", "day of month 'L' is not"),
        ("0 0 * * fre", "day of week 'fre' is not"),
        ("1,,2 * * * *", "minute '1,,2' is not"),
        ("\u0661 * * * *", "minute '\u0661' is not"),
        ("0 0 31 2,4 *", "a day that never comes"),
        ("* * * *", "write minute, hour, day of month, month and day of week"),
        ("0  0 * * *", "write minute, hour"),
        ("@reboot", "write minute, hour"),
    ],
)
def test_what_argo_would_never_fire_is_refused_with_the_part_that_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="write minute") as raised:
        schedule(text)
    assert words in str(raised.value)


def _is_known(name: str) -> bool:
    try:
        return zoneinfo.ZoneInfo(name).key == name
    except zoneinfo.ZoneInfoNotFoundError:
        return False


@pytest.mark.skipif(not _is_known("Etc/UTC"), reason="this machine has no tz database")
@pytest.mark.parametrize("name", ["Europe/Berlim", "UTC+1", "Local", "posix/UTC", "localtime"])
def test_a_zone_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the tz database does not know"):
        zone(name)


def test_where_there_is_no_tz_database_zones_are_believed(tmp_path: object) -> None:
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath(to=[str(tmp_path)])
        zoneinfo.ZoneInfo.clear_cache()
        assert zone("Europe/Berlin") == "Europe/Berlin"
    finally:
        zoneinfo.reset_tzpath(to=before)
