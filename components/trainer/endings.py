"""How the trainer ends when it does not finish. Without imports, so that they are known before torch is."""

BAD_INPUT = 78
"""Exit code for wrong arguments or input: the run's description is at fault, so no restart helps."""

FAILED = 1
"""Exit code for a training that went wrong."""


class Unusable(Exception):
    """Arguments, data or a checkpoint the trainer cannot work with; the message says what to do."""


class TrainingDiverged(Exception):
    """The loss is no longer a number: going on, or restarting from here, would only save garbage."""
