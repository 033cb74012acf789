"""Where agents and ranks listen: on this machine alone where it has all nodes, else on every address it has."""

import socket
from contextlib import closing


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches that host."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def listen_at(host: str) -> socket.socket:
    """A free port of `host` if that is this machine alone, else of every address and family, one for all."""
    if is_loopback(host):
        return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    return _listen_everywhere()


def free_port() -> int:
    """A port nobody holds now, on any address: rank 0 will listen on all of them. Somebody may still take it before
    rank 0 does: that start is repeated, uncharged.
    """
    with closing(_listen_everywhere()) as listener:
        return int(listener.getsockname()[1])


def _listen_everywhere() -> socket.socket:
    dual = socket.has_dualstack_ipv6()
    return socket.create_server(("", 0), family=socket.AF_INET6 if dual else socket.AF_INET, dualstack_ipv6=dual)
