"""Rows of many columns: in any order, which are moved together and taken apart again, and of matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.asked import asked
from support.each_of import each_of

ROWS, GROUP_ROWS, BATCH_SIZE = 2000, 450, 128
KINDS = {
    "byte": (pa.int8(), 130),
    "short": (pa.int16(), 3),
    "number": (pa.float32(), 1),
    "word": (pa.int32(), 67),
    "long": (pa.int64(), 35),
    "double": (pa.float64(), 9),
}
"""Of each type so many columns: more than are moved together, or fewer than fit a register, or one."""
SOME = {f"{kind}_*": "mask" if kind == "long" else 7 for kind in KINDS}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Columns of all widths, of which every third has nulls."""
    random = np.random.default_rng(5)
    columns: dict[str, Any] = {}
    for kind, (dtype, count) in KINDS.items():
        for number in range(count):
            values = random.integers(-100, 100, ROWS)
            nulls = random.random(ROWS) < 0.2 if number % 3 == 2 else None
            columns[f"{kind}_{number}"] = pa.array(values, mask=nulls).cast(dtype)
    columns["pair"] = pa.FixedSizeListArray.from_arrays(pa.array(range(2 * ROWS), pa.int32()), 2)
    columns["text"] = pa.array([str(number) for number in range(ROWS)])
    columns["color"] = pa.array([f"{number % 7}" for number in range(ROWS)])
    columns["tags"] = pa.array([[number] * (number % 4) for number in range(ROWS)], pa.list_(pa.int32()))
    columns["struct"] = pa.array([{"x": number} if number % 5 else None for number in range(ROWS)])
    # In turn, so that no two of a type lie side by side.
    names = sorted(columns, key=lambda name: name.partition("_")[::-1])
    table = pa.table({name: columns[name] for name in names})
    path = tmp_path_factory.mktemp("wide") / "wide.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path, table


def expected(column: pa.ChunkedArray, rows: Any, fill: int) -> Any:
    """The values of a column at these rows, as a batch has them."""
    taken = column.take(pa.array(rows))
    if pa.types.is_fixed_size_list(taken.type):
        return taken.combine_chunks().flatten().to_numpy().reshape(-1, 2)
    return taken.fill_null(pa.scalar(fill, taken.type)).to_numpy()


def wide_columns(nulls: Any, stack: dict[str, Any]) -> dict[str, Any]:
    """What is asked of all columns: masks, or values and masks by kind; some in matrices; codes, pads."""
    others = [fr.col("color").codes(), fr.col("tags").pad(3)]
    if nulls == "mask":
        return {**asked({}, stack, ["*", *others]), "nulls": "mask"}
    rules = {pattern: rule for pattern, rule in nulls.items() if f"{pattern[:-1]}s" not in stack}
    stacked = {name: nulls[f"{name[:-1]}_*"] for name in stack}
    found = asked({**rules, **stacked}, stack, ["*", *others])
    return {
        "columns": [
            *found["columns"],
            fr.col("struct.x").fill_null(0),
            fr.col("struct", "!struct.x").mask_null(),
        ]
    }


@each_of("tail", ["short", "pad"])
@each_of("nulls", ["mask", SOME])
@each_of("stack", [None, {"words": ["word_1?"], "doubles": "double_*"}])
def test_every_value_of_a_wide_row_is_delivered_with_its_row(
    table: tuple[Path, pa.Table], tail: Any, nulls: Any, stack: Any
) -> None:
    path, whole = table
    how: dict[str, Any] = {**wide_columns(nulls, stack or {}), "tail": tail, "lanes": 1}
    dataset = fr.ParquetDataset(path, batch_size=BATCH_SIZE, shuffle=True, seed=3, **how)
    seen = []
    for batch in dataset:
        rows = batch.rows()
        seen.append(rows[batch.valid.numpy()])
        for field in dataset.schema.values():
            if field.kind == "mask" or field.columns[0] in ("text", "color", "tags", "struct.x"):
                continue
            fill = 0 if field.is_masked else 7
            columns = [expected(whole[name], rows, fill) for name in field.columns]
            values = np.stack(columns, axis=1) if field.is_stacked else columns[0]
            assert np.array_equal(batch[field.name].numpy(), values), field.name
            if field.is_masked:
                taken = [whole[name].take(pa.array(rows)).is_valid().to_numpy() for name in field.columns]
                valid = np.stack(taken, axis=1) if field.is_stacked else taken[0]
                assert np.array_equal(batch[f"{field.name}_valid"].numpy(), valid), field.name
        assert batch["text"].to_strings() == [str(row) for row in rows]
        colors = dataset.dictionaries["color"]
        assert [colors[code] for code in batch["color"].tolist()] == [str(row % 7) for row in rows]
        lengths = rows % 4
        assert np.array_equal(batch["tags_length"].numpy(), lengths)
        assert np.array_equal(
            batch["tags"].numpy(), np.where(np.arange(3) < lengths[:, None], rows[:, None], 0)
        )
        assert np.array_equal(batch["struct.x"].numpy(), np.where(rows % 5, rows, 0))
        mask = "struct.x_valid" if nulls == "mask" else "struct_valid"
        assert np.array_equal(batch[mask].numpy(), rows % 5 != 0)
    assert sorted(np.concatenate(seen)) == list(range(ROWS))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Columns of two types with nulls, in row groups that end amid batches."""
    random = np.random.default_rng(6)
    columns = {}
    for kind, count in (("double", 26), ("byte", 9)):
        for number in range(count):
            nulls = random.random(30_000) < 0.1 if number % 2 else None
            values = pa.array(random.integers(-100, 100, 30_000), mask=nulls)
            columns[f"{kind}_{number}"] = values.cast(pa.float64() if kind == "double" else pa.int8())
    path = tmp_path_factory.mktemp("numbers") / "numbers.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=7001)
    return path, pa.table(columns)


@each_of("threads", [0, 2])
@each_of("lanes", [None, 3])
@each_of("batch_size", [3, 3000, 24_000])
def test_a_matrix_has_every_value_whenever_it_is_made_of_its_columns(
    numbers: tuple[Path, pa.Table], batch_size: int, lanes: int | None, threads: int
) -> None:
    path, table = numbers
    kinds = ("double", "byte")
    stack = {kind: [name for name in table.column_names if name.startswith(kind)] for kind in kinds}
    columns = [
        fr.stack(fr.col(*stack["double"]).mask_null(), name="double"),
        fr.stack(fr.col(*stack["byte"]).fill_null(7), name="byte"),
    ]
    how: dict[str, Any] = {"columns": columns, "lanes": lanes}
    # Of many batches, those around the end of the first row group.
    start, end = (6800, 7400) if batch_size == 3 else (0, 30_000)
    skip = [(0, start), (end, 30_000)]
    dataset = fr.ParquetDataset(path, batch_size=batch_size, tail="short", rows=~fr.Intervals(skip), **how)
    whole = {
        kind: np.stack([table[name].fill_null(0 if kind == "double" else 7) for name in names], axis=1)
        for kind, names in stack.items()
    }
    valid = np.stack([table[name].is_valid() for name in stack["double"]], axis=1)
    seen = []
    for batch in fr.Loader(dataset, threads=threads):
        rows = batch.rows()
        seen.append(rows)
        assert np.array_equal(batch["double_valid"].numpy(), valid[rows])
        assert np.array_equal(batch["double"].numpy(), whole["double"][rows]), "zeros under nulls"
        assert np.array_equal(batch["byte"].numpy(), whole["byte"][rows])
    assert sorted(np.concatenate(seen)) == list(range(start, end))
