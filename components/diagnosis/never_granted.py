"""A ResourceQuota that refuses a pod: is it full for now, or would it never grant what is asked for (pure)."""

import re

from components.cluster.quantities import parse_quantity

_QUOTA = re.compile(r"exceeded quota: [\w.-]+, requested: (\S+), used: \S+, limited: ([^\s\"]+)")


def never_granted(message: str) -> str:
    """What a pod asks more of than the whole quota has, as `3010m requests.cpu of 2`; empty when it would fit an empty
    namespace, or the message does not say.
    """
    match = _QUOTA.search(message)
    if match is None:
        return ""
    requested, limited = _amounts(match[1]), _amounts(match[2])
    more = [
        f"{amount} {name} of {limited[name]}"
        for name, amount in requested.items()
        if name in limited and _is_more(amount, limited[name])
    ]
    return ", ".join(more)


def _amounts(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.rstrip(",;.").split(","))
    return {name: amount for name, _, amount in pairs}


def _is_more(amount: str, limit: str) -> bool:
    try:
        return parse_quantity(amount) > parse_quantity(limit)
    except ValueError:
        return False
