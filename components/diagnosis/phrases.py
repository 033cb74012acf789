"""Sentences of Kubernetes, container runtimes and admission policies, and what each amounts to: tables as data.

Wordings of several versions stand side by side. `{0}` in a cause is the pattern's group, `{image}` the image named.
"""

import re
from dataclasses import dataclass

from components.diagnosis.finding import Life, Urgency
from components.diagnosis.verdict import Actor

_YOU, _ADMIN, _WAIT, _PROGRAM = Actor.SUBMITTER, Actor.PLATFORM, Actor.NOBODY, Actor.PROGRAM


@dataclass(frozen=True)
class Phrase:
    """One row: what to look for, and what it means."""

    pattern: re.Pattern[str]
    reason: str
    cause: str
    """`{0}` is the pattern's group: a name worth saying."""
    actor: Actor
    action: str
    life: Life
    urgency: Urgency


def _row(
    pattern: str, reason: str, cause: str, actor: Actor, action: str, life: Life = Life.STARTING,
    urgency: Urgency = Urgency.BLOCKED,
) -> Phrase:  # fmt: skip
    return Phrase(re.compile(pattern, re.DOTALL), reason, cause, actor, action, life, urgency)


_PULL = r"(?:ErrImagePull|ImagePullBackOff|[Ff]ailed to pull|[Ff]ailed to resolve reference|Back-off pulling).*?"

_IMAGES = (
    _row(
        r"InvalidImageName|couldn't parse image (?:reference|name)|invalid reference format", "ImageNameInvalid",
        "the name of its image{image} is no image name", _YOU, "correct image or platform_image in the description",
    ),
    _row(
        r"ErrImageNeverPull|is not present with pull policy of Never", "ImageNeverPulled",
        "its image{image} is not on the node, and its pull policy forbids pulling", _YOU,
        "use image_pull_policy IfNotPresent, or have the image loaded onto the nodes",
    ),
    _row(
        r"SignatureValidationFailed|signature validation failed", "ImageNotSigned",
        "the cluster's policy does not accept the signature of its image{image}", _YOU,
        "use a signed image, or ask whoever runs the cluster which signatures count",
    ),
    _row(
        _PULL + r"no space left on device", "NodeDiskFull", "its node has no room for its image{image}", _ADMIN,
        "free the node's image store, or make room for it",
    ),
    _row(
        _PULL + r"(?:toomanyrequests|429 |429$|[Rr]ate.?limit|Too Many Requests|pull rate|pull QPS exceeded)",
        "ImageRateLimited", "the registry refuses to send its image{image} so often", _WAIT,
        "wait: it is tried again; image_pull_secrets of an account, or a mirror, have higher limits",
        urgency=Urgency.PASSING,
    ),
    _row(
        _PULL + r"(?:x509|certificate signed by unknown authority|certificate has expired|server gave HTTP response)",
        "RegistryNotTrusted", "its node does not trust the registry of its image{image}", _ADMIN,
        "give the nodes' container runtime the registry's certificate authority",
    ),
    _row(
        _PULL + r"(?:no such host|connection refused|i/o timeout|TLS handshake|connection reset|no route to host|"
        r"network is unreachable|deadline exceeded|\bEOF\b|server misbehaving|[Tt]emporary failure in name|"
        r"50[0234] |Service Unavailable|Bad Gateway|RegistryUnavailable)",
        "RegistryUnreachable", "the registry of its image{image} does not answer its node", _ADMIN,
        "see that the nodes reach the registry; it is tried again meanwhile", urgency=Urgency.PASSING,
    ),
    _row(r"RegistryUnavailable", "RegistryUnreachable", "the registry of its image{image} does not answer its node",
         _ADMIN, "see that the nodes reach the registry; it is tried again meanwhile", urgency=Urgency.PASSING),
    _row(
        _PULL + r"no match for platform|no matching manifest for|does not match the (?:detected|specified) platform",
        "ImageWrongPlatform", "its image{image} is not built for its node's kind of machine", _YOU,
        "build the image for that platform too, or select other nodes with launch.node_selector",
    ),
    _row(
        _PULL + r"(?:unauthorized|[Aa]uthentication required|pull access denied|403 Forbidden|\bdenied\b|"
        r"no basic auth credentials|insufficient_scope|authorization failed|status: 401|401 Unauthorized)",
        "ImageNotAllowed", "the registry does not give out its image{image} to this account, or has none of that name",
        _YOU, "check the name, and that image_pull_secrets names a Secret that may pull it",
    ),
    _row(
        _PULL + r"(?:manifest unknown|not found|no such (?:manifest|image)|(?i:name.unknown)|does not exist)",
        "ImageNotFound", "its image{image} is not in its registry", _YOU,
        "correct image or platform_image in the description, or push the image",
    ),
)  # fmt: skip

