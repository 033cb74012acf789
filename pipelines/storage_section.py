"""How an s3:// storage is reached, as a section of the run description."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints, model_validator

from components.storage.location import StoreOptions, fault_of_endpoint
from pipelines.cluster_sections import ObjectName
from pipelines.field_types import Section


def _endpoint(text: str) -> str:
    if fault := fault_of_endpoint(text):
        raise ValueError(f"{fault}; write http(s)://host[:port]; credentials come from the environment")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or "{{" in text:
        raise ValueError(f"is {text!r}; write an absolute path")
    return text


class StorageOptionsSection(Section):
    """How an s3:// storage is reached. Credentials are never written here: they come from the environment, in a cluster
    from a Secret.
    """

    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    """Address of the store, http(s)://host[:port]. Default: Amazon's own, or AWS_ENDPOINT_URL_S3 of the environment."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")] | None = None
    """Region of the bucket, for example eu-central-1. Default: AWS_REGION of the environment."""
    path_style: bool | None = None
    """Whether the bucket stands in the path rather than in the host name. Default: it does when endpoint is set."""
    ca_bundle: Annotated[str, AfterValidator(_absolute)] | None = None
    """Absolute path of a PEM file with the certificates that vouch for endpoint, the same wherever stages run."""

    credentials_secret: ObjectName | None = None
    """Secret with the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and perhaps AWS_SESSION_TOKEN, for stages and
    agents in a cluster. Default: what their service account is granted."""
    service_account: ObjectName | None = None
    """Service account of the gang's pods, whose cloud identity (IRSA, Workload Identity) the agents reach the storage
    with; the stages have theirs by the top-level service_account. No container of the gang gets its token for the
    cluster. Default: the namespace's `default`."""
    ca_secret: ObjectName | None = None
    """Secret whose ca.crt holds the certificates that vouch for endpoint, for stages and agents in a cluster."""

    @model_validator(mode="after")
    def _names_one_way(self) -> "StorageOptionsSection":
        if self.credentials_secret and self.service_account:
            raise ValueError("names credentials_secret and service_account; keep one of them")
        return self

    def options(self) -> StoreOptions:
        """The same for the store itself."""
        return StoreOptions(self.endpoint, self.region, self.path_style, self.ca_bundle)
