"""`python -m components.launch`: the launch stage."""

import sys

if __name__ == "__main__":
    from components.runtime.early import remember_sigterm

    remember_sigterm(sys.argv[1:])  # before anything that takes time to import
    from functools import partial

    from components.launch.run import launch
    from components.launch.spec import LaunchSpec
    from components.launch.wakeup import Wakeup
    from components.runtime.stage import stage_main
    from components.storage.base import open_store

    stage_main(
        "launch", LaunchSpec, partial(launch, wakeup=Wakeup()), open_store=open_store, argv=sys.argv[1:],
        sigterm_raises=False,
    )  # fmt: skip
