"""Law 11: under `bad_rows="mask"` damage takes the rows that it has: no other row, step, order or state."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.amounts import plural
from support.each_of import each_of
from support.refusals import refused
from support.rotten_pages import FILE_ROWS, KINDS, Page, pages_of, rot, write_file

ORDERS: dict[str, dict[str, Any]] = {
    "sequential": {},
    "shuffled": {"shuffle": True, "seed": 3, "block_rows": 8, "window_rows": 32},
}
MASK: dict[str, Any] = {"bad_rows": fr.MaskBadRows(at_most=1.0)}


class Row(NamedTuple):
    """A row as it was delivered."""

    is_valid: bool
    values: dict[str, Any]


def open_dataset(path: Path | list[Path], **arguments: Any) -> fr.ParquetDataset:
    """A dataset of one rank, whose last batch is filled up."""
    return fr.ParquetDataset(
        path, **{"batch_size": 16, "tail": "pad", "rank": 0, "world_size": 1, **arguments}
    )


def rows_of(batches: Iterable[fr.Batch]) -> dict[int, Row]:
    """Each row by its number, copies that only fill up left out."""
    found: dict[int, Row] = {}
    for batch in batches:
        columns = {name: _listed(batch[name]) for name in batch}
        for place, number in enumerate(batch.rows().tolist()):
            if number not in found:
                row = {name: values[place] for name, values in columns.items()}
                found[number] = Row(bool(batch.valid[place]), row)
    return found


def _listed(value: Any) -> list[Any]:
    return value.to_list() if isinstance(value, fr.Jagged) else value.tolist()


def masked(rows: dict[int, Row]) -> list[int]:
    """The numbers of the rows that are not valid."""
    return sorted(number for number, row in rows.items() if not row.is_valid)


def order_of(batches: Iterable[fr.Batch]) -> list[tuple[list[int], dict[str, str]]]:
    """The rows of each batch, and the state after it."""
    return [(batch.rows().tolist(), batch.state_dict()) for batch in batches]


def check_page(whole: dict[int, Row], found: dict[int, Row], page: Page) -> None:
    """Only the rows of a page are masked, and only in its column are they others than they were."""
    assert masked(found) == list(page.rows)
    for number, (_, values) in found.items():
        expected = dict(whole[number].values)
        if number in page.rows:
            expected[page.column] = type(expected[page.column])()
        assert values == expected


PAGES = [
    (version, has_index, number)
    for version, has_index in KINDS
    for number in range(52)  # five pages of ten rows in five columns of two row groups, and two dictionaries
]


@each_of("order", ORDERS)
@each_of(("version", "has_index", "number"), PAGES[::9])
def test_of_a_rotten_page_just_its_rows_are_masked(
    tmp_path: Path, version: str, has_index: bool, number: int, order: str
) -> None:
    path = write_file(tmp_path / "data.parquet", version, has_index)
    whole = rows_of(open_dataset(path, **ORDERS[order]))
    expected = order_of(open_dataset(path, **ORDERS[order]))
    page = list(pages_of(path, version, has_index))[number]
    rot(path, page)
    dataset = open_dataset(path, **ORDERS[order], **MASK)
    check_page(whole, rows_of(dataset), page)
    assert order_of(open_dataset(path, **ORDERS[order], **MASK)) == expected, "no row moves, and no state"


READERS: dict[str, Callable[[fr.ParquetDataset], Iterable[fr.Batch]]] = {
    "alone": lambda dataset: dataset,
    "threads": lambda dataset: fr.Loader(dataset, threads=3),
    "workers": lambda dataset: fr.Loader(dataset, num_workers=2),
    "torch": lambda dataset: DataLoader(dataset, batch_size=None, num_workers=2),
}


@pytest.mark.slow  # 208 pages, each read four ways in two orders, with processes: minutes
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("version", "has_index"), KINDS)
def test_of_each_page_that_rots_just_its_rows_are_masked(
    tmp_path: Path, version: str, has_index: bool, reader: str
) -> None:
    path = write_file(tmp_path / "whole.parquet", version, has_index)
    whole = rows_of(open_dataset(path))
    rotten = tmp_path / "rotten.parquet"
    pages = list(pages_of(path, version, has_index))
    assert len(pages) == 52
    for page, how in itertools.product(pages, ORDERS.values()):
        shutil.copy(path, rotten)
        rot(rotten, page)
        check_page(whole, rows_of(READERS[reader](open_dataset(rotten, **how, **MASK))), page)


@each_of("reader", READERS)
def test_damage_is_masked_by_threads_and_workers(tmp_path: Path, reader: str) -> None:
    path = write_file(tmp_path / "data.parquet", "2.0", has_index=False)
    whole = rows_of(open_dataset(path))
    page = list(pages_of(path, "2.0", has_index=False))[30]
    rot(path, page)
    check_page(whole, rows_of(READERS[reader](open_dataset(path, **MASK))), page)


@each_of(("version", "has_index"), KINDS)
@each_of("number", [0, 3, 8, 16, 17, 24])  # of numbers, codes and lists; 0 and 16 begin a chunk
def test_a_page_whose_header_is_gone_takes_what_nothing_tells_of(
    tmp_path: Path, version: str, has_index: bool, number: int
) -> None:
    path = write_file(tmp_path / "data.parquet", version, has_index)
    whole = rows_of(open_dataset(path))
    page = list(pages_of(path, version, has_index))[number]
    data = bytearray(path.read_bytes())
    data[page.header : page.start] = b"\xff" * (page.start - page.header)
    path.write_bytes(data)
    found = rows_of(open_dataset(path, **MASK))
    # The index tells where the next page begins; without it nothing does up to the end of the row group.
    first, rest = page.rows.start, range(page.rows.start, 50)
    if not has_index and page.column in ("list", "texts") and version == "2.0":
        rest = range(max(first - 1, 0), 50)  # nor that the row before has ended
    check_page(whole, found, page if has_index else page._replace(rows=rest))


@pytest.mark.parametrize("order", ORDERS)
def test_files_that_went_or_were_cut_off_are_masked_whole(tmp_path: Path, order: str) -> None:
    paths = [write_file(tmp_path / f"{name}.parquet", "1.0", has_index=False) for name in "abc"]
    dataset = open_dataset(tmp_path, **ORDERS[order], **MASK)
    whole = rows_of(open_dataset(tmp_path))
    paths[0].unlink()
    paths[2].write_bytes(paths[2].read_bytes()[:-100])
    found = rows_of(dataset)
    assert masked(found) == [*range(FILE_ROWS), *range(2 * FILE_ROWS, 3 * FILE_ROWS)]
    empty = {name: type(value)() for name, value in whole[0].values.items()}
    for number, row in found.items():
        assert row.values == (whole[number].values if row.is_valid else empty)


def test_all_that_columns_can_become_is_masked(tmp_path: Path) -> None:
    path = write_file(tmp_path / "data.parquet", "1.0", has_index=True)
    columns = [
        fr.stack("x", "code", name="matrix"),
        fr.col("text").hash(100).alias("bucket"),
        fr.col("text").codes([f"text {row}" for row in range(FILE_ROWS)]).alias("place"),
        fr.col("list").pad(4, value=-1).alias("padded"),
        fr.col("list").fixed(3).alias("fixed"),
        fr.col("x").mask_null().alias("may"),
    ]
    for page in list(pages_of(path, "1.0", has_index=True))[2::7]:
        rotten = Path(shutil.copy(path, tmp_path / "rotten.parquet"))
        rot(rotten, page)
        for how in ORDERS.values():
            whole = rows_of(open_dataset(path, columns=columns, **how))
            found = rows_of(open_dataset(rotten, columns=columns, **how, **MASK))
            is_read = page.column in ("x", "code", "text", "list")
            assert masked(found) == (list(page.rows) if is_read else [])
            assert all(found[number] == whole[number] for number in whole if number not in page.rows)
        rotten.unlink()


@pytest.fixture
def rotten(tmp_path: Path) -> Path:
    """A file of whose numbers the rows 20 to 29 can't be read."""
    path = write_file(tmp_path / "data.parquet", "1.0", has_index=False)
    rot(path, list(pages_of(path, "1.0", has_index=False))[2])
    return path


