"""Any tokenizer.json: its ids, its end of document, its digest in the data version; or why it cannot be used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from components.dataset.tokenizer import PIECE_BYTES, cut
from components.errors import BadInput
from components.storage.local import LocalStore
from tests.components.shard.building import plan, shard
from tests.components.shard.formats import made, rows, spec


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def a_tokenizer(path: Path, *, end: str = "<|endoftext|>") -> Path:
    """Words of a small vocabulary, split at spaces."""
    words = [end, "[UNK]", *(str(n) for n in range(500)), "number", "é"]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    tokenizer.add_special_tokens([end])
    tokenizer.save(str(path))
    return path


def test_documents_become_its_ids_ended_by_its_own_token(store: LocalStore, tmp_path: Path) -> None:
    tokenizer = a_tokenizer(tmp_path / "tokenizer.json")

    manifest = made(store, rows(tmp_path / "rows", count=20), "tokens", tokenizer=str(tokenizer), sequence_length=32)

    options: Any = manifest.options
    assert (options.vocab_size, options.end_of_document, options.dtype) == (504, 0, "uint16")
    assert options.tokenizer.startswith("sha256:")
    tokens = np.concatenate([
        np.fromfile(store.root / "data" / "shards" / f"{part.entry}.bin", dtype="<u2") for part in manifest.shards
    ])  # fmt: skip
    assert set(tokens.tolist()) == {0, 502, *range(2, 22)}
    assert (tokens == 502).sum() == sum(n % 7 + 1 for n in range(20))
    assert manifest.num_tokens == 2 * sum(n % 7 + 1 for n in range(20)) + 20


def test_the_file_may_move_and_a_changed_one_makes_another_data_version(store: LocalStore, tmp_path: Path) -> None:
    corpus, tokenizer = rows(tmp_path / "rows", count=5), a_tokenizer(tmp_path / "tokenizer.json")
    plan_id = plan(store, spec(corpus, "tokens", tokenizer=str(tokenizer)))
    first = made(store, corpus, "tokens", tokenizer=str(tokenizer))

    tokenizer.rename(tmp_path / "moved.json")
    moved = made(store, corpus, "tokens", tokenizer=str(tmp_path / "moved.json"))
    other = made(store, corpus, "tokens", tokenizer=str(a_tokenizer(tmp_path / "other.json", end="</s>")))

    assert plan_id == moved.plan_id
    assert moved == first
    assert other.data_version != first.data_version


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (None, {}, "No such file or directory"),
        ("{}", {}, "does not load as a tokenizer.json"),
        ("not json", {}, "does not load as a tokenizer.json"),
        ("good", {"end_of_document": "<none>"}, r"'<none>' is no token; its special tokens are \[STOP\]"),
        ("good", {}, r"the token that ends a document is not said; its special tokens are \[STOP\]"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_refused_together_with_other_faults(
    store: LocalStore, tmp_path: Path, content: str | None, more: dict[str, str], said: str
) -> None:
    path = tmp_path / "tokenizer.json"
    if content == "good":
        a_tokenizer(path, end="[STOP]")
    elif content is not None:
        path.write_text(content)

    with pytest.raises(BadInput, match=said) as caught:
        plan(store, spec(tmp_path / "nowhere", "tokens", tokenizer=str(path), **more))
    assert f"{tmp_path}/nowhere does not exist" in str(caught.value)
    assert list(store.list("data")) == []


@pytest.mark.parametrize(
    ("over_long", "num_tokens", "counted"),
    [("split", 3 + 13 + 3, "num_split"), ("truncate", 3 + 8 + 3, "num_truncated"), ("drop", 3 + 3, "num_dropped")],
)
def test_over_long_counts_tokens_not_bytes(
    store: LocalStore, tmp_path: Path, over_long: str, num_tokens: int, counted: str
) -> None:
    texts = ["1 2", " ".join("3" * 12), "444 500000000000"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    chosen = {"tokenizer": str(a_tokenizer(tmp_path / "t.json")), "sequence_length": 8}

    manifest = made(store, tmp_path / "a.jsonl", "tokens", over_long=over_long, **chosen)

    assert manifest.num_tokens == num_tokens
    assert manifest.counts.as_json()[counted] == 1
    with pytest.raises(BadInput, match=r"over_long is error; 13 tokens are more than one sequence of 8") as caught:
        made(store, tmp_path / "a.jsonl", "tokens", over_long="error", **chosen)
    assert "a.jsonl at byte 16" in str(caught.value)


def test_text_that_is_not_utf8_is_left_out_by_name(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("1 2 3")
    (tmp_path / "corpus" / "b.txt").write_bytes(b"1 caf\xe9 2")
    tokenizer = str(a_tokenizer(tmp_path / "t.json"))

    with pytest.raises(BadInput, match=r"b\.txt at 0: cannot be used: it is not UTF-8: .* at byte 5 of it"):
        made(store, tmp_path / "corpus", "tokens", tokenizer=tokenizer)
    assert made(store, tmp_path / "corpus", "tokens", tokenizer=tokenizer, max_bad_records=1).num_tokens == 4


def test_a_damaged_copy_of_the_tokenizer_is_noticed(store: LocalStore, tmp_path: Path) -> None:
    described = spec(rows(tmp_path / "rows", count=5), "tokens", tokenizer=str(a_tokenizer(tmp_path / "t.json")))
    plan(store, described)
    (copy,) = (store.root / "data" / "tokenizers").iterdir()
    copy.write_text("{}")

    with pytest.raises(BadInput, match="TokenizerDamaged"):
        shard(store, described)


def test_long_texts_are_cut_after_lines_or_between_characters() -> None:
    lines = b"a line of text\n" * (PIECE_BYTES // 10)
    characters = "é".encode() * PIECE_BYTES + b"x"

    for text in (lines, characters, b"", b"short"):
        pieces = list(cut(text))
        assert b"".join(pieces) == text
        assert max(map(len, pieces)) <= PIECE_BYTES
        for piece in pieces:
            piece.decode()
    assert all(piece.endswith(b"\n") for piece in cut(lines))
