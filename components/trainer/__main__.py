"""`python -m components.trainer`: the reference training program. Exit codes: 0 done, 78 unusable input, 1 failed."""

import sys

from components.trainer.arguments import parse
from components.trainer.endings import BAD_INPUT, FAILED, TrainingDiverged, Unusable
from components.trainer.worker import worker_from


def main() -> int:
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
