"""`python -m components.shard plan|task|merge --spec …` as a stage of the workflow; by hand without, see `--help`."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from components.runtime.stage import stage_main
    from components.shard.run import PARTS
    from components.shard.spec import ShardSpec
    from components.storage.base import open_store

    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part in PARTS and any(argument.partition("=")[0] == "--spec" for argument in sys.argv[2:]):
        stage_main(f"shard {part}", ShardSpec, PARTS[part], open_store=open_store, argv=sys.argv[2:])
    from components.shard.command import main

    sys.exit(main(sys.argv[1:]))
