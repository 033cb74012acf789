"""Which file names a checkpoint may contain: they become storage keys, and later paths on somebody's machine."""

from components.contracts.layout import checkpoint_manifest_key

MANIFEST_NAME = checkpoint_manifest_key("").strip("/")
RECEIPTS_NAME = "receipts"
_MAX_PART_BYTES = 255


def fault_of_path(path: str) -> str:
    """Why `path` cannot be a file of a checkpoint; empty when it can.

    Relative, `/` between its parts, printable, no `.` or `..`, and none of the names the platform itself uses.
    """
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path:
        return "is not a relative path"
    if any(part in ("", ".", "..") for part in parts):
        return "leaves its folder or has an empty part"
    if not path.isprintable():  # control characters, and bytes that are not UTF-8
        return "contains characters that cannot be printed"
    if any(len(part.encode()) > _MAX_PART_BYTES for part in parts):
        return f"has a part longer than {_MAX_PART_BYTES} bytes"
    if any(part.startswith(".tmp-") for part in parts):
        return "uses the prefix .tmp-, which marks unfinished files"
    if path == MANIFEST_NAME or parts[0] == RECEIPTS_NAME:
        return f"uses the name {parts[0]}, which the platform uses itself"
    return ""
