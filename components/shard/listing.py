"""Walks a corpus and turns what it finds into units for planning: files, objects, or the rows of a manifest."""

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from components.contracts.dataset import BadRecord, DataOptions
from components.dataset.blobs import Blobs, ManifestBlobs, Unreadable, is_uri, open_blobs, split_uri
from components.dataset.corpus import Corpus, Found, open_corpus
from components.dataset.planning import Unit
from components.dataset.prefetch import in_order
from components.dataset.sources import manifest
from components.dataset.sources.files import label_of
from components.dataset.sources.kinds import Kinds
from components.dataset.sources.packed import packed_with
from components.dataset.witness import NewestChange
from components.errors import Problem
from components.shard.spec import ShardSpec
from components.storage.base import ObjectNotFound, open_store

_LOOKED_AT = 64
"""Inputs that are tried for a first record that can be read."""


class Listing:
    """One corpus. Each call of `units` lists it anew; what was found on the way is known when it ends."""

    def __init__(self, spec: ShardSpec, *, workdir: str, storage: Path | None) -> None:
        self._spec, self._workdir, self._storage = spec, workdir, storage
        self._is_manifest = spec.read.read_as == "manifest"
        self._path = ""
        if self._is_manifest:
            path = spec.corpus
            if not is_uri(path):
                path = os.path.normpath(os.path.join(os.path.abspath(workdir or "."), os.path.expanduser(path)))
            self._path = path
            self.root = path.rpartition("/")[0] or "/"
        else:
            self.root = self._corpus().root
        self.blobs: Blobs = open_blobs(self.root, is_manifest=self._is_manifest)
        self._start()

    @property
    def place(self) -> str:
        """Where people find the corpus."""
        return self._path or self._corpus().place

    def units(self, options: DataOptions, *, labels: tuple[str, ...] = ()) -> Iterator[Unit]:
        """Everything in the corpus, in order."""
        self._start()
        if self._is_manifest:
            yield from self._rows()
            return
        kinds = Kinds(self._spec.read, options, self.blobs, target=self._spec.target_shard_bytes, labels=labels)
        corpus = self._corpus()
        self.unreadable, self.problems, self.newest = corpus.unreadable, corpus.problems, corpus.newest

        def looked(found: Found) -> list[Unit] | BadRecord:
            try:
                return kinds.units(found)
            except Unreadable as error:
                return BadRecord(path=error.path, reason=error.reason, offset=error.offset)

        for units in in_order(
            looked, corpus, in_flight=self.blobs.in_flight, is_quick=lambda found: not kinds.needs_look(found)
        ):
            if isinstance(units, BadRecord):
                self.unreadable.append(units)
            elif units:
                self.num_inputs += 1
                self.size_bytes += units[0].item.size
                yield from units

    def labels(self) -> tuple[str, ...]:
        """The folders of the first level, in order."""
        return tuple(sorted({label_of(found.path) for found in self._corpus()} - {""}))

    def first_units(self, options: DataOptions, *, labels: tuple[str, ...]) -> list[Unit]:
        """Enough to find a first record in."""
        return list(islice(self.units(options, labels=labels), _LOOKED_AT))

    def _start(self) -> None:
        self.unreadable = list[BadRecord]()
        self.problems = list[Problem]()
        self.newest = NewestChange()
        self.num_inputs = self.size_bytes = 0

    def _corpus(self) -> Corpus:
        return open_corpus(self._spec.corpus, workdir=self._workdir, storage=self._storage)

    def _rows(self) -> Iterator[Unit]:
        assert isinstance(self.blobs, ManifestBlobs)
        self.newest = self.blobs.newest
        try:
            file = self._open_manifest()
        except (OSError, ObjectNotFound) as error:
            self.problems.append(
                Problem(f"corpus {self._spec.corpus}", f"cannot read it: {error}", "name a JSONL file")
            )
            return
        with file:
            begins = next(file, b"")
            if packed := packed_with(self._path, begins):
                seen = f"is packed with {packed}, not JSON lines"
                self.problems.append(Problem(f"corpus {self._spec.corpus}", seen, "unpack it"))
                return
            for row in manifest.rows(chain((begins,), file), self.blobs, name=self._path):
                if isinstance(row, BadRecord):
                    self.unreadable.append(row)
                else:
                    self.num_inputs += 1
                    self.size_bytes += row.weight
                    yield row

    def _open_manifest(self) -> BinaryIO:
        if not is_uri(self._path):
            return open(self._path, "rb")
        base, key = split_uri(self._path)
        return open_store(base).open(key)
