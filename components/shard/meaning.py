"""Which settings of the shard stage have no meaning together with others. What is ignored in silence is taken for done.

The description, the command and the plan all ask here.
"""

from collections.abc import Mapping

_ONLY_TOKENS = ("sequence_length", "over_long", "tokenizer", "end_of_document", "text_field")
_ONLY_SAMPLES = ("key_field", "fields")
_WITHOUT_ROWS = {
    "file": "file", "grouped_files": "file", "labelled_folders": "file", "lines": "line", "manifest": "range",
}  # fmt: skip
_NAMES = _WITHOUT_ROWS | {"tar": "member"}


def why_unused(name: str, value: object, chosen: Mapping[str, object]) -> str:
    """Why that setting would do nothing beside those in `chosen`: `format`, `read_as` and `tokenizer`, defaults
    included; those not in it are not looked at. Empty when it means something, or was not given.
    """
    if value in (None, (), {}) or (name, value) == ("tokenizer", "bytes"):
        return ""
    out, read_as = chosen.get("format"), str(chosen.get("read_as", "auto"))
    if (name in _ONLY_TOKENS and out not in (None, "tokens")) or (name in _ONLY_SAMPLES and out == "tokens"):
        return f"has no meaning with format {out}; leave it out"
    if name == "end_of_document" and chosen.get("tokenizer") == "bytes":
        return (
            "has no meaning with tokenizer bytes, whose documents end with 256; leave it out, or name a tokenizer.json"
        )
    if name == "text_field" and read_as in _WITHOUT_ROWS:
        return (
            f"has no meaning with read_as {read_as}: the whole {_WITHOUT_ROWS[read_as]} is the document; leave it out"
        )
    if name == "key_field" and read_as in _NAMES:
        return f"has no meaning with read_as {read_as}: each {_NAMES[read_as]} has a name; leave it out"
    if name == "read_as" and out == "tokens" and value in ("grouped_files", "labelled_folders"):
        return f"{value} has no meaning with format tokens, where each file is a document; use file"
    return ""
