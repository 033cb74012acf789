"""Text into token ids: a byte a token, or any `tokenizer.json` through the `tokenizers` package."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from components.contracts.dataset import PackingOptions
from components.errors import BadInput

BYTES = "bytes"
PIECE_BYTES = 1 << 17
"""Longer texts are encoded piece by piece, cut after a line where there is one: ids take many times their text."""

_DIGEST = "sha256:"
_KNOWN_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot_id|>", "[SEP]", "[EOS]", "<|im_end|>")
_UINT16_BELOW = 65_500
"""Where Megatron stops using two bytes a token."""

Encode = Callable[[Sequence[bytes | memoryview]], Iterator[Any]]
"""Texts to arrays of ids, one each. Raises UnicodeDecodeError for one that is not UTF-8."""


@dataclass(frozen=True)
class Vocabulary:
    """What of a tokenizer becomes part of the data version."""

    tokenizer: str
    vocab_size: int
    end_of_document: int
    dtype: Literal["uint16", "int32"]

    def options(self, given: PackingOptions) -> PackingOptions:
        """`given`, with what the tokenizer decides."""
        decided = {name: getattr(self, name) for name in ("tokenizer", "vocab_size", "end_of_document", "dtype")}
        return given.model_copy(update=decided)


def read_vocabulary(data: bytes, *, where: str, end_of_document: str | None) -> Vocabulary:
    """What the tokenizer.json `data` says. Raises BadInput when it does not load or its end of document is unknown."""
    tokenizer = _load(data, where)
    vocab_size = tokenizer.get_vocab_size(with_added_tokens=True)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    if end_of_document is None:
        end_of_document = next((token for token in _KNOWN_ENDS if token in special), None)
    end = None if end_of_document is None else tokenizer.token_to_id(end_of_document)
    if end is None:
        wanted = (
            "the token that ends a document is not said"
            if end_of_document is None
            else f"{end_of_document!r} is no token"
        )
        raise BadInput(
            "NoEndOfDocument", f"{where}: {wanted}; its special tokens are {', '.join(special[:10]) or 'none'}",
            "set shard.end_of_document to one of its tokens",
        )  # fmt: skip
    highest = max(vocab_size, end + 1, *(number + 1 for number in tokenizer.get_added_tokens_decoder()))
    return Vocabulary(
        tokenizer=_DIGEST + hashlib.sha256(data).hexdigest(), vocab_size=highest, end_of_document=end,
        dtype="uint16" if highest < _UINT16_BELOW else "int32",
    )  # fmt: skip


def tokenizer_sha256(options: PackingOptions) -> str | None:
    """Digest of the tokenizer.json these options need; None for bytes."""
    return options.tokenizer.removeprefix(_DIGEST) if options.tokenizer.startswith(_DIGEST) else None


def byte_encoder() -> Encode:
    """A byte a token."""
    import numpy as np

    return lambda texts: (np.frombuffer(text, dtype=np.uint8) for text in texts)


def json_encoder(data: bytes, *, where: str, dtype: str) -> Encode:
    """Ids of a tokenizer.json, without the special tokens it would add."""
    import numpy as np

    tokenizer = _load(data, where)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[bytes | memoryview]) -> Iterator[Any]:
        decoded = [str(text, "utf-8") for text in texts]
        for encoding in tokenizer.encode_batch_fast(decoded, add_special_tokens=False):
            yield np.array(encoding.ids, dtype=dtype)

    return encode


def cut(text: bytes) -> Iterator[bytes]:
    """`text` in pieces of at most PIECE_BYTES that end after a newline or, without one, between two characters."""
    start = 0
    while len(text) - start > PIECE_BYTES:
        end = text.rfind(b"\n", start, start + PIECE_BYTES) + 1
        if not end:
            end = start + PIECE_BYTES
            while end > start + PIECE_BYTES - 4 and text[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
        yield text[start:end]
        start = end
    yield text[start:]


def _load(data: bytes, where: str) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_buffer(data)
    except Exception as error:  # the package raises plain Exception
        raise BadInput(
            "TokenizerRefused", f"{where} does not load as a tokenizer.json: {error}",
            "save it with tokenizers' Tokenizer.save, or write tokenizer: bytes",
        ) from error  # fmt: skip
