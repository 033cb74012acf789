"""`stop.json`: somebody asked a run to stop. Written by the command line, read by the engine and the exit handler."""

from components.contracts.clock import UtcText
from components.contracts.document import DamagedDocument, Document


class StopRequest(Document):
    """Who asked, when; `force` kills at once."""

    by: str
    at: UtcText | None = None
    """None when the request cannot be read."""
    force: bool = False


def read_stop(data: bytes) -> StopRequest:
    """The request in the bytes of a `stop.json`. That there is one counts, whatever it holds."""
    try:
        return StopRequest.from_bytes(data, where="stop.json")
    except DamagedDocument:
        return StopRequest(by="somebody")
