"""Small Workflows for the engine, said in few words."""

from collections.abc import Mapping, Sequence
from typing import Any


def a_workflow(tasks: Sequence[Any], templates: Sequence[Any], **spec: Any) -> dict[str, Any]:
    """A Workflow whose entry DAG has `tasks`; `spec` adds or replaces fields of its spec, the DAG's own under `dag`."""
    dag = {"tasks": list(tasks), **spec.pop("dag", {})}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "x-"},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "dag": dag}, *templates], **spec},
    }


def a_task(name: str, *, template: str = "", arguments: Mapping[str, str] | None = None, **fields: Any) -> Any:
    """A task that uses the template of its own name, if no other is given."""
    task = {"name": name, "template": template or name, **fields}
    if arguments:
        task["arguments"] = {"parameters": [{"name": key, "value": value} for key, value in arguments.items()]}
    return task


def a_shell(
    name: str, script: str, *, inputs: Sequence[str] = (), outputs: Sequence[Any] = (), **fields: Any
) -> dict[str, Any]:
    """A container that runs `script`. An output is a name, or (name, default)."""
    declared = [(output, None) if isinstance(output, str) else output for output in outputs]
    return {
        "name": name,
        "container": {"image": "image:1", "command": ["sh", "-c", script]},
        "inputs": {"parameters": [{"name": name} for name in inputs]},
        "outputs": {
            "parameters": [
                {
                    "name": name,
                    "valueFrom": {
                        "path": f"/argosy/out/{name}",
                        **({} if default is None else {"default": default}),
                    },
                }
                for name, default in declared
            ]
        },
        **fields,
    }


def a_python(name: str, code: str, **fields: Any) -> dict[str, Any]:
    """A container that runs Python code, without site-packages for speed."""
    template = a_shell(name, "", **fields)
    template["container"]["command"] = ["python", "-I", "-S", "-c", code]
    return template


def retries(limit: int, **fields: Any) -> dict[str, Any]:
    return {"retryStrategy": {"limit": limit, **fields}}


def grace(seconds: int) -> dict[str, Any]:
    return {"podSpecPatch": f'{{"terminationGracePeriodSeconds":{seconds}}}'}
