"""Seeds and sizes of the shuffled order: the cursor's before the defaults, and never silently others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import fields_of, make, make_reader, parallel, rows_of, text_of
from support.strategies import Dataset, DatasetSpec, plain_spec
from support.topologies import Shuffle

Write = Callable[[DatasetSpec], Dataset]

SHUFFLE = Shuffle(seed=17, block_rows=20, window_rows=45)


# --------------------------------------------------------------------------- seeds and sizes are the cursor's


def test_the_state_records_the_order_and_the_cursor_tells_it(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, **SHUFFLE.arguments)
    expected = {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 45}
    states = [dataset.state_dict(), *(batch.state_dict() for batch in dataset), dataset.state_dict()]
    for state in states:
        assert fields_of(state)["order"] == expected
        assert fr.Cursor.from_state(state).order == expected
    assert '"order":{"block_rows":20,"kind":"shuffled","seed":17,"window_rows":45}' in text_of(states[0])
    assert fr.Cursor.from_state(make(small_dataset).state_dict()).order == {"kind": "sequential"}


@each_of("named", [{}, {"seed": 17}, {"block_rows": 20}, {"window_rows": 45}, vars(SHUFFLE)])
@each_of("threads", [None, 2])
def test_what_is_not_named_is_the_loaded_states(
    small_dataset: Dataset, named: dict[str, int], threads: int | None
) -> None:
    first = make(small_dataset, **SHUFFLE.arguments)
    batches = [*first, *first]
    state = batches[3].state_dict()
    reader = make_reader(make(small_dataset, shuffle=True, **named), threads)
    reader.load_state_dict(state)
    assert reader.state_dict() == state
    assert rows_of([*reader, *reader]) == rows_of(batches[4:])
    reader.reset()
    assert fr.Cursor.from_state(reader.state_dict()).order == batches[0].cursor.order


@pytest.mark.law(9)
@each_of(
    ("named", "both"),
    [
        ({"seed": 3}, ["seed", "17", "3"]),
        ({"seed": 0}, ["seed", "17", "0"]),
        ({"block_rows": 10}, ["block_rows", "20", "10"]),
        ({"window_rows": 46}, ["window_rows", "45", "46"]),
        ({"seed": 17, "block_rows": 20, "window_rows": 44}, ["window_rows", "45", "44"]),
    ],
)
def test_what_is_named_and_differs_clashes_loudly(
    small_dataset: Dataset, named: dict[str, int], both: list[str]
) -> None:
    state = next(iter(make(small_dataset, **SHUFFLE.arguments))).state_dict()
    dataset = make(small_dataset, shuffle=True, **named)
    before = dataset.state_dict()
    for load in (dataset.load_state_dict, fr.Loader(dataset).load_state_dict):
        with pytest.raises(fr.StateError) as caught:
            load(state)
        for word in both:
            assert word in str(caught.value)
    assert dataset.state_dict() == before


@pytest.mark.law(9)
def test_another_kind_of_order_is_refused_and_both_are_named(small_dataset: Dataset) -> None:
    shuffled, plain = make(small_dataset, **SHUFFLE.arguments), make(small_dataset)
    states = shuffled.state_dict(), plain.state_dict()
    for dataset, state in (
        (shuffled, states[1]),
        (plain, states[0]),
        (make(small_dataset, seed=17), states[0]),
    ):
        before = dataset.state_dict()
        with pytest.raises(fr.StateError, match=r"(?s)shuffled.*sequential|sequential.*shuffled"):
            dataset.load_state_dict(state)
        assert dataset.state_dict() == before


@each_of(
    ("arguments", "error", "named"),
    [
        ({"block_rows": 10}, ValueError, ["block_rows", "shuffle=True"]),
        ({"window_rows": 10}, ValueError, ["window_rows", "shuffle=True"]),
        ({"shuffle": True, "block_rows": 11, "window_rows": 10}, ValueError, ["11", "10"]),
        ({"shuffle": True, "block_rows": 0}, ValueError, ["block_rows", "0"]),
        ({"shuffle": True, "window_rows": 0}, ValueError, ["window_rows", "0"]),
        ({"shuffle": True, "seed": -1}, ValueError, ["seed", "-1"]),
        ({"shuffle": True, "seed": 2**53}, ValueError, [str(2**53)]),
        ({"shuffle": True, "seed": 2**70}, ValueError, [str(2**70)]),
        ({"shuffle": True, "window_rows": 2**53}, ValueError, [str(2**53)]),
        ({"shuffle": True, "seed": 1.5}, TypeError, ["seed", "1.5"]),
        ({"shuffle": True, "seed": "x"}, TypeError, ["seed", "x"]),
        ({"shuffle": True, "seed": True}, TypeError, ["seed", "True"]),
        ({"shuffle": True, "block_rows": 2.0}, TypeError, ["block_rows", "2.0"]),
        ({"shuffle": 1}, TypeError, ["shuffle", "1"]),
        ({"shuffle": None}, TypeError, ["shuffle", "None"]),
        ({"shuffle": "yes"}, TypeError, ["shuffle", "yes"]),
        ({"seed": -1}, ValueError, ["seed", "-1"]),
        ({"seed": "x"}, TypeError, ["seed", "x"]),
    ],
)
def test_an_order_that_can_not_be_is_refused(
    small_dataset: Dataset, arguments: dict[str, Any], error: type[Exception], named: list[str]
) -> None:
    with pytest.raises(error) as caught:
        make(small_dataset, **arguments)
    for word in named:
        assert word in str(caught.value)


def test_numpys_integers_are_integers(small_dataset: Dataset) -> None:
    named = {name: np.int64(value) for name, value in vars(SHUFFLE).items()}
    dataset = make(small_dataset, shuffle=True, **named)
    assert dataset.state_dict() == make(small_dataset, **SHUFFLE.arguments).state_dict()


@pytest.mark.law(9)
@each_of(
    "order",
    [
        {"kind": "shuffled", "seed": 17, "block_rows": 20},
        {"kind": "shuffled", "seed": 17, "block_rows": 46, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 0, "window_rows": 45},
        {"kind": "shuffled", "seed": -1, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 2**53, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 2**53},
        {"kind": "shuffled", "seed": 17.0, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 45, "more": 1},
        {"kind": "Shuffled", "seed": 17, "block_rows": 20, "window_rows": 45},
        {"kind": "sequential", "seed": 17, "block_rows": 20, "window_rows": 45},
        {"seed": 17, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled"},
    ],
)
def test_a_state_with_an_order_that_can_not_be_is_refused(
    small_dataset: Dataset, order: dict[str, Any]
) -> None:
    for arguments in (SHUFFLE.arguments, {"shuffle": True}, {}):
        dataset = make(small_dataset, **arguments)
        before = dataset.state_dict()
        with pytest.raises(fr.StateError):
            dataset.load_state_dict({"fastresume": oracle.checked({**fields_of(before), "order": order})})
        assert dataset.state_dict() == before


# ---------------------------------------------------------------------------------------------- default sizes


def default_sizes(row_bytes: int, largest: int, window_rows: int | None = None) -> tuple[int, int]:
    """Rows of a block and of a window for rows of so many bytes and a largest row group of so many rows."""
    if window_rows is None:
        window_rows = max(1, (256 << 20) // row_bytes)
    part = max(window_rows // 16, min(32_768, window_rows // 8))
    return min(max(largest, min(8192, window_rows // 64), 1), max(part, 1)), window_rows


def sizes_of(dataset: fr.ParquetDataset) -> tuple[int, int]:
    """The sizes that the cursor of a dataset records."""
    order = fr.Cursor.from_state(dataset.state_dict()).order
    return order["block_rows"], order["window_rows"]


@each_of(
    ("groups", "text_bytes", "expected"),
    [
        ([4000, 13], 0, (8192, 2**28 // 16)),  # two columns of 8 bytes; a block has some rows at least
        ([9000, 10], 0, (9000, 2**28 // 16)),  # a block is a row group
        ([70_000], 300, (None, None)),  # a large row group is divided
        ([300], 5000, (None, None)),  # small ones are joined to a 64th of a window
        ([2000, 1], 40_000, (None, None)),  # an eighth of a window at most
        ([3], 2**20, (None, None)),
    ],
)
def test_the_default_sizes_follow_from_the_files(
    tmp_path: Path, groups: list[int], text_bytes: int, expected: tuple[int | None, int | None]
) -> None:
    """A column of text counts with its bytes and 8 of an offset, and with what it takes in the files."""
    second = ("text", pa.string()) if text_bytes else ("number", pa.int64())
    schema = pa.schema([("row", pa.int64()), second])
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as writer:
        for rows in groups:
            values = pa.array(["x" * text_bytes if text_bytes else 0] * rows)
            table = pa.table([pa.array(range(rows)), values], schema=schema)
            writer.write_table(table, row_group_size=rows)
    metadata = pq.read_metadata(path)
    held = sum(metadata.row_group(i).total_byte_size for i in range(len(groups))) // sum(groups)
    sizes = default_sizes(max(held, 8 + (text_bytes or 0) + 8), max(groups))
    for size, wanted in zip(sizes, expected, strict=True):
        assert wanted in (None, size)
    dataset = fr.ParquetDataset(tmp_path, batch_size=1, columns="row", shuffle=True, **parallel())
    assert sizes_of(dataset) == sizes


def test_small_values_count_with_the_bytes_of_their_type(write_dataset: Write) -> None:
    """A dictionary of one value takes almost nothing in the file, and 8 bytes a row when it is decoded."""
    path = write_dataset(plain_spec([1])).directory / "part-000.parquet"
    pq.write_table(pa.table({"a": [7] * 100_000, "b": [True] * 100_000, "c": ["x"] * 100_000}), path)
    dataset = fr.ParquetDataset(path, batch_size=1, columns="a", shuffle=True, **parallel())
    assert sizes_of(dataset) == default_sizes(8 + 1 + (1 + 8), 100_000)


def test_a_named_size_moves_the_other_ones_default(small_dataset: Dataset) -> None:
    def sizes(**named: int) -> tuple[int, int]:
        return sizes_of(make(small_dataset, shuffle=True, **named))

    block_rows, window_rows = sizes()
    for named in (1, 3, 4, 100, 30_000, window_rows, window_rows + 1):
        assert sizes(window_rows=named) == default_sizes(0, 40, named)
    assert sizes(window_rows=100) == (12, 100)  # an eighth
    assert sizes(block_rows=7) == (7, window_rows)
    assert sizes(block_rows=window_rows + 5) == (window_rows + 5, window_rows + 5)
    assert sizes(block_rows=9, window_rows=11) == (9, 11)
    assert sizes(block_rows=block_rows) == (block_rows, window_rows)


def test_the_default_sizes_know_nothing_of_columns_ranks_or_batches(small_dataset: Dataset) -> None:
    state = make(small_dataset, shuffle=True).state_dict()
    for arguments in (
        {"columns": ["row"]},
        {"batch_size": 3, **parallel(2, 4)},
        {"columns": ["*", "!i_*", fr.stack("i_*", name="dense")]},
        {"tail": "pad", "lanes": 10},
    ):
        assert make(small_dataset, shuffle=True, **arguments).state_dict() == state
