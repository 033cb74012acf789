"""What the exit handler needs."""

from pydantic import PositiveFloat

from components.contracts.document import Document


class FinishSpec(Document):
    """Inputs: status (`workflow.status`) and failures (`workflow.failures`)."""

    experiment: str
    model_version: str
    stop_seconds: PositiveFloat
    """How long leftovers of the gang get to end by themselves before they are killed."""
