"""Which of the launcher's own variables its agents need to reach the same storage."""

from collections.abc import Mapping

_PREFIXES = ("AWS_", "ARGOSY_S3_", "ARGOSY_CACHE_")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")

_OF_ONE_POD = ("_FILE", "_URI")
"""Ends of names whose values are places that only the launcher's own pod has."""

_OUR_FOLDERS = "/argosy/"


def handed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """They go through the gang's Secret, so no value shows in a pod's manifest."""
    return {
        name: value
        for name, value in environ.items()
        if name in _PROXIES
        or (name.startswith(_PREFIXES) and not name.endswith(_OF_ONE_POD) and not value.startswith(_OUR_FOLDERS))
    }
