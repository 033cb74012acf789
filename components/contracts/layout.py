"""Where everything lies below `storage`: the only place that spells these keys.

    data/plans/<plan_id>/plan.json  parts/<n>.jsonl  receipts/<num_tasks>/<task>.json
    data/shards/<entry>.<suffix>  <entry>.json  written once for all plans that hold this entry
    data/tokenizers/<sha256>.json
    data/versions/<data_version>/manifest.json  and what other loaders expect beside it
    code/<sha256>.tar
    checkpoints/<experiment>/<model_version>/log/<seq>.json
    checkpoints/<experiment>/<model_version>/<data_version>/step-<step>/term-<term>/...  MANIFEST.json
    runs/<run>/run.json  stages/<task>/<attempt>.json  report.json  report.html
    runs/<run>/probes/<name>  written and removed again by the storage checks
    runs/<run>/gang/launch.json
    runs/<run>/gang/g<k>/state.json  checks/<node>.json  logs/<stream>/<chunk>.jsonl

Keys are relative to the storage root, with `/` between segments, whatever the store.
"""


def plan_folder(plan_id: str) -> str:
    return f"data/plans/{plan_id}"


def plan_key(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/plan.json"


def receipt_key(plan_id: str, *, task_index: int, num_tasks: int) -> str:
    return f"{plan_folder(plan_id)}/receipts/{num_tasks:06d}/{task_index:06d}.json"


def plan_part_key(plan_id: str, *, part: int) -> str:
    return f"{plan_folder(plan_id)}/parts/{part:06d}.jsonl"


def plan_witness_key(plan_id: str, *, place: str) -> str:
    return f"{plan_folder(plan_id)}/seen/{place}.json"


def shards_folder() -> str:
    return "data/shards"


def shard_key(entry: str, *, suffix: str) -> str:
    return f"{shards_folder()}/{entry}.{suffix}"


def tokenizer_key(sha256: str) -> str:
    return f"data/tokenizers/{sha256}.json"


def data_version_folder(data_version: str) -> str:
    return f"data/versions/{data_version}"


def shard_manifest_key(data_version: str) -> str:
    return f"{data_version_folder(data_version)}/manifest.json"


def code_key(digest: str) -> str:
    """Code that travels with runs, an archive of that SHA-256."""
    return f"code/{digest}.tar"


def ledger_folder(experiment: str, model_version: str) -> str:
    return f"checkpoints/{experiment}/{model_version}/log"


def ledger_record_key(experiment: str, model_version: str, *, seq: int) -> str:
    return f"{ledger_folder(experiment, model_version)}/{seq:012d}.json"


def ledger_snapshot_key(experiment: str, model_version: str, *, seq: int) -> str:
    """Copies of the records up to `seq`, in one object."""
    return f"{ledger_folder(experiment, model_version)}/snapshot-{seq:012d}.jsonl"


def ledger_newest_snapshot_key(experiment: str, model_version: str) -> str:
    """Up to which record there are snapshots. Sorts after the records, as they do."""
    return f"{ledger_folder(experiment, model_version)}/snapshot-newest"


def checkpoint_folder(experiment: str, model_version: str, data_version: str, *, step: int, term: int) -> str:
    return f"checkpoints/{experiment}/{model_version}/{data_version}/step-{step:012d}/term-{term:06d}"


def checkpoint_manifest_key(folder: str) -> str:
    return f"{folder}/MANIFEST.json"


def checkpoint_receipt_key(folder: str, *, node_rank: int) -> str:
    return f"{folder}/receipts/{node_rank:06d}.json"


def run_folder(run: str) -> str:
    return f"runs/{run}"


def run_record_key(run: str) -> str:
    return f"{run_folder(run)}/run.json"


def stage_record_key(run: str, *, task: str, attempt: int) -> str:
    return f"{run_folder(run)}/stages/{task}/{attempt:03d}.json"


def stages_folder(run: str) -> str:
    return f"{run_folder(run)}/stages"


def probe_key(run: str, *, name: str) -> str:
    return f"{run_folder(run)}/probes/{name}"


def launch_state_key(run: str) -> str:
    return f"{run_folder(run)}/gang/launch.json"


def gang_folder(run: str, *, generation: int) -> str:
    return f"{run_folder(run)}/gang/g{generation}"


def gang_state_key(run: str, *, generation: int) -> str:
    return f"{gang_folder(run, generation=generation)}/state.json"


def node_checks_key(run: str, *, generation: int, node_rank: int) -> str:
    return f"{gang_folder(run, generation=generation)}/checks/{node_rank:06d}.json"


def node_stream(node_rank: int) -> str:
    """What an agent and its guard log themselves."""
    return f"node-{node_rank}"


def rank_stream(*, node_rank: int, rank: int, attempt: int) -> str:
    """What one rank wrote in one attempt; with `start: node` the rank is the node's first."""
    return f"{node_stream(node_rank)}.rank-{rank}.attempt-{attempt}"


def log_folder(run: str, *, generation: int, stream: str) -> str:
    return f"{gang_folder(run, generation=generation)}/logs/{stream}"


def log_chunk_key(run: str, *, generation: int, stream: str, chunk: int) -> str:
    return f"{log_folder(run, generation=generation, stream=stream)}/{chunk:09d}.jsonl"


def preflight_report_key(run: str) -> str:
    return f"{run_folder(run)}/preflight.json"


def retention_plan_key(run: str) -> str:
    return f"{run_folder(run)}/retention.json"


def report_key(run: str, *, suffix: str) -> str:
    return f"{run_folder(run)}/report.{suffix}"
