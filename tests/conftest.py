"""Options of the whole suite, and the stores that several parts of it need."""

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.s3_fixtures import (
    any_store,
    proxied_store,
    s3_proxy,
    s3_proxy_of_session,
    s3_server,
    s3_server_of_session,
    s3_store,
)

__all__ = [
    "any_store", "proxied_store", "s3_proxy", "s3_proxy_of_session", "s3_server", "s3_server_of_session", "s3_store",
]  # fmt: skip

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")  # a claim about a function is no claim about how busy the machine is


# A shell that starts the suite in the background has it ignore Ctrl-C, and so would every program the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="rewrite tests/golden instead of comparing with it")
