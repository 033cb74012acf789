"""`python -m components.shard plan|task|merge --spec … --storage … --run …`."""

import sys

from components.errors import ExitCode
from components.runtime.stage import stage_main
from components.shard.run import PARTS
from components.shard.spec import ShardSpec
from components.storage.base import open_store

if __name__ == "__main__":
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in PARTS:
        print(f"usage: python -m components.shard {'|'.join(PARTS)} --spec …", file=sys.stderr)
        sys.exit(int(ExitCode.BAD_INPUT))
    stage_main(f"shard {part}", ShardSpec, PARTS[part], open_store=open_store, argv=sys.argv[2:])
