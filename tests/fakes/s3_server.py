"""A real S3 server for tests: versitygw, built once with the Go toolchain, on a free port of this machine.

`python -m tests.fakes.s3_server` builds it, so that tests need neither network nor patience.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from components.runtime.processes import spawn
from components.storage.location import S3Location, StoreOptions
from components.storage.patience import Patience
from components.storage.s3 import S3Store
from components.storage.s3_client import make_client

ROOT = Path(__file__).parent.parent.parent
MODULE = Path(__file__).parent / "versitygw"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"

QUICK = Patience(total_seconds=2.5, first_pause_seconds=0.002, max_pause_seconds=0.01, slow_down_seconds=0.004)
"""For tests: as many tries, hardly any waiting."""

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "argosytests", "AWS_SECRET_ACCESS_KEY": "argosytests-secret"}
ENVIRONMENT = {
    **CREDENTIALS, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}  # fmt: skip
"""Of a process that uses the server; nothing of the developer's own settings reaches it."""


class S3Server:
    """A server that keeps its objects below `folder`. Some tests end every process they can see: `revive` it then."""

    def __init__(self, folder: Path, *, options: Sequence[str] = (), scheme: str = "http") -> None:
        self._folder, self._program, self._options, self._scheme = folder, built_server(), options, scheme
        (folder / "objects").mkdir(parents=True)
        self.port, self._process = self._start()
        self.client = self.client_of(self.endpoint)

    def revive(self) -> None:
        """Make sure that it runs, on the same port, with the same objects."""
        if self._process.poll() is not None:
            self._process = self._run(self.port)
            assert _answers(self.port, self._process), self._said()

    def close(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()

    def _start(self) -> "tuple[int, subprocess.Popen[bytes]]":
        for _ in range(5):  # another process may take the port first
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            process = self._run(port)
            if _answers(port, process):
                return port, process
            process.kill()
            process.wait()
        raise AssertionError(self._said())

    def _run(self, port: int) -> "subprocess.Popen[bytes]":
        env = {
            "PATH": os.environ.get("PATH", os.defpath), "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        }  # fmt: skip
        with (self._folder / "server.log").open("ab") as log:
            return spawn(
                [
                    str(self._program), "--port", f"127.0.0.1:{port}", "--quiet", *self._options,
                    "posix", str(self._folder / "objects"),
                ],
                env=env, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _said(self) -> str:
        return f"versitygw does not start: {(self._folder / 'server.log').read_text()[-2000:]}"

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which any process finds this server."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": self.endpoint}

    def client_of(self, endpoint: str, *, read_seconds: float = 10.0, **environment: str) -> Any:
        """A client such as stages use, with the test's credentials unless `environment` says otherwise."""
        with mock.patch.dict(os.environ, {**ENVIRONMENT, **environment}):
            trusted = (
                str(certificate()[0]) if endpoint.startswith("https:") and "AWS_CA_BUNDLE" not in environment else None
            )
            options = StoreOptions(endpoint=endpoint, region="us-east-1", ca_bundle=trusted)
            return make_client(options, uri="s3://tests", read_seconds=read_seconds)

    def new_bucket(self) -> str:
        name = f"t-{uuid.uuid4().hex[:16]}"
        self.client.create_bucket(Bucket=name)
        return name

    def new_store(self, *, prefix: str = "", client: Any = None, patience: Patience = QUICK) -> S3Store:
        """A store on a bucket of its own."""
        return S3Store(S3Location(self.new_bucket(), prefix), client or self.client, patience=patience)


def certificate() -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key; made once, by Go as well."""
    folder = built_server().parent / "tls"
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "key.pem").exists():
            folder.mkdir(exist_ok=True)
            root = subprocess.run([_go(), "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
            program = f"{root}/src/crypto/tls/generate_cert.go"
            subprocess.run(
                [_go(), "run", "-trimpath", program, "--host", "127.0.0.1", "--ca", "--duration", "87600h"],
                cwd=folder, env=_build_environment(), check=True, capture_output=True,
            )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


def built_server() -> Path:
    """The program, built now when it was not before. Fails, never skips, when it cannot be built."""
    sources = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    folder = ROOT / "build" / "versitygw"
    program = folder / f"versitygw-{hashlib.sha256(sources).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    temporary = program.with_suffix(f".{os.getpid()}")
    built = subprocess.run(
        [_go(), "build", "-trimpath", "-ldflags=-s -w", "-o", str(temporary), PACKAGE],
        cwd=MODULE, env=_build_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode:
        raise AssertionError(f"versitygw cannot be built for the S3 tests:\n{built.stderr[-3000:]}")
    temporary.rename(program)


def _build_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0"}


def _go() -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise AssertionError("the S3 tests need a real server, and Go to build it: install Go 1.26 or later")
    return go


def _answers(port: int, process: "subprocess.Popen[bytes]", *, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return process.poll() is None
        time.sleep(0.02)
    return False


if __name__ == "__main__":
    print(built_server(), certificate()[0])
    sys.exit(0)
