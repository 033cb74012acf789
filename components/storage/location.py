"""How a store is named: `file:///folder` or `s3://bucket/prefix`, and what else reaching an S3 store takes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.errors import BadInput

ACCEPTED = "file:///absolute/folder or s3://bucket/prefix"

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9._=+-]+")
_VARIABLES = {
    "endpoint": "AWS_ENDPOINT_URL_S3", "region": "AWS_REGION", "path_style": "ARGOSY_S3_PATH_STYLE",
    "ca_bundle": "AWS_CA_BUNDLE",
}  # fmt: skip


@dataclass(frozen=True)
class FileLocation:
    """A folder of this machine, or one that all nodes mount."""

    folder: Path


@dataclass(frozen=True)
class S3Location:
    """A bucket, or the part of it below `prefix`, which has no outer slashes and may be empty."""

    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_location(uri: str) -> FileLocation | S3Location:
    """What `uri` names. Raises BadInput; what it shows never holds a password."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme == "file" and rest.startswith("/"):
        return FileLocation(Path(rest))
    if separator and scheme == "s3":
        return _s3_location(uri, rest)
    shown = repr(uri) if "@" not in uri else "what it is"
    raise BadInput("UnknownStorage", f"not a storage: {shown}", f"write {ACCEPTED}")


def _s3_location(uri: str, rest: str) -> S3Location:
    bucket, _, prefix = rest.partition("/")
    if "@" in rest:
        raise BadInput(
            "UnknownStorage", "not a storage: it holds an @, as if credentials were in it",
            "write s3://bucket/prefix; credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, a role)",
        )  # fmt: skip
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        seen = f"not a storage: {uri!r}, where {bucket!r} is no name of a bucket"
        raise BadInput("UnknownStorage", seen, "write 3 to 63 lowercase letters, digits, dots and hyphens")
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    if any(part in (".", "..") or part.startswith(".tmp-") or not _SEGMENT.fullmatch(part) for part in parts):
        raise BadInput(
            "UnknownStorage", f"not a storage: {uri!r}, whose prefix has empty or unusual parts",
            "write letters, digits and - _ . = + between single slashes",
        )  # fmt: skip
    return S3Location(bucket, "/".join(parts))


@dataclass(frozen=True)
class StoreOptions:
    """How an S3 store is reached; None: not said. Credentials are never among them."""

    endpoint: str | None = None
    """`http(s)://host[:port]`; None: Amazon's own."""
    region: str | None = None
    path_style: bool | None = None
    """Whether the bucket stands in the path, not in the host name; None: it does with an endpoint of one's own."""
    ca_bundle: str | None = None
    """File with the certificates that the endpoint's own is checked against."""

    def over(self, other: "StoreOptions") -> "StoreOptions":
        """These options, and `other`'s where these say nothing."""
        return StoreOptions(**{**dict(other._said()), **dict(self._said())})

    def environment(self) -> dict[str, str]:
        """The variables that say the same to any process; boto3 itself reads all but one of them."""
        written = {True: "true", False: "false"}
        return {_VARIABLES[name]: written.get(value, value) for name, value in self._said()}

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> "StoreOptions":
        """What the environment says. Raises BadInput."""
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or None
        style = environ.get("ARGOSY_S3_PATH_STYLE") or None
        if style not in (None, "true", "false"):
            raise BadInput("BadVariable", f"ARGOSY_S3_PATH_STYLE is {style!r}", "set true or false, or leave it out")
        if endpoint and (fault := fault_of_endpoint(endpoint)):
            raise BadInput("BadVariable", f"AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL {fault}", "set https://host[:port]")
        return cls(endpoint, region, None if style is None else style == "true", environ.get("AWS_CA_BUNDLE") or None)

    @classmethod
    def of_description(cls, options: Mapping[str, Any] | None) -> "StoreOptions":
        """`storage_options` of a run description that was validated before."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in (options or {}).items() if name in known})

    def _said(self) -> list[tuple[str, Any]]:
        return [(f.name, value) for f in fields(self) if (value := getattr(self, f.name)) is not None]


def fault_of_endpoint(endpoint: str) -> str:
    """What is wrong with the address of a server, without repeating a password in it; empty when nothing is."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        return f"is not an address: {error}"
    if parts.username is not None or parts.password is not None:
        return "holds credentials"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"is {endpoint!r}, not http(s)://host[:port]"
    if parts.query or parts.fragment or port == 0:
        return f"is {endpoint!r}: only scheme, host, port and path belong in it"
    return ""
