"""`python -m components.verify`."""

import sys

from components.runtime.stage import stage_main
from components.storage.base import open_store
from components.verify.run import run
from components.verify.spec import VerifySpec

if __name__ == "__main__":
    stage_main("verify", VerifySpec, run, open_store=open_store, argv=sys.argv[1:])
