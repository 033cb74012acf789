"""The data version: one name for exactly these bytes in exactly this order, whatever stored or made them."""

import hashlib
from collections.abc import Iterable

from components.contracts.canonical import canonical_bytes
from components.contracts.dataset import DataOptions, ShardContent


def data_version(options: DataOptions, shards: Iterable[ShardContent]) -> str:
    """`d-<16 hex>`: Merkle root over the options, format included, and the digests of the shards' files in order."""
    leaves = [canonical_bytes(options.as_json())]
    leaves.extend(bytes.fromhex(file.sha256) for shard in shards for file in shard.files)
    return f"d-{merkle_root(leaves).hex()[:16]}"


def merkle_root(leaves: Iterable[bytes]) -> bytes:
    """SHA-256 tree of at least one leaf; leaves and nodes are hashed with different prefixes, an odd node moves up."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    if not level:
        raise ValueError("a Merkle tree needs at least one leaf")
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]
