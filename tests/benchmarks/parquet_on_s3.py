"""Memory of tasks that read Parquet from a store over TLS and publish there: everything that takes memory at once."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import botocore

from tests.benchmarks.measure import Figure
from tests.benchmarks.pairs import FORMATS, packed, write_parquet
from tests.fakes.s3_server import S3Server, certificate

AUTHORITIES = Path(botocore.__file__).parent / "cacert.pem"
"""Whom clients trust by default: they are in memory too."""


def figures(folder: Path, texts: list[str]) -> Iterator[Figure]:
    """`texts` are what the rows hold."""
    trusted, key = certificate()
    (folder / "trusted.pem").write_bytes(trusted.read_bytes() + AUTHORITIES.read_bytes())
    options = ["--cert", str(trusted), "--key", str(key), "--keep-alive"]
    server = S3Server(folder / "s3", options=options, scheme="https")
    try:
        store = server.new_store()
        write_parquet(folder, texts)
        store.create_from("corpus/a.parquet", folder / "a.parquet")
        environment = os.environ | server.environment | {"AWS_CA_BUNDLE": str(folder / "trusted.pem")}
        runs = [
            packed(f"{store.uri}/{format}", f"{store.uri}/corpus", "parquet", format, environment) for format in FORMATS
        ]
        yield Figure("peak memory from parquet in S3, over TLS", max(run["peak_mb"] for run in runs), "MB", 100)
    finally:
        server.close()
        subprocess.run(["rm", "-rf", str(folder / "s3"), str(folder / "a.parquet")], check=True)
