"""What units hold, as one number: it proves that each token, or row, was handed over once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fastresume.audit.log_format import Words, mix

Numbers = npt.NDArray[np.int64]


def of_documents(rows: Numbers, begins: Numbers, ends: Numbers) -> int:
    """The digest of the tokens `[begin, end)` of documents: that of parts adds up to that of the whole."""
    return (digest_at(rows, ends) - digest_at(rows, begins)) % (1 << 64)


def digest_at(rows: Numbers, places: Numbers) -> int:
    """The digest of places in the lists of rows."""
    words: Words = mix(rows.astype(np.uint64) + np.uint64(1))
    return int(mix(words + places.astype(np.uint64)).sum(dtype=np.uint64))


def of_sequences(document: Tensor, position: Tensor, rows: Numbers, offsets: Numbers) -> int:
    """The digest of the tokens of sequences, by the tensors that are handed over beside them.

    Args:
        document: which document of its sequence each token is of: int32 `[n, length]`.
        position: its place in that: int32 `[n, length]`.
        rows: the row numbers of the documents.
        offsets: where those of each sequence begin.
    """
    documents, positions = document.numpy(), position.numpy().reshape(-1)
    begins = np.ones(documents.shape, np.bool_)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], documents.size) - 1
    named = documents.reshape(-1)[first]
    is_document = named >= 0
    first, last, named = first[is_document], last[is_document], named[is_document]
    found = rows[offsets[first // documents.shape[1]] + named]
    return of_documents(found, positions[first], positions[last] + 1)
