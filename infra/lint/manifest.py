"""All rules at once: what a manifest must satisfy before it is printed, stored or run."""

from collections.abc import Mapping
from typing import Any

from components.errors import BadInput, Problem
from infra.lint.deadlines import deadline_problems
from infra.lint.references import reference_problems
from infra.lint.sizes import size_problems
from infra.lint.structure import structure_problems
from infra.workflow import load_workflow


def lint(manifest: Mapping[str, Any]) -> list[Problem]:
    """Every fault of `manifest`; empty when there is none. Faults of form hide the others: nothing can be said yet."""
    try:
        workflow = load_workflow(manifest)
    except BadInput as error:
        return [*error.problems, *size_problems(manifest)]
    faults = [*structure_problems(workflow), *reference_problems(workflow), *size_problems(manifest)]
    # A path through a DAG with dangling references or a cycle has no length.
    return faults or deadline_problems(workflow)
