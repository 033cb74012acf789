"""What the retain stage needs."""

from components.contracts.document import Document
from components.contracts.retention import RetentionPolicy


class RetainSpec(Document):
    """No inputs: the ledger holds everything the decision rests on."""

    experiment: str
    model_version: str
    policy: RetentionPolicy | None = None
    """None with `checkpoint: none`: nothing to retire, and the stage says so."""
