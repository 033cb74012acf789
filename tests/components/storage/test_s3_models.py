"""Clients that know less of botocore's files do the same with what they know."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import botocore.credentials
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.loaders import JSONFileLoader, Loader

from components.storage.s3_models import SERVICES, LeanFiles, models
from tests.fakes.s3_server import ENVIRONMENT

REGIONS = ("us-east-1", "eu-central-1", "aws-global", "cn-north-1", "us-gov-west-1", "eusc-de-east-1", "mars-west-7")
WHOLE = Loader()
"""Botocore's own."""
UNLIKE = ("Authorization", "X-Amz-Date", "amz-sdk-invocation-id", "amz-sdk-request")
"""Headers that differ from request to request."""


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_REGION")


def lean_loader() -> Any:
    """A new one: to make a client changes what its loader read."""
    return Loader(file_loader=LeanFiles(JSONFileLoader()))


def without_documentation(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "" if name == "documentation" and isinstance(part, str) else without_documentation(part)
            for name, part in value.items()
        }
    return [without_documentation(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("service", ["s3", "sts", "sso", "sso-oidc"])
def test_all_operations_are_there_with_all_their_shapes_in_order(service: str) -> None:
    whole = Loader().load_service_model(service, "service-2")

    assert json.dumps(lean_loader().load_service_model(service, "service-2")) == json.dumps(
        without_documentation(whole)
    )


def test_all_partitions_are_there_and_what_they_say_of_the_services_that_are_asked() -> None:
    whole, lean = Loader().load_data("endpoints"), lean_loader().load_data("endpoints")

    assert all(len(partition["services"]) <= len(SERVICES) for partition in lean["partitions"])
    for partition in whole["partitions"]:
        services = partition["services"]
        partition["services"] = {name: services[name] for name in services if name in SERVICES}
    assert lean == whole


@pytest.mark.parametrize("name", ["partitions", "sdk-default-configuration", "_retry", "s3/2006-03-01/paginators-1"])
def test_all_other_files_are_read_as_they_are(name: str) -> None:
    assert lean_loader().load_data(name) == Loader().load_data(name)


def test_every_service_that_botocore_asks_for_credentials_is_kept() -> None:
    asked = set(re.findall(r"client_creator\(\s*['\"]([a-z0-9-]+)['\"]", inspect.getsource(botocore.credentials)))

    assert {"sts", "sso", "signin"} <= asked
    asked.add("sso-oidc")  # of botocore.tokens, which says it elsewhere
    prefixes = {WHOLE.load_service_model(name, "service-2")["metadata"]["endpointPrefix"] for name in asked}
    assert prefixes <= SERVICES


class Requests:
    """A client of whatever service, made with a loader of botocore's files; its requests go nowhere."""

    def __init__(self, loader: Any, service: str, region: str, **options: Any) -> None:
        session = botocore.session.get_session()
        session.register_component("data_loader", loader)
        self._client = session.create_client(service, region_name=region, **options)
        self._client.meta.events.register(f"before-send.{service}", self._keep)
        self._sent = list[Any]()

    def _keep(self, request: Any, **_: Any) -> AWSResponse:
        headers = {name: value for name, value in request.headers.items() if name not in UNLIKE}
        scope = re.sub(rb"/\d{8}/|Signature=\w+", b"", request.headers.get("Authorization", b""))
        self._sent.append((request.method, request.url, headers, scope))
        return AWSResponse(request.url, 404, {}, Raw())

    def of(self, operation: str, **arguments: Any) -> Any:
        """What is sent, and what becomes of an answer that knows nothing."""
        self._sent.clear()
        try:
            getattr(self._client, operation)(**arguments)
        except self._client.exceptions.ClientError as error:
            return list(self._sent), type(error).__name__, str(error)
        except BotoCoreError as error:
            return list(self._sent), type(error).__name__, str(error)
        return list(self._sent)


class Raw:
    """The body of an answer, with an error that S3 models."""

    def stream(self, **_: Any) -> Any:
        yield b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>"


@pytest.mark.parametrize("region", REGIONS)
def test_requests_go_to_the_same_place_with_the_same_words_and_fail_alike(region: str, surroundings: None) -> None:
    object = {"Bucket": "a-bucket", "Key": "a/key"}
    dotted = {"Bucket": "dotted.bucket", "Key": "a key/ü"}
    variants: list[dict[str, Any]] = [
        {}, {"endpoint_url": "http://127.0.0.1:9000"}, {"config": Config(s3={"addressing_style": "path"})},
        {"config": Config(use_fips_endpoint=True)}, {"config": Config(use_dualstack_endpoint=True)},
    ]  # fmt: skip
    for options in variants:
        whole, lean = Requests(WHOLE, "s3", region, **options), Requests(models(), "s3", region, **options)
        for operation, arguments in (
            ("get_object", {**object, "Range": "bytes=0-9", "ChecksumMode": "ENABLED"}), ("get_object", dotted),
            ("put_object", {**object, "Body": b"1", "IfNoneMatch": "*"}), ("head_object", object),
            ("delete_object", object), ("list_objects_v2", {"Bucket": "a-bucket", "Prefix": "a/", "StartAfter": "b"}),
            ("head_bucket", {"Bucket": "a-bucket"}), ("get_object", {"Bucket": "a-bucket", "Ke": "unknown"}),
        ):  # fmt: skip
            assert lean.of(operation, **arguments) == whole.of(operation, **arguments)


@pytest.mark.parametrize("region", ["us-east-1", "aws-global", "cn-north-1", "us-gov-west-1"])
def test_those_who_hand_out_credentials_are_found_where_they_are(region: str, surroundings: None) -> None:
    whole, lean = Requests(WHOLE, "sts", region), Requests(models(), "sts", region)

    assert lean.of("get_caller_identity") == whole.of("get_caller_identity")
    whole, lean = Requests(WHOLE, "sso", region), Requests(models(), "sso", region)
    words = {"roleName": "a", "accountId": "1", "accessToken": "b"}
    assert lean.of("get_role_credentials", **words) == whole.of("get_role_credentials", **words)


def test_a_file_that_is_not_as_expected_is_read_as_botocore_reads_it(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text('{"version": 9, "zones": {"a": 1}}')

    files = LeanFiles(JSONFileLoader())

    assert files.load_file(str(tmp_path / "endpoints")) == {"version": 9, "zones": {"a": 1}}
    assert files.load_file(str(tmp_path / "service-2")) is None
