"""What happens inside a stage's container: shard, preflight, launch, verify, retain; finish handles the exit."""

STAGES = ("shard", "preflight", "launch", "verify", "retain")
