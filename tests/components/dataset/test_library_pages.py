"""What loading pyarrow touched is given back, and everything works on."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import re
from pathlib import Path
import pyarrow, pyarrow.parquet
from components.dataset.library_pages import give_back_library_pages

def of_files():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = of_files()
give_back_library_pages()
print(before - of_files())
table = pyarrow.table({"a": [1, 2]})
pyarrow.parquet.write_table(table, "a.parquet")
assert pyarrow.parquet.read_table("a.parquet").equals(table)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells which pages a process has")
def test_most_pages_of_pyarrows_libraries_are_given_back_and_it_works_on(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    said = subprocess.check_output(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, env={"PYTHONPATH": str(root)}, text=True
    )

    assert int(said) > 16 << 10  # KiB
