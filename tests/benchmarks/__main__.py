"""`make bench`: the figures of the README, as ratios where there is a base; exit 1 when a bar is missed.

`make bench-cluster` is the suite `cluster`, which runs only when it is named: it needs one.
"""

import sys

from tests.benchmarks import checkpoints, cluster, command_line, data, data_reading, failures, storage, whole_run, why

SUITES = {
    "command-line": command_line.figures,
    "data": data.figures,
    "data-reading": data_reading.figures,
    "checkpoints": checkpoints.figures,
    "storage": storage.figures,
    "run": whole_run.figures,
    "failures": failures.figures,
    "why": why.figures,
    "cluster": cluster.figures,
}
NEEDS_A_CLUSTER = ("cluster",)


def main(names: list[str]) -> int:
    if names in (["-h"], ["--help"]):
        print(f"python -m tests.benchmarks [SUITE…]\n\n{__doc__}\nSuites: {', '.join(SUITES)}")
        return 0
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"unknown suite {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 78
    missed = 0
    for name in names or [name for name in SUITES if name not in NEEDS_A_CLUSTER]:
        print(f"\n{name}", flush=True)
        for figure in SUITES[name]():
            print(f"  {figure}", flush=True)
            missed += not figure.is_met
    print(f"\n{missed} missed" if missed else "\nall bars met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
