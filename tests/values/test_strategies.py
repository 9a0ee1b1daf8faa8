"""The files that tests are made of are those that their specs say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import oracle
from support.cells import read_cells, written_cells
from support.columns import all_kinds, tables
from support.each_of import each_of
from support.strategies import (
    ROW_NUMBERS,
    TYPES,
    ColumnSpec,
    Dataset,
    DatasetSpec,
    FileSpec,
    dataset_specs,
    datasets,
    plain_spec,
    written,
)


def test_files_are_ordered_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    # '-' is 0x2d, '.' 0x2e, '/' 0x2f, digits 0x3., capitals before small letters, then UTF-8.
    names = ["Z.parquet", "a-b/x.parquet", "a.parquet", "a/x.parquet", "a1.parquet", "é.parquet"]
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / name for name in names]
    assert oracle.canonical_files(tmp_path) == named
    assert oracle.canonical_files(named[::-1]) == named


def test_files_that_nobody_meant_are_left_out(tmp_path: Path) -> None:
    meant = "a.parquet"
    for name in ("_SUCCESS", "a.parquet.crc", ".a.parquet", "_tmp.parquet", "_tmp/b.parquet", "a.txt", meant):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "x.parquet").mkdir()
    assert oracle.canonical_files(tmp_path) == [tmp_path / meant]
    assert oracle.canonical_files(str(tmp_path / "_tmp.parquet")) == [tmp_path / "_tmp.parquet"]
    with pytest.raises(ValueError, match="the same file twice"):
        oracle.canonical_files([tmp_path, tmp_path / meant])


def test_rows_are_numbered_through_empty_files_and_groups(small_dataset: Dataset) -> None:
    table = oracle.read_table(small_dataset.directory)
    assert table[ROW_NUMBERS].tolist() == list(range(103))
    assert oracle.canonical_files(small_dataset.directory) == list(small_dataset.files)
    assert {name: str(values.dtype) for name, values in table.items()} == {
        "row": "int64",
        "label": "bool",
        "i_1": "float32",
        "i_2": "float32",
        "c_1": "int64",
        "c_2": "int64",
        "at": "int64",
    }


def test_zero_row_groups_are_really_written(write_dataset: Callable[[DatasetSpec], Dataset]) -> None:
    metadata = pq.read_metadata(write_dataset(plain_spec([3, 0, 2])).files[0])
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [3, 0, 2]


# --------------------------------------------------------------------------------------- files, as strategies


@given(dataset_specs())
def test_drawn_files_hold_what_the_spec_says(spec: DatasetSpec) -> None:
    with written(spec) as dataset:
        assert dataset.num_rows == spec.num_rows
        assert oracle.canonical_files(dataset.directory) == list(dataset.files)
        table = oracle.read_table(dataset.directory)
        assert table[ROW_NUMBERS].tolist() == list(range(spec.num_rows))
        assert list(table) == dataset.schema.names


@settings(max_examples=max(5, settings.default.max_examples // 3))
@given(dataset_specs())
def test_a_spec_is_written_the_same_everywhere(spec: DatasetSpec) -> None:
    with written(spec) as one, written(spec) as other:
        assert oracle.same_values(oracle.read_table(one.files), oracle.read_table(other.directory))
        for left, right in zip(one.files, other.files, strict=True):
            assert left.read_bytes() == right.read_bytes()


@given(st.data())
def test_datasets_can_be_drawn_onto_disk(dataset_root: Path, data: st.DataObject) -> None:
    dataset = data.draw(datasets(dataset_root, dataset_specs(min_rows=1)))
    assert dataset.directory.parent == dataset_root
    assert sum(pq.read_metadata(file).num_rows for file in dataset.files) == dataset.num_rows >= 1


@each_of("type_", TYPES)
@each_of("fill", ["count", "bits", "extremes"])
def test_values_come_back_byte_for_byte(
    write_dataset: Callable[[DatasetSpec], Dataset], type_: str, fill: str
) -> None:
    column = ColumnSpec("c", type_, fill=fill)
    stored = oracle.read_table(write_dataset(plain_spec([50], columns=[column])).directory)["c"]
    given_ = column.values(0, 50)
    if type_ in ("timestamp[s]", "date64"):  # the file holds milliseconds, and days
        given_ = given_.cast({"timestamp[s]": "timestamp[ms]", "date64": "date32"}[type_])
    if pa.types.is_time(given_.type):
        given_ = given_.view(f"int{given_.type.bit_width}").cast("int64")
    expected = given_.to_numpy(zero_copy_only=False)
    if expected.dtype.kind == "M":
        expected = expected.view(np.int64)
    assert stored.dtype == expected.dtype
    assert stored.tobytes() == expected.tobytes()


@given(tables(min_rows=2))
def test_columns_of_every_kind_are_read_as_they_were_written(spec: DatasetSpec) -> None:
    files = [FileSpec(**{**vars(file), "page_bytes": 1 << 20}) for file in spec.files]  # see `written_cells`
    spec = DatasetSpec(tuple(files), spec.columns)
    with written(spec) as dataset:
        assert read_cells(dataset.directory) == written_cells(spec)


@pytest.mark.parametrize("nulls", [None, 0.0, 0.3])
def test_kinds_have_nulls_where_they_say_so(
    write_dataset: Callable[..., Dataset], nulls: float | None
) -> None:
    dataset = write_dataset(plain_spec([40], columns=all_kinds(nulls=nulls, element_nulls=nulls)))
    for name, column in read_cells(dataset.directory).items():
        elements = [cell for row in column.rows if isinstance(row, tuple) for cell in row]
        if name != ROW_NUMBERS:
            assert (None in column.rows) == bool(nulls), name
            has_null_elements = bool(nulls) and not name.endswith(".key")
            assert not elements or (None in elements) == has_null_elements, name
