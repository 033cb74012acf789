"""Who starts a run may not choose what it runs: a ValidatingAdmissionPolicy for namespaces that take templates only.

`templateReferencing: Strict` of the Argo controller does not say enough: it leaves arguments and entrypoint open, and
believes a Workflow that was created with a status of the submitter's own, templates included. Written for
`admission.yaml` by `python -m infra.kubernetes.admission`; `--help` says what can differ.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

Manifest = dict[str, Any]

NAME = "argosy-templates-only"
NAMESPACE_LABEL = "argosy.dev/templates-only"
"""On a namespace, with the value `true`: the policy holds there."""

CONTROLLER, SERVER = "system:serviceaccount:argo:argo", "system:serviceaccount:argo:argo-server"
"""The accounts of Argo as its own manifests install it; no other account may write a status."""

PARAMETERS = {
    "run": "^([a-z]([a-z0-9-]{0,61}[a-z0-9])?)?$",
    "commit": "^([0-9a-f]{40})?$",
}
"""What a run may be given -> what its value must look like; any other parameter is refused."""

_SPEC = ("workflowTemplateRef", "arguments", "shutdown", "suspend")
_LATER = ("shutdown", "suspend")
"""Fields of a Workflow that may change once it exists: a stop, a pause."""
_HOW = "submit with `--from-template NAME`, with no other parameters than "


def admission_manifests(
    *,
    controller: str = CONTROLLER,
    server: str = SERVER,
    more_parameters: Sequence[str] = (),
    name: str = NAME,
    label: str = NAMESPACE_LABEL,
) -> list[Manifest]:
    """Policy and binding. `more_parameters` may be given with any value."""
    known = [*PARAMETERS, *more_parameters]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": ["argoproj.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["workflows", "workflows/*", "cronworkflows", "cronworkflows/*"],
                }],
            },
            "matchConditions": [{
                "name": "not-argo-itself",
                "expression": f"!(request.userInfo.username in {_listed([controller, server])})",
            }],
            "variables": [
                {"name": name, "expression": expression} for name, expression in _variables(known).items()
            ],
            "validations": [
                {"expression": expression, "message": message}
                for expression, message in _validations(known)
            ],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name, "validationActions": ["Deny", "Audit"],
            "matchResources": {"namespaceSelector": {"matchLabels": {label: "true"}}},
        },
    }  # fmt: skip
    return [policy, binding]


def _variables(known: Sequence[str]) -> dict[str, str]:
    """`dyn` throughout: the objects' fields are looked at as a map, whichever schema a cluster has of them."""
    patterns = [
        f"(p.name != '{name}' || (has(p.value) && string(p.value).matches('{pattern}')))"
        for name, pattern in PARAMETERS.items()
    ]
    return {
        "isCreated": "request.operation == 'CREATE'",
        "run": "dyn(object.kind == 'CronWorkflow' ? dyn(object.spec).workflowSpec : dyn(object.spec))",
        "before": "variables.isCreated ? dyn({}) : dyn(oldObject.spec)",
        "arguments": "has(variables.run.arguments) ? dyn(variables.run.arguments) : dyn({})",
        "parameters": "has(variables.arguments.parameters) ? dyn(variables.arguments.parameters) : dyn([])",
        "areKnown": f"variables.parameters.all(p, p.name in {_listed(known)})",
        "areValues": "variables.parameters.all(p, p.all(key, key in ['name', 'value']))",
        "areSound": f"variables.parameters.all(p, {' && '.join(patterns)})",
    }


def _validations(known: Sequence[str]) -> list[tuple[str, str]]:
    is_fresh = "variables.isCreated || object.kind == 'CronWorkflow'"
    how = _HOW + ", ".join(known)
    return [
        (
            "!variables.isCreated || !has(object.status) || "
            "dyn(object.status).all(key, dyn(object.status)[key] == null)",
            "a status is written by Argo alone: it could hold templates of the submitter's own; leave it out",
        ),
        (
            "variables.isCreated || (has(object.status) == has(oldObject.status) && "
            "(!has(object.status) || dyn(object.status) == dyn(oldObject.status)))",
            "a status is written by Argo alone; to go on with a run, use `resume`, which makes a new Workflow",
        ),
        (
            f"!({is_fresh}) || (has(variables.run.workflowTemplateRef) && has(variables.run.workflowTemplateRef.name) "
            "&& (!has(variables.run.workflowTemplateRef.clusterScope) "
            "|| !variables.run.workflowTemplateRef.clusterScope))",
            f"this namespace runs its own WorkflowTemplates only, and they come from Git; {how}",
        ),
        (
            f"!({is_fresh}) || variables.run.all(key, key in {_listed(_SPEC)} || variables.run[key] == null)",
            f"a run may not set its entrypoint, templates, or anything else of its template; {how}",
        ),
        (
            f"!({is_fresh}) || (variables.arguments.all(key, key == 'parameters' || variables.arguments[key] == null) "
            "&& variables.areKnown && variables.areValues)",
            f"a parameter that this namespace does not allow, or one that is no plain value; {how}",
        ),
        (
            f"!({is_fresh}) || variables.areSound",
            "run must be empty or a name of lowercase letters, digits and hyphens; commit empty or a full SHA",
        ),
        (
            f"{is_fresh} || (variables.run.all(key, key in {_listed(_LATER)} || "
            "(key in variables.before && variables.run[key] == variables.before[key])) "
            f"&& variables.before.all(key, key in {_listed(_LATER)} || key in variables.run))",
            "what a run does is settled when it is submitted; only shutdown and suspend may be set later",
        ),
    ]  # fmt: skip


def _listed(values: Sequence[str]) -> str:
    return json.dumps(list(values)).replace('"', "'")


def admission_yaml(arguments: Sequence[str] = ()) -> str:
    """The content of `admission.yaml`, and of what a cluster with other accounts needs."""
    parser = argparse.ArgumentParser(prog="python -m infra.kubernetes.admission", allow_abbrev=False)
    parser.add_argument("--controller", default=CONTROLLER, help="account of the Argo controller")
    parser.add_argument("--server", default=SERVER, help="account of the Argo Server")
    parser.add_argument("--parameter", action="append", default=[], help="allow one more parameter, with any value")
    parser.add_argument("--name", default=NAME, help="name of policy and binding")
    parser.add_argument("--label", default=NAMESPACE_LABEL, help="label of the namespaces it holds in")
    said = parser.parse_args(arguments)
    items = admission_manifests(
        controller=said.controller, server=said.server, more_parameters=said.parameter, name=said.name,
        label=said.label,
    )  # fmt: skip
    head = (
        f"# Namespaces labelled {said.label}=true run their own WorkflowTemplates only, as they are.\n"
        "# Written by `python -m infra.kubernetes.admission`; --help says what can differ.\n"
    )
    return head + "".join(f"---\n{yaml.safe_dump(item, sort_keys=False, width=10**6)}" for item in items)


if __name__ == "__main__":
    print(admission_yaml(sys.argv[1:]), end="")
