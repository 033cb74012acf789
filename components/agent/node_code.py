"""The code that travels with the run: brought to this node before anything asks for it, every byte proven."""

import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from components.agent.run_context import RunContext
from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.layout import code_key
from components.errors import ArgosyError

_CHUNK_BYTES = 1 << 20


class NodeCode:
    """Once for all ranks and attempts of this node, which start in it and may change their copy."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fetch(self) -> tuple[CheckResult, ...]:
        """Bring it here, for a worker thread: the answer to whether it is here; nothing when no code travels."""
        context, digest = self._context, self._context.spec.code
        if digest is None:
            return ()
        key = code_key(digest)
        question = Question(
            name="code", scope="environment", subject=context.store.uri_of(key), expected=f"SHA-256 {digest}",
            origin="code.folder as it was submitted", remedy="submit the run again from that folder",
        )  # fmt: skip
        archive = context.workdir / ".code.tar"
        try:
            found = self._download(key, archive)
            if found != digest:
                return (question.fail(f"SHA-256 {found}", "delete that object, and submit the run again"),)
            num_files = unpack_code(archive, context.code_folder)
        except ArgosyError as error:
            return (question.fail(str(error)),)
        except (OSError, tarfile.TarError, ValueError) as error:
            # With the right digest it is what was packed, so it is this node that does not take it.
            return (on_this_node(question).fail(f"cannot be unpacked in {context.code_folder}: {error}"),)
        finally:
            archive.unlink(missing_ok=True)
        context.log.info(f"{num_files} files of code are here", code=digest)
        return (question.ok(f"{num_files} files in {context.code_folder}"),)

    def _download(self, key: str, into: Path) -> str:
        digest = hashlib.sha256()
        with self._context.store.open(key) as source, into.open("wb") as target:
            while data := source.read(_CHUNK_BYTES):
                digest.update(data)
                target.write(data)
        return digest.hexdigest()


def on_this_node(question: Question) -> Question:
    """The same question, whose failure says that another node may do better."""
    return Question(
        name=question.name, scope="node", subject=question.subject, expected=question.expected,
        origin=question.origin, remedy="free space on that node's disk",
    )  # fmt: skip


def unpack_code(archive: Path, folder: Path) -> int:
    """Replace `folder` by what the archive holds: regular files only, all inside. Returns their number.

    Raises ValueError for anything else in it, OSError and TarError.
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    num_files = 0
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            if not member.isreg() or {"", ".", ".."} & set(member.name.split("/")):
                raise ValueError(f"the archive holds {member.name!r}, which is no plain file inside it")
            path = part / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None  # a regular file
            with source, path.open("xb") as target:
                shutil.copyfileobj(source, target, _CHUNK_BYTES)
            os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
            num_files += 1
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return num_files
