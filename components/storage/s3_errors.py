"""What an unsuccessful answer of S3, or none at all, means for the request and for people."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from components.errors import ArgosyError
from components.storage.base import StorageError, StorageMisnamed

FAILURES = (boto.BotoCoreError, boto.ClientError, ResponseParserError)
"""Everything that boto3 raises by itself."""


class Meaning(StrEnum):
    """Of a request that did not succeed."""

    MISSING = "missing"
    """There is no such object."""
    TAKEN = "taken"
    """A condition did not hold: the object exists, or has changed. Nothing was done."""
    NOT_DONE = "not-done"
    """Nothing was done; asking again may help."""
    UNKNOWN = "unknown"
    """Whether it was done, nobody here knows."""
    REFUSED = "refused"
    """Asking again will not help."""


@dataclass(frozen=True)
class Trouble:
    """One unsuccessful request."""

    meaning: Meaning
    seen: str
    reason: str = ""
    """Set for a refusal, and for what is taken for one when it stays so."""
    fix: str = ""
    kind: type[StorageError] = StorageError
    """What a refusal is raised as."""
    slow_down: bool = False
    wait_seconds: float = 0.0
    """What the server asked us to wait."""
    needs_body: bool = False
    """An answer to HEAD has no text that says why; the same question as GET does."""


@dataclass(frozen=True)
class _Advice:
    reason: str
    fix: str
    kind: type[StorageError] = StorageError


_KEYS = (
    "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (in a pod: the Secret of storage_options.credentials_secret), "
    "AWS_PROFILE, or the role of this machine or pod"
)
_REGION = "set storage_options.region (AWS_REGION) to the region of the bucket"
_CLOCK = "correct this machine's clock (NTP); S3 refuses requests signed more than 15 minutes off"
_ACCESS = "allow s3:GetObject, PutObject, DeleteObject and, or what is missing looks forbidden, ListBucket"
_SPACE = "free space, or raise the quota"

_NO_CREDENTIALS = _Advice("CredentialsRefused", _KEYS, StorageMisnamed)
_OTHER_REGION = _Advice("WrongRegion", _REGION, StorageMisnamed)
_FULL = _Advice("StorageFull", _SPACE)

_REFUSALS: Mapping[str, _Advice] = {
    "NoSuchBucket": _Advice("NoSuchBucket", "create the bucket, or correct its name", StorageMisnamed),
    "InvalidBucketName": _Advice("NoSuchBucket", "correct its name", StorageMisnamed),
    "InvalidAccessKeyId": _NO_CREDENTIALS,
    "SignatureDoesNotMatch": _NO_CREDENTIALS,
    "InvalidToken": _NO_CREDENTIALS,
    "XAdminUserNotFound": _NO_CREDENTIALS,
    "ExpiredToken": _Advice("CredentialsExpired", "get new credentials and run again", StorageMisnamed),
    "TokenRefreshRequired": _Advice("CredentialsExpired", "get new credentials and run again", StorageMisnamed),
    "AccessDenied": _Advice("AccessDenied", _ACCESS),
    "AllAccessDisabled": _Advice("AccessDenied", "ask whoever runs the store"),
    "AccountProblem": _Advice("AccessDenied", "ask whoever runs the store"),
    "403": _Advice("AccessDenied", _ACCESS),
    "RequestTimeTooSkewed": _Advice("ClockSkew", _CLOCK),
    "PermanentRedirect": _OTHER_REGION,
    "AuthorizationHeaderMalformed": _OTHER_REGION,
    "IllegalLocationConstraintException": _OTHER_REGION,
    "301": _OTHER_REGION,
    "NotImplemented": _Advice("NoConditionalWrites", "use a store that honours If-None-Match on PutObject"),
    "501": _Advice("NoConditionalWrites", "use a store that honours If-None-Match on PutObject"),
    "EntityTooLarge": _Advice("ObjectTooLarge", "write smaller files, for example one a rank"),
    "QuotaExceeded": _FULL,
    "InsufficientStorage": _FULL,
    "XMinioStorageFull": _FULL,
    "507": _FULL,
}
_CONNECTION = re.compile(r"^\w+Connection\(.*?\): ")
"""How urllib3 begins: an object of ours says nothing to people."""

_NO_SUCH_HOST = "[Errno -2]"
"""The resolver's final word, in any language."""

