"""Files that are added while a job goes on: what was left is left, and each new row comes once, behind it."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.each_of import each_of


def write(directory: Path, day: int, rows: int, first: int, group: int = 7) -> Path:
    path = directory / f"day={day:02}" / "part.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": np.arange(first, first + rows)}), path, row_group_size=group)
    return path


def opened(directory: Path, world: tuple[int, int] = (0, 1), **how: Any) -> fr.ParquetDataset:
    how = {"batch_size": 4, "tail": "pad", "on_change": "append", **how}
    return fr.ParquetDataset(directory, world=(world[0], world[1]), **how)


def steps(
    directory: Path, state: dict[str, str] | None, world_size: int, count: int | None, **how: Any
) -> tuple[list[int], dict[str, str], bool]:
    """So many global batches of the pass, all if None: their valid rows, the state, whether it ended."""
    given_rows: list[int] = []
    ranks = [opened(directory, (rank, world_size), **how) for rank in range(world_size)]
    for dataset in ranks:
        if state is not None:
            dataset.load_state_dict(state)
    iterators = [iter(dataset) for dataset in ranks]
    done = 0
    while count is None or done < count:
        batches = [next(iterator, None) for iterator in iterators]
        assert len({batch is None for batch in batches}) == 1, "the ranks have different numbers of batches"
        states = {str(batch.state_dict()) for batch in batches if batch is not None}
        if not states:
            return given_rows, ranks[0].state_dict(), True
        assert len(states) == 1
        for batch in batches:
            given_rows += batch["id"][batch.valid].tolist() if batch is not None else []
        done += 1
    return given_rows, ranks[0].state_dict(), False


@pytest.mark.law(2)
@each_of("shuffle", [False, True])
@each_of("done", [0, 1, 3, None])
def test_each_row_comes_once_where_a_day_is_added(tmp_path: Path, shuffle: bool, done: int | None) -> None:
    how = {"shuffle": shuffle, "block_rows": 5, "window_rows": 10} if shuffle else {}
    write(tmp_path, 0, 50, 0)
    first, state, _ = steps(tmp_path, None, 2, done, **how)
    write(tmp_path, 1, 33, 50)
    rest, after, ended = steps(tmp_path, state, 3, None, **how)
    assert ended
    assert Counter(first + rest) == Counter(range(83))
    # What was left of the first day comes before the new one in the order, and the next pass has all.
    again, _, _ = steps(tmp_path, after, 1, None, **how)
    assert Counter(again) == Counter(range(83))
    assert "generations" not in str(after)


def test_a_state_between_two_passes_goes_back_into_the_pass_that_was_done(tmp_path: Path) -> None:
    write(tmp_path, 0, 20, 0)
    _, state, ended = steps(tmp_path, None, 1, None)
    assert ended
    write(tmp_path, 1, 10, 20)
    dataset = opened(tmp_path)
    dataset.load_state_dict(state)
    assert dataset.epoch == 0
    assert dataset.remaining() == fr.Intervals([[20, 30]])
    assert [row for batch in dataset for row in batch["id"][batch.valid].tolist()] == list(range(20, 30))
    assert dataset.epoch == 1


def test_the_order_of_what_was_there_is_that_of_before(tmp_path: Path) -> None:
    how: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 10, "lanes": 1}
    write(tmp_path, 0, 48, 0)
    whole, _, _ = steps(tmp_path, None, 1, None, **how)
    first, state, _ = steps(tmp_path, None, 1, 5, **how)
    write(tmp_path, 1, 24, 48)
    rest, _, _ = steps(tmp_path, state, 1, None, **how)
    assert first + rest[:28] == whole
    assert sorted(rest[28:]) == list(range(48, 72))
    assert rest[28:] != list(range(48, 72))


def test_batches_are_found_again_by_their_steps_after_a_day_was_added(tmp_path: Path) -> None:
    how: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 10}
    write(tmp_path, 0, 48, 0)
    _, state, _ = steps(tmp_path, None, 1, 5, **how)
    write(tmp_path, 1, 24, 48)
    dataset = opened(tmp_path, **how)
    dataset.load_state_dict(state)
    assert dataset.plan().steps == 13
    batches = [(batch.step, batch["id"].tolist(), batch.state_dict()) for batch in dataset]
    last = batches[-2][2]
    other = opened(tmp_path, **how)
    for step, rows, _ in batches:
        assert other.batch_at(0, step, state=last)["id"].tolist() == rows


def test_growth_takes_few_bytes_of_a_state_and_they_go_with_the_pass(tmp_path: Path) -> None:
    write(tmp_path, 0, 48, 0)
    _, state, _ = steps(tmp_path, None, 1, 5)
    before = len(state["fastresume"])
    for day in range(1, 4):
        write(tmp_path, day, 24, 24 + 24 * day)
        dataset = opened(tmp_path)
        dataset.load_state_dict(state)
        next(iter(dataset))
        state = dataset.state_dict()
        assert len(state["fastresume"]) - before <= day * (24 + len(",[1,1,4,1]"))
        assert state.keys() == {"fastresume"}
        assert fr.Cursor.from_state(state).to_state() == state


def test_rows_and_filters_select_in_both(tmp_path: Path) -> None:
    how: dict[str, Any] = {"rows": fr.Split(0.0, 0.5), "filter": fr.col("id") != 7}
    write(tmp_path, 0, 60, 0)
    first, state, _ = steps(tmp_path, None, 1, 3, **how)
    write(tmp_path, 1, 60, 60)
    expected = set(opened(tmp_path, **how).selection.ravel().tolist())  # type: ignore[union-attr]
    assert expected
    rest, _, _ = steps(tmp_path, state, 2, None, **how)
    assert len(first + rest) == len(set(first + rest)) == opened(tmp_path, **how).num_rows


def test_files_that_do_not_come_behind_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, 5, 20, 0)
    _, state, _ = steps(tmp_path, None, 1, 2)
    new = write(tmp_path, 3, 10, 20)
    with pytest.raises(
        fr.StateError, match=r"1 file more than then, between those of the state: '.*day=03/part.parquet'"
    ):
        opened(tmp_path).load_state_dict(state)
    old = tmp_path / "day=05"
    how: dict[str, Any] = {"batch_size": 4, "tail": "pad", "on_change": "append", "world": (0, 1)}
    listed = fr.ParquetDataset([[old], [new]], **how)
    assert fr.ParquetDataset([[old], [], [new], []], **how).files == listed.files  # days without files
    with pytest.raises(ValueError, match="no path is given"):
        fr.ParquetDataset([[], []], **how)
    listed.load_state_dict(state)
    assert [Path(path).parent.name for path in listed.files] == ["day=05", "day=03"]
    assert sorted(row for batch in listed for row in batch["id"][batch.valid].tolist()) == list(range(8, 30))


def test_a_file_that_came_late_is_named_beside_those_of_a_new_day(tmp_path: Path) -> None:
    for day in (2, 5):
        write(tmp_path, day, 20, 20 * day)
    _, state, _ = steps(tmp_path, None, 1, 2)
    write(tmp_path, 1, 20, 0)
    for day in (7, 8):
        write(tmp_path, day, 20, 20 * day)
    named = r"3 files more than then, between .*'.*day=01/.*', and 2 after them: '.*day=07/.*day=08/"
    with pytest.raises(fr.StateError, match=named):
        opened(tmp_path).load_state_dict(state)


def test_a_state_of_fewer_files_says_what_is_new_and_what_to_write(tmp_path: Path) -> None:
    write(tmp_path, 0, 20, 0)
    _, state, _ = steps(tmp_path, None, 1, 2)
    for day in range(1, 6):
        write(tmp_path, day, 10, 10 + 10 * day)
    with pytest.raises(fr.StateError, match=r"5 files more than then.*day=01.*2 more.*on_change='append'"):
        opened(tmp_path, on_change="error").load_state_dict(state)


def test_files_that_are_gone_or_other_ones_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 0, 20, 0)
    gone = write(tmp_path, 1, 10, 20)
    _, state, _ = steps(tmp_path, None, 1, 2)
    gone.unlink()
    with pytest.raises(fr.StateError, match="10 rows fewer than then"):
        opened(tmp_path).load_state_dict(state)
    gone.parent.rmdir()
    write(tmp_path, 1, 10, 21)
    with pytest.raises(fr.StateError, match="as many rows as then, and other names, sizes or footers"):
        opened(tmp_path).load_state_dict(state)


def test_files_without_rows_that_came_between_are_named_with_the_others(tmp_path: Path) -> None:
    write(tmp_path, 1, 20, 0)
    write(tmp_path, 9, 20, 20)
    _, state, _ = steps(tmp_path, None, 1, 2)
    write(tmp_path, 3, 10, 40)
    for empty in (2, 4):
        write(tmp_path, empty, 0, 0)
    named = ", ".join(f".*day=0{day}/part.parquet'" for day in (2, 3, 4))
    with pytest.raises(fr.StateError, match=f"3 files more than then, between those of the state: '{named}"):
        opened(tmp_path).load_state_dict(state)


def test_the_same_files_in_another_order_are_told(tmp_path: Path) -> None:
    days = [write(tmp_path, day, 20, 20 * day) for day in range(3)]
    _, state, _ = steps(tmp_path, None, 1, 2)
    turned = fr.ParquetDataset([[day] for day in days[::-1]], batch_size=4, world=(0, 1))
    with pytest.raises(fr.StateError, match=r"the same files in another order.*sorted by their paths"):
        turned.load_state_dict(state)


def test_other_rows_of_the_same_files_are_told_where_files_came(tmp_path: Path) -> None:
    write(tmp_path, 0, 60, 0)
    _, state, _ = steps(tmp_path, None, 1, 2, rows=fr.Split(0.0, 0.5))
    for rows in (fr.Split(0.0, 0.6), None):
        with pytest.raises(
            fr.StateError, match=r"another selection of rows: .*name the same rows= and filter="
        ):
            opened(tmp_path, rows=rows).load_state_dict(state)
    write(tmp_path, 1, 60, 60)
    opened(tmp_path, rows=fr.Split(0.0, 0.5)).load_state_dict(state)
    for rows in (fr.Split(0.0, 0.6), None):
        with pytest.raises(
            fr.StateError, match="the first 1 of 2 files are those of the state, and other rows"
        ):
            opened(tmp_path, rows=rows).load_state_dict(state)


def test_places_in_the_files_dictionary_are_refused_under_append(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"city": ["a", "b"] * 10}), path)
    with pytest.raises(ValueError, match=r"fr\.col\('city'\)\.codes\(\) under on_change='append'"):
        opened(path, columns=[fr.col("city").codes()])
    opened(path, columns=[fr.col("city").codes(values=["a", "b"])])


def test_all_files_that_can_not_be_read_are_in_one_error(tmp_path: Path) -> None:
    for day in range(4):
        path = write(tmp_path, day, 10, 10 * day)
        if day % 2:
            path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(fr.DataError, match=r"can't read 2 files.*day=01/part.parquet', '.*day=03/part"):
        opened(tmp_path)


@pytest.mark.law(2)
@given(data=st.data())
def test_no_chain_of_topologies_and_new_files_loses_or_repeats_a_row(data: st.DataObject) -> None:
    how: dict[str, Any] = {}
    if data.draw(st.booleans(), label="shuffled"):
        how = {"shuffle": True, "block_rows": 3, "window_rows": 9, "seed": 5}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        total, state, ended = 0, None, False
        given_rows: Counter[int] = Counter()
        for day in range(data.draw(st.integers(1, 4), label="days")):
            rows = data.draw(st.integers(1, 40), label="rows")
            write(directory, day, rows, total)
            total += rows
            for _ in range(data.draw(st.integers(0, 3), label="runs")):
                world = data.draw(st.integers(1, 3), label="ranks")
                size = data.draw(st.integers(1, 5), label="batch_size")
                count = data.draw(st.integers(0, 6), label="steps")
                found, state, ended = steps(directory, state, world, count, batch_size=size, **how)
                given_rows.update(found)
                if ended or (state and fr.Cursor.from_state(state).epoch):
                    break
        if not ended and not (state and fr.Cursor.from_state(state).epoch):
            found, state, ended = steps(directory, state, 1, None, **how)
            given_rows.update(found)
        if fr.Cursor.from_state(state).epoch == 1 and fr.Cursor.from_state(state).num_rows == total:
            assert given_rows == Counter(range(total))
