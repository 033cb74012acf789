"""Where documents begin in packed rows: against the documents that the rows were made of."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from components.dataset.boundaries import cu_seqlens, document_ids, segment_starts

END = 9


def test_documents_padding_and_a_lone_end_are_told_apart() -> None:
    rows = np.array([[5, 6, 9, 7, 9, 9, 9], [1, 9, 9, 2, 9, 9, 3], [9, 9, 9, 9, 9, 9, 9]])

    assert document_ids(rows, end_of_document=END).tolist() == [
        [0, 0, 0, 1, 1, -1, -1],
        [0, 0, 1, 2, 2, 3, 4],  # the second 9 is the rest of a document that was cut just before its end
        [0, -1, -1, -1, -1, -1, -1],
    ]
    starts = segment_starts(rows, end_of_document=END)
    assert cu_seqlens(starts[:1]).tolist() == [0, 3, 5, 7]
    assert cu_seqlens(starts).tolist() == [0, 3, 5, 7, 9, 10, 12, 13, 14, 15, 21]


DOCUMENTS = st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4), min_size=1, max_size=5)


@given(documents=DOCUMENTS, num_padding=st.integers(0, 4))
def test_ids_are_those_of_the_documents_packed(documents: list[list[int]], num_padding: int) -> None:
    row = [token for document in documents for token in [*document, END]] + [END] * num_padding
    expected = [number for number, document in enumerate(documents) for _ in [*document, END]] + [-1] * num_padding

    assert document_ids(np.array([row]), end_of_document=END).tolist() == [expected]
