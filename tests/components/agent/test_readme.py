"""The ten lines of the README are the contract: a program made of them is checkpointed, restarted and finished."""

import re
import sys
from pathlib import Path

from tests.components.agent.gang import checkpoint
from tests.components.agent.test_gang import NewGang

README = Path(__file__).parents[3] / "README.md"

YOURS = """
import json, os, signal
from pathlib import Path

total_steps, here = 6, 0

def load(folder):
    global here
    here = json.loads(Path(folder, "state.json").read_text())
    print("loaded", here, flush=True)
    return here

def save(folder):
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps(here))

def train_one_step():
    global here
    here += 1
    if here == 5 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(7)
    return 1 / here
"""


def test_ten_lines_make_a_program_restartable(new_gang: NewGang) -> None:
    (lines,) = re.findall(r"in ten lines\.\*\*.*?```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(lines.splitlines()) == 10

    command = [sys.executable, "-IS", "-c", YOURS + lines]
    gang = new_gang(command, checkpoint=checkpoint(2), num_nodes=1).start()

    assert gang.wait() == [0]
    assert [begin.source for begin in gang.history.begins] == [None, "step-4-term-1"]
    assert gang.history.checkpoints["step-6-term-2"].status == "verified"
    assert gang.messages(0, 0, attempt=1) == ["loaded 4"]
