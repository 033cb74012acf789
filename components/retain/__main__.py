"""`python -m components.retain`."""

import sys

from components.retain.run import run
from components.retain.spec import RetainSpec
from components.runtime.stage import stage_main
from components.storage.base import open_store

if __name__ == "__main__":
    stage_main("retain", RetainSpec, run, open_store=open_store, argv=sys.argv[1:])
