"""Lists, strings and binary columns: `Jagged` as a value, and what the reader puts into it."""

from __future__ import annotations

import copy
import pickle
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate, default_convert

import fastresume as fr
from fastresume.batch.jagged import all_valid
from support.cells import assert_holds, read_cells
from support.each_of import each_of
from support.jobs import make, tensors_of
from support.strategies import TYPES, Dataset


def jagged_of(*rows: list[int] | None, dtype: torch.dtype = torch.int64, masked: bool = False) -> fr.Jagged:
    """The rows, with marks if asked for."""
    lists = [row or [] for row in rows]
    values = torch.tensor([value for row in lists for value in row], dtype=dtype)
    offsets = torch.tensor(np.cumsum([0, *map(len, lists)]))
    return fr.Jagged(values, offsets, torch.tensor([row is not None for row in rows]) if masked else None)


def text_of(*rows: str | None, masked: bool = True) -> fr.Jagged:
    """The rows as a string column has them."""
    encoded = [None if row is None else list(row.encode()) for row in rows]
    return jagged_of(*encoded, dtype=torch.uint8, masked=masked)


# -------------------------------------------------------------------------------------------------- the value


def test_rows_are_views_of_the_values() -> None:
    jagged = jagged_of([1, 2], [], [3, 4, 5])
    assert len(jagged) == 3
    assert [row.tolist() for row in jagged] == [[1, 2], [], [3, 4, 5]]
    assert [jagged[i].tolist() for i in (0, 1, 2, -1, -3)] == [[1, 2], [], [3, 4, 5], [3, 4, 5], [1, 2]]
    jagged[2][0] = 9
    assert jagged.values.tolist() == [1, 2, 9, 4, 5]
    assert jagged.lengths.tolist() == [2, 0, 3]
    assert (jagged.dtype, jagged.device) == (torch.int64, torch.device("cpu"))


@pytest.mark.parametrize("row", [3, -4, 2**40])
def test_a_row_that_is_not_there_is_an_error(row: int) -> None:
    with pytest.raises(IndexError, match=f"row {row} of 3 rows"):
        jagged_of([1], [], [2])[row]


@given(st.lists(st.none() | st.lists(st.integers(0, 255), max_size=4), max_size=6), st.data())
def test_slices_and_chosen_rows_are_those_of_a_list(
    rows: list[list[int] | None], data: st.DataObject
) -> None:
    for masked in (True, False):
        expected = [row if masked else row or [] for row in rows]
        jagged = jagged_of(*rows, masked=masked)
        assert jagged.to_list() == expected
        bound = st.none() | st.integers(-8, 8)
        part = slice(data.draw(bound), data.draw(bound))
        assert jagged[part].to_list() == expected[part]
        assert jagged[part].offsets[0] == 0
        if rows:
            chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
            taken = jagged.take(torch.tensor(chosen, dtype=torch.int64))
            assert taken.to_list() == [expected[row] for row in chosen]
            assert taken.offsets.dtype == torch.int64


