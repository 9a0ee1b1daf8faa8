"""Any rows in memory and in Arrow's files: the batches of Parquet files of the same rows, in every way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, seed, settings
from hypothesis import strategies as st

import fastresume as fr
from support.arrow_rows import TableSource, assert_same_rows, in_other_forms, scattered
from support.cells import written_cells
from support.columns import Kind, kinds
from support.conditions import selections_of
from support.ipc_writer import HOW, write_ipc
from support.jobs import arrays_of, assert_batch_values
from support.layouts import layouts
from support.quick_waits import wait_in_no_time
from support.strategies import DatasetSpec, file_specs, written
from support.topologies import TAILS, Chosen, Shuffle, orders, topologies

LISTS = Kind("tokens", "int32", "list", nulls=None, element_nulls=None, longest=20)
COSTS = Kind("cost", "int64", nulls=None, fill="count", distinct=20)
"""What units are made of."""

OLD = ("V4", "old stream")
"""How files were written before there were views and runs."""


@st.composite
def specs(draw: st.DrawFn) -> DatasetSpec:
    """Draw a dataset of one or two files, each of one row group, where blocks end."""
    columns = [draw(kinds(f"c{number}")) for number in range(draw(st.integers(1, 3)))]
    files = []
    for number in range(draw(st.integers(1, 2))):
        rows = draw(st.integers(0 if number else 1, 120))
        file = draw(file_specs(f"{number}.parquet", st.just((rows,))))
        # Without Arrow's schema, files do not say what has one length, or a zone of time.
        files.append(replace(file, arrow_schema=True))
    return DatasetSpec(tuple(files), (*columns, LISTS, COSTS))  # type: ignore[arg-type]


def units() -> st.SearchStrategy[Any]:
    """Return a strategy for what is counted: rows, mostly."""
    packed = st.builds(
        lambda length: fr.Packed("tokens", length=length, rest="pad"), st.sampled_from((1, 7, 64))
    )
    named, costs = st.sampled_from(("tokens", "cost")), st.sampled_from((20, 64))
    return st.one_of(
        st.none(), st.none(), packed, st.builds(lambda name, cost: fr.Bins(name, cost=cost), named, costs)
    )


def tables_of(spec: DatasetSpec) -> list[pa.Table]:
    """The rows of each file, as its writer got them."""
    columns = (spec.row_numbers, *spec.columns)
    schema, start, found = pa.schema([column.field for column in columns]), 0, []
    for file in spec.files:
        (rows,) = file.groups
        arrays = [column.values(start, rows) for column in columns]
        found.append(pa.Table.from_arrays(arrays, schema=schema))
        start += rows
    return found


def shuffled(order: Shuffle | None) -> dict[str, Any]:
    """The arguments of an order."""
    if order is None:
        return {}
    return {
        "shuffle": fr.Shuffle(window_rows=order.window_rows, block_rows=order.block_rows),
        "seed": order.seed,
    }


def made(kind: type[Any], rows: Any, asked: dict[str, Any]) -> Any:
    """A dataset, or the error that says why there is none."""
    try:
        return kind(rows, **asked)
    except (ValueError, fr.DataError) as error:
        return f"{type(error).__name__}: {error}"


def assert_same(one: fr.Batch, other: fr.Batch, unit: Any) -> None:
    """Assert that two batches are the same rows, or units of the same rows."""
    if unit is None:
        assert_same_rows(one, other)
    else:
        assert_batch_values(one, arrays_of(other))
        assert (one.num_rows, one.epoch, one.step) == (other.num_rows, other.epoch, other.step)


def check(data: st.DataObject) -> None:
    """Read rows that are drawn, in every way that Arrow holds them, and a Parquet file of the same."""
    spec = data.draw(specs(), label="rows")
    cells = written_cells(spec)
    unit = data.draw(units(), label="unit")
    chosen = data.draw(selections_of(spec, cells), label="selection") or Chosen()
    count = len(chosen.selected(spec.num_rows))
    order = data.draw(orders(count), label="order")
    tails = TAILS if unit is None else ("drop",)
    topology = data.draw(topologies(rows=count, workers=st.just(0), tails=tails, small=True), label="job")
    rank = data.draw(st.integers(0, topology.world_size - 1), label="rank")
    layout = data.draw(layouts(cells), label="layout") if unit is None else None
    asked = {
        **({"nulls": "mask"} if layout is None else layout.arguments),
        **chosen.arguments,
        **shuffled(order),
        **topology.arguments,
        "unit": unit,
        "world": (rank, topology.world_size),
    }
    seed, how = data.draw(st.integers(0, 99), label="cuts"), data.draw(st.sampled_from(sorted(HOW)))
    threads = data.draw(st.sampled_from((None, 1, 2)), label="threads")
    with written(spec) as files:
        tables = [in_other_forms(table, seed) for table in tables_of(spec)]
        whole, folder = pa.concat_tables(tables_of(spec)), files.directory / "arrow"
        folder.mkdir()
        for place, table in enumerate(tables_of(spec) if how in OLD else tables):
            write_ipc(scattered(table, seed), folder / f"{place}.arrow", how, 50)
        sizes = [table.num_rows for table in tables]
        stored = made(fr.ParquetDataset, list(files.files), asked)
        fingerprints = [] if isinstance(stored, str) else [stored.fingerprint]
        expected = [] if isinstance(stored, str) else list(stored)
        event(f"{'rows' if unit is None else 'units'}: {stored if isinstance(stored, str) else 'batches'}")
        for rows in (
            [scattered(table, seed) for table in tables],
            folder,
            TableSource(whole, sizes, fails=0.05, seed=seed),
        ):
            held = made(fr.ArrowDataset, rows, asked)
            if isinstance(stored, str) or isinstance(held, str):
                assert str(held).partition(":")[0] == str(stored).partition(":")[0], (held, stored)
                continue
            fingerprints.append(held.fingerprint)
            found = list(held if threads is None else fr.Loader(held, threads=threads))
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other, unit)
            if len(found) < 2:
                continue
            place = data.draw(st.integers(0, len(found) - 2), label="saved after")
            resumed = fr.ArrowDataset(rows, **asked)
            resumed.load_state_dict(found[place].state_dict())
            for one, other in zip(resumed, expected[place + 1 :], strict=True):
                assert_same(one, other, unit)
        # A state is of one of them: files are known by what their metadata say, and tables by their values.
        assert len(set(fingerprints)) == len(fingerprints)


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Wait little for a source that fails."""
    with pytest.MonkeyPatch.context() as patched:
        wait_in_no_time(patched)
        yield


@given(data=st.data())
def test_batches_are_those_of_parquet_files_however_rows_are_held_and_read(data: st.DataObject) -> None:
    check(data)


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(8))  # a run ends where one test takes five minutes
def test_many_more_batches_are_those_of_parquet_files(piece: int) -> None:
    @seed(piece)
    @settings(max_examples=250)
    @given(data=st.data())
    def check_piece(data: st.DataObject) -> None:
        check(data)

    check_piece()
