"""Names of stores: two kinds, spelled in one way, and never with a password in them."""

from pathlib import Path

import pytest

from components.errors import BadInput
from components.storage.base import open_store
from components.storage.location import FileLocation, S3Location, StoreOptions, fault_of_endpoint, parse_location


def test_the_two_kinds_of_storage() -> None:
    assert parse_location("file:///data/argosy") == FileLocation(Path("/data/argosy"))
    assert parse_location("s3://bucket") == S3Location("bucket", "")
    assert parse_location("s3://my.bucket-1/team/a=1/x_y.z/") == S3Location("my.bucket-1", "team/a=1/x_y.z")
    assert S3Location("bucket", "").uri == "s3://bucket"
    assert S3Location("bucket", "a/b").uri == "s3://bucket/a/b"


@pytest.mark.parametrize("uri", ["gopher://x", "relative/path", "file://relative", "", "s3:/bucket", "S3://bucket"])
def test_an_unknown_storage_uri_says_what_is_accepted(uri: str) -> None:
    with pytest.raises(BadInput, match=r"write file:///absolute/folder or s3://bucket/prefix"):
        open_store(uri)


@pytest.mark.parametrize(
    "uri", ["s3://", "s3://ab", "s3://Bucket", "s3://-ab", "s3://a_b", "s3://a..b", "s3://" + "x" * 64]
)
def test_what_cannot_be_a_bucket_is_refused(uri: str) -> None:
    with pytest.raises(BadInput, match="is no name of a bucket; write 3 to 63 lowercase letters"):
        parse_location(uri)


@pytest.mark.parametrize("prefix", ["a//b", "../x", "a/./b", "a b", ".tmp-x", "a?b", "ä", "{{x}}"])
def test_a_prefix_is_plain(prefix: str) -> None:
    with pytest.raises(BadInput, match="whose prefix has empty or unusual parts"):
        parse_location(f"s3://bucket/{prefix}")


@pytest.mark.parametrize("uri", ["s3://AKIA:secret@bucket/x", "s3://bucket/x@secret", "http://me:secret@host/"])
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_location(uri)
    assert "secret" not in str(caught.value)


def test_options_become_variables_and_come_back() -> None:
    options = StoreOptions("https://s3.example:9000", "eu-1", True, "/etc/ca.pem")

    assert options.environment() == {
        "AWS_ENDPOINT_URL_S3": "https://s3.example:9000", "AWS_REGION": "eu-1", "ARGOSY_S3_PATH_STYLE": "true",
        "AWS_CA_BUNDLE": "/etc/ca.pem",
    }  # fmt: skip
    assert StoreOptions.of_environment(options.environment()) == options
    assert StoreOptions(path_style=False).environment() == {"ARGOSY_S3_PATH_STYLE": "false"}


def test_what_a_description_says_stands_over_the_environment() -> None:
    described = StoreOptions.of_description({"region": "eu-1", "endpoint": None})
    around = StoreOptions.of_environment({"AWS_DEFAULT_REGION": "us-1", "AWS_ENDPOINT_URL": "http://minio:9000"})

    assert described.over(around) == StoreOptions("http://minio:9000", "eu-1", None, None)
    assert StoreOptions.of_description(None) == StoreOptions()


def test_variables_that_mean_nothing_are_refused() -> None:
    with pytest.raises(BadInput, match="ARGOSY_S3_PATH_STYLE is 'yes'; set true or false"):
        StoreOptions.of_environment({"ARGOSY_S3_PATH_STYLE": "yes"})
    with pytest.raises(BadInput, match="AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is 'minio:9000', not http"):
        StoreOptions.of_environment({"AWS_ENDPOINT_URL": "minio:9000"})


@pytest.mark.parametrize(
    ("endpoint", "fault"),
    [
        ("https://s3.example", ""), ("http://127.0.0.1:9000", ""), ("http://[::1]:9000/", ""),
        ("https://x.example/storage/v1/s3", ""),
        ("s3.example", "is 's3.example', not http(s)://host[:port]"), ("http://", "is 'http://', not http(s)://host[:port]"),
        ("http://me:secret@host", "holds credentials"),
        ("http://host:99999", "is not an address: Port out of range 0-65535"),
        ("http://host?x=1", "is 'http://host?x=1': only scheme, host, port and path belong in it"),
    ],
)  # fmt: skip
def test_endpoints(endpoint: str, fault: str) -> None:
    assert fault_of_endpoint(endpoint) == fault
