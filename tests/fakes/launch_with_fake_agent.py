"""The launch stage, whole, with `tests/fakes/agent.py` in the agents' place. Arguments as of `components.launch`."""

import sys
from functools import partial
from pathlib import Path

from components.launch.run import launch
from components.launch.spec import LaunchSpec
from components.launch.wakeup import Wakeup
from components.runtime.stage import stage_main
from components.storage.base import open_store

if __name__ == "__main__":
    agent = (sys.executable, "-S", str(Path(__file__).with_name("agent.py")))
    stage_main(
        "launch", LaunchSpec, partial(launch, wakeup=Wakeup(), agent_command=agent), open_store=open_store,
        argv=sys.argv[1:], sigterm_raises=False,
    )  # fmt: skip
