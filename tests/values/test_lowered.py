"""Integers of 64 bits that lie near each other take less until a batch is ended, and come as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from support import thrift_writer as tw
from support.asked import asked, with_nulls
from support.each_of import each_of
from support.thrift_writer import MAX, NULL_COUNT, OLD_MAX, STATISTICS, statistics_of

ROWS, GROUP_ROWS, BATCH_SIZE = 3000, 1100, 256
FAR = 0x7A11_D00D_BEEF
"""A number that lies far from the others of its column."""
COLUMNS = ("id", "signed", "time", "least", "most", "constant", "huge", "rare", "low")
SMALL = ["id", "signed", "constant", "low"]
"""A null that is 0, or some other small number, lies near these as well."""
NEAR = [name for name in COLUMNS if name != "rare"]


def numbers(name: str) -> np.ndarray:
    rows = np.arange(ROWS)
    return {
        "id": rows,
        "signed": (rows - ROWS // 2) * (2**31 // ROWS),
        "time": 1_700_000_000_000 + 1000 * rows,
        "least": np.iinfo(np.int64).min + rows,
        "most": np.iinfo(np.int64).max - rows,
        "constant": np.full(ROWS, -7),
        "huge": (2**64 - 1 - rows.astype(np.uint64)).view(np.int64),
        "low": 3 * rows - 20,
        "rare": np.where(rows == GROUP_ROWS + 900, FAR, 1000 + rows),
    }[name]


def write(path: Path, with_nulls: bool, **how: Any) -> dict[str, pa.Array]:
    """A file of such columns, every second one with nulls; they are given as they were written."""
    nulls = np.random.default_rng(3).random((len(COLUMNS), ROWS)) < 0.1
    columns = {}
    for number, name in enumerate(COLUMNS):
        mask = nulls[number] if with_nulls and number % 2 else None
        values = numbers(name)
        columns[name] = pa.array(values.view(np.uint64) if name == "huge" else values, mask=mask)
    pq.write_table(pa.table(columns), path, row_group_size=GROUP_ROWS, **how)
    return columns


def expect(dataset: fr.ParquetDataset, columns: dict[str, pa.Array], fill: int) -> None:
    """Every batch has the numbers of its rows."""
    seen = 0
    for batch in dataset:
        rows = batch.rows()
        seen += len(rows)
        for field in dataset.schema.values():
            if field.kind == "mask":
                continue
            of_rows = [columns[name].take(pa.array(rows)) for name in field.columns]
            values = [column.fill_null(pa.scalar(fill, column.type)).to_numpy() for column in of_rows]
            found = batch[field.name].numpy()
            assert np.array_equal(found.reshape(len(rows), -1), np.stack(values, axis=1)), field.name
            if field.is_masked:
                valid = [column.is_valid().to_numpy(zero_copy_only=False) for column in of_rows]
                found = batch[f"{field.name}_valid"].numpy()
                assert np.array_equal(found.reshape(len(rows), -1), np.stack(valid, axis=1)), field.name
    assert seen == dataset.num_rows


@each_of("shuffle", [False, True])
@each_of("nulls", ["error", "mask", -5, 1_700_000_000_000])
@each_of("statistics", [True, False])
@each_of("dictionary", [True, False])
def test_numbers_are_what_they_were_near_each_other_or_far_apart(
    tmp_path: Path, shuffle: bool, nulls: Any, statistics: bool, dictionary: bool
) -> None:
    path = tmp_path / "near.parquet"
    how: dict[str, Any] = {"write_statistics": statistics, "use_dictionary": dictionary}
    columns = write(path, nulls != "error", **how)
    signed = [name for name in COLUMNS if name != "huge"]
    policy: Any = {**dict.fromkeys(signed, nulls), "huge": nulls if isinstance(nulls, str) else abs(nulls)}
    stacks: list[Any] = [
        None,
        {"all": signed},
        {"near": NEAR[:4], "far": ["rare", *NEAR[4:6]]},
        {"small": SMALL},
    ]
    fill = nulls if isinstance(nulls, int) else 0
    if fill < 0:
        stacks = stacks[1:]
    for stack in stacks:
        for skip in (None, [(0, 7), (500, 1500), (2000, 2001)]):
            dataset = fr.ParquetDataset(
                path,
                batch_size=BATCH_SIZE,
                **(
                    asked(policy)
                    if stack is None
                    else asked(dict.fromkeys([*signed, *stack], nulls), stack, signed)
                ),
                shuffle=shuffle,
                seed=3 if shuffle else None,
                rows=None if skip is None else ~fr.Intervals(skip),
                tail="short",
                lanes=1,
            )
            expect(dataset, columns, fill)


@each_of("shuffle", [False, True])
@each_of("dictionary", [True, False])
def test_a_footer_that_tells_too_little_of_a_column_changes_no_number(
    tmp_path: Path, shuffle: bool, dictionary: bool
) -> None:
    path = tmp_path / "wrong.parquet"
    columns = write(path, False, use_dictionary=dictionary)

    def tell_less(footer: tw.Struct) -> None:
        found = tw.chunk(footer, 1, COLUMNS.index("rare"))[STATISTICS].value
        for bound in (OLD_MAX, MAX):
            assert found[bound] == tw.binary(FAR.to_bytes(8, "little"))
            found[bound] = tw.binary((4000).to_bytes(8, "little"))

    tw.edit_footer(path, tell_less)
    metadata = pq.ParquetFile(path).metadata
    rare = [metadata.row_group(group).column(COLUMNS.index("rare")) for group in range(3)]
    assert [column.statistics.max for column in rare] == [2099, 4000, 3999]
    signed = [name for name in COLUMNS if name != "huge"]
    dataset = fr.ParquetDataset(
        path,
        batch_size=BATCH_SIZE,
        columns=fr.stack(*signed, name="all"),
        shuffle=shuffle,
        tail="short",
        lanes=1,
    )
    expect(dataset, columns, 0)


@each_of("nulls", ["mask", 5])
@each_of("shuffle", [False, True])
def test_a_footer_that_tells_of_no_nulls_changes_none(tmp_path: Path, shuffle: bool, nulls: Any) -> None:
    path = tmp_path / "nulls.parquet"
    values = 1_700_000_000_000 + np.arange(ROWS)
    null = np.arange(ROWS) % 7 == 1
    columns = {f"time_{number}": pa.array(values + number, mask=null) for number in range(5)}
    pq.write_table(pa.table(columns), path, row_group_size=ROWS)

    def tell_of_no_nulls(footer: tw.Struct) -> None:
        for column in range(5):
            found = statistics_of(footer, column)
            assert found[NULL_COUNT] == tw.i64(int(null.sum()))
            found[NULL_COUNT] = tw.i64(0)

    tw.edit_footer(path, tell_of_no_nulls)
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(number).statistics.null_count for number in range(5)] == [0] * 5
    how: dict[str, Any] = {
        "shuffle": shuffle,
        "tail": "short",
        "lanes": 1,
        "columns": fr.stack(with_nulls(fr.col("*"), nulls), name="all"),
    }
    dataset = fr.ParquetDataset(path, batch_size=BATCH_SIZE, **how)
    expect(dataset, columns, 0 if nulls == "mask" else nulls)
