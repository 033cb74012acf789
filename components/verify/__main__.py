"""`python -m components.verify`: the stage with `--spec`, and a look at any checkpoint without."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from components.runtime.stage import stage_main
    from components.storage.base import open_store
    from components.verify.run import run
    from components.verify.spec import VerifySpec
    from components.verify.standalone import is_standalone, main

    if is_standalone(sys.argv[1:]):
        sys.exit(main(sys.argv[1:]))
    stage_main("verify", VerifySpec, run, open_store=open_store, argv=sys.argv[1:])
