"""`python -m components.launch`: the launch stage."""

import sys
from functools import partial

from components.launch.run import launch
from components.launch.spec import LaunchSpec
from components.launch.wakeup import Wakeup
from components.runtime.stage import stage_main
from components.storage.base import open_store

if __name__ == "__main__":
    wakeup = Wakeup()  # before anything else: a SIGTERM during the start-up must not be lost
    stage_main(
        "launch", LaunchSpec, partial(launch, wakeup=wakeup), open_store=open_store, argv=sys.argv[1:],
        sigterm_raises=False,
    )  # fmt: skip
