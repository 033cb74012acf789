"""What botocore has written down about S3 and its regions, without what only people read or other services need.

As it is, it takes 15 MB of a process and 60 ms to read; without the documentation of every shape and the addresses of
300 other services it says the same about ours in 7 MB.
"""

import functools
import gzip
import json
import os
from collections.abc import Callable
from typing import Any

import botocore.session

SERVICES = frozenset({"s3", "sts", "oidc", "portal.sso", "signin"})
"""Whose addresses are kept, as endpoints.json calls them: S3, and who hands out credentials for it."""

_OPENERS: tuple[tuple[str, Callable[..., Any]], ...] = ((".json", open), (".json.gz", gzip.open))


@functools.cache
def models() -> Any:
    """For all clients of the process, the component `data_loader` of their sessions."""
    loader = botocore.session.get_session().get_component("data_loader")
    loader.file_loader = LeanFiles(loader.file_loader)
    # Read now: what is read as text first leaves room in which the modules that are imported next find place.
    loader.load_data("endpoints")
    for kind in ("service-2", "endpoint-rule-set-1"):
        loader.load_service_model("s3", kind)
    return loader


class LeanFiles:
    """Reads files for a loader of botocore's. One that is not as expected is read as botocore does it."""

    def __init__(self, whole: Any) -> None:
        """`whole` reads them as they are."""
        self._whole = whole

    def exists(self, file_path: str) -> bool:
        """Whether there is a file of that name without its suffix."""
        return bool(self._whole.exists(file_path))

    def load_file(self, file_path: str) -> Any:
        """What is in the file of that name without its suffix; None if there is none."""
        read = _READERS.get(os.path.basename(file_path), json.loads)
        for suffix, opened in _OPENERS:
            if os.path.isfile(file_path + suffix):
                try:
                    with opened(file_path + suffix, "rb") as file:
                        return read(file.read())
                except (OSError, ValueError, LookupError, TypeError, AttributeError):
                    break
        return self._whole.load_file(file_path)


def _service(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=_undocumented)


def _undocumented(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Empty texts, not none: some must be there."""
    return {name: "" if name == "documentation" and isinstance(value, str) else value for name, value in pairs}


def _endpoints(text: bytes) -> Any:
    found = json.loads(text)
    for partition in found["partitions"]:
        services = partition["services"]
        partition["services"] = {name: services[name] for name in services if name in SERVICES}
    return found


_READERS: dict[str, Callable[[bytes], Any]] = {"endpoints": _endpoints, "service-2": _service}
"""Of all others only this is left out: that they are OrderedDicts, which take twice as much as dicts."""
