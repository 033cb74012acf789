"""Can ranks listen on a port of this machine and be reached there?"""

import socket
from contextlib import closing

from components.checks.question import Question
from components.contracts.checks import CheckResult

_CONNECT_SECONDS = 5.0


def port_question(*, host: str, port: int) -> Question:
    """Asks for `port` on `host` to listen on; 0 means any free one."""
    return Question(
        name="port", scope="node", subject=f"{host}:{port or 'any'}",
        expected="a port to listen on that answers to a connection" if not port else f"port {port} free and answering",
        origin="the ranks meet at MASTER_ADDR:MASTER_PORT",
        remedy="end the process that holds it, or choose another port" if port else "allow listening sockets here",
    )  # fmt: skip


def port_can_be_used(question: Question, *, host: str, port: int = 0) -> CheckResult:
    """Listens on `host:port`, connects to itself, and closes both again."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        return question.fail(f"{host} does not resolve: {error.strerror}", "check /etc/hosts or the DNS")
    with closing(socket.socket(address[0], socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address[4])
            listener.listen(1)
        except OSError as error:
            return question.fail(f"cannot listen: {error.strerror}")
        bound = listener.getsockname()
        result = _reach(question, (str(bound[0]), int(bound[1])))
    return result if result is not None else question.ok(f"listened on port {bound[1]} and reached it")


def reach_question(*, host: str, port: int) -> Question:
    """Asks whether another agent's `host:port` answers from here."""
    return Question(
        name="reach", scope="node", subject=f"{host}:{port}", expected="answers to a connection",
        origin="the ranks meet at MASTER_ADDR:MASTER_PORT", remedy="open that port between the nodes",
    )  # fmt: skip


def port_can_be_reached(question: Question, *, host: str, port: int) -> CheckResult:
    """Connects to `host:port`, where somebody must be listening."""
    return _reach(question, (host, port)) or question.ok("answers")


def _reach(question: Question, address: tuple[str, int]) -> CheckResult | None:
    try:
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except TimeoutError:
        return question.fail(f"no answer within {_CONNECT_SECONDS:g} s", "a firewall may swallow the connection")
    except OSError as error:
        return question.fail(f"cannot connect: {error.strerror or error}")
    return None
