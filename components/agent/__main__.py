"""`python -m components.agent --spec-file F --node-rank K --workdir D --secret-fd N`."""

import os
import signal
import sys

if __name__ == "__main__":
    # A SIGTERM that comes before there is somebody to hear it shall wait, not kill: `Services.start` lets it through.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    from components.agent.run import main

    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # not to wait for a thread that hangs in a store
