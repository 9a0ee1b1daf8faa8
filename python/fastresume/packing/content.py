"""What units hold, as one number: it proves that each token, or row, was handed over once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.audit.log_format import Words, digest, key_of, mix, of_source
from fastresume.batch.batch import Batch
from fastresume.batch.origin import Proof, UnitRows, of_a_pass
from fastresume.batch.schema import Tensors
from fastresume.buffers import of_buffer, of_runs, of_words

Numbers = npt.NDArray[np.int64]


def of_documents(rows: Numbers, begins: Numbers, ends: Numbers) -> Words:
    """The digest of the tokens `[begin, end)` of each document: those of parts add up to the whole's."""
    words: Words = mix(rows.astype(np.uint64) + np.uint64(1))
    return mix(words + ends.astype(np.uint64)) - mix(words + begins.astype(np.uint64))


def of_sequences(document: Tensor, position: Tensor, rows: Numbers, offsets: Numbers) -> Words:
    """The digest of the tokens of each sequence, by the tensors that are handed over beside them.

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
    of_each = np.zeros(len(documents), np.uint64)
    sequences = first // documents.shape[1]
    parts = of_documents(rows[offsets[sequences] + named], positions[first], positions[last] + 1)
    np.add.at(of_each, sequences, parts)
    return of_each


def held_by(tensors: Tensors, rows: Numbers, units: UnitRows, count: int) -> Words:
    """The digest of what each of the first units of a batch holds, by its tensors and row numbers.

    Args:
        tensors: those of the batch, before any transform.
        rows: the row numbers of all its units.
        units: the rows that each unit is made of.
        count: how many units.
    """
    offsets = units.offsets[: count + 1]
    if units.are_documents:
        document: Any = tensors["document"]
        position: Any = tensors["position"]
        return of_sequences(document[:count], position[:count], rows, offsets)
    sums = np.cumsum(mix(rows[: offsets[-1]].astype(np.uint64) + np.uint64(1)), dtype=np.uint64)
    return np.diff(np.append(np.uint64(0), sums)[offsets])


def with_proof(delivered: _core.Delivered, made: Batch, names: Sequence[str] | None = None) -> Batch:
    """The batch that was made of what the core delivered, with what a delivery log notes of its units.

    No transform may have written to its tensors yet.

    Args:
        delivered: what the core delivered.
        made: the batch.
        names: those of the sources of a mixture; None of one dataset.
    """
    origin, tensors = made._origin, made._tensors
    units, (numbers, sources) = of_a_pass(origin.units), delivered.unit_numbers()
    runs = of_buffer(numbers)
    counted, whose = of_runs(runs), np.repeat(of_words(sources), runs[:, 1] - runs[:, 0])
    held = None if origin.damage else held_by(tensors, of_runs(origin.runs), units, len(counted))
    found = content = 0
    for source in np.unique(whose).tolist():
        is_own = whose == source
        key = 0 if names is None else key_of(names[source])
        found += digest(counted[is_own], key)
        of_own = 0 if held is None else total(held[is_own])
        content += of_own if names is None else of_source(of_own, names[source])
    proof = Proof(found % (1 << 64), None if held is None else content % (1 << 64))
    return Batch(tensors, origin._replace(units=units._replace(proof=proof)))


def total(digests: Words) -> int:
    """The digest of what all of them hold."""
    return int(digests.sum(dtype=np.uint64))
