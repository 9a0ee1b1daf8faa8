"""Rows in Arrow's memory: the same batches as of a Parquet file of the same rows."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import fastresume as fr
from support.arrow_rows import (
    TableSource,
    assert_same_rows,
    numbers_in,
    scattered,
    wide_table,
    write_parquet,
)
from support.each_of import each_of
from support.ipc_writer import write_ipc
from support.jobs import arrays_of, assert_batch_values

ROWS = 300
ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "nulls": "mask", "world": (0, 1)}


@pytest.mark.parametrize("nulls", [None, 0.0, 0.1, 1.0])
def test_columns_of_all_kinds_are_delivered_as_from_a_file(tmp_path: Path, nulls: float | None) -> None:
    table = wide_table(ROWS, nulls)
    stored = list(fr.ParquetDataset(write_parquet(table, tmp_path / "f.parquet"), **ONE))
    for held in (table, scattered(table, 1), [scattered(table.slice(0, 77), 2), table.slice(77)]):
        for one, other in zip(fr.ArrowDataset(held, **ONE), stored, strict=True):
            assert_same_rows(one, other)


def over_garbage(values: pa.Array, there: np.ndarray, children: list[pa.Array] | None = None) -> pa.Array:
    """The values where they are there, and nulls elsewhere, below which the memory is as it was."""
    bits = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
    own = values.buffers()[1:]
    if children is not None:  # theirs are behind its own
        own = [] if pa.types.is_struct(values.type) else own[:1]
    return pa.Array.from_buffers(values.type, len(values), [bits, *own], children=children)


def columns_over_garbage(rows: int) -> pa.Table:
    """Columns with nulls in all of their levels, below each of which values lie."""
    random = np.random.default_rng(4)

    def some(count: int) -> np.ndarray:
        return random.random(count) < 0.6

    def numbers(count: int, of: str) -> pa.Array:
        return over_garbage(pa.array(random.integers(-9, 9, count), of), some(count))

    def lists(count: int, of: Callable[[int], pa.Array]) -> pa.Array:
        ends = np.cumsum([0, *random.integers(0, 4, count)]).astype(np.int32)
        elements = of(int(ends[-1]))
        return over_garbage(pa.ListArray.from_arrays(ends, elements), some(count), [elements])

    def structs(count: int, of: Callable[[int], pa.Array]) -> pa.Array:
        members = [of(count)]
        return over_garbage(pa.StructArray.from_arrays(members, ["x"]), some(count), members)

    def words(count: int) -> pa.Array:
        return over_garbage(pa.array(["ab" * (row % 4) for row in range(count)]), some(count))

    def bits(count: int) -> pa.Array:
        return over_garbage(pa.array(some(count)), some(count))

    def narrow(count: int) -> pa.Array:
        return numbers(count, "int32")

    def wide(count: int) -> pa.Array:
        return numbers(count, "int64")

    return pa.table(
        {
            "row": np.arange(rows),
            "narrow": narrow(rows),
            "wide": wide(rows),
            "byte": numbers(rows, "int8"),
            "bits": bits(rows),
            "words": words(rows),
            "lists": lists(rows, narrow),
            "bit lists": lists(rows, bits),
            "word lists": lists(rows, words),
            "lists of lists": lists(rows, lambda count: lists(count, wide)),
            "structs": structs(rows, narrow),
            "structs of structs": structs(rows, lambda count: structs(count, wide)),
            "structs of lists": structs(rows, lambda count: lists(count, narrow)),
            "lists of structs": lists(rows, lambda count: structs(count, wide)),
        }
    )


def test_slices_that_begin_anywhere_have_nulls_at_all_levels_as_in_a_file(tmp_path: Path) -> None:
    table = columns_over_garbage(80)
    path = write_ipc(table, tmp_path / "f.arrow", "file", 80)
    asked: dict[str, Any] = {**ONE, "batch_size": 13}
    for start in range(18):
        rows = table.slice(start, 61 - start % 3)
        assert rows["lists"].null_count > 10
        stored = list(fr.ParquetDataset(write_parquet(rows, tmp_path / "f.parquet"), **asked))
        for one, other in zip(fr.ArrowDataset(rows, **asked), stored, strict=True):
            assert_same_rows(one, other)
        # Rows of a file from some row on: the batches that a shorter table has.
        kept = fr.Intervals([[start, start + rows.num_rows]])
        for one, other in zip(fr.ArrowDataset(path, rows=kept, **asked), stored, strict=True):
            assert_batch_values(one, arrays_of(other))


def test_nulls_are_counted_where_the_type_has_none_and_nowhere_else(tmp_path: Path) -> None:
    fields = [pa.field("whole", pa.int64(), nullable=False), ("x", pa.int64()), ("l", pa.list_(pa.int8()))]
    values = {"whole": range(9), "x": [None, *range(8)], "l": [[1]] * 9}
    table = pa.table(values, schema=pa.schema(fields))
    for held in (table, TableSource(table, (9,)), write_ipc(table, tmp_path / "f.arrow")):
        schema = fr.ArrowDataset(held, **ONE).schema
        counts = {name: schema[name].null_count for name in values}
        assert counts == {"whole": 0, "x": None, "l": None}


MORE = {
    "views": pa.array(["a", None, "a text that is longer than twelve bytes", ""] * 20, pa.string_view()),
    "bytes": pa.array([b"\0", None, b"x" * 40, b""] * 20, pa.binary_view()),
    "codes": pa.array(["u", None, "v", "u"] * 20).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([3, 50, 80], pa.array([1.5, None, 2.5])),
    "list views": pa.ListViewArray.from_arrays(
        [4, 0, 2, 2] * 20, [2, 3, 0, 1] * 20, pa.array([1, 2, None, 4, 5, 6], pa.int16())
    ),
    "nothing": pa.nulls(80),
    "seconds": pa.array([1, None, -5, 0] * 20, pa.timestamp("s", "UTC")),
    "time": pa.array([1, None, 86399, 0] * 20, pa.time32("s")),
    "day": pa.array([86400000, None, -86400000, 0] * 20, pa.date64()),
    "span": pa.array([1, None, -5, 0] * 20, pa.duration("ns")),
    "decimal": pa.array([1, None, -5, 0] * 20, pa.decimal128(5, 2)),
    "narrow decimal": pa.array([1, None, -5, 0] * 20, pa.decimal32(5, 2)),
    "wide decimal": pa.array([1, None, -5, 0] * 20, pa.decimal256(50, 3)),
    "half": pa.array(np.array([1, 2, -5, 0] * 20, np.float16)),
    "coded lists": pa.array(
        [["u"], None, ["v", None], []] * 20, pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    "uuid": pa.array([bytes(range(16)), None] * 40, pa.uuid()),
}
STORED = {
    "views": pa.string(),
    "bytes": pa.binary(),
    "runs": pa.float64(),
    "list views": pa.list_(pa.int16()),
    "narrow decimal": pa.decimal128(5, 2),
}
ASKED: dict[str, Any] = {
    "seconds": fr.col("seconds").raw(),
    "time": fr.col("time").raw(),
    "day": fr.col("day").raw(),
    "span": fr.col("span").raw(),
    "decimal": fr.col("decimal").decimal("float64"),
    "narrow decimal": fr.col("narrow decimal").decimal("int64"),
    "wide decimal": fr.col("wide decimal").decimal("float64"),
    "codes": fr.col("codes").hash(17),
}


@pytest.mark.parametrize("name", MORE)
def test_types_that_files_hold_otherwise_have_the_same_values(tmp_path: Path, name: str) -> None:
    column = MORE[name]
    stored = pa.array(column.to_pylist(), STORED[name]) if name in STORED else column
    path = write_parquet(pa.table({name: stored}), tmp_path / "f.parquet")
    asked: dict[str, Any] = {"columns": [ASKED[name]] if name in ASKED else None, **ONE, "batch_size": 7}
    try:
        expected = list(fr.ParquetDataset(path, **asked))
    except fr.DataError as error:
        refused = re.escape(str(error).split(" (")[0])
        with pytest.raises(fr.DataError, match=refused):
            fr.ArrowDataset(pa.table({name: column}), **asked)
        return
    around = (
        pa.concat_arrays([column.slice(5, 11), column, column.slice(0, 3)])
        if name not in NOT_JOINED
        else None
    )
    for held in [column] if around is None else [column, around.slice(11, 80)]:
        for one, other in zip(fr.ArrowDataset(pa.table({name: held}), **asked), expected, strict=True):
            assert_same_rows(one, other)


NOT_JOINED = ("runs", "list views", "uuid")


def test_any_source_of_a_stream_is_read_once_and_kept() -> None:
    table = pa.table({"x": range(100)})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    expected = list(fr.ArrowDataset(table, **ONE))
    for source in (stream, table.to_batches(), table.to_batches()[0], pl.DataFrame({"x": range(100)})):
        for one, other in zip(fr.ArrowDataset(source, **ONE), expected, strict=True):
            assert_same_rows(one, other)


def test_filters_and_expressions_mean_the_same(tmp_path: Path) -> None:
    table = pa.table(
        {"x": pa.array([None, *range(199)], pa.int32()), "s": [f"s{row % 7}" for row in range(200)]}
    )
    path = write_parquet(table, tmp_path / "f.parquet", 30)
    columns = [
        "x",
        fr.col("x").cast(torch.float32).fill_null(-1).alias("y"),
        fr.col("s").codes(),
        fr.stack("x", name="m"),
    ]
    for condition in (fr.col("x") > 50, fr.col("s").isin(["s1", "s5"]), fr.col("x").is_null()):
        asked: dict[str, Any] = {**ONE, "filter": condition, "columns": columns}
        stored, held = fr.ParquetDataset(path, **asked), fr.ArrowDataset(scattered(table, 3), **asked)
        assert held.filter_report().kept == stored.filter_report().kept  # type: ignore[union-attr]
        assert held.dictionaries == stored.dictionaries
        for one, other in zip(held, stored, strict=True):
            assert_same_rows(one, other)


def test_threads_workers_and_random_access_give_the_same_batches(tmp_path: Path) -> None:
    table = wide_table(400, 0.1)
    shuffle = fr.Shuffle(window_rows=128, block_rows=16)
    asked: dict[str, Any] = {**ONE, "batch_size": 32, "shuffle": shuffle}
    segments = TableSource(table, (200, 0, 200))
    for held, rows_of_group in ((table, 400), (segments, 200)):
        path = write_parquet(table, tmp_path / f"{rows_of_group}.parquet", rows_of_group)
        stored, dataset = fr.ParquetDataset(path, **asked), fr.ArrowDataset(held, **asked)
        for how in ({"threads": 3}, {"num_workers": 2}):
            others = list(fr.Loader(fr.ParquetDataset(path, **asked, groups=2)))
            with fr.Loader(fr.ArrowDataset(held, **asked, groups=2), **how) as loader:  # type: ignore[arg-type]
                for one, other in zip(loader, others, strict=True):
                    assert_same_rows(one, other)
        assert_same_rows(dataset.batch_at(0, 5), stored.batch_at(0, 5))
        one, other = dataset.read_rows([399, 0, 7]), stored.read_rows([399, 0, 7])
        assert numbers_in([one], "row") == numbers_in([other], "row") == [399, 0, 7]


def test_a_fingerprint_is_of_the_values_and_not_of_how_they_are_cut() -> None:
    table = wide_table(200, 0.2)
    found = {
        fr.ArrowDataset(cut, **ONE).fingerprint for cut in (table, scattered(table, 1), scattered(table, 2))
    }
    assert len(found) == 1
    row = table.column("row").to_pylist()
    other = table.set_column(0, table.field("row"), pa.array([*row[:-1], 7], pa.int64()))
    assert fr.ArrowDataset(other, **ONE).fingerprint not in found
    renamed = table.rename_columns([f"{name}_" for name in table.column_names])
    assert fr.ArrowDataset(renamed, **ONE).fingerprint not in found


@each_of("of", [pa.binary(0), pa.list_(pa.binary(0)), pa.struct({"a": pa.binary(0)})])
def test_a_column_that_no_parquet_file_can_have_is_named(tmp_path: Path, of: pa.DataType) -> None:
    table = pa.table({"y": [1], "x": pa.nulls(1, of)})
    path = write_ipc(table, tmp_path / "rows.arrow")
    for rows, where in ((table, ""), (TableSource(table, (1,)), ""), (path, str(path))):
        with pytest.raises(fr.DataError, match=r"column 'x' has the type .*fixed_size_binary\[0\]") as caught:
            fr.ArrowDataset(rows, **ONE)
        assert where in str(caught.value)


def test_a_type_that_is_not_delivered_is_named_with_its_file(tmp_path: Path) -> None:
    table = pa.table({"x": pa.nulls(1, pa.month_day_nano_interval())})
    path = write_ipc(table, tmp_path / "rows.arrow")
    message = f"the Arrow type 'tin' can't be delivered.*column 'x'.*{re.escape(str(path))}"
    with pytest.raises(fr.DataError, match=message):
        fr.ArrowDataset(path, **ONE)


def told_tables() -> dict[str, tuple[pa.Table, str]]:
    """Tables of all ways in which values are hashed, and the fingerprints that states have of them."""
    rows = range(20_000)
    numbers = {
        "a": pa.array(rows, pa.int32()),
        "b": pa.array([row / 7 for row in rows]),
        "c": pa.array([row % 100 for row in rows], pa.int8()),
    }
    nulls = {
        "a": pa.array([None if row % 3 == 0 else row for row in rows], pa.int32()),
        "late": pa.array([row if row < 19_000 else None for row in rows], pa.int64()),
        "none": pa.nulls(len(rows), pa.float32()),
    }
    lists = {
        "a": pa.array([list(range(row % 4)) for row in rows], pa.list_(pa.int16())),
        "t": [f"text {row}" for row in rows],
    }
    required = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    return {
        "numbers": (pa.table(numbers), "b530363f44b36b68d441e133219d19d8"),
        "no nulls": (pa.table({"a": rows}, required), "90a1eccfec79aba632bb5864759453b1"),
        "nulls": (pa.table(nulls), "2dcc3fc38994010bcea89ca926a2f465"),
        "flags": (pa.table({"a": [row % 5 < 2 for row in rows]}), "2046f29c0387b5886474434e30ca57b6"),
        "lists": (pa.table(lists), "5f5bb063ebd8a9c11df3b56e06fc2068"),
    }


def test_fingerprints_stay_those_that_states_have() -> None:
    for name, (table, found) in told_tables().items():
        for cut in (table, scattered(table, 1), pa.concat_tables([table.slice(0, 3), table.slice(3)])):
            assert fr.ArrowDataset(cut, **ONE).fingerprint == found, name


def test_garbage_under_nulls_is_in_no_fingerprint() -> None:
    marks = pa.py_buffer(bytes([0b0101]))
    one, other = (
        pa.Array.from_buffers(
            pa.int32(), 4, [marks, pa.array([1, garbage, 2, garbage], pa.int32()).buffers()[1]]
        )
        for garbage in (7, 9)
    )
    tables = [pa.table({"x": array}) for array in (one, other)]
    assert len({fr.ArrowDataset(table, **ONE).fingerprint for table in tables}) == 1


def test_a_state_of_other_rows_and_of_a_file_of_the_same_is_refused(tmp_path: Path) -> None:
    table = pa.table({"x": range(100)})
    stored = fr.ParquetDataset(write_parquet(table, tmp_path / "f.parquet"), **ONE)
    for other in (stored, fr.ArrowDataset(table.slice(1), **ONE)):
        with pytest.raises(fr.StateError, match="dataset"):
            fr.ArrowDataset(table, **ONE).load_state_dict(next(iter(other)).state_dict())


def test_tables_that_are_added_behind_others_are_read_in_the_pass() -> None:
    days = [pa.table({"x": range(first, first + 50)}) for first in (0, 50, 100)]
    asked: dict[str, Any] = {**ONE, "batch_size": 10, "on_change": "append"}
    first = fr.ArrowDataset(days[:2], **asked)
    batches = iter(first)
    seen = numbers_in(next(batches) for _ in range(4))
    grown = fr.ArrowDataset(days, **asked)
    grown.load_state_dict(first.state_dict())
    seen += numbers_in(grown)
    assert seen == list(range(150))
    joined = fr.ArrowDataset(pa.concat_tables(days), **asked)
    with pytest.raises(fr.StateError, match=r"A table that grew is \[old, new\]$"):
        joined.load_state_dict(first.state_dict())


def test_arrow_stands_beside_parquet_in_a_mixture(tmp_path: Path) -> None:
    table = pa.table({"x": range(1000)})
    path = write_parquet(table, tmp_path / "f.parquet", 100)

    def mixed(second: Any) -> fr.Mixture:
        sources = {"a": (fr.ParquetDataset(path, seed=1, shuffle=True, world=(0, 1)), 2), "b": (second, 1)}
        return fr.Mixture(sources, batch_size=30, world=(0, 1))

    how: dict[str, Any] = {"seed": 2, "shuffle": True, "world": (0, 1)}
    expected = list(mixed(fr.ParquetDataset(path, **how)))
    found = list(mixed(fr.ArrowDataset(scattered(table, 5), **how)))
    for one, other in zip(found, expected, strict=True):
        assert numbers_in([one]) == numbers_in([other])
        assert torch.equal(one.source, other.source)


def test_units_are_made_of_arrow_rows(tmp_path: Path) -> None:
    lists = [list(range(row % 40)) for row in range(500)]
    table = pa.table(
        {"ids": pa.array(lists, pa.list_(pa.int32())), "cost": [row % 40 + 1 for row in range(500)]}
    )
    path = write_parquet(table, tmp_path / "f.parquet", 500)
    for unit in (fr.Packed("ids", length=64), fr.Bins("cost", cost=100)):
        asked: dict[str, Any] = {"batch_size": 4, "unit": unit, "world": (0, 1)}
        stored, held = fr.ParquetDataset(path, **asked), fr.ArrowDataset(scattered(table, 2), **asked)
        count = 0
        for one, other in zip(held, stored, strict=True):
            assert_batch_values(one, arrays_of(other))
            count += 1
        assert count > 10


def test_a_dataset_is_pickled_with_its_tables() -> None:
    dataset = fr.ArrowDataset(scattered(pa.table({"x": range(100)}), 1), **ONE)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint
    assert numbers_in(again) == numbers_in(dataset)


def test_what_has_no_rows_and_types_without_tensors_are_refused_with_what_to_write() -> None:
    for source in (7, {"x": [1]}, [1, 2], None, []):
        with pytest.raises((TypeError, ValueError), match="source"):
            fr.ArrowDataset(source, **ONE)
    with pytest.raises(TypeError, match=r"write fr\.ParquetDataset\('delta://t', batch_size=n\)"):
        fr.ArrowDataset("delta://t", **ONE)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    square = pandas.DataFrame({"x": [np.ones((2, 2))] * 3})
    with pytest.raises(TypeError, match=r"write frame\[name\]\.map\(lambda array: array\.tolist\(\)\)$"):
        fr.ArrowDataset(square, **ONE)
    square["x"] = square["x"].map(lambda array: array.tolist())
    assert fr.ArrowDataset(square, **ONE).peek().num_rows == 3
    months = pa.array([pa.scalar((1, 2, 3), pa.month_day_nano_interval())])
    with pytest.raises(fr.DataError, match=r"drop_columns\(\['m'\]\)"):
        fr.ArrowDataset(pa.table({"x": [1], "m": months}), **ONE)
    cut = pandas.DataFrame({"x": [1, 2], "i": pandas.cut([1, 2], 2)})
    with pytest.raises(fr.DataError, match=r"'i' has the type .*, which can't be delivered") as caught:
        fr.ArrowDataset(cut, **ONE)
    for way in re.findall(r"frame\.\w+\(.*?\)", str(caught.value)):
        assert "x" in fr.ArrowDataset(eval(way, {"frame": cut}), **ONE).schema  # noqa: S307  (our own words)
    with pytest.raises(TypeError, match=r"has no argument rank=: write world=\(rank, world_size\)"):
        fr.ArrowDataset(cut, rank=0, world_size=2, **ONE)  # type: ignore[call-arg]
    with pytest.raises(fr.DataError, match="two columns have the name 'x'"):
        fr.ArrowDataset(pa.Table.from_arrays([pa.array([1])] * 2, ["x", "x"]), **ONE)
    with pytest.raises(fr.DataError, match="'x' is double there, and int64 in table 0: write"):
        fr.ArrowDataset([pa.table({"x": [1]}), pa.table({"x": [1.5]})], **ONE)
    never_null = pa.table({"x": [1]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    with pytest.raises(fr.DataError, match="'x' is int64 not null there, and int64 in table 0"):
        fr.ArrowDataset([pa.table({"x": [1]}), never_null], **ONE)
    frames = [pandas.DataFrame({"x": [1], "y": [2]}), pandas.DataFrame({"y": [2], "x": [1]})]
    with pytest.raises(fr.DataError, match=r"their order is \['y', 'x'\]: write pandas\.concat") as caught:
        fr.ArrowDataset(frames, **ONE)
    way = str(caught.value).partition("write ")[2]
    joined = eval(way, {"frames": frames, "pandas": pandas})  # noqa: S307  (our own words)
    assert fr.ArrowDataset(joined, **ONE).num_rows == 2
    with pytest.raises(ValueError, match=r"write it as fr.col\(name\)"):
        fr.ArrowDataset(pa.table({"x": [1]}), filter=pc.field("x") > 0, **ONE)
    null = pa.table({"x": pa.array([1, None])})
    with pytest.raises(fr.DataError, match="null"):
        list(fr.ArrowDataset(null, batch_size=2, world=(0, 1)))
    lying = pa.Table.from_arrays(
        [pa.array([1, None])], schema=pa.schema([pa.field("x", pa.int64(), nullable=False)])
    )
    with pytest.raises(fr.DataError, match="declared to have no nulls"):
        list(fr.ArrowDataset(lying, **ONE))


class NoMemory:
    """Columns whose stream begins with what Arrow raises where there is no memory."""

    columns = ("x",)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise pa.lib.ArrowMemoryError("malloc of size 64 failed")


def test_want_of_memory_where_a_stream_is_opened_is_no_fault_of_its_type() -> None:
    with pytest.raises(MemoryError, match="malloc of size 64 failed"):
        fr.ArrowDataset(NoMemory(), batch_size=1)
