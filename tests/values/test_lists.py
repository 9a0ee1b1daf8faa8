"""Lists, strings and binary columns as they are delivered: over row groups and files, resumed, and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import testing
from support.asked import asked
from support.cells import assert_holds, is_delivered, read_cells, written_cells
from support.columns import Kind, tables
from support.each_of import each_of
from support.jobs import assert_same_batch, data_loader, make, parallel
from support.strategies import Dataset, DatasetSpec, plain_spec, written
from support.topologies import Shuffle

Write = Callable[[DatasetSpec], Dataset]


# ------------------------------------------------------------------------------- what is delivered, and where

SHUFFLE = Shuffle(17, 20, 45)

ORDERS = each_of(
    "order",
    [{}, SHUFFLE.arguments, {"lanes": 5, "groups": 1}, {**SHUFFLE.arguments, "lanes": 5}],
)


@ORDERS
@each_of("batch_size", [1, 10, 45, 103])
def test_batches_span_row_groups_and_files(lists: Dataset, order: dict[str, Any], batch_size: int) -> None:
    if "lanes" in order:
        batch_size = -(-batch_size // 5) * 5 if batch_size < 100 else 100
    cells = read_cells(lists.directory)
    for batch in make(lists, batch_size, nulls="mask", **order):
        assert_holds(batch, cells, "mask")


@each_of("order", [{}, SHUFFLE.arguments])
@each_of("tail", ["short", "pad"])
def test_the_last_batch_holds_what_is_left_or_repeats_it(
    lists: Dataset, order: dict[str, Any], tail: str
) -> None:
    cells = read_cells(lists.directory)
    for rank in range(2):
        dataset = make(lists, 35, nulls="mask", tail=tail, **parallel(rank, 2), **order)
        batches = list(dataset)
        assert len(batches) == 2
        for batch in batches:
            assert_holds(batch, cells, "mask")
        rows, valid = (35, (33, 0)[rank]) if tail == "pad" else ((16, 17)[rank], (16, 17)[rank])
        assert batches[-1].num_rows == rows
        assert int(batches[-1].valid.sum()) == valid


def test_a_tail_of_few_rows_is_repeated_often(lists: Dataset) -> None:
    cells = read_cells(lists.directory)
    *_, last = make(lists, 100, nulls="mask", tail="pad")
    assert_holds(last, cells, "mask")
    assert last["tokens"].to_list()[:3] * 33 == last["tokens"].to_list()[:99]


@pytest.mark.law(2)
@each_of("order", [{}, SHUFFLE.arguments])
@each_of("threads", [None, 2])
def test_a_resume_after_every_batch_is_exact(
    lists: Dataset, order: dict[str, Any], threads: int | None
) -> None:
    def make_loader() -> fr.Loader | fr.ParquetDataset:
        dataset = make(lists, 4, nulls="mask", tail="pad", **order)
        return dataset if threads is None else fr.Loader(dataset, threads=threads)

    assert testing.assert_exact_resume(make_loader) == 26


def test_the_public_check_sees_a_difference_between_lists(lists: Dataset) -> None:
    """`assert_exact_resume` compares values, offsets and marks."""
    spoilt: dict[str, Callable[[fr.Jagged], fr.Jagged]] = {
        "values": lambda jagged: fr.Jagged(jagged.values + 1, jagged.offsets, jagged.valid),
        "offsets": lambda jagged: fr.Jagged(
            jagged.values,
            torch.cat([jagged.offsets[:-1].clamp(max=1), jagged.offsets[-1:]]),
            jagged.valid,
        ),
        "marks": lambda jagged: fr.Jagged(jagged.values, jagged.offsets, ~jagged.valid),  # type: ignore[operator]
        "no marks": lambda jagged: fr.Jagged(jagged.values, jagged.offsets),
        "values alone": lambda jagged: jagged.values,  # type: ignore[dict-item, return-value]
    }
    for spoil in spoilt.values():

        class Spoiling(fr.Loader):
            made = 0

            def __init__(self, dataset: fr.ParquetDataset) -> None:
                super().__init__(dataset, threads=0)
                Spoiling.made += 1
                self.is_spoilt = Spoiling.made > 1

            def __iter__(self) -> Any:
                for batch in super().__iter__():
                    if self.is_spoilt:
                        batch["tokens"] = spoil(batch["tokens"])  # noqa: B023  (used in this round alone)
                    yield batch

        with pytest.raises(AssertionError, match="the tensor 'tokens'"):
            testing.assert_exact_resume(lambda: Spoiling(make(lists, 50, nulls="mask")))


@pytest.mark.processes
@pytest.mark.parametrize("order", [{}, SHUFFLE.arguments], ids=["sequential", "shuffled"])
def test_workers_of_a_data_loader_deliver_lists(lists: Dataset, order: dict[str, Any]) -> None:
    cells = read_cells(lists.directory)
    dataset = make(lists, 5, nulls="mask", **order)
    rows = []
    for batch in data_loader(dataset, 2):
        assert_holds(batch, cells, "mask")
        rows += batch.rows().tolist()
    assert len(set(rows)) == len(rows) == 100


@pytest.mark.parametrize("order", [{}, SHUFFLE.arguments], ids=["sequential", "shuffled"])
def test_every_batch_comes_again(lists: Dataset, order: dict[str, Any]) -> None:
    dataset = make(lists, 10, nulls="mask", tail="pad", **order)
    for epoch in range(2):
        for step, batch in enumerate(dataset):
            assert_same_batch(dataset.batch_at(epoch, step), batch)


@given(spec=tables(), data=st.data())
def test_any_rows_can_be_read_by_their_numbers(spec: DatasetSpec, data: st.DataObject) -> None:
    """In any order, none, and one as often as it is asked for."""
    numbers = data.draw(st.lists(st.integers(0, spec.num_rows - 1), max_size=30))
    with written(spec) as dataset:
        batch = make(dataset, 1, columns=fr.col("*").fill_null(0)).read_rows(numbers)
        assert batch.rows().tolist() == numbers
        assert_holds(batch, written_cells(spec), 0)


def test_no_rows_at_all_have_lists_without_rows(lists: Dataset) -> None:
    batch = make(lists, 1, nulls="mask").read_rows([])
    assert_holds(batch, read_cells(lists.directory), "mask")
    assert batch["tokens"].offsets.tolist() == [0]
    assert batch["name"].to_strings() == []


def test_a_list_longer_than_many_pages_and_batches_of_memory(write_dataset: Write) -> None:
    """Rows of 100,000 elements over pages of 1 KiB, between rows of none."""
    columns = [Kind("long", "int64", "list", nulls=0.3, longest=100_000, distinct=1000)]
    spec = plain_spec([6, 4], columns=columns, page_bytes=1024, encoding="plain")  # type: ignore[arg-type]
    dataset = write_dataset(spec)
    cells = read_cells(dataset.directory)
    for order in ({}, Shuffle(1, 2, 5).arguments):
        for batch in make(dataset, 3, nulls="mask", **order):
            assert_holds(batch, cells, "mask")


@each_of("encoding", ["plain", "dictionary", "packed", "split"])
@each_of("version", ["1.0", "2.0"])
def test_a_string_of_megabytes_comes_out_whole(tmp_path: Path, encoding: str, version: str) -> None:
    megabyte = "é" * (1 << 19)
    words = ["", megabyte, "x", megabyte + "y", megabyte, None, "z" * (3 << 20)]
    how = {"packed": "DELTA_LENGTH_BYTE_ARRAY", "split": "DELTA_BYTE_ARRAY"}.get(encoding)
    pq.write_table(
        pa.table({"text": words}),
        tmp_path / "x.parquet",
        use_dictionary=encoding == "dictionary",
        column_encoding={"text": how} if how else None,
        data_page_version=version,
    )
    found = []
    for batch in fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask", tail="short"):
        found += batch["text"].to_strings()
    assert found == words


def test_a_column_of_empty_lists_and_strings_has_no_values(tmp_path: Path) -> None:
    table = pa.table({"list": pa.array([[]] * 5, pa.list_(pa.int32())), "text": [""] * 5})
    pq.write_table(table, tmp_path / "x.parquet")
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=5)
    for name, dtype in (("list", torch.int32), ("text", torch.uint8)):
        assert batch[name].values.shape == (0,)
        assert batch[name].dtype == dtype
        assert batch[name].offsets.tolist() == [0] * 6


# ---------------------------------------------------------------------------------------- other ways to write


def test_lists_are_read_under_every_name_that_writers_give_their_elements(tmp_path: Path) -> None:
    rows = [[1, 2], [], None, [3]]
    for index, compliant in enumerate((True, False)):
        table = pa.table({"list": pa.array(rows, pa.list_(pa.field("item", pa.int64())))})
        path = tmp_path / f"{index}.parquet"
        pq.write_table(table, path, use_compliant_nested_type=compliant, store_schema=False)
    batches = list(fr.ParquetDataset(tmp_path, batch_size=4, nulls="mask"))
    assert [batch["list"].to_list() for batch in batches] == [rows, rows]


def test_files_may_differ_in_what_may_be_null_and_in_the_kind_of_list(tmp_path: Path) -> None:
    rows = [[1, 2], [3, 4]]
    fields = [
        pa.field("list", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        pa.field("list", pa.list_(pa.int64())),
        pa.field("list", pa.large_list(pa.int64()), nullable=False),
        pa.field("list", pa.list_(pa.int64(), 2)),
    ]
    for index, field in enumerate(fields):
        table = pa.table([pa.array(rows, field.type)], schema=pa.schema([field]))
        pq.write_table(table, tmp_path / f"{index}.parquet")
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=8)
    assert batch["list"].to_list() == rows * 4


@given(tables(), st.sampled_from((1, 3, 7)), st.sampled_from(("mask", 0, "some")), st.data())
def test_every_pass_delivers_what_was_written(
    spec: DatasetSpec, batch_size: int, nulls: Any, data: st.DataObject
) -> None:
    """Any kind of column, any way to write it, any order, what it says of nulls column by column."""
    if nulls == "some":
        nulls = {column.name: data.draw(st.sampled_from(("mask", 0, 1))) for column in spec.columns}
    order = {} if data.draw(st.booleans()) else Shuffle(3, 8, 16).arguments
    threads = data.draw(st.sampled_from((None, None, 2)))
    with written(spec) as dataset:
        cells = written_cells(spec)
        has_null_elements = {
            name
            for name, column in cells.items()
            if not is_delivered(column, range(len(column.rows)), "mask")
        }
        rules = dict.fromkeys(cells, nulls) if not isinstance(nulls, dict) else dict(nulls)
        for name in has_null_elements:  # under a mask these are an error
            rules[name] = 0
        made = make(dataset, batch_size, **asked(rules), tail="short", **order)
        seen: list[int] = []
        for batch in made if threads is None else fr.Loader(made, threads=threads):
            assert_holds(batch, cells, rules)
            seen += batch.rows().tolist()
        assert sorted(seen) == list(range(spec.num_rows))
