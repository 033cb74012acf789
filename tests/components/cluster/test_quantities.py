"""Quantities mean what Kubernetes means by them."""

from decimal import Decimal

import pytest

from components.cluster.quantities import parse_quantity, write_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", Decimal(4)), ("500m", Decimal("0.5")), ("64Gi", Decimal(68719476736)), ("2k", Decimal(2000)),
        ("1.5Gi", Decimal(1610612736)), ("2e3", Decimal(2000)), ("1E", Decimal(10**18)), (".5", Decimal("0.5")),
    ],
)  # fmt: skip
def test_it_reads_what_kubernetes_writes(text: str, value: Decimal) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "lots", "4 Gi", "4GiB", "0x4", "NaN", "1e", "Ki"])
def test_it_refuses_what_kubernetes_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [("72", "72"), ("544Gi", "544Gi"), ("0.25", "250m"), ("0", "0"), ("1500", "1500"), ("0.0001", "1m")],
)
def test_it_writes_the_usual_spelling(value: str, text: str) -> None:
    assert write_quantity(parse_quantity(value)) == text
