"""Forms that credentials have: keys, signed tokens, passwords in addresses."""

import re

PATTERNS = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+(?=\S*\d)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\b(?:hf|ghp|gho|ghs)_[A-Za-z0-9]{12,}"),  # not hf-internal-testing
    re.compile(r"\b(?:glpat|sk|xox[abp]|wandb)[_-](?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{12,}"),
    re.compile(r"(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)"),
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)", re.DOTALL),
)


def is_credential(text: str) -> bool:
    """Whether some part of `text` has such a form."""
    return any(pattern.search(text) for pattern in PATTERNS)
