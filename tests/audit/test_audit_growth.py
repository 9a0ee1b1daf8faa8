"""Where files came, the audit goes back to the states of the files that were there before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastresume.audit.verify import audit
from support.audits import Ranks, State, assert_proven, bodies, forge, found_in, text_of, write_bodies
from support.daily_jobs import DailyJob
from support.topologies import Shuffle

SHUFFLE = Shuffle(3, 5, 15)
ORDERS = pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])


class Days:
    """Files of days in a directory, and a job over them that is audited."""

    def __init__(self, directory: Path, shuffle: Shuffle | None = None) -> None:
        self.data, self.logs = directory / "data", directory / "logs"
        self._shuffle = shuffle
        self._rows = self._days = 0

    def add(self, rows: int) -> None:
        path = self.data / f"day={self._days:02}" / "part.parquet"
        path.parent.mkdir(parents=True)
        numbers = np.arange(self._rows, self._rows + rows)
        pq.write_table(pa.table({"id": numbers, "odd": numbers % 2}), path, row_group_size=7)
        self._rows += rows
        self._days += 1

    def ranks(self, world_size: int = 2, state: State | None = None, **how: object) -> Ranks:
        how = {"batch_size": 4, "tail": "pad", "on_change": "append", **how}
        return Ranks(self.data, self.logs, world_size, state=state, shuffle=self._shuffle, **how)


@pytest.fixture
def days(tmp_path: Path) -> Days:
    found = Days(tmp_path)
    found.add(50)
    return found


@ORDERS
@pytest.mark.parametrize("steps", [0, 3, None], ids=["at the start", "amid the pass", "at its end"])
def test_a_pass_is_proven_over_the_days_that_it_had(
    tmp_path: Path, shuffle: Shuffle | None, steps: int | None
) -> None:
    days = Days(tmp_path, shuffle)
    days.add(50)
    ranks = days.ranks()
    state = ranks.finish() if steps is None else ranks.steps(steps) if steps else None
    ranks.steps(2)  # lost with the kill
    days.add(33)
    state = days.ranks(3, state).steps(2)
    days.add(20)
    state = days.ranks(1, state).finish()
    said = assert_proven(days.logs, 1)
    before = (50 if steps is None else 8 * (steps or 0)) + 24
    assert f"pass 0: finished: 103 rows, each exactly once, {before} of them before files came" in said
    days.ranks(2, state).finish()
    assert "pass 1: finished: 103 rows, each exactly once; batches 0-12" in assert_proven(days.logs, 2)


def test_each_day_after_another_is_one_pass(days: Days) -> None:
    state = days.ranks().finish()
    for day in range(4):
        days.add(10 + day)
        state = days.ranks(1 + day % 3, state).finish()
    assert_proven(days.logs, 1)
    days.add(9)
    days.ranks(2, state).step()
    said = assert_proven(days.logs, 0)
    assert "pass 0: unfinished (99%): 104 rows, each exactly once, 96 of them before files came" in said


def test_files_that_came_twice_before_a_batch_are_gone_back_from_twice(days: Days) -> None:
    state = days.ranks().finish()
    for rows in (20, 10):
        days.add(rows)
        state = days.ranks(state=state).state
    days.ranks(3, state).finish()
    assert "finished: 80 rows, each exactly once, 50 of them before" in assert_proven(days.logs, 1)


@pytest.mark.parametrize("steps", [3, 7])
def test_files_without_rows_change_no_place(days: Days, steps: int) -> None:
    state = days.ranks().steps(steps)
    days.add(0)
    days.ranks(state=state).finish()
    passes = 1 if steps == 3 else 2  # the seventh batch ends the pass
    assert_proven(days.logs, passes)


def test_what_a_tail_dropped_before_stays_dropped_and_is_counted(days: Days) -> None:
    state = days.ranks(tail="drop").finish()
    days.add(30)
    days.ranks(state=state, tail="drop").finish()
    assert (
        "finished: 72 rows, each exactly once, 8 dropped by tail='drop', 48 of them before"
        in assert_proven(days.logs, 1)
    )


@ORDERS
@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
def test_what_tails_dropped_on_three_days_is_proven_by_the_order_of_each_day(
    tmp_path: Path, shuffle: Shuffle | None, tail: str
) -> None:
    days, state = Days(tmp_path, shuffle), None
    for rows in (50, 33, 21):
        days.add(rows)
        state = days.ranks(3, state, tail=tail).finish()
    assert_proven(days.logs, 1)
    path = max(days.logs.glob("rank-*"), key=lambda path: path.stat().st_mtime_ns)
    *others, last = bodies(path)
    write_bodies(path, [*others, last[:9] + bytes([last[9] ^ 1]) + last[10:]])  # a bit of its digest
    assert "the rows handed over are not those of their places" in found_in(days.logs)


def test_rows_that_are_selected_of_both_are_proven(days: Days) -> None:
    state = days.ranks(filter=[("odd", "==", 1)]).steps(2)
    days.add(31)
    days.ranks(3, state, filter=[("odd", "==", 1)]).finish()
    assert "finished: 40 rows, each exactly once, 16 of them before" in assert_proven(days.logs, 1)


def test_a_batch_that_is_missing_from_before_is_named(days: Days) -> None:
    state = days.ranks().steps(3)
    days.add(33)
    days.ranks(3, state).finish()
    assert_proven(days.logs, 1)
    path = next(path for path in days.logs.glob("rank-00001-of-00002-*"))
    write_bodies(path, bodies(path)[:-1])
    said = found_in(days.logs)
    assert "problem: pass 0, batch 2: rank 1 of 2 never delivered it" in said
    assert "problem: pass 0 was finished, but the logs do not show how" in said
    assert "no log leads to" not in said
    path.unlink()
    assert "never delivered it" in found_in(days.logs)


def test_logs_of_before_that_are_gone_leave_a_start_that_may_be_declared(days: Days) -> None:
    ended, state = days.ranks().finish(), days.ranks().steps(3)
    for path in days.logs.glob("rank-*"):
        path.unlink()
    days.add(33)
    days.ranks(3, state).finish()
    assert "starts from a state that no log leads to (pass 0)" in found_in(days.logs)
    assert "26 more on trust" not in found_in(days.logs)
    assert "59 rows, each exactly once" in assert_proven(days.logs, 1, state)
    for path in days.logs.glob("rank-*"):
        path.unlink()
    days.ranks(3, ended).finish()
    assert "finished: 33 rows, each exactly once; batches 0-2 on 3 ranks; 50 more" in assert_proven(
        days.logs, 1, ended
    )


@ORDERS
def test_a_row_of_before_in_the_place_of_a_new_one_is_seen(tmp_path: Path, shuffle: Shuffle | None) -> None:
    days = Days(tmp_path, shuffle)
    days.add(50)
    state = days.ranks(1).finish()
    days.add(33)
    ranks = days.ranks(1, state)

    def take_row_0(batch: SimpleNamespace) -> None:
        if batch.step == 2:
            batch.runs[0] = [0, batch.runs[0, 1] - batch.runs[0, 0]]

    forge(ranks.loaders[0], take_row_0)
    ranks.finish()
    said = found_in(days.logs)
    assert "the rows handed over are not those of their places" in said
    assert "batch 2, rank 0 of 1" in said


def test_files_that_are_not_the_first_ones_are_no_beginning(days: Days, tmp_path: Path) -> None:
    """As many rows in other files, of which a job has ended its pass, prove nothing of these."""
    other = Days(tmp_path / "other")
    other.add(20)
    other.add(30)
    other.logs = days.logs
    state = days.ranks().finish()
    other.ranks().finish()
    for path in days.logs.glob("rank-*"):
        path.unlink()
    other.ranks().finish()
    days.add(33)
    days.add(1)
    days.ranks(3, state).finish()
    assert "starts from a state that no log leads to (pass 0)" in found_in(days.logs)


def test_a_state_after_batches_of_more_files_is_none_of_fewer(days: Days) -> None:
    """The same numbers of batches of the files of before, under the same cuts, are other rows."""
    state = days.ranks().steps(3)
    days.ranks(3, state).steps(2)
    days.add(33)
    before = set(days.logs.glob("rank-*"))
    later = days.ranks(3, state).steps(2)
    for path in set(days.logs.glob("rank-*")) - before:
        path.unlink()
    days.ranks(1, later).finish()
    assert "starts from a state that no log leads to (pass 0)" in found_in(days.logs)


@given(data=st.data())
def test_any_chain_of_lives_and_days_is_proven(data: st.DataObject) -> None:
    shuffle = data.draw(st.sampled_from([None, SHUFFLE]))
    with tempfile.TemporaryDirectory() as name:
        days, state = Days(Path(name), shuffle), None
        for _ in range(data.draw(st.integers(1, 4), label="days")):
            days.add(data.draw(st.integers(0 if state else 1, 40), label="rows"))
            for _ in range(data.draw(st.integers(0, 2), label="lives")):
                world_size = data.draw(st.integers(1, 3), label="ranks")
                batch_size = data.draw(st.integers(1, 5), label="batch_size")
                ranks = days.ranks(world_size, state, batch_size=batch_size)
                for _ in range(data.draw(st.integers(0, 6), label="steps")):
                    ranks.step()
                state = ranks.state
                ranks.step(0)
        days.ranks(2, state).finish()
        report = audit(days.logs)
        assert report.problems == 0, text_of(report)
        assert sum(report.finished) >= 1, text_of(report)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(900)
def test_two_hundred_kills_of_a_job_over_days_are_proven(tmp_path: Path) -> None:
    job = DailyJob(tmp_path / "job", 11, saves_every=1)
    while job.kills < 200:
        job.run_day(kills=4, ends=job.chance.random() < 0.5)
    job.run_day(kills=0)
    job.assert_each_row_once()
    sizes = {topology.world_size for _, topology in job.lives}
    assert sizes == {1, 2, 3, 4}
    print(f"{job.kills} kills in {len(job.lives)} lives over {job.days} days, {job.rows} rows")
