"""The exit handler of a Workflow: which container it is.

We emit a template of one step, and no other form does what we need. Once the Workflow's deadline has passed, Argo fails
a pending node unless it, or a template around it, is shown as `<workflow>.onExit`: the attempts of a container that is
the exit handler itself and has a retryStrategy are not. And a DAG it fails as soon as a Workflow is told to stop, while
the DAG's tasks still run. Around one step all is well; that a failed attempt is not repeated after a stop or a deadline
is how Argo treats every retryStrategy, and is left so.
"""

from infra.workflow import SpecView, StepView, TemplateView


def exit_step(spec: SpecView) -> StepView | None:
    """The one step of the exit handler; None when it has none, or when there is no exit handler."""
    handler = spec.template(spec.on_exit) if spec.on_exit is not None else None
    return handler.steps[0][0] if handler and handler.steps else None


def exit_leaf(spec: SpecView) -> TemplateView | None:
    """The container of the exit handler; None when there is none."""
    step = exit_step(spec)
    name = spec.on_exit if step is None else step.template
    leaf = spec.template(name) if name is not None else None
    return leaf if leaf and leaf.is_leaf else None
