"""What fields of a run description are made of: text, times, sizes, names; and the base of every section."""

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
)

from components.contracts.units import Duration, Size, format_duration, write_size


class Section(BaseModel):
    """Base of every section: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


def _printable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which no program can be given")
    return text


Text = Annotated[str, AfterValidator(_printable)]


def _unit_is_written(value: object, info: ValidationInfo) -> object:
    if info.mode == "json" and not isinstance(value, str):  # from YAML: a bare number hides whether it means s or ms
        raise ValueError(f"is {value}, without a unit; write for example 90s, 1h30m or 512MiB")
    return value


def _at_most_30_days(seconds: float) -> float:
    if not 0 < seconds <= MAX_TIME_SECONDS:
        raise ValueError(f"is {format_duration(seconds)}; set more than 0 and at most 30d")
    return seconds


MAX_TIME_SECONDS = 30 * 86400

Time = Annotated[
    Duration,
    BeforeValidator(_unit_is_written, json_schema_input_type=str),
    AfterValidator(_at_most_30_days),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
"""A duration as people write it, `90s`, `1h30m`: more than 0, at most 30 days."""

Bytes = Annotated[
    Size,
    BeforeValidator(_unit_is_written, json_schema_input_type=str),
    PlainSerializer(write_size, return_type=str, when_used="json"),
]
"""A size as people write it, `512MiB`, `2GB`."""

Retries = Annotated[int, Field(ge=0, le=20)]

OURS = ("ARGOSY_", "PET_", "TORCHELASTIC_")
"""Prefixes of environment variables that belong to the gang."""
RENDEZVOUS = frozenset(
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
)


def _free_variable(name: str) -> str:
    if name in RENDEZVOUS or name.startswith(OURS):
        raise ValueError(f"{name} is set by Argosy for every rank; choose another name")
    return name


EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_free_variable)]
