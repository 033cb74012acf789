"""`python -m infra.kubernetes.tenant FILE… --out DIR`: a team's namespace from ten lines, a folder a tenant."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from components.errors import ArgosyError
from infra.kubernetes.tenant.folder import no_longer_rendered, write_render
from infra.kubernetes.tenant.render import render
from infra.kubernetes.tenant.tenant import read_tenants


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.kubernetes.tenant", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="YAML, one tenant each; see the README")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets a folder for each tenant")
    options = parser.parse_args(arguments)
    try:
        for tenant in read_tenants(options.files):
            folder = options.out / tenant.name
            files = render(tenant)
            left_over = no_longer_rendered(folder, files)
            for name in write_render(folder, files):
                print(f"left alone: {folder / name}, which this command did not write", file=sys.stderr)
            if tenant.platform_image is None:
                print(f"{tenant.name}: no platform_image, so no janitor", file=sys.stderr)
            print(f"{folder}: kubectl apply -k {folder}")
            for words in left_over:
                print(f"no longer rendered, and `apply` leaves it in the cluster: kubectl delete {words}")
    except ArgosyError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
