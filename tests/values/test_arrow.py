"""Batches as Arrow has them: the same cells, over the same memory, for every reader of Arrow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given

import fastresume as fr
from support.cells import is_any_list, unscaled, written_columns
from support.columns import all_kinds, tables
from support.each_of import each_of
from support.jobs import make
from support.strategies import Dataset, DatasetSpec, plain_spec, written

Write = Callable[[DatasetSpec], Dataset]


def table_of(spec: DatasetSpec) -> pa.Table:
    """All rows as they were written, in types that tensors have: times are numbers, strings are large."""
    columns = written_columns(spec).items()
    return pa.table({name: plain(column) for name, column in columns if not pa.types.is_struct(column.type)})


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    element, depth = kind, 0
    while is_any_list(element):
        element, depth = element.value_type, depth + 1
    if pa.types.is_fixed_size_binary(kind):
        lists = [None if cell is None else list(cell) for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(lists, pa.list_(pa.uint8(), kind.byte_width))])
    if pa.types.is_decimal(kind):
        numbers = [None if cell is None else unscaled(cell, kind.scale) for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(numbers, pa.int64())])
    # A date is an int32, which Arrow widens to an int64 in a second step only.
    is_short = element == pa.date32() or pa.types.is_time32(element)
    steps = [pa.int32(), pa.int64()] if is_short else [plain_type(element)]
    for given_step in steps:
        step = given_step
        for _ in range(depth):
            step = pa.large_list(step)
        if pa.types.is_fixed_size_list(kind) and depth == 1 and not has_marks(plain_type(element)):
            step = pa.list_(given_step, kind.list_size)
        column = column.cast(step)
    return column


def plain_type(kind: pa.DataType) -> pa.DataType:
    texts = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return pa.int64() if pa.types.is_temporal(kind) else texts.get(kind, kind)


def has_marks(kind: pa.DataType) -> bool:
    """Whether nulls inside lists of these have marks."""
    return kind in (pa.large_string(), pa.large_binary())


def batches_of(dataset: fr.ParquetDataset) -> pa.Table:
    """All rows as the batches have them."""
    return pa.Table.from_batches([batch.to_arrow() for batch in dataset])


def assert_same_cells(found: pa.Table, expected: pa.Table) -> None:
    """Assert that two tables have the same columns, types and cells, NaN and -0.0 told apart."""
    assert found.column_names == expected.column_names
    for name in found.column_names:
        assert found.column(name).type == expected.column(name).type, name
        assert repr(found.column(name).to_pylist()) == repr(expected.column(name).to_pylist()), name


@given(spec=tables(max_columns=3))
def test_any_table_has_the_cells_that_were_written(spec: DatasetSpec) -> None:
    with written(spec) as dataset:
        expected = table_of(spec)
        lists = [field.name for field in expected.schema if hasattr(field.type, "value_type")]
        for name in lists:  # a null inside a list has no mark of its own
            cells = expected.column(name).combine_chunks()
            while pa.types.is_large_list(cells.type.value_type):
                cells = cells.flatten()
            if cells.flatten().null_count and not has_marks(cells.type.value_type):
                expected = expected.drop_columns(name)
        reader = make(dataset, 7, tail="short", columns=expected.column_names, nulls="mask")
        assert_same_cells(batches_of(reader), expected)


@pytest.mark.parametrize("masked", [False, True])
def test_every_type_keeps_its_cells_and_its_memory(write_dataset: Write, masked: bool) -> None:
    kinds = all_kinds(nulls=0.2 if masked else None, element_nulls=None)
    spec = plain_spec([40, 13], columns=kinds)
    reader = make(write_dataset(spec), 53, nulls="mask" if masked else "error")
    assert_same_cells(batches_of(reader), table_of(spec))
    batch = reader.batch_at(0, 0)
    arrow = batch.to_arrow()
    assert arrow.num_columns == table_of(spec).num_columns
    for name in arrow.schema.names:
        column, value = arrow.column(name), batch[name]
        addresses = [buffer.address for buffer in column.buffers() if buffer is not None]
        while isinstance(value, fr.Jagged):
            assert value.offsets.data_ptr() in addresses
            value = value.values
        assert value.dtype == torch.bool or value.data_ptr() in addresses, name


def test_matrices_are_lists_of_fixed_size_and_their_masks_are_in_them(write_dataset: Write) -> None:
    columns = {"a": [1.5, None, 3.0], "b": [4.0, 5.0, None]}
    dataset = write_dataset(plain_spec([3]))
    pq.write_table(pa.table(columns), dataset.directory / "only.parquet")
    path = str(dataset.directory / "only.parquet")
    batch = next(
        iter(
            fr.ParquetDataset(
                path, batch_size=3, nulls="mask", columns=["*", "!a", "!b", fr.stack("a", "b", name="m")]
            )
        )
    )
    arrow = batch.to_arrow()
    assert arrow.schema.names == ["m"]
    assert arrow.schema.field("m").type == pa.list_(pa.float64(), 2)
    assert arrow.column("m").to_pylist() == [[1.5, 4.0], [None, 5.0], [3.0, None]]
    assert arrow.column("m").flatten().buffers()[1].address == batch["m"].data_ptr()
    del batch["m_valid"]
    assert batch.to_arrow().column("m").to_pylist() == [[1.5, 4.0], [0.0, 5.0], [3.0, 0.0]]


def test_tensors_of_transforms_become_columns_too(small_dataset: Dataset) -> None:
    def cubed(batch: fr.Batch) -> dict[str, Any]:
        scale = batch["i_1"].requires_grad_()
        return {
            "cube": torch.arange(60).view(10, 2, 3),
            "turned": torch.arange(20.0).view(2, 10).T,
            "flags": torch.ones(10, 2, dtype=torch.bool),
            "none": torch.empty(10, 0),
            "scale": scale,
        }

    arrow = next(iter(make(small_dataset).map(cubed))).to_arrow()
    assert arrow.column("cube").to_pylist()[9] == [[54, 55, 56], [57, 58, 59]]
    assert arrow.column("turned").to_pylist()[1] == [1.0, 11.0]
    assert arrow.column("flags").to_pylist() == [[True, True]] * 10
    assert arrow.column("none").to_pylist() == [[]] * 10
    assert arrow.num_rows == 10


def test_a_mask_that_no_longer_fits_is_a_column_of_its_own(lists: Dataset) -> None:
    def changed(batch: fr.Batch) -> dict[str, Any]:
        weight = batch["weight"].double()
        return {
            "weight": torch.stack([weight, weight], dim=1),
            "weight_valid": torch.stack([batch["weight_valid"]] * 3, dim=1),
        }

    reader = make(lists, nulls="mask")
    assert next(iter(reader)).to_arrow().column("weight").null_count > 0
    arrow = next(iter(reader.map(changed))).to_arrow()
    assert arrow.schema.names == ["weight", "weight_valid"]
    assert arrow.column("weight").null_count == 0


@each_of(
    ("value", "error", "said"),
    [
        ([1, 2], TypeError, "'new' can't be a column of Arrow: it is a list"),
        (torch.tensor(3.0), TypeError, "'new' can't be a column of Arrow: a tensor without dimensions"),
        (torch.ones(10, dtype=torch.bfloat16), TypeError, "'new' .*: Arrow has no type for bfloat16"),
        (torch.ones(10, dtype=torch.complex64), TypeError, "'new' .*: Arrow has no type for complex64"),
        (torch.ones(9), ValueError, r"one number of rows: 'label' has 10, 'new' has 9"),
    ],
)
def test_what_is_no_column_is_refused_by_its_name(
    small_dataset: Dataset, value: Any, error: type[Exception], said: str
) -> None:
    batch = next(iter(make(small_dataset, columns=["label", "i_1"])))
    batch["new"] = value
    with pytest.raises(error, match=said):
        batch.to_arrow()


def test_strings_that_are_no_text_are_an_error_that_says_so() -> None:
    bytes_ = torch.tensor([0xFF, 0x41], dtype=torch.uint8)
    offsets = torch.tensor([0, 1, 2])
    assert fr.Jagged(bytes_, offsets, kind="binary").to_arrow().to_pylist() == [b"\xff", b"A"]
    assert fr.Jagged(bytes_, offsets).to_arrow().to_pylist() == [[255], [65]]
    with pytest.raises(ValueError, match=r"(?i)utf8"):
        fr.Jagged(bytes_, offsets, kind="string").to_arrow()


def test_rows_know_what_they_are_wherever_they_go(lists: Dataset) -> None:
    batch = next(iter(make(lists, nulls="mask")))
    kinds = {name: batch[name].kind for name in ("tokens", "name", "blob")}
    assert kinds == {"tokens": "list", "name": "string", "blob": "binary"}
    name = batch["name"]
    for changed in (name[2:5], name.take(torch.tensor([1, 0])), name.to("cpu"), batch.to("cpu")["name"]):
        assert changed.kind == "string"
        assert changed.to_arrow().to_pylist() == changed.to_strings()
    assert name.to_arrow().null_count == int((~name.valid).sum()) > 0


def test_arrow_keeps_the_memory_that_it_shares(write_dataset: Write) -> None:
    spec = plain_spec([50])
    expected = table_of(spec)
    arrow = next(iter(make(write_dataset(spec), 50))).to_arrow()
    gc.collect()
    torch.full((1000,), 7.0)
    assert_same_cells(pa.Table.from_batches([arrow]), expected)


def test_other_readers_take_batches_by_arrows_c_interface(lists: Dataset) -> None:
    batch = next(iter(make(lists, nulls="mask")))
    arrow = batch.to_arrow()
    assert pa.record_batch(batch).equals(arrow)
    assert pa.table(batch).equals(pa.Table.from_batches([arrow]))
    assert pa.schema(batch) == arrow.schema
    assert pa.array(batch["name"]).equals(arrow.column("name"))
    assert pa.field(batch["tokens"]).type == arrow.column("tokens").type
    assert (
        pa.record_batch(batch).column("tokens").values.buffers()[1].address
        == batch["tokens"].values.data_ptr()
    )


def test_tensors_cross_by_dlpack_without_a_copy(lists: Dataset) -> None:
    batch = next(iter(make(lists, nulls="mask")))
    tokens = batch["tokens"]
    for tensor in (tokens.values, tokens.offsets, batch["weight"], batch["row"]):
        array = np.from_dlpack(tensor)
        assert array.ctypes.data == tensor.data_ptr()
        assert torch.from_dlpack(array).data_ptr() == tensor.data_ptr()


def test_without_pyarrow_the_error_names_it(lists: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = next(iter(make(lists, nulls="mask")))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for convert in (batch.to_arrow, batch["name"].to_arrow, batch.__arrow_c_array__):
        with pytest.raises(
            ModuleNotFoundError, match="to_arrow needs the package pyarrow: pip install"
        ) as raised:
            convert()
        assert raised.value.name == "pyarrow"
