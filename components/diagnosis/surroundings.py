"""The run's objects put in order: which pods count, what each is for people, and what events say about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from components.cluster.fields import Object, event_at, name_of, part, parts, text, uid_of
from components.contracts.cluster_names import (
    COMPLETION_INDEX_ANNOTATION,
    GANG_LABEL,
    GENERATION_LABEL,
    NODE_ANNOTATION,
    WORKFLOW_LABEL,
)
from components.contracts.node_names import parse_node_name
from components.diagnosis.node_fit import Fit, fit_of
from components.diagnosis.observed import Observed

_JOB_NAME = ("batch.kubernetes.io/job-name", "job-name")


@dataclass(frozen=True)
class Surroundings:
    """Objects that speak of the run's present: its newest Workflow, its newest generation."""

    observed: Observed
    now: datetime
    pods: tuple[Object, ...]
    generation: int
    workflow: Object
    _events: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    _fits: dict[str, Fit] = field(default_factory=dict)

    def events_of(self, item: Object) -> Sequence[Object]:
        """Events about that very object, oldest first: those of an older one of the same name are not its own."""
        found = self._events.get(uid_of(item), ())
        if len(found) < 2:
            return found
        return sorted(found, key=lambda event: at.timestamp() if (at := event_at(event)) is not None else 0.0)

    def fit(self, pod: Object) -> Fit | None:
        """How the nodes suit that pod; None when they may not be listed. Pods of a gang are alike, so this is kept."""
        if self.observed.nodes is None:
            return None
        spec = part(pod, "spec")
        chooses = ("nodeSelector", "affinity", "tolerations", "containers", "initContainers")
        key = repr([spec.get(name) for name in chooses])
        if key not in self._fits:
            self._fits[key] = fit_of(pod, self.observed.nodes)
        return self._fits[key]

    @property
    def gang_pods(self) -> tuple[Object, ...]:
        return tuple(pod for pod in self.pods if is_of_gang(pod))

    def jobs(self) -> tuple[Object, ...]:
        """Jobs of the newest generation."""
        return tuple(item for item in self.observed.jobs if generation_of(item) == self.generation)

    def jobsets(self) -> tuple[Object, ...]:
        return tuple(item for item in self.observed.jobsets if generation_of(item) == self.generation)


def surroundings_of(observed: Observed, now: datetime) -> Surroundings:
    """Old generations, earlier attempts of a stage and pods that came to a good end are left out."""
    workflow: Object = observed.workflows[-1] if observed.workflows else {}
    gangs = [*observed.pods, *observed.jobs, *observed.jobsets]
    generation = max((generation_of(item) for item in gangs), default=0)
    newest: dict[str, Object] = {}
    for pod in sorted(observed.pods, key=lambda item: text(item, "metadata", "creationTimestamp")):
        if text(pod, "status", "phase") == "Succeeded":
            continue
        if is_of_gang(pod):
            if generation_of(pod) == generation:
                newest[f"gang {node_rank_of(pod)}"] = pod
        elif text(pod, "metadata", "labels", WORKFLOW_LABEL) in ("", name_of(workflow)):
            newest[f"stage {stage_of(pod)}"] = pod
    by_uid: dict[str, list[Object]] = {}
    for event in observed.events:
        by_uid.setdefault(text(event, "involvedObject", "uid"), []).append(event)
    by_uid.pop("", None)
    return Surroundings(observed, now, tuple(newest.values()), generation, workflow, by_uid)


def is_of_gang(pod: Object) -> bool:
    return GANG_LABEL in part(pod, "metadata", "labels")


def generation_of(item: Object) -> int:
    """0 for what belongs to no generation."""
    value = text(item, "metadata", "labels", GENERATION_LABEL)
    return int(value) if value.isdecimal() else 0


def node_rank_of(pod: Object) -> str:
    """As text; the pod's name where it has no index."""
    index = text(pod, "metadata", "annotations", COMPLETION_INDEX_ANNOTATION)
    return index if index.isdecimal() else name_of(pod)


def stage_of(pod: Object) -> str:
    """The task of a stage's pod: `train-x7.launch(0)` -> `launch`, `train-x7.shard-task(1:1)(0)` -> `shard-task-1`,
    `train-x7.onExit[0].finish(0)` -> `finish`.
    """
    workflow = text(pod, "metadata", "labels", WORKFLOW_LABEL)
    return parse_node_name(text(pod, "metadata", "annotations", NODE_ANNOTATION).removeprefix(f"{workflow}.")).stage


def people_say(pod: Object) -> str:
    """What a pod is, for people."""
    if is_of_gang(pod):
        return f"node {node_rank_of(pod)} of the gang"
    stage = stage_of(pod)
    return f"stage {stage}" if stage else f"pod {name_of(pod)}"


def pod_object(pod: Object) -> str:
    """How evidence names it."""
    return f"pod {name_of(pod)}"


def containers_of(pod: Object) -> list[Object]:
    """States of init containers, then of the others."""
    return [*parts(pod, "status", "initContainerStatuses"), *parts(pod, "status", "containerStatuses")]


def owner_job(pod: Object) -> str:
    """Name of the Job that made it."""
    labels = part(pod, "metadata", "labels")
    return next((str(labels[name]) for name in _JOB_NAME if name in labels), "")
