"""What loaders expect beside the shards, derived from the manifest: the same manifest gives the same bytes.

`shards.txt` lists the shards in order, a path a line. MDS has `index.json`, with digests for `validate_hash`.
"""

import json

from components.contracts.dataset import SampleOptions, ShardManifest

SHARDS = "shards.txt"
MDS_INDEX = "index.json"


def sidecars(manifest: ShardManifest) -> dict[str, bytes]:
    """Files beside the manifest, by name; paths in them are relative to it, as the manifest's are."""
    names = "".join(f"{shard.files[0].path}\n" for shard in manifest.shards)
    made = {SHARDS: names.encode()}
    if isinstance(manifest.options, SampleOptions) and manifest.options.format == "mds":
        made[MDS_INDEX] = _mds_index(manifest, manifest.options)
    return made


def _mds_index(manifest: ShardManifest, options: SampleOptions) -> bytes:
    from components.dataset.formats.mds import described

    columns = described(list(options.fields))
    shards = [
        columns | {
            "samples": shard.num_samples, "zip_data": None,
            "raw_data": {"basename": file.path, "bytes": file.size_bytes, "hashes": shard.hashes},
        }
        for shard in manifest.shards for file in shard.files
    ]  # fmt: skip
    return json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode()
