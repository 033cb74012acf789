"""`python -m components.agent.handover FOLDER`: a pod's init step, puts the guard where the program's container is."""

import shutil
import sys
from pathlib import Path

GUARD_FILE = Path(__file__).resolve().parents[1] / "guard" / "guard.py"

if __name__ == "__main__":
    target = Path(sys.argv[1]) / GUARD_FILE.name
    shutil.copyfile(GUARD_FILE, target)
    target.chmod(0o555)
