"""Creating an object when the answer may get lost: looked up by a mark, never repeated blindly."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from components.cluster.answers import TryAgain, Unsettled
from components.cluster.base import REQUEST_ANNOTATION, AlreadyThere, Object
from components.cluster.transport import Tries


def marked_as_ours(body: Mapping[str, Any]) -> tuple[str, Object]:
    """A mark that no other request has, and `body` with it."""
    mark, metadata = secrets.token_hex(8), body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), REQUEST_ANNOTATION: mark}
    return mark, {**body, "metadata": {**metadata, "annotations": annotations}}


def create_marked(
    tries: Tries, mark: str, *, create: Callable[[], Object], read: Callable[[], Object | None]
) -> Object:
    """What `create` makes, or what an earlier try of it is found to have made. Raises AlreadyThere for a stranger's."""
    pauses, is_unsure = tries.pauses(), False
    while True:
        try:
            return create()
        except AlreadyThere:
            found = read() if is_unsure else None
            if found is not None and _mark_of(found) == mark:
                return found
            raise
        except TryAgain as error:
            pause = next(pauses, None)
            if pause is None:
                raise
            tries.pause(max(pause, error.wait_seconds))
            if isinstance(error, Unsettled):
                is_unsure = True
                found = read()
                if found is not None and _mark_of(found) == mark:
                    return found


def _mark_of(item: Object) -> str:
    return str((item.get("metadata", {}).get("annotations") or {}).get(REQUEST_ANNOTATION, ""))
