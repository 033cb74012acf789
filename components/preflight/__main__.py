"""`python -m components.preflight --spec … --storage … --run …`."""

import sys

from components.preflight.run import preflight
from components.preflight.spec import PreflightSpec
from components.runtime.stage import stage_main
from components.storage.base import open_store

if __name__ == "__main__":
    stage_main("preflight", PreflightSpec, preflight, open_store=open_store, argv=sys.argv[1:])
