"""Where documents begin and end in packed sequences, from their end-of-document ids; numpy only.

A row is documents end to end, each with its end-of-document id, then padding made of the same id. What runs on from an
earlier row counts as a document of its own. With 9 as that id:

    row           5 6 9 7 9 9 9
    document_ids  0 0 0 1 1 - -      (- is -1)
    cu_seqlens    0     3   5     7  (padding is a segment of its own)
"""

from typing import Any

import numpy as np
import numpy.typing as npt

PADDING = -1


def document_ids(rows: npt.NDArray[Any], *, end_of_document: int) -> npt.NDArray[np.int32]:
    """For every token: which document of its row it belongs to, from 0; padding is PADDING."""
    ids = np.cumsum(segment_starts(rows, end_of_document=end_of_document), axis=1, dtype=np.int32) - 1
    ids[_padding(rows == end_of_document)] = PADDING
    return ids


def segment_starts(rows: npt.NDArray[Any], *, end_of_document: int) -> npt.NDArray[np.bool_]:
    """Where a document begins, or padding; true at the first token of every row."""
    ends = rows == end_of_document
    starts = np.ones(rows.shape, dtype=np.bool_)
    starts[:, 1:] = ends[:, :-1] & ~_padding(ends)[:, :-1]
    return starts


def cu_seqlens(starts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Places of all starts in the flattened rows, then their total length."""
    return np.append(np.flatnonzero(starts), starts.size).astype(np.int32)


def _padding(ends: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Of the ids at the end of a row all but the first. A lone id in the middle is the rest of a document."""
    padding = np.zeros(ends.shape, dtype=np.bool_)
    padding[:, 1:] = np.logical_and.accumulate(ends[:, ::-1], axis=1)[:, ::-1][:, :-1]
    return padding
