"""The cursor as a typed value: golden texts that are read for ever, equality, pickling."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import _core
from fastresume.buffers import of_buffer
from golden import make_cursors
from support import oracle
from support.each_of import each_of
from support.jobs import fields_of, oracle_job, parallel, text_of
from support.strategies import Dataset
from support.topologies import TAILS, chains, orders

GOLDEN = Path(__file__).parents[1] / "golden"
CURSORS = json.loads((GOLDEN / "cursors.json").read_text())


def cursor_of(text: str) -> fr.Cursor:
    return fr.Cursor.from_state({"fastresume": text})


def read(paths: object, batch_size: int = 1, **arguments: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(paths, batch_size=batch_size, **{**parallel(), **arguments})  # type: ignore[arg-type]


def tuples(intervals: np.ndarray) -> list[oracle.Interval]:
    assert intervals.dtype == np.int64
    assert intervals.shape == (len(intervals), 2)
    return [(start, end) for start, end in intervals.tolist()]


# --------------------------------------------------------------------------------------------- golden cursors


@pytest.mark.slow
def test_the_oracle_still_says_what_the_golden_cursors_say() -> None:
    assert (GOLDEN / "cursors.json").read_text() == make_cursors.as_text(make_cursors.golden())


@pytest.mark.law(9)
@each_of("golden", CURSORS)
def test_a_golden_cursor_means_what_it_meant(golden: dict[str, Any]) -> None:
    cursor = cursor_of(golden["text"])
    assert text_of(cursor.to_state()) == golden["text"]
    assert tuples(cursor.remaining()) == [tuple(pair) for pair in golden["remaining"]]
    assert (cursor.epoch, cursor.num_rows) == (golden["epoch"], golden["rows"])
    left = sum(end - start for start, end in golden["remaining"])
    assert cursor.consumed_rows == golden["rows"] - left
    core = cursor._core
    assert (core.first_epoch, core.steps) == (golden["first_epoch"], golden["steps"])
    assert core.fingerprint == golden["fingerprint"]
    fields = json.loads(golden["text"])
    assert (core.values(), core.order) == (fields, fields["order"])
    assert core.cuts == [tuple(cut) for cut in fields["cuts"]]


@pytest.mark.law(3)
@each_of("golden", CURSORS)
def test_a_golden_cursor_goes_on_as_it_did(golden: dict[str, Any]) -> None:
    """Under its own cut and under others: the batches left, the rest after them, and the next batch."""
    cursor, fields = cursor_of(golden["text"]), json.loads(golden["text"])
    for plan in golden["plans"]:
        cut = plan["cut"]
        planned = _core.Pass(cursor._core, tuple(cut), "drop", 1)
        assert (planned.batches_left, planned.rest) == (plan["batches"], plan["rest"])
        if plan["batches"] == 0:
            continue
        done = planned.batches - planned.batches_left
        expected = [tuple(pair) for pair in plan["next"]]
        assert oracle.intervals_of(oracle.positions_of(of_buffer(planned.positions(done, 0)))) == expected
        if plan["batches"] < 2:
            continue  # after the last batch it is the next pass
        *before, last = fields["cuts"] or [[*cut, 0]]
        cuts = [*before, [*cut, last[3] + 1]] if last[:3] == cut else [*before, last, [*cut, 1]]
        # With the first batch that follows, the state of an earlier release gets the count that it lacks.
        earlier = planned.global_step_of(0) - planned.step_of(0)
        assert fields.get("earlier_batches", earlier) == earlier
        after = cursor_of(oracle.checked({**fields, "cuts": cuts, "earlier_batches": earlier}))
        assert planned.cursor_after(done + 1) == after._core
        gone = np.setdiff1d(positions(cursor), positions(after)).tolist()
        assert oracle.intervals_of(gone) == expected
        assert after.consumed_rows == cursor.consumed_rows + len(gone)


def positions(cursor: fr.Cursor) -> np.ndarray:
    return np.array(oracle.positions_of(cursor.remaining().tolist()), dtype=np.int64)


@pytest.mark.law(9)
def test_the_fingerprint_of_a_golden_dataset_is_what_it_was() -> None:
    """Whatever changes a fingerprint makes every state of that dataset foreign."""
    dataset = read(GOLDEN / "dataset")
    assert [os.path.relpath(file, GOLDEN / "dataset") for file in dataset.files] == [
        "day=2/part-0.parquet",
        "part-0.parquet",
        "part-1.parquet",
    ]
    assert dataset.num_rows == 9
    assert dataset.fingerprint == "bd102a10b3dda4a44bbc2df912de90c7"


# -------------------------------------------------------------------------------------------------- the value


@given(rows=st.integers(1, 80), data=st.data())
def test_a_cursor_says_what_the_oracle_says(rows: int, data: st.DataObject) -> None:
    """Of the states of whole chains, in both orders, with named lanes and groups, and under all tails."""
    state = None
    shuffle = data.draw(orders(rows))
    for leg in data.draw(chains(rows, max_legs=5, tails=TAILS)):
        job = oracle_job(rows, leg.topology, "0" * 32, shuffle)
        if state is not None:
            job.load(state)
        for _ in range(leg.kept):
            job.step()
        state = job.state()
        cursor, fields = cursor_of(state), json.loads(state)
        left = oracle.replay(rows, fields["consumed"], fields["cuts"])
        assert text_of(cursor.to_state()) == state
        assert tuples(cursor.remaining()) == oracle.intervals_of(left)
        assert (cursor.epoch, cursor.num_rows, cursor.consumed_rows) == (job.epoch, rows, rows - len(left))
        planned = _core.Pass(cursor._core, tuple(job.cut), job.tail, job.world_size)
        assert (planned.batches_left, planned.rest) == (job.batches_left, job.rest)


def test_cursors_are_values(small_dataset: Dataset) -> None:
    one, two, three = itertools.islice(read(small_dataset.directory, 10), 3)
    assert one.cursor == one.cursor == cursor_of(text_of(one.state_dict()))
    assert hash(one.cursor) == hash(cursor_of(text_of(one.state_dict())))
    assert one.cursor != two.cursor
    assert len({one.cursor, two.cursor, three.cursor, one.cursor}) == 3
    assert one.cursor != one.state_dict()
    assert one.cursor != None  # noqa: E711  (it is `!=` that is tested)
    for copied in (
        copy.copy(two.cursor),
        copy.deepcopy(two.cursor),
        pickle.loads(pickle.dumps(two.cursor)),
        fr.Cursor.from_state(two.cursor),
        fr.Cursor.from_state(two.cursor.to_state()),
        fr.Cursor.from_state(fields_of(two.state_dict())),
    ):
        assert type(copied) is fr.Cursor
        assert copied == two.cursor
        assert hash(copied) == hash(two.cursor)
        assert copied.to_state() == two.state_dict()


@each_of("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_cursor_survives_every_pickle_protocol(small_dataset: Dataset, protocol: int) -> None:
    cursor = next(iter(read(small_dataset.directory, 10))).cursor
    assert pickle.loads(pickle.dumps(cursor, protocol)) == cursor


def test_a_cursor_can_not_be_changed(small_dataset: Dataset) -> None:
    cursor = read(small_dataset.directory, 10)._shared_cursor.cursor
    with pytest.raises(AttributeError):
        cursor.epoch = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        fr.Cursor(cursor).epoch = 3  # type: ignore[misc]


def test_the_repr_says_where_it_is(small_dataset: Dataset) -> None:
    dataset = read(small_dataset.directory, 10)
    cursor = list(itertools.islice(dataset, 3))[2].cursor
    assert repr(cursor) == (
        f"Cursor(epoch=0, consumed_rows=30 of 103 (29.1%), step=3, sequential, "
        f"dataset={dataset.fingerprint[:8]})"
    )


def test_what_is_left_is_the_users_own_array(small_dataset: Dataset) -> None:
    cursor = next(iter(read(small_dataset.directory, 10))).cursor
    left = cursor.remaining()
    assert left.tolist() == [[10, 103]]
    left[:] = 0
    assert cursor.remaining().tolist() == [[10, 103]]


def test_the_start_of_the_cursor_is_that_of_the_dataset(small_dataset: Dataset) -> None:
    dataset = read(small_dataset.directory, 10)
    cursor = fr.Cursor.from_state(dataset.state_dict())
    assert (cursor.epoch, cursor.consumed_rows, cursor.num_rows) == (0, 0, 103)
    assert cursor.remaining().tolist() == [[0, 103]]