def test_damage_is_counted_and_logged_once_each(rotten: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "fastresume")
    loader = fr.Loader(open_dataset(rotten, batch_size=8, **MASK))
    for _ in range(2):
        assert masked(rows_of(loader)) == list(range(20, 30))
    assert loader.stats()["masked_rows"] == 20
    assert "masked_rows=20" in repr(loader.stats())
    (said,) = (record.getMessage() for record in caplog.records if "masked" in record.getMessage())
    for words in ("rows [20, 30) of row group 0", str(rotten), "column 'x'", "checksum"):
        assert words in said


def test_a_run_over_the_bound_ends_with_the_error_and_goes_on_once_the_file_is_mended(rotten: Path) -> None:
    mended = write_file(rotten.with_name("whole"), "1.0", has_index=False)
    expected = rows_of(open_dataset(mended))
    dataset = open_dataset(rotten, batch_size=8, bad_rows=fr.MaskBadRows(at_most=6))
    found, batches = {}, iter(dataset)
    for _ in range(3):  # rows 20 to 23 are in the third
        found.update(rows_of([next(batches)]))
    state = dataset.state_dict()
    for _ in range(2):
        with refused(fr.DataError, "bad_rows= allows 6", "has 10", "rows [20, 30)", rotten, "checksum"):
            next(batches)
        assert dataset.state_dict() == state
    rotten.write_bytes(mended.read_bytes())
    found.update(rows_of(batches))
    assert masked(found) == [20, 21, 22, 23]
    again = open_dataset(rotten, batch_size=8)
    again.load_state_dict(state)
    rest = rows_of(again)
    assert rest == {number: row for number, row in expected.items() if number >= 24}


