"""`$(NAME)` in a container's command, arguments and variables: Kubernetes replaces it before the container starts."""

from collections.abc import Iterable, Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `$(NAME)` replaced by a variable the container declares, and `$$` by one `$`. All else stays."""
    parts, position = [], 0
    while (at := text.find("$", position)) >= 0 and at + 1 < len(text):
        parts.append(text[position:at])
        following, end = text[at + 1], text.find(")", at)
        if following == "$":
            parts.append("$")
            position = at + 2
        elif following == "(" and end >= 0:
            name = text[at + 2 : end]
            parts.append(variables.get(name, f"$({name})"))
            position = end + 1
        else:
            parts.append(f"${following}")
            position = at + 2
    return "".join([*parts, text[position:]])


def expand_variables(declared: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Variables in their order; each may name those before it."""
    found: dict[str, str] = {}
    for name, value in declared:
        found[name] = expand(value, found)
    return found
