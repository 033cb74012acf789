"""`stop.json`: that it is there counts."""

import pytest

from components.contracts.stop import StopRequest, read_stop


@pytest.mark.parametrize("data", [b"", b"{", b'{"by":"ann","at":"yesterday"}', b'{"by":"ann","force":"perhaps"}'])
def test_a_stop_counts_though_it_cannot_be_read(data: bytes) -> None:
    assert read_stop(data) == StopRequest(by="somebody", at=None, force=False)


def test_a_stop_says_who_asked_and_when() -> None:
    found = read_stop(b'{"by":"ann","at":"2026-11-29T12:00:00.000Z","force":true}')
    assert found == StopRequest(by="ann", at="2026-11-29T12:00:00.000Z", force=True)
