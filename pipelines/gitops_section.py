"""What a description says for runs that nobody submits by hand: when a schedule or a push starts one."""

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from pipelines.field_types import Section
from pipelines.schedules import schedule, zone


def _branch(text: str) -> str:
    if text.startswith("refs/"):
        raise ValueError(f"is {text!r}; write the branch's name alone, for example main")
    # It becomes a literal of an expression, so nothing in it may end one.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}", text) or ".." in text or text.endswith(("/", ".lock")):
        raise ValueError(f"is {text!r}; write a branch's name of letters, digits and . _ / + -, for example main")
    return text


class GitOpsSection(Section):
    """Runs that a schedule or a push starts, on a cluster: read by `compile --as`."""

    schedules: tuple[Annotated[str, AfterValidator(schedule)], ...] | None = None
    """When a run starts by itself, as cron writes it: ['30 3 * * 1-5']. Never while an earlier one still runs."""
    timezone: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"), AfterValidator(zone)
    ] = "Etc/UTC"
    """Zone of the schedules' times, as the tz database names it."""
    branch: Annotated[str, AfterValidator(_branch)] = "main"
    """A push to this branch starts a run, where the repository's webhook posts to the Argo Server."""