@given(st.lists(st.none() | st.lists(st.integers(0, 255), max_size=7), min_size=1, max_size=6), st.data())
def test_values_are_taken_some_at_a_time(rows: list[list[int] | None], data: st.DataObject) -> None:
    """Steps end within rows, at their ends, and among empty ones."""
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
    inner = jagged_of(*rows, masked=True)
    outer = fr.Jagged(inner, torch.arange(len(rows) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastresume.batch.jagged.PLACES_AT_A_TIME", data.draw(st.integers(1, 5)))
        taken = [of.take(torch.tensor(chosen, dtype=torch.int64)).to_list() for of in (inner, outer)]
    assert taken == [[rows[row] for row in chosen], [[rows[row]] for row in chosen]]


def test_a_slice_with_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step 1, found 2"):
        jagged_of([1], [2], [3])[::2]


@each_of("name", [*TYPES[:12]])
def test_rows_of_every_type_can_be_chosen(name: str) -> None:
    jagged = jagged_of([1, 0], [], [1], dtype=getattr(torch, name), masked=True)
    taken = jagged.take(torch.tensor([2, 0, 1]))
    assert taken.dtype == jagged.dtype
    assert taken.to_list() == [[1], [1, 0], []]


def test_strings_come_out_as_python_has_them() -> None:
    words = ["", "é", None, "日本語🦀", "\0"]
    jagged = text_of(*words)
    assert jagged.to_strings() == words
    assert jagged.to_bytes() == [None if word is None else word.encode() for word in words]
    assert text_of(*words, masked=False).to_strings() == [word or "" for word in words]
    assert text_of().to_strings() == []


@each_of("rows", [[0xE9], [0x61], []])
def test_an_encoding_is_no_way_to_handle_errors(rows: list[int]) -> None:
    """It was taken without a word where all texts are UTF-8."""
    jagged: Any = jagged_of(rows, dtype=torch.uint8)
    way = re.escape("write [each.decode('latin-1') for each in jagged.to_bytes()]")
    with pytest.raises(ValueError, match=way):
        jagged.to_strings("latin-1")
    with pytest.raises(ValueError, match="found 'loose': write errors='replace'"):
        jagged.to_strings(errors="loose")
    with pytest.raises(TypeError, match=r"must be 'strict' or 'replace', found None"):
        jagged.to_strings(None)
    with pytest.raises(TypeError, match=r"has no argument encoding=: write \[each.decode\(encoding\) for"):
        jagged.to_strings(encoding="latin-1")
    for errors in ("ignore", "backslashreplace", "surrogateescape"):
        assert jagged.to_strings(errors) == [bytes(rows).decode(errors=errors)]


def test_bytes_that_are_no_text_are_an_error_that_says_so() -> None:
    jagged = jagged_of([0xFF], dtype=torch.uint8)
    assert jagged.to_bytes() == [b"\xff"]
    with pytest.raises(fr.DataError, match="row 0 holds text that is not UTF-8"):
        jagged.to_strings()
    assert jagged.to_strings(errors="replace") == ["\ufffd"]


def test_numbers_are_no_text() -> None:
    for convert in (fr.Jagged.to_bytes, fr.Jagged.to_strings):
        with pytest.raises(TypeError, match="uint8, found int64"):
            convert(jagged_of([1]))


@pytest.mark.parametrize("rows", [[[1, 2], [], [3]], [], [[], []]])
def test_it_becomes_a_nested_tensor(rows: list[list[int]]) -> None:
    jagged = jagged_of(*rows)
    nested = jagged.to_nested()
    assert nested.layout == torch.jagged
    assert [row.tolist() for row in nested.unbind()] == rows
    assert nested.values().data_ptr() == jagged.values.data_ptr()
    assert nested.offsets().data_ptr() == jagged.offsets.data_ptr()


@each_of(
    ("rows", "matrix"),
    [
        ([[1, 2], [], [3]], [[1, 2], [-1, -1], [3, -1]]),
        ([None, [4, 5, 6], [7, 8]], [[-1, -1, -1], [4, 5, 6], [7, 8, -1]]),
        ([[], []], [[], []]),
        ([], []),
    ],
)
def test_a_nested_tensor_is_padded_to_its_longest_row(
    rows: list[list[int] | None], matrix: list[list[int]]
) -> None:
    # Without lengths torch takes all values together for the longest row: [B, number of values].
    jagged = jagged_of(*rows, masked=True)
    padded = jagged.to_nested().to_padded_tensor(-1)
    assert padded.tolist() == matrix
    assert padded.shape == (len(rows), max((len(row or []) for row in rows), default=0))
    assert torch.equal(padded, jagged.to_padded(value=-1))


@each_of("dtype", [torch.float16, torch.float32, torch.float64, torch.int32, torch.uint8])
def test_a_nested_tensor_has_the_type_of_the_values(dtype: torch.dtype) -> None:
    nested = jagged_of([1, 2], None, [3], dtype=dtype, masked=True).to_nested()
    assert nested.dtype == dtype
    assert [row.tolist() for row in nested.unbind()] == [[1, 2], [], [3]]


def test_gradients_flow_through_a_nested_tensor() -> None:
    jagged = jagged_of([1, 2], [], [3], dtype=torch.float32)
    jagged.values.requires_grad_()
    (jagged.to_nested() * 3).values().pow(2).sum().backward()
    assert jagged.values.grad.tolist() == [18.0, 36.0, 54.0]


@pytest.mark.parametrize("masked", [True, False])
def test_it_is_a_plain_value(masked: bool) -> None:
    jagged = jagged_of([1, 2], None, [3], masked=masked)
    changes: list[Callable[[fr.Jagged], fr.Jagged]] = [
        copy.copy,
        copy.deepcopy,
        lambda jagged: pickle.loads(pickle.dumps(jagged)),
        lambda jagged: jagged.to("cpu"),
        default_convert,
    ]
    for change in changes:
        changed = change(jagged)
        assert type(changed) is fr.Jagged
        assert changed.to_list() == jagged.to_list()
        assert (changed.valid is None) is not masked
    assert jagged.to("cpu").values is jagged.values
    assert weakref.ref(jagged)() is jagged
    with pytest.raises(AttributeError):
        jagged.values = torch.zeros(3)  # type: ignore[misc]


@pytest.mark.parametrize("masked", [True, False])
def test_all_its_tensors_move(masked: bool) -> None:
    moved = jagged_of([1, 2], None, masked=masked).to("meta")
    assert moved.device.type == "meta"
    assert moved.offsets.device.type == "meta"
    assert moved.valid is None or moved.valid.device.type == "meta"


def test_all_its_tensors_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no accelerator, torch can't pin: what is asked of it is noted."""
    pinned = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    jagged = jagged_of([1, 2], None, masked=True)
    jagged.pin_memory()
    assert {id(tensor) for tensor in pinned} == {id(jagged.values), id(jagged.offsets), id(jagged.valid)}


def test_it_says_what_it_is() -> None:
    assert repr(jagged_of([1, 2], [])) == "Jagged(rows=2, values=int64[2])"
    assert repr(text_of("a", None)) == "Jagged(rows=2, values=uint8[1], valid=bool[2])"


# ------------------------------------------------------------------------------------------------- in a batch


def test_the_schema_tells_what_is_jagged_and_what_is_masked(lists: Dataset) -> None:
    dataset = make(lists, 10, nulls="mask", columns=["*", "!weight", fr.stack("weight", name="dense")])
    assert repr(dataset.schema) == (
        "row: int64 [B]\n"
        "row_valid: bool [B]\n"
        "tokens: int32 [B, *] valid\n"
        "name: uint8 [B, *] string, valid\n"
        "blob: uint8 [B, *] binary, valid\n"
        "words: uint8 [B, *, *] string, valid\n"
        "grid: int16 [B, *, *] valid\n"
        "dense: float32 [B, 1] weight\n"
        "dense_valid: bool [B, 1] weight"
    )
    fields = dataset.schema
    assert [field.kind for field in fields.values()] == [
        "scalar",
        "mask",
        "list",
        "string",
        "binary",
        "list<string>",
        "list<list>",
        "scalar",
        "mask",
    ]
    assert [name for name, field in fields.items() if field.is_masked] == [
        "row",
        "tokens",
        "name",
        "blob",
        "words",
        "grid",
        "dense",
    ]
    assert fields["tokens"].shape == ("B", "*")
    for batch in dataset:
        assert list(batch) == list(fields)
        for name, value in batch.items():
            assert value.dtype == fields[name].dtype
            assert isinstance(value, fr.Jagged) == fields[name].is_jagged


def test_a_batch_with_lists_says_what_it_is(lists: Dataset) -> None:
    batch = next(iter(make(lists, 10, columns=["row", "tokens", "name"], nulls="mask")))
    assert repr(batch) == (
        "Batch(rows=10, epoch=0, step=0, {row: int64[10], row_valid: bool[10], tokens: int32[10, *], "
        "name: uint8[10, *]})"
    )


def test_a_batch_of_lists_alone_knows_its_device(lists: Dataset) -> None:
    batch = next(iter(make(lists, 10, columns=fr.col("tokens").fill_null(0))))
    assert batch.valid.device.type == "cpu"
    moved = batch.to("meta")
    assert moved["tokens"].device.type == "meta"
    assert moved.valid.device.type == "meta"


def test_a_batch_of_lists_keeps_its_cursor_through_what_is_done_to_it(lists: Dataset) -> None:
    cells = read_cells(lists.directory)
    batch = next(iter(make(lists, 10, nulls="mask")))
    changes: dict[str, Callable[[fr.Batch], fr.Batch]] = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
        "to": lambda batch: batch.to("cpu"),
        "convert": default_convert,
    }
    for name, change in changes.items():
        changed = change(batch)
        assert type(changed) is fr.Batch, name
        assert_holds(changed, cells, "mask")
        assert changed.state_dict() == batch.state_dict()
    with pytest.raises(TypeError, match="batch_size=None"):
        default_collate([batch])


def test_all_of_a_batch_is_pinned(lists: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    batch = next(iter(make(lists, 10, nulls="mask")))
    batch["own"] = "anything"  # type: ignore[assignment]
    assert batch.pin_memory()["own"] == "anything"
    # Three columns of rows of different lengths, one of lists; two of such rows of rows, one of lists; two of
    # numbers.
    assert len(pinned) == 3 * 3 + 1 + 2 * 5 + 1 + 2 * 2


def test_a_batch_owns_its_memory(lists: Dataset) -> None:
    cells = read_cells(lists.directory)
    batches = list(make(lists, 10, nulls="mask"))
    kept = [copy.deepcopy(batch) for batch in batches]
    batches[3]["tokens"].values.fill_(-1)
    batches[3]["name"].offsets.fill_(0)
    for index, (batch, copied) in enumerate(zip(batches, kept, strict=True)):
        assert_holds(copied if index == 3 else batch, cells, "mask")


@pytest.mark.parametrize("threads", [None, 2])
def test_the_bytes_that_are_counted_are_those_of_the_tensors(lists: Dataset, threads: int | None) -> None:
    loader = fr.Loader(
        make(lists, 10, nulls="mask", columns=["*", "!weight", fr.stack("weight", name="dense")]),
        threads=threads or 0,
    )
    tensors = []
    for batch in loader:
        tensors += tensors_of(batch).values()
    # Marks of elements of which none is null are one byte for all, and are not counted.
    counted = (tensor.nbytes for tensor in tensors if tensor.stride() != (0,) or tensor.numel() == 0)
    assert loader.stats().bytes == sum(counted) > 0


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_are_a_matrix_once_they_are_padded(side: Any) -> None:
    rows = [[7], [], [8, 9, 10], [11, 12]]
    offsets = torch.tensor([0, 1, 1, 4, 6])
    jagged = fr.Jagged(torch.tensor([7, 8, 9, 10, 11, 12], dtype=torch.int16), offsets)
    for length in (None, 3, 5):
        width = length or 3
        found = jagged.to_padded(length, -1, side)
        fills = [[-1] * (width - len(row)) for row in rows]
        whole = [row + fill if side == "right" else fill + row for row, fill in zip(rows, fills, strict=True)]
        assert (found.dtype, found.tolist()) == (torch.int16, whole)
    assert jagged[1:3].to_padded(value=-1, side=side).tolist() == [[-1] * 3, [8, 9, 10]]
    assert jagged[:0].to_padded(2).shape == (0, 2)
    with pytest.raises(ValueError, match="row 2 has 3 elements, to_padded has room for 2"):
        jagged.to_padded(2)
    with pytest.raises(TypeError, match=r"values.to_padded\(\) pads the inner rows"):
        fr.Jagged(jagged, torch.tensor([0, 2, 4])).to_padded()


def test_a_pad_token_given_as_the_length_is_told() -> None:
    jagged = fr.Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3]))
    with pytest.warns(UserWarning, match=r"the first argument is the length.*to_padded\(value=50256\)"):
        jagged.to_padded(50256)
    assert jagged.to_padded(value=50256).tolist() == [[7, 50256], [8, 9]]
    assert jagged.to_padded(4096).shape == (2, 4096)  # it is a length: warnings are errors


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned_values_are_padded_up_to_the_greatest_one(dtype: torch.dtype) -> None:
    greatest = torch.iinfo(dtype).max
    jagged = fr.Jagged(torch.tensor([1, greatest, 3], dtype=dtype), torch.tensor([0, 2, 3]))
    padded = jagged.to_padded(value=greatest)
    assert (padded.dtype, padded.tolist()) == (dtype, [[1, greatest], [3, greatest]])


def test_gradients_flow_back_through_what_is_padded() -> None:
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    fr.Jagged(values, torch.tensor([0, 2, 3])).to_padded().sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_default_device_of_torch_moves_nothing_of_the_cpu() -> None:
    rows = jagged_of([7], [8, 9])
    with torch.device("meta"):
        assert rows.to_padded(value=7).tolist() == [[7, 7], [8, 9]]
        assert all_valid(3).tolist() == [True] * 3
