"""A document one stage hands to another: frozen, strict, read and written as canonical JSON."""

from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from components.contracts.canonical import canonical_bytes, digest_of
from components.errors import ArgosyError, BadInput, ExitCode, Problem

Spec = TypeVar("Spec", bound=BaseModel)


class DamagedDocument(ArgosyError):
    """A stored document cannot be read as what it should be: cut short, edited, or written by another version."""

    exit_code = ExitCode.BAD_INPUT


class Document(BaseModel):
    """Base of every contract. Unknown keys are refused, so a document from another version is noticed, not misread."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, without keys that hold their default None."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal documents give equal bytes."""
        return canonical_bytes(self.as_json())

    def digest(self) -> str:
        """Hex SHA-256 of `to_bytes()`."""
        return digest_of(self.as_json())

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> Self:
        """Read `data`; `where` names its uri or file in the error. Raises DamagedDocument."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            faults = "; ".join(f"{path_of(item['loc'])}: {item['msg']}" for item in error.errors()[:5])
            raise DamagedDocument(
                "DamagedDocument",
                f"{where} is not a readable {cls.__name__}: {faults}",
                "restore it, or check that the Argosy version that wrote it is not newer than this one",
            ) from error


def read_spec(cls: type[Spec], text: str) -> Spec:
    """A stage's Spec from its `--spec` argument. Raises BadInput with every fault listed."""
    try:
        return cls.model_validate_json(text)
    except ValidationError as error:
        problems = [Problem(path_of(item["loc"]) or "--spec", item["msg"]) for item in error.errors()]
        raise BadInput("BadSpec", f"--spec is not a valid {cls.__name__}", problems=problems) from error


def path_of(location: tuple[int | str, ...]) -> str:
    """A pydantic error location as people write it: ('files', 0, 'path') -> 'files[0].path'."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
