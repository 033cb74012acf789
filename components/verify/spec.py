"""What the verify stage needs."""

from components.contracts.checkpoint import VerifyLevel
from components.contracts.document import Document


class VerifySpec(Document):
    """Input `checkpoint`: the id to verify, or empty for the newest committed one."""

    experiment: str
    model_version: str
    level: VerifyLevel
    has_checkpoints: bool
    """False with `checkpoint: none`: nothing to verify, and the stage says so."""