_NOT_DONE = frozenset(
    ("ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "TooManyRequests", "BadDigest", "408", "429",
     "XAmzContentSHA256Mismatch", "IncompleteBody")
)  # fmt: skip
_SLOW_DOWN = frozenset(("SlowDown", "ServiceUnavailable", "TooManyRequests", "Throttling", "429", "503"))


def explain(error: Exception) -> Trouble:
    """What `error`, one of FAILURES, means. What a signal handler of ours raised meanwhile is raised again."""
    inner = getattr(error, "kwargs", {}).get("error")
    if isinstance(inner, ArgosyError):  # boto3 takes everything that happens while it waits for the network
        raise inner
    if isinstance(error, boto.ClientError):
        return _explain_answer(error.response, asked_for=error.operation_name)
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError, boto.ProfileNotFound)):
        return _refused(_Advice("NoCredentials", _KEYS, StorageMisnamed), str(error))
    if isinstance(error, boto.SSLError):
        return _explain_tls(str(error))
    if isinstance(error, (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)):
        seen = f"no connection: {_innermost(error)}"
        if _NO_SUCH_HOST in seen:
            return Trouble(Meaning.NOT_DONE, seen, "UnknownHost", "correct storage_options.endpoint", StorageMisnamed)
        return Trouble(Meaning.NOT_DONE, seen)
    if isinstance(error, (boto.CredentialRetrievalError, boto.MetadataRetrievalError, boto.TokenRetrievalError)):
        return Trouble(Meaning.NOT_DONE, f"no credentials yet: {error}")
    if isinstance(error, (boto.HTTPClientError, ResponseParserError)):
        return Trouble(Meaning.UNKNOWN, f"the answer did not arrive: {_innermost(error)}")
    if isinstance(error, (boto.IncompleteReadError, boto.ResponseStreamingError, boto.FlexibleChecksumError)):
        return Trouble(Meaning.UNKNOWN, f"the answer arrived damaged: {error}")
    return _refused(_Advice("StorageRefused", "check storage and storage_options"), str(error))


def _explain_answer(response: Any, *, asked_for: str) -> Trouble:
    fault, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, status = str(fault.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
    headers = meta.get("HTTPHeaders", {})
    seen = ": ".join(filter(None, (code, str(fault.get("Message", ""))))) or f"HTTP status {status}"
    if code in _NOT_DONE:
        slow_down = code in _SLOW_DOWN
        return Trouble(Meaning.NOT_DONE, seen, slow_down=slow_down, wait_seconds=_seconds(headers.get("retry-after")))
    if code in _REFUSALS:
        advice = _REFUSALS[code]
        if code == "RequestTimeTooSkewed":
            seen += _two_clocks(fault, headers)
        region = headers.get("x-amz-bucket-region") or fault.get("Region")
        if advice is _OTHER_REGION and region:
            seen += f"; the bucket is in {region}"
        return _refused(advice, seen, needs_body=asked_for == "HeadObject")
    if status == 412:
        return Trouble(Meaning.TAKEN, seen)
    if status == 404:
        return Trouble(Meaning.MISSING, seen)
    if status >= 500:
        return Trouble(Meaning.UNKNOWN, seen, slow_down=code in _SLOW_DOWN or status == 503,
                       wait_seconds=_seconds(headers.get("retry-after")))  # fmt: skip
    advice = _Advice("StorageRefused", "check storage, storage_options and what the bucket allows")
    return _refused(advice, seen, needs_body=asked_for == "HeadObject")


def _explain_tls(text: str) -> Trouble:
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate" in text.lower():
        fix = "set storage_options.ca_bundle (AWS_CA_BUNDLE) to the certificates of whoever runs the endpoint"
        return _refused(_Advice("CertificateRefused", fix), text)
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER" in text:
        return _refused(_Advice("NotTls", "use http:// in storage_options.endpoint", StorageMisnamed), text)
    return Trouble(Meaning.UNKNOWN, f"the connection broke: {text}")


def _refused(advice: _Advice, seen: str, *, needs_body: bool = False) -> Trouble:
    return Trouble(Meaning.REFUSED, seen, advice.reason, advice.fix, advice.kind, needs_body=needs_body)


def _two_clocks(fault: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    theirs, ours = fault.get("ServerTime") or headers.get("date"), fault.get("RequestTime")
    return f" (the store says {theirs}{f', this machine {ours}' if ours else ''})" if theirs else ""


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else 0.0


def _innermost(error: Exception) -> str:
    cause = getattr(error, "kwargs", {}).get("error")
    return _CONNECTION.sub("", str(cause)) if cause else str(error)
