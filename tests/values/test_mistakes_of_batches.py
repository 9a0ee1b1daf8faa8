"""Mistakes with batches and `Jagged` values: each is refused in words that say what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr

VALUES, OFFSETS = torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3])
FLAGS = torch.tensor([True, False])
Call = Callable[[], Any]


def each_refused(cases: tuple[tuple[Call, type[Exception], str], ...]) -> None:
    """Every call raises this error, which is short, and has these words."""
    for number, (call, kind, words) in enumerate(cases):
        with pytest.raises(kind) as error:
            call()
        text = str(error.value)
        assert re.search(words, text), f"case {number}: {words!r} is not in {text!r}"
        assert len(text) < 500


def jagged(*parts: Any, **more: Any) -> fr.Jagged:
    return fr.Jagged(*(parts or (VALUES, OFFSETS)), **more)


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., fr.ParquetDataset]:
    pq.write_table(pa.table({"x": range(20), "l": [[1], [2, 3]] * 10}), tmp_path / "rows.parquet")
    return lambda **how: fr.ParquetDataset(tmp_path, **{"batch_size": 5, "world": (0, 1), **how})


def test_rows_that_are_none_are_refused_when_they_are_made() -> None:
    inner = jagged()
    each_refused(
        (
            (lambda: jagged([7, 8], OFFSETS), TypeError, r"found \[7, 8\]: write torch\.as_tensor\(values\)"),
            (lambda: jagged(VALUES, [0, 1, 3]), TypeError, r"found \[0, 1, 3\]: write torch\.as_tensor\(off"),
            (lambda: jagged(torch.tensor(7), OFFSETS), ValueError, r"write values\.reshape\(1\)"),
            (lambda: jagged(VALUES, OFFSETS.float()), TypeError, r"float32: write offsets\.long\(\)"),
            (
                lambda: jagged(VALUES, OFFSETS[None]),
                ValueError,
                r"\[B \+ 1\], found \[1, 3\]: write offsets=",
            ),
            (lambda: jagged(VALUES, OFFSETS[:0]), ValueError, r"found \[0\]: write offsets="),
            (lambda: jagged(VALUES, OFFSETS[1:]), ValueError, "begin at 0, found 1: write offsets="),
            (lambda: jagged(VALUES, OFFSETS[:2]), ValueError, "end at the number of its values, 3, found 1"),
            (
                lambda: jagged(VALUES, torch.tensor([0, 2, 1, 3])),
                ValueError,
                "found 1 after 2 at row 1: write",
            ),
            (lambda: jagged(inner, OFFSETS), ValueError, "end at the number of its values, 2, found 3"),
            (lambda: jagged(kind="strings"), ValueError, "kind must be 'list' or 'string' or 'binary'"),
            (
                lambda: jagged(kind="string"),
                TypeError,
                r"bytes \(uint8\), found torch\.int64: write kind='list'",
            ),
            (lambda: jagged(valid=[True, False]), TypeError, "valid of a Jagged must be a tensor of bool"),
            (
                lambda: jagged(valid=FLAGS[:1]),
                ValueError,
                r"valid of a Jagged must be bool \[2\], found \[1\]",
            ),
            (lambda: jagged(values_valid=FLAGS), ValueError, r"values_valid of a Jagged must be bool \[3\]"),
        )
    )
    assert jagged(inner, torch.tensor([0, 0, 2])).to_list() == [[], [[7], [8, 9]]]


def test_what_rows_are_not_says_what_to_write() -> None:
    rows = jagged()
    each_refused(
        (
            (lambda: rows == 3, TypeError, r"write jagged\.values == 3"),
            (lambda: rows != jagged(), TypeError, r"torch\.equal\(a\.values, b\.values\)"),
            (lambda: rows > 3, TypeError, r"write jagged\.values == 3"),
            (lambda: 2 * rows, TypeError, "no arithmetic"),
            (lambda: rows[[0, 1]], TypeError, r"found \[0, 1\]: write jagged\.take\(indices\)"),
            (lambda: rows[0, 1], TypeError, r"found \(0, 1\): write jagged\[0\]\[1\]"),
            (lambda: rows[FLAGS], TypeError, r"mask\.nonzero\(\)"),
            (lambda: rows[True], TypeError, "found True"),
            (lambda: rows["x"], TypeError, "found 'x'"),
            (lambda: rows[1.0], TypeError, r"found 1\.0"),
            (lambda: rows.take([0, 1]), TypeError, r"found \[0, 1\]: write torch\.tensor\(\[0, 1\]\)"),
            (
                lambda: rows.take(FLAGS),
                TypeError,
                r"bool \[2\]: write jagged\.take\(mask\.nonzero\(\)\.squeeze",
            ),
            (lambda: rows.take(torch.tensor([0.0])), TypeError, r"float32 \[1\]: write .*indices\.long\(\)"),
            (
                lambda: rows.take(torch.tensor([0, 5])),
                IndexError,
                r"row 5 of 2 rows: indices are in \[0, 2\)",
            ),
            (lambda: rows.take(torch.tensor([-1])), IndexError, "row -1 of 2 rows"),
            (lambda: rows.to_padded(10, value="x"), TypeError, "value must be a number .*found 'x'"),
            (lambda: rows.to_padded("x"), TypeError, "length must be an integer, found 'x'"),
            (lambda: rows.to(torch.float16), TypeError, r"found torch\.float16: write jagged\.values\.to\("),
            (lambda: rows.to("gpu"), ValueError, "must be 'cpu', 'cuda' or 'cuda:INDEX', found 'gpu'"),
            (lambda: np.asarray(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: torch.from_dlpack(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: torch.as_tensor(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: rows.sum, AttributeError, r"write \.values\.sum, of the values of all rows"),
            (lambda: rows.float, AttributeError, r"write \.values\.float\(\), or columns="),
        )
    )
    assert rows[np.int64(1)].tolist() == rows[torch.tensor(1)].tolist() == [8, 9]
    assert rows in [rows, jagged]
    assert rows.to_padded(value=np.float32(4)).tolist() == [[7, 4], [8, 9]]


def test_what_a_batch_is_not_says_what_to_write(rows: Callable[..., fr.ParquetDataset]) -> None:
    batch = rows().peek()
    each_refused(
        (
            (lambda: batch == batch.to("cpu"), TypeError, r"torch\.equal\(a\['name'\], b\['name'\]\)"),
            (lambda: batch != batch.to("cpu"), TypeError, r"a\.cursor == b\.cursor"),
            (lambda: batch.__setitem__(3, VALUES), TypeError, r"found 3: write batch\['name'\] = tensor"),
            (lambda: batch.float, AttributeError, r"write batch\['name'\]\.float, of one tensor"),
            (lambda: batch.generator(device="gpu"), ValueError, "'cuda:INDEX', found 'gpu'"),
            (lambda: batch.generator(device=None), TypeError, "device must be a torch.device"),
            (lambda: batch.to("gpu"), ValueError, "'cuda:INDEX', found 'gpu'"),
        )
    )
    assert batch is not None
    assert (batch == 3) is False
