"""Names of the output parameters each stage publishes: written by stages, declared by templates."""

SHARD_PLAN = ("plan_id", "num_shards")
SHARD_MERGE = ("data_version", "num_sequences", "num_tokens")
PREFLIGHT = ("verdict",)
LAUNCH = ("checkpoint", "step", "resume_step", "restarts", "outcome")
VERIFY = ("checkpoint", "verdict", "level")
RETAIN = ("kept", "deleted")
FINISH = ("report",)
