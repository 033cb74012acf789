"""`python -m components.retain`: as a stage with --spec, otherwise on any storage with plain options."""

import sys

from components.retain.run import run
from components.retain.spec import RetainSpec
from components.retain.standalone import main
from components.runtime.stage import stage_main
from components.storage.base import open_store

if __name__ == "__main__":
    argv = sys.argv[1:]
    if not any(item == "--spec" or item.startswith("--spec=") for item in argv):
        sys.exit(main(argv))
    stage_main("retain", RetainSpec, run, open_store=open_store, argv=argv)
