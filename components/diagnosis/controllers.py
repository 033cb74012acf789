"""What the objects above the pods show: a Workflow, JobSet or Job that nobody looks at, or whose pods are refused."""

from collections.abc import Iterator
from datetime import datetime

from components.cluster.fields import (
    Object,
    condition,
    event_at,
    event_began,
    is_true,
    moment,
    name_of,
    number,
    part,
    parts,
    text,
)
from components.contracts.cluster_names import NODE_ANNOTATION
from components.contracts.node_names import parse_node_name
from components.contracts.units import format_duration
from components.diagnosis.finding import Finding, Life, Seen, Urgency, one_line
from components.diagnosis.messages import understood
from components.diagnosis.surroundings import Surroundings, owner_job
from components.diagnosis.verdict import Actor, Evidence

_SILENT_SECONDS = 30.0
"""How long a controller may take before its first word; seconds are usual."""
_LAGGING_SECONDS = 90.0
"""How long Argo may take to notice that a pod has ended."""
_REFUSALS = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
_MARGIN_SECONDS = 60.0


def explain_controllers(around: Surroundings) -> Iterator[Finding]:
    """Causes above the pods."""
    yield from _workflow(around)
    for jobset in around.jobsets():
        yield from _jobset(jobset, around)
    for job in around.jobs():
        yield from _job(job, around)


def _workflow(around: Surroundings) -> Iterator[Finding]:
    workflow = around.workflow
    if not workflow:
        return
    name, status = name_of(workflow), part(workflow, "status")
    created = moment(text(workflow, "metadata", "creationTimestamp"))
    if not text(status, "phase"):
        if created is not None and _age(created, around.now) > _SILENT_SECONDS:
            yield Finding(
                "ArgoSilent", "no Argo controller has looked at the run's Workflow for "
                f"{format_duration(round(_age(created, around.now)))}", Actor.PLATFORM,
                "see that the workflow controller runs and watches this namespace, and that instance_id is its own",
                Life.CONTROLLER, Urgency.BLOCKED, created, f"workflow {name}",
                Seen(f"workflow {name}", {"status.phase": "absent",
                                          "metadata.creationTimestamp": text(workflow, "metadata", "creationTimestamp")}
                     ).evidence(),
            )  # fmt: skip
        return
    message = text(status, "message")
    for event in around.events_of(workflow):
        if event.get("reason") == "WorkflowFailed" and not message:
            message = text(event, "message")
    known = understood(message) if message else None
    if known is not None and known.life is Life.ADMISSION:
        yield Finding(
            known.reason, f"Argo could not create a pod: {known.cause}", known.actor, known.action, known.life,
            known.urgency, moment(text(status, "finishedAt")) or created, f"workflow {name}",
            Seen(f"workflow {name}", {"status.message": message}).evidence(), key=known.key,
        )  # fmt: skip
    if text(status, "phase") == "Running":
        yield from _lagging(around)
        yield from _refused_stages(around)


def _refused_stages(around: Surroundings) -> Iterator[Finding]:
    """Argo keeps a node Pending, with the API server's words, while its pod cannot be created."""
    nodes = part(around.workflow, "status", "nodes")
    for node in nodes.values():
        if not isinstance(node, dict) or node.get("phase") not in ("Pending", "Error"):
            continue
        message = text(node, "message")
        known = understood(message) if message else None
        if known is not None and known.life is Life.ADMISSION:
            shown = text(node, "displayName") or text(node, "name")
            task = parse_node_name(shown).stage
            yield Finding(
                known.reason, f"the pod of {{who}} is not created: {known.cause}", known.actor, known.action,
                known.life, known.urgency, moment(text(node, "startedAt")), f"stage {task}",
                Seen(f"workflow {name_of(around.workflow)}", {f"node {shown}, message": message}).evidence(),
                key=known.key,
            )  # fmt: skip


def _lagging(around: Surroundings) -> Iterator[Finding]:
    """A stage's pod has ended, and the Workflow does not know it."""
    nodes = part(around.workflow, "status", "nodes")
    known = {text(node, "name"): text(node, "phase") for node in nodes.values() if isinstance(node, dict)}
    for pod in around.observed.pods:
        node = text(pod, "metadata", "annotations", NODE_ANNOTATION)
        if known.get(node) not in ("Running", "Pending") or text(pod, "status", "phase") not in ("Succeeded", "Failed"):
            continue
        ended = max(
            (at for item in parts(pod, "status", "containerStatuses")
             if (at := moment(part(item, "state", "terminated").get("finishedAt"))) is not None), default=None,
        )  # fmt: skip
        if ended is not None and _age(ended, around.now) > _LAGGING_SECONDS:
            yield Finding(
                "ArgoSilent", f"the pod of {{who}} ended {format_duration(round(_age(ended, around.now)))} ago, and "
                "Argo has not noticed", Actor.PLATFORM, "see that the workflow controller runs", Life.CONTROLLER,
                Urgency.BLOCKED, ended, f"stage {node.rpartition('.')[2]}",
                (
                    Evidence(object=f"pod {name_of(pod)}", field="status.phase", value=text(pod, "status", "phase")),
                    Evidence(object=f"workflow {name_of(around.workflow)}", field=f"node {node}", value=known[node]),
                ),
                key="lagging",
            )  # fmt: skip