def test_a_state_of_a_run_that_died_on_a_page_goes_on_under_mask(rotten: Path) -> None:
    groups = rotten.with_name("groups")
    groups.mkdir()
    write_file(groups / "a.parquet", "1.0", has_index=False)
    shutil.copy(rotten, groups / "b.parquet")
    dataset, found = open_dataset(groups, batch_size=8), {}
    batches = iter(dataset)
    with refused(fr.DataError, "checksum", groups / "b.parquet"):
        while True:
            found.update(rows_of([next(batches)]))
    assert found
    again = open_dataset(groups, batch_size=8, **MASK)
    again.load_state_dict(dataset.state_dict())
    found.update(rows_of(again))
    assert sorted(found) == list(range(2 * FILE_ROWS))
    assert masked(found) == list(range(FILE_ROWS + 20, FILE_ROWS + 30))


@pytest.mark.parametrize(("bound", "rows"), [(7, 7), (0, 0), (0.05, 5), (0.29, 29), (1.0, 100)])
def test_plan_tells_the_bound(rotten: Path, bound: float, rows: int) -> None:
    plan = open_dataset(rotten, bad_rows=fr.MaskBadRows(at_most=bound)).plan()
    assert plan.max_bad_rows == rows
    assert f"at most {plural(rows, 'row')} of" in repr(plan)
    assert open_dataset(rotten).plan().max_bad_rows is None


def test_the_bound_is_a_thousandth_if_none_is_named(rotten: Path) -> None:
    with refused(fr.DataError, "allows 0", "has 10"):
        list(open_dataset(rotten, bad_rows="mask"))


def test_the_bound_counts_each_pass(rotten: Path) -> None:
    dataset = open_dataset(rotten, bad_rows=fr.MaskBadRows(at_most=10))
    for _ in range(3):
        assert masked(rows_of(dataset)) == list(range(20, 30))


def test_a_batch_is_masked_where_it_is_read_again_and_rows_by_number_are_an_error(rotten: Path) -> None:
    dataset = open_dataset(rotten, **MASK)
    for step, batch in enumerate(list(dataset)):
        assert dataset.batch_at(0, step).valid.tolist() == batch.valid.tolist()
    with refused(fr.DataError, "checksum", rotten):
        dataset.read_rows([25])
    assert dataset.read_rows([35])["x"].tolist() == [36]


@pytest.mark.parametrize("order", ORDERS)
def test_damage_stays_where_it_is_while_files_come_and_ranks_change(tmp_path: Path, order: str) -> None:
    """Each row of three days comes once over all lives, and of each day just the rotten page is masked."""
    how: dict[str, Any] = {**ORDERS[order], **MASK, "on_change": "append"}
    state: dict[str, str] | None = None
    found: dict[int, Row] = {}
    rotten: list[int] = []
    for day, world_size in enumerate((3, 2, 1)):
        path = write_file(tmp_path / f"day-{day}.parquet", "2.0", True, first=day * FILE_ROWS)
        page = list(pages_of(path, "2.0", True))[7 * day]
        rot(path, page)
        rotten += [row + day * FILE_ROWS for row in page.rows]
        steps, batch_size = (None if day == 2 else 3 + day), 5 + day
        ranks = [
            open_dataset(tmp_path, **how, batch_size=batch_size, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for dataset in ranks:
            if state is not None:
                dataset.load_state_dict(state)
        for dataset in ranks:
            batches = list(itertools.islice(dataset, steps))
            given = rows_of(batches)
            assert not found.keys() & given.keys()
            found |= given
            state = batches[-1].state_dict()
    assert sorted(found) == list(range(3 * FILE_ROWS))
    assert masked(found) == sorted(rotten)
    assert all(row.values["x"] == number + 1 for number, row in found.items() if row.is_valid)


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
def test_what_a_rule_refuses_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": pa.array([1, None, 300]), "l": [[1], [1, 2], [3]]}), path)
    for columns, words in [
        (["x"], "null"),
        ([fr.col("x").fill_null(0).cast(torch.uint8)], "300"),
        ([fr.col("l").pad(1)], "2 elements"),
        ([fr.col("l").fixed(1)], "2 elements"),
    ]:
        with refused(fr.DataError, words):
            list(open_dataset(path, columns=columns, batch_size=3, **MASK))


def test_a_file_that_changes_while_it_is_read_is_no_damage(rotten: Path) -> None:
    batches = iter(open_dataset(rotten, batch_size=8, **MASK))
    next(batches)
    rotten.write_bytes(rotten.read_bytes())
    with refused(fr.SourceError, "changed"):
        list(batches)


@pytest.mark.parametrize("bound", [True, "1", -1, 1.5, -0.1, float("nan")])
def test_a_bound_that_is_none_is_refused(rotten: Path, bound: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"at_most of fr\.MaskBadRows"):
        fr.MaskBadRows(at_most=bound)
