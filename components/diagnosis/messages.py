"""What a sentence of Kubernetes amounts to, of messages alone: the first row of `phrases` that is found.

The sentences come from container states, events, Argo's node messages and the launcher's last words. The scheduler's
own are in `constraints`. What no row knows has no cause here: a guess would send people the wrong way.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from components.diagnosis.finding import Life, Urgency
from components.diagnosis.never_granted import never_granted
from components.diagnosis.phrases import PHRASES
from components.diagnosis.verdict import Actor

_IMAGE = re.compile(r'(?:image|reference) \\?"([^"\\]+)\\?"')
_ASK_LESS = (
    "ask for less (launch.resources, a stage's resources, a priority_class or device that the quota does not allow), "
    "or have the quota raised"
)
_IS_IMAGE = re.compile(r"ErrImagePull|ImagePullBackOff|ImageInspectError|[Ff]ailed to pull image|Back-off pulling")


@dataclass(frozen=True)
class Meaning:
    """A sentence understood."""

    reason: str
    cause: str
    """Follows the name of the object: `waits: …`."""
    actor: Actor
    action: str
    life: Life
    urgency: Urgency
    key: str


@lru_cache(maxsize=4096)
def understood(message: str) -> Meaning | None:
    """What a sentence says, or None when no row knows it."""
    found = _IMAGE.search(message)
    image = found[1] if found else ""
    for phrase in PHRASES:
        match = phrase.pattern.search(message)
        if match:
            name = next((group for group in match.groups() if group), "")
            cause = phrase.cause.replace("{image}", f" {image}" if image else "").replace("{0}", name or "not named")
            too_much = never_granted(message) if phrase.reason == "NamespaceQuota" else ""
            if too_much:
                return Meaning(
                    phrase.reason, f"quota {name} of the namespace never grants so much ({too_much})", Actor.SUBMITTER,
                    _ASK_LESS, phrase.life, Urgency.BLOCKED, name,
                )  # fmt: skip
            return Meaning(
                phrase.reason, cause, phrase.actor, phrase.action, phrase.life, phrase.urgency, name + image
            )  # fmt: skip
    if _IS_IMAGE.search(message):
        which = f" {image}" if image else ""
        return Meaning(
            "ImageNotPulled", f"its image{which} cannot be pulled, and what the node says about it is not known",
            Actor.SUBMITTER, "check image and platform_image, image_pull_secrets, and the message", Life.STARTING,
            Urgency.BLOCKED, image,
        )  # fmt: skip
    return None
