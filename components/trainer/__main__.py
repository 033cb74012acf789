"""`python -m components.trainer`: the reference training program. Exit codes: 0 done, 78 unusable input, 1 failed."""

import os
import sys
import traceback
from typing import NoReturn

from components.trainer.arguments import parse
from components.trainer.endings import BAD_INPUT, FAILED, TrainingDiverged, Unusable
from components.trainer.worker import worker_from


def main() -> int:
    """Train as the arguments and the environment say; the exit code."""
    arguments = parse(sys.argv[1:])
    try:
        worker = worker_from()
        from components.trainer.train import train  # torch costs seconds; wrong input is told before that

        train(arguments, worker)
    except Unusable as error:
        print(f"components.trainer: {error}", file=sys.stderr)
        return BAD_INPUT
    except TrainingDiverged as error:
        print(f"components.trainer: {error}", file=sys.stderr)
        return FAILED
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def leave(code: int) -> NoReturn:
    """End the process without tearing the interpreter down.

    A gloo thread that lets go of a tensor while that happens aborts the whole process ("terminate called without an
    active exception"): a finished rank would look like a crashed one. Seen once in some 25 exits on a busy machine.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
