"""`python -m components.agent.handover FOLDER`: a pod's init step, puts the guard where the program's container is."""

import shutil
import sys
from pathlib import Path

from components.guard import guard

if __name__ == "__main__":
    target = Path(sys.argv[1]) / Path(guard.__file__).name
    shutil.copyfile(guard.__file__, target)
    target.chmod(0o555)
