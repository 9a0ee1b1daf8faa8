"""A resume seeks, it does not replay: what is read for the next batch does not depend on the position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of
from support.watching import bytes_read

ROWS_PER_GROUP = 20_000
GROUPS = 30
BATCH = 500


def state_at(dataset: fr.ParquetDataset, batches_done: int) -> fr.Cursor:
    consumed = {f"{dataset.paths[0]}:0": batches_done * BATCH - 1}
    return fr.Cursor.from_offsets(consumed, dataset, files=dataset.files)


@pytest.fixture(scope="module", params=["one row group", "many row groups"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = ROWS_PER_GROUP * GROUPS
    random = np.random.default_rng(0)
    columns = {f"f{index}": random.standard_normal(rows) for index in range(16)}
    path: Path = tmp_path_factory.mktemp("seek") / "data.parquet"
    group_rows = rows if request.param == "one row group" else ROWS_PER_GROUP
    table = pa.table({"row": np.arange(rows), **columns})
    pq.write_table(table, path, row_group_size=group_rows, use_dictionary=False, data_page_size=64 << 10)
    return path


@pytest.mark.law(12)
def test_the_bytes_read_for_the_next_batch_do_not_grow_with_the_position(path: Path) -> None:
    size = path.stat().st_size
    read = []
    for part in (0.0, 0.5, 0.99):
        dataset = fr.ParquetDataset(path, batch_size=BATCH)
        done = int(len(dataset) * part)
        dataset.load_state_dict(state_at(dataset, done))
        before = bytes_read()
        batch = next(iter(dataset))
        read.append(bytes_read() - before)
        assert batch.rows().tolist() == list(range(done * BATCH, (done + 1) * BATCH))
    # One segment at most, and the headers of what was skipped; a replay would read all that lies before.
    assert max(read) < 1.1 * read[0] + size * 0.05, f"{read} of {size}"


@each_of("tail", ["short", "pad"])
@each_of(("lanes", "times"), [(None, 1), (2, 1.4)])
def test_the_tail_is_read_with_the_rows_before_it(
    tmp_path: Path, tail: str, lanes: int, times: float
) -> None:
    """The dictionary and the only page of a row group are not read again for a few rows at its end.

    A second lane reads the page twice: its first batches come before its others.
    """
    values = np.random.default_rng(0).permutation(60_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet", dictionary_pagesize_limit=1 << 20)
    dataset = fr.ParquetDataset(tmp_path, batch_size=1024, tail=tail, lanes=lanes)  # type: ignore[arg-type]
    before = bytes_read()
    batches = list(dataset)
    read = bytes_read() - before
    assert sorted(np.concatenate([batch["x"][batch.valid] for batch in batches])) == list(range(60_000))
    size = (tmp_path / "x.parquet").stat().st_size
    assert times - 0.1 < read / size < times + 0.2


def test_parts_of_a_large_row_group_read_the_file_about_once(path: Path) -> None:
    """Neither the headers of all pages before a part are read again, nor much of what comes behind it."""
    size = path.stat().st_size
    # A block of 40,000 rows ends in the midst of a page of 8,192 at both ends.
    shuffled = {"shuffle": True, "block_rows": 40_000, "window_rows": 160_000}
    for arguments, most in (({}, 1.25), (shuffled, 1.6)):
        dataset = fr.ParquetDataset(path, batch_size=BATCH, tail="short", **arguments)  # type: ignore[arg-type]
        before = bytes_read()
        rows = np.concatenate([batch["row"] for batch in dataset])
        read = bytes_read() - before
        assert np.array_equal(np.sort(rows), np.arange(ROWS_PER_GROUP * GROUPS))
        assert 0.99 < read / size < most, f"{arguments}: {read} of {size}"


@pytest.mark.parametrize(
    "arguments", [{}, {"shuffle": True, "block_rows": 131_072}], ids=["sequence", "shuffled"]
)
def test_parts_of_a_row_group_read_its_dictionaries_once(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """Ten parts: to read dictionaries for each of them would be to read the file four times."""
    rows = 10 << 17
    values = np.random.default_rng(0).integers(0, 120_000, rows)
    columns = {f"x{index}": np.roll(values, index) for index in range(9, 18)}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=rows, compression="none")
    dataset = fr.ParquetDataset(path, batch_size=BATCH, tail="short", **arguments)
    before = bytes_read()
    for index, batch in enumerate(dataset):
        if not arguments and index % 100 == 0:
            assert np.array_equal(batch["x9"], columns["x9"][index * BATCH : (index + 1) * BATCH])
    read = bytes_read() - before
    assert 0.99 < read / path.stat().st_size < 1.4


def test_pages_of_lists_that_were_read_once_are_found_again(tmp_path: Path) -> None:
    """Headers of old pages do not tell how many rows lists make: those on the way to one are decompressed."""
    rows = 60_000
    values = np.arange(rows * 20)
    lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * 20, values)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": lists}), path, use_dictionary=False, data_page_size=16 << 10)
    # Forty blocks, each in a window of its own, in any order.
    order = {"shuffle": True, "block_rows": 1500, "window_rows": 1500}
    dataset = fr.ParquetDataset(path, batch_size=BATCH, tail="short", **order)  # type: ignore[arg-type]
    before = bytes_read()
    found = np.concatenate([batch["x"].values for batch in dataset])
    read = bytes_read() - before
    assert np.array_equal(np.sort(found), values)
    # Without it, each window would read half of the file, and some more.
    assert 0.99 < read / path.stat().st_size < 3


def test_codes_are_made_of_dictionaries_alone(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2000, 1_000_000).astype(str)
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet", row_group_size=200_000)
    before = bytes_read()
    dataset = fr.ParquetDataset(tmp_path, batch_size=BATCH, columns=["*", fr.col("x").codes()])
    read = bytes_read() - before
    assert len(dataset.dictionaries["x"]) == 2000
    assert read < (tmp_path / "x.parquet").stat().st_size * 0.4


@each_of("has_index", [False, True])
@each_of("version", ["1.0", "2.0"])
@each_of("codec", ["none", "snappy"])
def test_blocks_of_many_pages_have_their_rows_in_any_order(
    tmp_path: Path, codec: str, version: str, has_index: bool
) -> None:
    """Where pages of a block lie is told by those blocks of its row group that were read before."""
    random = np.random.default_rng(5)
    rows = 5000
    lengths = random.integers(0, 6, rows)
    table = pa.table(
        {
            "number": random.integers(0, 1 << 40, rows),
            "code": random.integers(0, 50, rows).astype(np.int32),
            "maybe": pa.array(random.standard_normal(rows), mask=random.random(rows) < 0.2),
            "list": pa.array(
                np.split(random.integers(0, 99, lengths.sum()), lengths.cumsum()[:-1]),
                mask=random.random(rows) < 0.1,
            ),
            "text": pa.array([f"row {row}" * (row % 3) for row in range(rows)]),
        }
    )
    pq.write_table(
        table,
        tmp_path / "x.parquet",
        row_group_size=2000,
        data_page_size=600,
        write_batch_size=64,
        data_page_version=version,  # type: ignore[arg-type]
        compression=codec,
        use_dictionary=["code", "text"],
        write_page_index=has_index,
    )
    dataset = fr.ParquetDataset(
        tmp_path,
        batch_size=100,
        tail="short",
        nulls="mask",
        shuffle=fr.Shuffle(block_rows=173, window_rows=900),
    )
    for _ in range(2):
        seen = []
        for batch in dataset:
            seen += batch.rows().tolist()
            expected = table.take(batch.rows())
            for name in ("number", "code", "maybe", "list", "text"):
                assert batch.to_arrow()[name].to_pylist() == expected[name].to_pylist()
        assert sorted(seen) == list(range(rows))
