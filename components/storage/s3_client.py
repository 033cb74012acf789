"""Makes the client that talks to S3: own retries only, explicit timeouts, credentials from the usual places."""

from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from components.storage.base import StorageMisnamed
from components.storage.location import StoreOptions
from components.storage.s3_models import models

CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
"""To be connected; between two packets of an answer. A large object may take its time to be acknowledged."""

MAX_CONNECTIONS = 64
"""Kept open; the ledger, the cache and a checkpoint's upload may each have 16 under way."""


def make_client(options: StoreOptions, *, uri: str, read_seconds: float = READ_SECONDS) -> Any:
    """A client for the whole process, safe in all its threads. Raises StorageMisnamed for options that cannot be."""
    if options.ca_bundle is not None and not Path(options.ca_bundle).is_file():
        seen = f"{options.ca_bundle}, which {uri} is to be checked with, is not a file"
        raise StorageMisnamed("NoCertificates", seen, "correct storage_options.ca_bundle or AWS_CA_BUNDLE")
    path_style = options.endpoint is not None if options.path_style is None else options.path_style
    is_encrypted = options.endpoint is None or options.endpoint.startswith("https:")
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        max_pool_connections=MAX_CONNECTIONS,
        tcp_keepalive=True,
        signature_version="s3v4",
        user_agent_extra="argosy",
        # We send SHA-256 with every object and check digests ourselves: no second checksum either way.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={
            "addressing_style": "path" if path_style else "auto",
            # The signature covers our checksum's header, so it covers the body. Without TLS the body's own hash is
            # signed as well, because every server checks that one, and not every server the other.
            "payload_signing_enabled": not is_encrypted,
        },
    )
    try:
        core = botocore.session.get_session()
        core.register_component("data_loader", models())
        from boto3.session import Session  # only now: see models()

        session = Session(botocore_session=core)
        return session.client(
            "s3", endpoint_url=options.endpoint, region_name=options.region or session.region_name or "us-east-1",
            verify=options.ca_bundle, config=config,
        )  # fmt: skip
    except (BotoCoreError, ValueError) as error:
        seen = f"{uri} cannot be reached with these settings: {error}"
        raise StorageMisnamed(
            "StorageSettings", seen, "correct storage_options, AWS_PROFILE or ~/.aws/config"
        ) from error