def _jobset(jobset: Object, around: Surroundings) -> Iterator[Finding]:
    name = f"jobset {name_of(jobset)}"
    created = moment(text(jobset, "metadata", "creationTimestamp"))
    owned = [job for job in around.jobs() if _is_owned(job, jobset)]
    refused = _refusal(jobset, around, name, "the gang's Job is not created")
    if refused is not None and not owned:
        yield refused
        return
    is_suspended = part(jobset, "spec").get("suspend") is True
    has_word = bool(parts(jobset, "status", "conditions") or parts(jobset, "status", "replicatedJobsStatus"))
    is_old = created is not None and _age(created, around.now) > _SILENT_SECONDS
    if not owned and not is_suspended and is_old and not has_word and not text(jobset, "status", "terminalState"):
        yield _silent("JobSetSilent", "JobSet controller", name, created, around)


def _job(job: Object, around: Surroundings) -> Iterator[Finding]:
    name = f"job {name_of(job)}"
    created = moment(text(job, "metadata", "creationTimestamp"))
    if part(job, "spec").get("suspend") is True:
        return
    pods = [pod for pod in around.gang_pods if owner_job(pod) in ("", name_of(job))]
    wanted = number(job, "spec", "parallelism") or 1
    status = part(job, "status")
    if len(pods) < wanted and not is_true(job, "Complete") and not is_true(job, "Failed"):
        refused = _refusal(job, around, name, f"{wanted - len(pods)} of {wanted} pods of the gang are not created")
        if refused is not None:
            yield refused
        elif not pods and not status and created is not None and _age(created, around.now) > _SILENT_SECONDS:
            yield _silent("JobControllerSilent", "Job controller", name, created, around)
    target = condition(job, "FailureTarget")
    since = moment(target.get("lastTransitionTime"))
    if target.get("status") == "True" and not is_true(job, "Failed") and since is not None:
        grace = max((number(pod, "metadata", "deletionGracePeriodSeconds") or 0 for pod in pods), default=0)
        if _age(since, around.now) > grace + _MARGIN_SECONDS and (number(job, "status", "terminating") or 0) > 0:
            yield Finding(
                "GangStuckEnding",
                f"the gang has failed, and {number(job, 'status', 'terminating')} of its pods do not end, "
                "so nothing can take its place", Actor.PLATFORM,
                "see on which node they are; if its machine is off, delete the Node object or the pod by force",
                Life.LEAVING, Urgency.BLOCKED, since, name,
                Seen(name, {"condition FailureTarget": f"True since {text(target, 'lastTransitionTime')}",
                            "status.terminating": number(job, "status", "terminating")}).evidence(),
            )  # fmt: skip
    failed = condition(job, "Failed")
    if failed.get("status") == "True" and failed.get("reason") == "DeadlineExceeded":
        yield Finding(
            "DeadlinePassed", "the gang's Job was ended by its deadline", Actor.SUBMITTER,
            "give it more time, and resume the run", Life.ENDED, Urgency.BLOCKED,
            moment(failed.get("lastTransitionTime")), name,
            Seen(name, {"condition Failed": f"{failed.get('reason')}: {failed.get('message')}"}).evidence(),
        )  # fmt: skip


def _refusal(item: Object, around: Surroundings, name: str, what: str) -> Finding | None:
    """The newest word of the API server about what that controller may not create."""
    events = around.events_of(item)
    created = [at for event in events if event.get("reason") in ("SuccessfulCreate", "JobCreated")
               and (at := event_at(event)) is not None]  # fmt: skip
    for event in reversed(events):
        at = event_at(event)
        if event.get("reason") not in _REFUSALS or (created and at is not None and max(created) > at):
            continue
        message = text(event, "message")
        facts = Seen(name, {f"event {event['reason']}": message}).evidence()
        known = understood(message)
        if known is None:
            return Finding(
                "Unknown", f"{what}, and the API server's reason is not known here: {one_line(message, 200)}",
                Actor.PLATFORM, "see the event in the evidence", Life.ADMISSION, Urgency.BLOCKED, event_began(event),
                name, facts,
            )  # fmt: skip
        return Finding(
            known.reason, f"{what}: {known.cause}", known.actor, known.action, known.life, known.urgency,
            event_began(event), name, facts, key=known.key,
        )  # fmt: skip
    return None


def _silent(reason: str, what: str, name: str, created: datetime | None, around: Surroundings) -> Finding:
    age = format_duration(round(_age(created, around.now))) if created else "a while"
    return Finding(
        reason, f"no {what} has looked at the gang for {age}", Actor.PLATFORM, f"see that the {what} runs",
        Life.CONTROLLER, Urgency.BLOCKED, created, name,
        (Evidence(object=name, field="status", value=f"absent, created at {created.isoformat() if created else '?'}"),),
    )  # fmt: skip


def _is_owned(job: Object, jobset: Object) -> bool:
    return any(
        owner.get("uid") == text(jobset, "metadata", "uid") for owner in parts(job, "metadata", "ownerReferences")
    )


def _age(at: datetime, now: datetime) -> float:
    return (now - at).total_seconds()
