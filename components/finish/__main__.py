"""`python -m components.finish`: the exit handler."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from components.finish.run import finish
    from components.finish.spec import FinishSpec
    from components.runtime.stage import stage_main
    from components.storage.base import open_store

    stage_main("finish", FinishSpec, finish, open_store=open_store, argv=sys.argv[1:], repeats=True)
