"""What S3 refuses, told once: what was seen, where, and what to do."""

from pathlib import Path

import pytest

from components.errors import Transient
from components.storage.base import StorageError, StorageMisnamed
from components.storage.location import S3Location, StoreOptions
from components.storage.patience import Patience
from components.storage.s3 import S3Store
from components.storage.s3_client import make_client
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import QUICK, S3Server


def refusal(code: str, status: int, **more: object) -> Fault:
    return Fault(status=status, code=code, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "kind", "exit_code", "message"),
    [
        (refusal("AccessDenied", 403), StorageError, 81, r"AccessDenied: cannot write s3://t-\w+/a: .*allow s3:Get"),
        (refusal("InvalidAccessKeyId", 403), StorageMisnamed, 78, "CredentialsRefused: .*check AWS_ACCESS_KEY_ID"),
        (refusal("SignatureDoesNotMatch", 403), StorageMisnamed, 78, "CredentialsRefused: .*AWS_SECRET_ACCESS_KEY"),
        (refusal("ExpiredToken", 400), StorageMisnamed, 78, "CredentialsExpired: .*get new credentials"),
        (refusal("NoSuchBucket", 404), StorageMisnamed, 78, "NoSuchBucket: .*create the bucket, or correct its name"),
        (
            refusal("RequestTimeTooSkewed", 403, text="<RequestTime>20261129T120000Z</RequestTime>"
                    "<ServerTime>2026-11-29T14:00:00Z</ServerTime>"), StorageError, 81,
            r"ClockSkew: .*the store says 2026-11-29T14:00:00Z, this machine 20261129T120000Z\); correct this mach",
        ),
        (refusal("NotImplemented", 501), StorageError, 81, "NoConditionalWrites: .*honours If-None-Match"),
        (refusal("XMinioStorageFull", 507), StorageError, 81, "StorageFull: .*free space"),
        (refusal("", 404), StorageMisnamed, 78, r"NotAnS3Store: .*correct storage_options\.endpoint"),
        (refusal("TeapotBroken", 418), StorageError, 81, "StorageRefused: .*TeapotBroken: told to"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_once_with_advice_and_not_repeated(
    proxied_store: S3Store, s3_proxy: S3Proxy, fault: Fault, kind: type[StorageError], exit_code: int, message: str
) -> None:
    s3_proxy.always = lambda method, path: fault

    with pytest.raises(kind, match=message) as caught:
        proxied_store.create("a", b"1")
    assert caught.value.exit_code == exit_code
    assert s3_proxy.count("PUT") == 1


def test_a_bucket_in_another_region_is_told_with_that_region(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.always = lambda method, path: refusal("AuthorizationHeaderMalformed", 400, text="<Region>eu-9</Region>")

    with pytest.raises(StorageMisnamed, match=r"WrongRegion: .*the bucket is in eu-9; set storage_options\.region"):
        proxied_store.create("a", b"1")


def test_why_a_look_was_refused_is_found_out(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.always = lambda method, path: refusal("ExpiredToken", 400)

    with pytest.raises(StorageMisnamed, match="CredentialsExpired: cannot read"):
        proxied_store.find("a")  # the answer to HEAD has no text


def test_a_bucket_that_does_not_exist_is_no_empty_store(s3_server: S3Server) -> None:
    store = S3Store(S3Location("no-such-bucket", ""), s3_server.client, patience=QUICK)

    for look in (
        lambda: store.find("a"), lambda: store.read("a"), lambda: store.create("a", b""), lambda: store.delete("a"),
        lambda: list(store.list("a")), lambda: store.replace("a", b""),
    ):  # fmt: skip
        with pytest.raises(StorageMisnamed, match=r"NoSuchBucket: .*create the bucket, or correct its name"):
            look()


def test_wrong_credentials_are_told_by_a_real_server(s3_server: S3Server) -> None:
    for environment in ({"AWS_ACCESS_KEY_ID": "somebody"}, {"AWS_SECRET_ACCESS_KEY": "wrong"}):
        client = s3_server.client_of(s3_server.endpoint, **environment)
        with pytest.raises(StorageMisnamed, match=r"CredentialsRefused: .*check AWS_ACCESS_KEY_ID") as caught:
            s3_server.new_store(client=client).create("a", b"")
        assert "wrong" not in str(caught.value)
        client.close()


def test_no_credentials_are_told(s3_server: S3Server) -> None:
    client = s3_server.client_of(s3_server.endpoint, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")

    with pytest.raises(StorageMisnamed, match=r"NoCredentials: .*or the role of this machine or pod"):
        s3_server.new_store(client=client).create("a", b"")
    client.close()


def test_nobody_listening_is_transient_and_said_so(s3_server: S3Server) -> None:
    client = s3_server.client_of("http://127.0.0.1:1")
    store = s3_server.new_store(client=client, patience=Patience(total_seconds=0.1, first_pause_seconds=0.01))

    with pytest.raises(
        Transient, match=r"no connection: .*refused.*check that the store is up, storage_options\.endpoint"
    ):
        store.read("a")
    client.close()


def test_a_host_that_does_not_exist_is_a_wrong_name(s3_server: S3Server) -> None:
    client = s3_server.client_of("http://no-such-host.invalid:9000")
    store = s3_server.new_store(
        client=client, patience=Patience(total_seconds=0, min_tries=2, first_pause_seconds=0.01)
    )

    with pytest.raises(StorageMisnamed, match=r"UnknownHost: .*resolve.*correct storage_options\.endpoint"):
        store.read("a")
    client.close()


def test_a_store_given_up_on_is_asked_only_briefly_until_it_answers_again(
    s3_server: S3Server, s3_proxy: S3Proxy
) -> None:
    pauses: list[float] = []
    client = s3_server.client_of(s3_proxy.endpoint)
    patience = Patience(total_seconds=0, min_tries=7, pause=pauses.append)
    store = s3_server.new_store(client=client, patience=patience)
    store.create("a", b"1")
    s3_proxy.always = lambda method, path: Fault(cut=True)
    with pytest.raises(Transient, match=r"asked 7 times"):
        store.read("a")
    assert store._begin().patience.total_seconds == 5
    s3_proxy.always = lambda method, path: None

    assert store.read("a") == b"1"
    assert store._begin().patience.min_tries == 7
    client.close()


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    options = StoreOptions(endpoint="https://127.0.0.1:1", ca_bundle=str(tmp_path / "ca.pem"))

    with pytest.raises(StorageMisnamed, match=r"NoCertificates: .*ca\.pem, which s3://b is to be checked with"):
        make_client(options, uri="s3://b")


def test_plain_http_where_tls_is_expected_is_told(s3_server: S3Server) -> None:
    client = s3_server.client_of(f"https://127.0.0.1:{s3_server.port}")

    with pytest.raises(StorageMisnamed, match=r"NotTls: .*use http:// in storage_options\.endpoint"):
        s3_server.new_store(client=client).read("a")
    client.close()
