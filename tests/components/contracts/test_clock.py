"""Times in documents."""

from datetime import UTC, datetime

import pytest

from components.contracts.clock import is_utc, parse_utc, utc_text
from components.contracts.document import DamagedDocument
from components.contracts.records import StageRecord

MOMENT = datetime(2026, 11, 29, 18, 50, 52, 123456, tzinfo=UTC)


def test_a_time_is_written_in_milliseconds_and_read_back() -> None:
    assert utc_text(MOMENT) == "2026-11-29T18:50:52.123Z"
    assert parse_utc("2026-11-29T18:50:52.123Z") == MOMENT.replace(microsecond=123000)


@pytest.mark.parametrize("value", ["", "yesterday", "2026-11-29T12:00:00", "2026-13-29T12:00:00Z", None, 3])
def test_what_is_no_time_with_its_zone_is_none(value: object) -> None:
    assert not is_utc(value)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-29T12:00:00"])
def test_a_document_with_such_a_time_is_damaged(text: str) -> None:
    data = f'{{"task":"launch","attempt":0,"node":"box","started_at":"{text}"}}'.encode()
    with pytest.raises(DamagedDocument, match="started_at"):
        StageRecord.from_bytes(data, where="file:///s/launch.json")
