"""Errors that tests expect: one exception that says what is wrong, soon, in little memory."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.child import MIB, SECONDS, Reader

Call = Callable[[], Any]


@contextmanager
def refused(kind: type[Exception], *words: object) -> Iterator[None]:
    """Expect one exception of exactly this class, in time, whose message holds all the words."""
    began = time.process_time()
    with pytest.raises(kind) as caught:
        yield
    assert time.process_time() - began < SECONDS
    error = caught.value
    assert type(error) is kind
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__, "a second exception"
    assert_message(str(error), *words)


def each_refused(cases: tuple[tuple[Call, type[Exception], str], ...]) -> None:
    """Every call raises this error, which is short, and has these words."""
    for number, (call, kind, words) in enumerate(cases):
        with pytest.raises(kind) as error:
            call()
        text = str(error.value)
        assert re.search(words, text), f"case {number}: {words!r} is not in {text!r}"
        assert len(text) < 500


def assert_message(message: str, *words: object) -> None:
    """Assert that a message begins in lower case, is one line, and holds all the words."""
    first = message.split(maxsplit=1)[0]
    assert first[0].islower() or first.isupper(), message  # RANK is how a variable is written
    assert "\n" not in message
    missing = [word for word in map(str, words) if word not in message]
    assert not missing, f"not in the message: {missing}; the message: {message}"


def assert_refused(reader: Reader, path: Path, *words: object) -> None:
    """Assert that to read the file is a DataError, in time and in little memory."""
    outcome = reader.read(path)
    assert outcome.kind == "DataError", outcome
    assert_message(outcome.message, *words, path)
    assert outcome.grown < 500 * MIB, f"{outcome.grown / MIB:.0f} MiB: {outcome.message}"


def write(path: Path, rows: int = 30, start: int = 0, group: int = 10, **how: Any) -> Path:
    """Write a file of the columns `row` (int64) and `half` (float32), and return its path."""
    numbers = np.arange(start, start + rows)
    table = pa.table({"row": numbers, "half": (numbers / 2).astype(np.float32)})
    pq.write_table(table, path, row_group_size=group, **how)
    return path


def open_dataset(paths: Any, **arguments: Any) -> fr.ParquetDataset:
    """Return the dataset of these paths, of batches of 10 rows."""
    return fr.ParquetDataset(paths, **{"batch_size": 10, **arguments})


def rows_of(batches: Any) -> list[int]:
    """Return the row numbers that batches hold."""
    return [int(row) for batch in batches for row in batch["row"]]


def deflated(size: int) -> bytes:
    """Return so many zeros, by gzip: in members of 16 MiB, which count as one stream."""
    return gzip.compress(bytes(min(size, 16 * MIB)), 1) * max(1, size // (16 * MIB))
