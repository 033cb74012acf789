"""What loaders expect beside the shards, derived from the manifest: the same manifest gives the same bytes.

`shards.txt` lists the shards in order, a path a line. MDS has `index.json`, with digests for `validate_hash`; a tar
`wids.json`, for random access with `wids.ShardListDataset`. Hugging Face `datasets` takes any JSON file of a folder for
data unless a `README.md` says which files are; with the number of samples there it refuses a set that is cut short.
"""

import json

from components.contracts.dataset import SampleOptions, ShardManifest

SHARDS = "shards.txt"
MDS_INDEX = "index.json"
WIDS_INDEX = "wids.json"
DATASET_CARD = "README.md"


def sidecars(manifest: ShardManifest) -> dict[str, bytes]:
    """Files beside the manifest, by name; paths in them are relative to it, as the manifest's are."""
    names = "".join(f"{path}\n" for path in _paths(manifest))
    made = {SHARDS: names.encode()}
    if not isinstance(manifest.options, SampleOptions):
        return made
    if manifest.options.format == "mds":
        return made | {MDS_INDEX: _mds_index(manifest, manifest.options)}
    made[DATASET_CARD] = _dataset_card(manifest)
    if manifest.options.format == "webdataset":
        made[WIDS_INDEX] = _wids_index(manifest)
    return made


def _paths(manifest: ShardManifest) -> list[str]:
    return [shard.files[0].path for shard in manifest.shards if shard.files]


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


def _wids_index(manifest: ShardManifest) -> bytes:
    shards = [
        {"url": file.path, "nsamples": shard.num_samples, "filesize": file.size_bytes}
        for shard in manifest.shards for file in shard.files
    ]  # fmt: skip
    return json.dumps({"wids_version": 1, "name": manifest.data_version, "shardlist": shards}, sort_keys=True).encode()


def _dataset_card(manifest: ShardManifest) -> bytes:
    """YAML between two lines of dashes, as a dataset card begins."""
    size_bytes = sum(file.size_bytes for shard in manifest.shards for file in shard.files)
    lines = [
        "---", "configs:", "- config_name: default", "  data_files:", "  - split: train", "    path:",
        *(f"    - {json.dumps(path)}" for path in _paths(manifest)),
        "dataset_info:", "- config_name: default", "  splits:", "  - name: train", f"    num_bytes: {size_bytes}",
        f"    num_examples: {manifest.num_samples}", "---", "",
        f"{manifest.data_version}: {manifest.num_samples} samples in {len(manifest.shards)} shards.", "",
    ]  # fmt: skip
    return "\n".join(lines).encode()
