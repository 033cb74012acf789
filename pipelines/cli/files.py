"""Files a command writes for people: complete or not there at all."""

import contextlib
import os
import secrets
from pathlib import Path

from components.errors import BadInput


def write_file(path: Path, text: str, *, overwrite: bool) -> None:
    """Write `path` in one step. Raises BadInput when it cannot be written, or exists and `overwrite` is False."""
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise BadInput("CannotWrite", f"{path} is a folder", "name a file")
        try:
            path.write_text(text, encoding="utf-8")  # a pipe or a device: there is nothing to replace
        except OSError as error:
            raise BadInput("CannotWrite", f"cannot write {path}: {error.strerror}", "choose another place") from error
        return
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(aside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(aside, path)
        else:
            os.link(aside, path)  # unlike a rename it fails when somebody else was faster
    except FileExistsError as error:
        raise BadInput("FileExists", f"{path} exists", "choose another name, or remove it first") from error
    except OSError as error:
        raise BadInput("CannotWrite", f"cannot write {path}: {error.strerror}", "choose another place") from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
