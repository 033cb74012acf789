"""A program that forks children who are to be killed, driven line by line: imports are paid once, deaths are many."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]


class ForkingProgram:
    """`python -m module`, told a line at a time. A context manager."""

    def __init__(self, module: str, folder: Path, *, temporary: Path, environment: Mapping[str, str]) -> None:
        """What it says to stderr is kept in `folder`."""
        self._errors = (folder / "mortals.err").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), **environment},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The next line of JSON; None when it is gone."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline() or "null")

    def said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()
