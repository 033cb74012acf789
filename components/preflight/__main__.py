"""`python -m components.preflight --spec … --storage … --run …`."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from components.preflight.run import preflight
    from components.preflight.spec import PreflightSpec
    from components.runtime.stage import stage_main
    from components.storage.base import open_store

    stage_main("preflight", PreflightSpec, preflight, open_store=open_store, argv=sys.argv[1:])
