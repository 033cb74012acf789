"""Whether a stored object holds exactly certain bytes: by its checksum where the store keeps one, else by reading."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from components.storage.s3_upload import Upload


def holds(head: Mapping[str, Any], upload: Upload, *, read: Callable[[], BinaryIO]) -> bool:
    """Whether the object described by `head`, an answer to HEAD, is what `upload` sends."""
    if int(head["ContentLength"]) != upload.size_bytes:
        return False
    checksum = head.get("ChecksumSHA256")
    if checksum and head.get("ChecksumType") != "COMPOSITE" and "-" not in checksum:
        return base64.b64decode(checksum).hex() == upload.sha256
    with read() as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == upload.sha256  # type: ignore[arg-type]
