"""A source to which files come goes on as it does alone: none of its rows is lost or repeated."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.jobs import FEW

PLACE = {"web": 0, "code": 1_000_000}
ORDER: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 10}


def write(root: Path, name: str, day: int, rows: range) -> None:
    path = root / name / f"day={day:02}" / "part.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": np.array(rows) + PLACE[name]}), path, row_group_size=7)


def mixture(root: Path, weights: Mapping[str, float], **how: Any) -> fr.Mixture:
    order = ORDER if how.pop("shuffle", True) else {}
    sources = {
        name: (fr.ParquetDataset(root / name, on_change="append", **order), weight)
        for name, weight in weights.items()
    }
    return fr.Mixture(sources, **{"batch_size": 4, "rank": 0, "world_size": 1, **how})


Step = tuple[list[int], dict[str, str]]


def steps(ranks: list[Any], state: dict[str, str] | None, count: int) -> list[Step]:
    """So many global batches of the pass, or all that are left: the rows of each, and the state after it."""
    for rank in ranks:
        if state is not None:
            rank.load_state_dict(state)
    found: list[Step] = []
    iterators = [iter(rank) for rank in ranks]
    while len(found) < count:
        batches = [next(iterator, None) for iterator in iterators]
        assert len({batch is None for batch in batches}) == 1, "the ranks have different numbers of batches"
        made = [batch for batch in batches if batch is not None]
        if not made:
            break
        states = {json.dumps(batch.state_dict()) for batch in made}
        assert len(states) == 1
        found.append(([row for batch in made for row in batch["id"].tolist()], json.loads(states.pop())))
    return found


@pytest.mark.law(2)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("done", [2, 6, 12], ids=["amid the pass", "later", "at its end"])
def test_a_source_goes_on_as_it_does_alone(tmp_path: Path, shuffle: bool, done: int) -> None:
    order = ORDER if shuffle else {}
    write(tmp_path, "web", 0, range(48))
    alone: dict[str, str] | None = None
    mixed: dict[str, str] | None = None
    for day, count, world_size in ((1, done, 1), (2, 3, 2), (3, 100, 1), (4, 5, 2)):
        ranks = [{"rank": rank, "world_size": world_size} for rank in range(world_size)]
        web = [
            fr.ParquetDataset(tmp_path / "web", batch_size=4, on_change="append", **order, **rank)
            for rank in ranks
        ]
        own = steps(web, alone, count)
        found = steps(
            [mixture(tmp_path, {"web": 1}, shuffle=shuffle, **rank) for rank in ranks], mixed, count
        )
        assert [rows for rows, _ in found] == [rows for rows, _ in own]
        alone, mixed = own[-1][1], found[-1][1]
        write(tmp_path, "web", day, range(48 + 24 * (day - 1), 48 + 24 * day))


@pytest.mark.law(1)
@pytest.mark.filterwarnings("ignore:the pass ends here")
@FEW
@given(data=st.data())
def test_all_rows_of_a_file_come_equally_often_whatever_comes_behind_it(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        days = {name: [range(data.draw(st.integers(5, 60)))] for name in PLACE}
        for name, (rows,) in days.items():
            write(root, name, 0, rows)
        delivered: Counter[int] = Counter()
        state = None
        for day in range(1, data.draw(st.integers(2, 6))):
            names = data.draw(st.sampled_from((("web", "code"), ("web",), ("code", "web"))))
            weights = {name: data.draw(st.sampled_from((1, 3, 7))) for name in names}
            world_size = data.draw(st.integers(1, 3))
            how = {"batch_size": data.draw(st.sampled_from((1, 2))), "world_size": world_size}
            ranks = [mixture(root, weights, **how, rank=rank) for rank in range(world_size)]
            for taken, after in steps(ranks, state, data.draw(st.integers(0, 12))):
                delivered.update(taken)
                state = after
            for name in data.draw(st.sets(st.sampled_from(sorted(PLACE)))):
                end = days[name][-1].stop
                days[name].append(range(end, end + data.draw(st.integers(1, 30))))
                write(root, name, day, days[name][-1])
        # A pass of the mixture ends amid one of the source, so that two of these are under way at most.
        for name, each in days.items():
            for rows in each:
                times = [delivered[PLACE[name] + row] for row in rows]
                assert max(times) - min(times) <= 2
        # What is left of the present passes comes before any of it comes again.
        for taken, _ in steps(
            [mixture(root, {"web": 1, "code": 1}, stop="all", batch_size=1)], state, 10_000
        ):
            delivered.update(taken)
        assert all(
            delivered[PLACE[name] + row] for name, each in days.items() for rows in each for row in rows
        )


@pytest.mark.law(2)
def test_batches_before_and_after_a_day_are_found_again(tmp_path: Path) -> None:
    write(tmp_path, "web", 0, range(48))
    write(tmp_path, "code", 0, range(20))
    weights = {"web": 3, "code": 1}
    whole = steps([mixture(tmp_path, weights)], None, 4)
    write(tmp_path, "web", 1, range(48, 70))
    whole += steps([mixture(tmp_path, weights, lanes=2)], whole[-1][1], 3)
    write(tmp_path, "web", 2, range(70, 90))
    write(tmp_path, "code", 1, range(20, 30))
    whole += steps([mixture(tmp_path, {"web": 1, "code": 1})], whole[-1][1], 3)
    state = whole[-1][1]
    made = mixture(tmp_path, {"web": 1, "code": 1})
    made.load_state_dict(state)
    for step, (rows, after) in enumerate(whole):
        again = made.batch_at(0, step, state)
        assert again["id"].tolist() == rows
        # Its state is what it was, and goes on over all files that are there now.
        assert again.state_dict() == after
        other = mixture(tmp_path, weights)
        other.load_state_dict(again.state_dict())
        assert set(next(iter(other))["id"].tolist()).isdisjoint(
            row for earlier, _ in whole[: step + 1] for row in earlier
        )
    assert len(state["fastresume"]) < 1024


def test_a_source_that_may_not_grow_says_how_it_would(tmp_path: Path) -> None:
    write(tmp_path, "web", 0, range(20))
    made = mixture(tmp_path, {"web": 1})
    state = next(iter(made)).state_dict()
    write(tmp_path, "web", 1, range(20, 30))
    web = fr.ParquetDataset(tmp_path / "web", **ORDER)
    other = fr.Mixture({"web": (web, 1)}, batch_size=4, world=(0, 1))
    words = r"source 'web': the state is of another dataset: .*more files than then.*on_change='append'"
    with pytest.raises(fr.StateError, match=words):
        other.load_state_dict(state)
    write(tmp_path, "web", 0 - 1, range(20, 30))
    with pytest.raises(fr.StateError, match=r"source 'web': the state is of another dataset"):
        mixture(tmp_path, {"web": 1}).load_state_dict(state)
