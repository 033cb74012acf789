"""`python -m infra.local --run-dir DIR`: run, or go on with, one run; the exit code is the run's."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from components.errors import ArgosyError
from components.runtime.log import Log
from components.runtime.processes import become_subreaper
from infra.local.engine import Engine
from infra.local.journal import Journal
from infra.local.lock import take_lock
from infra.local.reader import load_program
from infra.local.run_dir import RunDir


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local", allow_abbrev=False)
    parser.add_argument("--run-dir", required=True, type=Path, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="repeat what failed or was stopped")
    parser.add_argument("--ready-fd", type=int, default=None, help="gets `ready`, or why not")
    arguments = parser.parse_args()
    run_dir = RunDir(arguments.run_dir.absolute())
    log = Log({"workflow": run_dir.name, "task": "engine"}, sys.stderr)
    try:
        program = load_program(run_dir.manifest(), where=str(run_dir.manifest_path))
        become_subreaper()
        take_lock(run_dir)
        journal = Journal(run_dir)
    except ArgosyError as error:
        log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        _answer(arguments.ready_fd, str(error))
        return int(error.exit_code)
    _answer(arguments.ready_fd, "ready")
    with journal:
        return Engine(run_dir, program, journal, log).run(resumed=arguments.resume)


def _answer(descriptor: int | None, text: str) -> None:
    if descriptor is not None:
        with suppress(BrokenPipeError):  # whoever asked was killed meanwhile; the run goes on without it
            os.write(descriptor, text.encode())
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