_ADMISSION = (
    _row(
        r"(?:cluster)?workflowtemplates?\.argoproj\.io \"([^\"]+)\" not found", "TemplateMissing",
        "there is no WorkflowTemplate {0}", _YOU,
        "apply its render to this namespace, or name another, and start the run again", Life.ADMISSION,
    ),
    _row(
        r"no PriorityClass with name (\S+) was found", "PriorityClassMissing", "there is no PriorityClass {0}", _YOU,
        "correct priority_class, or have that class created", Life.ADMISSION,
    ),
    _row(
        r"service ?account (?:\S*/)?\"?([\w.-]+)\"?(?: was)? not found|serviceaccount \"([^\"]+)\" not found",
        "ServiceAccountMissing", "there is no service account {0}", _ADMIN,
        "install infra/kubernetes in this namespace, or correct service_account in the description", Life.ADMISSION,
    ),
    _row(
        r"failed quota: ([\w.-]+): must specify", "QuotaWantsAmounts",
        "quota {0} of the namespace takes only pods that name their resources", _YOU,
        "name cpu and memory in launch.resources, or have a LimitRange give defaults", Life.ADMISSION,
    ),
    _row(
        r"exceeded quota: ([\w.-]+)", "NamespaceQuota", "quota {0} of the namespace leaves no room", _WAIT,
        "wait for other pods of the namespace to end, or have the quota raised", Life.ADMISSION, Urgency.PASSING,
    ),
    _row(
        r"((?:minimum|maximum) \S+ usage per \w+ is \S+[^,\"\]]*)|must be less than or equal to \S+ limit",
        "LimitRange",
        "the namespace's LimitRange refuses its resources ({0})", _YOU,
        "change launch.resources to what the LimitRange allows, or have it changed", Life.ADMISSION,
    ),
    _row(
        r"violates PodSecurity \"?([^\"]+?)\"?(?::|$)", "PodSecurity", "Pod Security {0} refuses it", _ADMIN,
        "leave out what it names, or have the namespace labelled with the level that is needed", Life.ADMISSION,
    ),
    _row(
        r"pod rejected: RuntimeClass \"([^\"]+)\" not found|RuntimeClass(?:\.node\.k8s\.io)? \"([^\"]+)\" not found",
        "RuntimeClassMissing", "there is no RuntimeClass {0}", _YOU, "correct runtime_class, or have it created",
        Life.ADMISSION,
    ),
    _row(
        r"(?:no runtime for|runtime handler) \"?([\w.-]+)\"? (?:is configured|not supported)", "RuntimeClassMissing",
        "its node has no container runtime {0}", _ADMIN, "configure it on the nodes, or select nodes that have it",
    ),
    _row(
        r"failed calling webhook \"?([\w.-]+)", "WebhookSilent", "admission webhook {0} does not answer", _ADMIN,
        "start what serves that webhook; nothing it watches over can be created meanwhile", Life.ADMISSION,
    ),
    _row(
        r"admission webhook \"?([\w.-]+)\"? denied", "AdmissionRefused", "admission webhook {0} refuses it", _ADMIN,
        "change what it names in the description, or ask whoever runs the cluster about that policy", Life.ADMISSION,
    ),
    _row(
        r"ValidatingAdmissionPolicy '([^']+)'.*denied request", "AdmissionRefused", "admission policy {0} refuses it",
        _ADMIN, "change what it names in the description, or ask whoever runs the cluster about that policy",
        Life.ADMISSION,
    ),
    _row(
        r" is invalid: (.{1,160}?)(?:, and|, regex|; |$)", "SpecInvalid", "the API server does not accept it ({0})",
        _YOU, "correct what it names in the description", Life.ADMISSION,
    ),
    _row(
        r"because it is being terminated", "NamespaceEnding", "its namespace is being deleted", _YOU,
        "use another namespace", Life.ADMISSION,
    ),
    _row(
        r"is forbidden: (User \"[^\"]+\" cannot \w+ resource \"[^\"]+\")", "RightMissing", "a right is missing: {0}",
        _ADMIN, "install infra/kubernetes in this namespace, or allow it", Life.ADMISSION,
    ),
)  # fmt: skip

