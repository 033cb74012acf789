"""A data version names bytes, order and options, and nothing else."""

import hashlib

import pytest

from components.contracts.dataset import PackingOptions, Shard, StoredFile
from components.dataset.merkle import data_version, merkle_root

OPTIONS = PackingOptions(sequence_length=8, over_long="split")


def shard(index: int, content: bytes, *, path: str = "x", num_documents: int = 1) -> Shard:
    file = StoredFile(path=path, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return Shard(index=index, files=(file,), num_sequences=1, num_tokens=1, num_padding=0, num_documents=num_documents)


def test_paths_and_counts_do_not_matter() -> None:
    here = data_version(OPTIONS, [shard(0, b"a", path="here")])

    assert here == data_version(OPTIONS, [shard(0, b"a", path="there/x", num_documents=9)])
    assert here == "d-5c65eb5efcf6b337"


@pytest.mark.parametrize(
    "other",
    [
        data_version(OPTIONS, [shard(0, b"b"), shard(1, b"a")]),
        data_version(OPTIONS, [shard(0, b"a")]),
        data_version(OPTIONS, [shard(0, b"a"), shard(1, b"b"), shard(2, b"b")]),
        data_version(OPTIONS.model_copy(update={"sequence_length": 9}), [shard(0, b"a"), shard(1, b"b")]),
    ],
)
def test_order_content_number_and_options_do(other: str) -> None:
    assert data_version(OPTIONS, [shard(0, b"a"), shard(1, b"b")]) != other


def test_a_leaf_cannot_pass_for_a_node() -> None:
    left, right = (hashlib.sha256(b"\x00" + leaf).digest() for leaf in (b"a", b"b"))

    assert merkle_root([b"a", b"b"]) == hashlib.sha256(b"\x01" + left + right).digest()
    assert merkle_root([left + right]) != merkle_root([b"a", b"b"])
