"""`python -m infra.devcluster host|build|up|down|status|…`: the development cluster from the command line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from components.errors import ArgosyError, BadInput
from infra.devcluster import down, faults, host, images, kueue, manifests, running, up
from infra.devcluster.access import write_access
from infra.devcluster.build import locked
from infra.devcluster.layout import MAX_NODES
from infra.devcluster.status import status

EXTRAS = ("kueue",)
"""What only some tests need, and few minutes of building."""


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options) or 0
    except ArgosyError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return code


def say(text: str) -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.devcluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")

    def command(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    command("host", _host, "install the Debian packages that the cluster needs")
    command("build", _build, "build programs and images, if they changed")
    bring_up = command("up", _up, "bring the cluster up, or what is missing of it")
    bring_up.add_argument("--nodes", type=int, default=2)
    bring_up.add_argument("--with", dest="extras", action="append", choices=EXTRAS, default=[], help="once: it stays")
    bring_up.add_argument("--as-built", action="store_true", help="do not look whether anything must be built anew")
    add = command("add", _add, "build and start what is not in every cluster, in the one that is up")
    add.add_argument("extra", choices=EXTRAS)
    take_down = command("down", _down, "take everything away")
    take_down.add_argument("--purge", action="store_true", help="the nodes' image stores too")
    command("status", lambda _: status(say), "every component, and what is wrong with it; exit code 1 if something is")
    for name, (text, _action) in faults.ON_NODE.items():
        command(name, lambda o: faults.on_node(o.command, o.node), text).add_argument("node")
    for name, (text, _act) in faults.ON_COMPONENT.items():
        added = command(name, lambda o: faults.on_component(o.command, o.component), text)
        added.add_argument("component", help="as `status` names it")
    command("namespace", _namespace, "one more namespace to run workflows in").add_argument("name")
    load = command("load", _load, "import an image into every node and print its name by digest")
    load.add_argument("name", help="without registry: it becomes localhost/NAME")
    load.add_argument("archive", type=Path, help="an OCI archive")
    command("refresh", _refresh, "build the images anew if they changed, import them, write the env file")
    return parser


def _host(_: argparse.Namespace) -> None:
    host.install(say)
    host.check()


def _build(_: argparse.Namespace) -> None:
    host.check()
    up.prepare(say)


def _up(options: argparse.Namespace) -> None:
    if not 1 <= options.nodes <= MAX_NODES:
        raise BadInput("BadNumberOfNodes", f"{options.nodes} nodes are asked for", f"1 to {MAX_NODES}")
    host.check()
    up.up(options.nodes, say, as_built=options.as_built, with_kueue="kueue" in options.extras)


def _add(_: argparse.Namespace) -> None:
    layout = running.running_layout()
    with locked(up.LOCK):
        kueue.install(layout, say)


def _down(options: argparse.Namespace) -> None:
    with locked(up.LOCK):
        down.down(say, keep_images=not options.purge)


def _namespace(options: argparse.Namespace) -> None:
    layout = running.running_layout()
    manifests.apply(layout, manifests.workspace(options.name, layout, up.site_packages()))


def _load(options: argparse.Namespace) -> None:
    image = images.describe(options.archive, options.name, "dev")
    images.import_everywhere(running.running_layout().nodes, [image])
    say(image.reference)


def _refresh(_: argparse.Namespace) -> None:
    layout = running.running_layout()
    with locked(up.LOCK):
        pictures = images.build_all(say)
        images.import_everywhere(layout.nodes, pictures)
        write_access(layout, pictures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