_REFUSED_BY_KUBELET = (
    _row(
        r"UnexpectedAdmissionError|Allocate failed due to|no healthy devices present|device plugin", "DevicePlugin",
        "its node could not hand out the devices it was placed for", _ADMIN,
        "look at the device plugin and the devices of that node; the run may be resumed on other nodes meanwhile",
        urgency=Urgency.BLOCKED,
    ),
    _row(
        r"TopologyAffinityError|Resources cannot be allocated with Topology locality", "TopologyRefused",
        "its node cannot hand out its resources from one NUMA node", _YOU,
        "ask for resources that fit one NUMA node, or have the node's topology policy changed",
    ),
    _row(
        r"OutOf([\w./-]+)|Node didn't have enough (?:resource|capacity): (\S+?),", "NodeFilledUp",
        "its node was full ({0}) when it arrived", _WAIT, "wait for another try, or resume the run",
        urgency=Urgency.PASSING,
    ),
    _row(
        r"Predicate NodeAffinity failed|\bNodeAffinity\b.*(?:reject|denied|failed)", "NodeChanged",
        "its node's labels changed before it arrived", _ADMIN, "see who changes labels of that node",
    ),
    _row(
        r"NodeShutdown|imminent node shutdown", "NodeShutdown", "its node shuts down", _WAIT,
        "wait: it does not count as a restart, another node takes over", urgency=Urgency.PASSING,
    ),
)  # fmt: skip

