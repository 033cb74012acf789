"""`python -m components.retain`: as a stage with --spec, otherwise on any storage with plain options."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from components.retain.run import run
    from components.retain.spec import RetainSpec
    from components.retain.standalone import main
    from components.runtime.stage import stage_main
    from components.storage.base import open_store

    argv = sys.argv[1:]
    if not any(item == "--spec" or item.startswith("--spec=") for item in argv):
        sys.exit(main(argv))
    stage_main("retain", RetainSpec, run, open_store=open_store, argv=argv)
