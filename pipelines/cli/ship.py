"""Brings the code that travels with a run into the storage: once, under its digest."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from components.storage.base import ObjectStore
    from pipelines.config import TrainConfig


def ship_code(config: "TrainConfig", store: "ObjectStore", *, workdir: Path) -> dict[str, str]:
    """Parameters of the Workflow that say which code the run has; none when the description ships none.

    `workdir` is what the description's relative folders start from. Raises BadInput for what cannot travel, and what
    the store raises. A submission that fails afterwards leaves an archive that nobody needs, and nothing else.
    """
    code = config.code
    if code is None:
        return {}
    from components.contracts.layout import code_key
    from components.contracts.units import format_size
    from components.errors import EnvironmentUnfit
    from components.storage.base import AlreadyExists
    from pipelines.code_archive import pack_code

    with tempfile.TemporaryDirectory(prefix="argosy-code-") as folder:
        try:
            packed = pack_code(
                workdir / code.folder, exclude=code.exclude, max_bytes=code.max_size, into=Path(folder) / "code.tar"
            )
        except OSError as error:
            seen = f"cannot pack {workdir / code.folder} in {folder}: {error.strerror or error}"
            raise EnvironmentUnfit("CodeNotPacked", seen, "free space there, or set TMPDIR") from error
        key, what = code_key(packed.digest), "is in the storage already"
        if store.find(key) is None:
            try:
                store.create_from(key, packed.path)
                what = f"uploaded to {store.uri_of(key)}"
            except AlreadyExists:
                pass  # somebody else ships the same just now
    told = f"code {packed.digest[:12]}: {packed.num_files} files, {format_size(packed.size)}, {what}"
    click.echo(told, err=True)
    return {"code": packed.digest}
