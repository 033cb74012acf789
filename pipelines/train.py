"""Entry point: shard >> launch << preflight, launch >> verify >> retain, as one Argo Workflow.

python pipelines/train.py submit            # the default recipe, on this machine
python pipelines/train.py submit -c run.yaml
python pipelines/train.py --help
"""

import os
import sys

if __name__ == "__main__" and not __package__:
    # Run as a file, Python puts this folder first; the checkout root belongs there, and this folder must not shadow
    # the standard library.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

from pipelines.cli.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