_STARTS = (
    _row(
        r"couldn't find key (\S+) in Secret \S+|references non-existent secret key: (\S+)", "SecretMissing",
        "a Secret lacks the key {0}", _YOU, "add the key to the Secret that is named in the evidence",
    ),
    _row(
        r"couldn't find key (\S+) in ConfigMap \S+|references non-existent config key: (\S+)", "ConfigMapMissing",
        "a ConfigMap lacks the key {0}", _YOU, "add the key to the ConfigMap that is named in the evidence",
    ),
    _row(
        r"secrets? \\?\"(?:[\w-]+/)?([\w.-]+)\\?\" not found", "SecretMissing", "there is no Secret {0}", _YOU,
        "create it in the run's namespace, or correct its name in the description",
    ),
    _row(
        r"configmaps? \\?\"(?:[\w-]+/)?([\w.-]+)\\?\" not found", "ConfigMapMissing", "there is no ConfigMap {0}", _YOU,
        "create it in the run's namespace, or correct its name in the description",
    ),
    _row(
        r"persistentvolumeclaim \\?\"(?:[\w-]+/)?([\w.-]+)\\?\" not found", "VolumeClaimMissing",
        "there is no PersistentVolumeClaim {0}", _YOU,
        "create it in the run's namespace, or correct launch.volumes in the description",
    ),
    _row(
        r"runAsNonRoot and image (?:will run as root|has non-numeric user)|runAsUser breaks non-root policy",
        "RunsAsRoot",
        "its image wants to run as root, which its pod forbids", _YOU,
        "build the image with a numeric USER other than 0",
    ),
    _row(
        r"Multi-Attach error for volume \\?\"([^\"\\]+)", "VolumeAttachedElsewhere",
        "volume {0} is still attached to another node", _ADMIN,
        "if that node is lost, taint it node.kubernetes.io/out-of-service; else wait for it to let go",
    ),
    _row(
        r"FailedAttachVolume|AttachVolume\.Attach failed|FailedMount|MountVolume\.\w+ failed|"
        r"Unable to attach or mount volumes", "VolumeNotMounted", "a volume of it cannot be mounted", _ADMIN,
        "see the message: the volume's server, its driver on that node, or its credentials",
    ),
    _row(
        r"(?:StartError|RunContainerError|ContainerCannotRun|failed to create .*task|CreateContainerError).*?"
        r"exec: \\?\"([^\"\\]+)\\?\".*?(?:executable file not found|no such file or directory|permission denied|"
        r"not a directory)", "CommandNotFound", "its image has no program {0}", _YOU,
        "use an image that has it (ranks need python3 of at least 3.8), or correct the command",
    ),
    _row(
        r"CreateContainerConfigError", "ContainerConfig", "its container cannot be set up", _YOU,
        "correct what the message names",
    ),
    _row(
        r"StartError|RunContainerError|CreateContainerError|ContainerCannotRun", "ContainerNotCreated",
        "its container runtime cannot start its container", _ADMIN, "see the message; if it is one node only, avoid it",
    ),
    _row(
        r"failed to setup network for sandbox|plugin type=.*failed \(add\)|cni plugin not initialized|"
        r"NetworkPluginNotReady|NetworkNotReady|network is not ready|no IP addresses available|failed to allocate for "
        r"range|NetworkPlugin cni failed", "NetworkNotReady", "its node cannot give it a network", _ADMIN,
        "look at the network plugin of that node; it is tried again meanwhile", urgency=Urgency.PASSING,
    ),
    _row(
        r"FailedCreatePodSandBox|CreatePodSandboxError|KillPodSandboxError", "SandboxFailed",
        "its node cannot make its sandbox", _ADMIN,
        "look at that node's container runtime; it is tried again meanwhile",
        urgency=Urgency.PASSING,
    ),
)  # fmt: skip

_ENDINGS = (
    _row(
        r"OOMKilled", "OutOfMemory", "it used more memory than its limit and was killed", _PROGRAM,
        "raise launch.resources.memory, or make the batch or the model smaller", Life.ENDED,
    ),
    _row(
        r"[Ee]phemeral local storage usage exceeds|exceeded its local ephemeral storage|local ephemeral storage limit|"
        r"Usage of EmptyDir volume \"[^\"]+\" exceeds", "DiskLimit", "it wrote more to its node's disk than its limit",
        _PROGRAM, "write less, to the storage, or raise the limit on ephemeral storage", Life.ENDED,
    ),
    _row(
        r"The node was low on resource: (\S+?)[.,]", "Evicted", "its node ran short of {0} and evicted it", _WAIT,
        "wait for another try, or resume; requests that match what it uses make it less likely", Life.ENDED,
        Urgency.PASSING,
    ),
    _row(
        r"The node had condition: \[(\w+)\]", "Evicted", "its node had {0} and evicted it", _WAIT,
        "wait for another try, or resume", Life.ENDED, Urgency.PASSING,
    ),
    _row(
        r"Preempted by (?:a )?pod|Preempted in order to admit|preempting to accommodate|PreemptionByScheduler",
        "PreemptedByScheduler", "a pod of higher priority took its place", _WAIT,
        "wait: it does not count as a restart; a higher priority_class would prevent it", Life.ENDED, Urgency.PASSING,
    ),
    _row(
        r"Pod was active on the node longer than the specified deadline|\bDeadlineExceeded\b|exceeded its deadline",
        "DeadlinePassed", "its deadline passed", _YOU, "give it more time, and resume the run", Life.ENDED,
    ),
    _row(
        r"(?:^|[ :])pod deleted|PodDeleted", "PodDeleted", "somebody or something deleted its pod", _ADMIN,
        "find out who (a drain, an autoscaler, a person), then resume the run", Life.ENDED,
    ),
)  # fmt: skip

PHRASES = (*_ENDINGS, *_ADMISSION, *_IMAGES, *_STARTS, *_REFUSED_BY_KUBELET)
"""Read top to bottom; the first that is found counts."""
