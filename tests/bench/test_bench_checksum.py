"""The checksum by which the benchmark tells whether contenders delivered the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastresume.bench.cells import Cells
from fastresume.bench.checksum import Checksum, difference
from support.bench_columns import JAGGED, sums_of


@given(order=st.permutations(range(20)), batch_rows=st.integers(1, 25))
def test_checksum_is_of_the_rows_whatever_their_order_and_batches(order: list[int], batch_rows: int) -> None:
    table = pa.table(JAGGED)
    assert sums_of(table.take(order), batch_rows) == sums_of(table)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "lists": lambda value: [*(value or []), 0],
    "fixed": lambda value: value[::-1] if value and value[0] != value[1] else [7, 8],
    "text": lambda value: None if value == "" else "",
    "bytes": lambda value: (value or b"") + b"\x00",
    "sparse": lambda value: 0 if value is None else None,
    "word": lambda value: "z",
}


@pytest.mark.parametrize("name", CHANGES)
@given(place=st.integers(0, 19))
def test_checksum_tells_any_changed_value(name: str, place: int) -> None:
    table = pa.table(JAGGED)
    values = table[name].to_pylist()
    values[place] = CHANGES[name](values[place])
    field = table.schema.field(name)
    column = pa.array(values).dictionary_encode() if name == "word" else pa.array(values, field.type)
    changed = table.set_column(table.schema.get_field_index(name), field, column)
    assert difference(sums_of(changed), sums_of(table)) == f"other values in '{name}'"


def test_checksum_tells_an_order_within_a_list_and_where_a_list_ends() -> None:
    sums = {
        str(lists): sums_of(pa.table({"a": pa.array(lists, pa.list_(pa.int64()))}))["columns"]["a"]
        for lists in ([[1, 2], [3]], [[2, 1], [3]], [[1], [2, 3]], [[1, 2, 3], []], [[1, 2], [3, 0]])
    }
    assert len(set(sums.values())) == len(sums)


def test_checksum_tells_columns_apart_that_have_the_same_values() -> None:
    table = pa.table({"a": [1, 2, 3], "b": [2, 3, 1]})
    swapped = table.rename_columns(["b", "a"]).select(["a", "b"])
    assert (
        difference(sums_of(swapped), sums_of(table))
        == "the columns have the right values, but not in the same rows"
    )


def test_checksum_does_not_depend_on_what_lies_under_a_null() -> None:
    buffers = [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"xyz")]
    odd = pa.Array.from_buffers(pa.string(), 2, buffers)
    assert odd.to_pylist() == [None, "z"]
    plain = pa.table({"a": pa.array([None, "z"])})
    assert sums_of(pa.table({"a": odd})) == sums_of(plain)


def test_checksum_of_long_lists_does_not_depend_on_how_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(JAGGED)
    whole = sums_of(table)
    for most in (1, 2, 3, 7):
        monkeypatch.setattr("fastresume.bench.checksum.MAX_VALUES", most)
        assert sums_of(table) == whole


def test_checksum_is_the_same_for_integers_of_any_width_and_not_for_other_bits() -> None:
    narrow, wide = (pa.table({"a": pa.array([-1, 7], type_)}) for type_ in (pa.int8(), pa.int64()))
    assert sums_of(narrow)["columns"] == sums_of(wide)["columns"]
    zeros = [sums_of(pa.table({"a": np.array([zero])}))["columns"] for zero in (0.0, -0.0)]
    assert zeros[0] != zeros[1]


def test_checksum_refuses_columns_of_unequal_length() -> None:
    cells = {"a": Cells(np.arange(3), None, None), "b": Cells(np.arange(2), None, None)}
    with pytest.raises(ValueError, match="the column 'b' has 2 rows in a batch of 3"):
        Checksum(["a", "b"]).add(3, cells)
