"""The audit proves a mixture's job that was killed, and went on by other ranks, weights and files."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
import fastresume._core as _core
from fastresume.audit.axis import points_at
from fastresume.audit.place import Place
from fastresume.audit.ranges import union
from fastresume.audit.verify import audit
from fastresume.buffers import of_buffer
from fastresume.cli import main
from support.audits import assert_proven, bodies, found_in, log_of, text_of, write_bodies
from support.jobs import FEW

ORDER: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 10}
pytestmark = pytest.mark.filterwarnings("ignore:the pass ends here")


def write(root: Path, name: str, day: int, rows: range) -> None:
    path = root / name / f"day={day:02}" / "part.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": np.array(rows)}), path, row_group_size=7)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, rows in (("web", 96), ("code", 40), ("books", 24)):
        write(tmp_path / "data", name, 0, range(rows))
    return tmp_path / "data"


State = Mapping[str, str]


def mixture(root: Path, weights: Mapping[str, float], **how: Any) -> fr.Mixture:
    order = {**ORDER, **how.pop("order", {})}
    sources = {
        name: (fr.ParquetDataset(root / name, on_change="append", **order), weight)
        for name, weight in weights.items()
    }
    return fr.Mixture(sources, **{"batch_size": 4, "rank": 0, "world_size": 1, **how})


def life(
    root: Path,
    logs: Path,
    weights: Mapping[str, float],
    steps: int,
    state: State | None = None,
    world_size: int = 1,
    killed_after: int = 1,
    **how: Any,
) -> State:
    """Delivers so many global batches, and one more to some ranks; returns the state before that one."""
    ranks = [mixture(root, weights, rank=rank, world_size=world_size, **how) for rank in range(world_size)]
    loaders = [fr.Loader(rank, threads=0, audit=logs) for rank in ranks]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    iterators = [iter(loader) for loader in loaders]
    after = loaders[0].state_dict()
    done = 0
    while done < steps:
        batches = [next(iterator, None) for iterator in iterators]
        if batches[0] is None:
            iterators = [iter(loader) for loader in loaders]
            continue
        after, done = loaders[0].state_dict(), done + 1
    for iterator in iterators[: killed_after if world_size > 1 else 0]:
        next(iterator, None)
    for loader in loaders:
        loader.close()
    return after


TWO, THREE = {"web": 3, "code": 1}, {"web": 1, "code": 1, "books": 1}


def test_a_killed_elastic_job_of_other_weights_and_sources_is_proven(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5)
    state = life(root, logs, TWO, 3, state, world_size=2)
    state = life(root, logs, THREE, 4, state, world_size=3, batch_size=2)
    state = life(root, logs, {"code": 2, "books": 1}, 6, state)
    found = assert_proven(logs, 0)
    for words in (
        "mixture of web, code, books: 7 logs",
        "pass 0, stage 0: web 75.00%, code 25.00%: 44 rows, each exactly once",
        "batches 0-4 on 1 rank, 5-7 on 2 ranks",
        "pass 0, stage 1: web 33.33%, code 33.33%, books 33.33%: 24 rows, each exactly once",
        "batches 8-11 on 3 ranks",
        "pass 0, stage 2: code 66.67%, books 33.33%: 24 rows, each exactly once",
        "web: pass 0 unfinished (44%): 42 rows, each exactly once",
    ):
        assert words in found, found


def test_passes_of_sources_are_told_and_finished_ones_counted(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, THREE, 40)
    found = assert_proven(logs, 3)
    assert "books: passes 0-1 finished: 24 rows in each, each exactly once" in found, found
    assert "code: pass 0 finished: 40 rows, each exactly once" in found
    assert "web: pass 0 unfinished (56%): 54 rows" in found
    life(root, logs, THREE, 10, state, stages=[(40, {"web": 1})])
    assert "pass 3, stage 0" in assert_proven(logs, 3)


def test_passes_that_are_asked_for_name_the_source_that_lacks_them(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    life(root, logs, THREE, 40)
    assert main(["audit", str(logs), "--passes", "1"]) == 1
    assert "problem: --passes 1: 0 finished passes are proven of source 'web'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("steps", "ahead", "tail"),
    [(1, 1, "drop"), (1, 2, "short"), (3, 1, "pad"), (3, 2, "drop"), (5, 1, "short"), (5, 2, "pad")],
)
def test_ranks_that_were_ahead_when_killed_and_go_on_alike_are_proven(
    root: Path, tmp_path: Path, tail: str, ahead: int, steps: int
) -> None:
    """The batch of the dead run stands beside that of the next one: what follows is of the next one."""
    logs, how = tmp_path / "logs", {"world_size": 2, "tail": tail, "stages": [(60, {"web": 1})]}
    state = life(root, logs, TWO, steps, killed_after=ahead, **how)
    life(root, logs, TWO, 20, state, killed_after=ahead, **how)
    assert_proven(logs, 0, or_more=True)
    state = json.loads(json.dumps(state))
    life(root, logs, TWO, 3, state, killed_after=ahead, **how)
    path = log_of(logs, 1)
    write_bodies(path, [body for number, body in enumerate(bodies(path)) if number != steps])
    assert "problem: " in found_in(logs)


def test_a_source_that_grows_while_a_stage_leaves_it_out_is_proven(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 8, world_size=2)
    write(root, "web", 1, range(96, 130))
    how: dict[str, Any] = {"stages": [(24, {"code": 1})]}
    state = life(root, logs, {"code": 1}, 4, state)
    state = life(root, logs, THREE, 5, state, world_size=2, **how)
    life(root, logs, THREE, 60, state)
    assert_proven(logs, 2, or_more=True)
    path = log_of(logs, 0, 1)
    write_bodies(path, bodies(path)[:-1])
    assert "problem: " in found_in(logs)


@pytest.mark.parametrize("tail", ["pad", "short"])
def test_what_a_tail_fills_up_is_delivered_once(root: Path, tmp_path: Path, tail: str) -> None:
    logs = tmp_path / "logs"
    life(root, logs, THREE, 40, world_size=2, tail=tail, stop=30)
    assert_proven(logs, 0, or_more=True)


def test_stages_that_follow_in_time_are_named(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    how: dict[str, Any] = {"stages": [(20, {"web": 1}), (16, {"code": 1, "books": 1})], "stop": 24}
    state = life(root, logs, THREE, 7, **how)
    life(root, logs, THREE, 9, state, **how)
    found = assert_proven(logs, 0)
    assert "pass 0, stage 0: web 100.00%: 20 rows" in found, found
    assert "pass 1, stage 0: code 50.00%, books 50.00%: 16 rows" in found
    assert "pass 2, stage 0: web 33.33%, code 33.33%, books 33.33%: 24 rows" in found


def test_a_source_that_grows_is_proven(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 8)
    write(root, "web", 1, range(96, 130))
    state = life(root, logs, TWO, 5, state, world_size=2)
    write(root, "code", 1, range(40, 47))
    life(root, logs, {"code": 1, "web": 1}, 60, state)
    found = assert_proven(logs, 2, or_more=True)
    assert "web: pass 0 finished: 130 rows, each exactly once" in found, found
    assert "code: passes 0-1 finished: 47 rows in each, each exactly once" in found


def test_a_source_that_grew_where_no_log_saw_it_and_is_left_out_is_the_same_one(
    root: Path, tmp_path: Path
) -> None:
    """No description has its files as they are now: they come only after a batch of it."""
    logs = tmp_path / "logs"
    state = life(root, logs, {"books": 1}, 1)
    state = life(root, logs, {"books": 1, "code": 1}, 0, state)
    write(root, "books", 1, range(24, 25))
    state = life(root, logs, {"books": 1}, 0, state)
    life(root, logs, {"code": 1}, 1, state)
    assert "mixture of books, code: 2 logs" in assert_proven(logs, 0)


def test_a_pass_that_is_over_under_the_weights_that_a_job_resumes_with_is_proven(
    root: Path, tmp_path: Path
) -> None:
    """All rows of the one source that is left were given: the stage has none, and the next pass begins."""
    logs = tmp_path / "logs"
    state = life(root, logs, {"code": 1}, 11, stop=70)
    state = life(root, logs, {"books": 1, "code": 3}, 0, state)
    life(root, logs, {"code": 1}, 3, state, stop="all", tail="pad")
    found = assert_proven(logs, 0, or_more=True)
    assert "pass 0, stage 1: code 100.00%: 0 rows" in found, found
    assert "code: pass 0 finished: 40 rows, each exactly once" in found


def test_a_source_that_grew_between_passes_and_is_left_out_is_the_same_one(
    root: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, {"web": 1, "books": 1}, 1)
    state = life(root, logs, {"books": 1}, 11, state, stop="all")
    write(root, "web", 1, range(96, 100))
    state = life(root, logs, {"books": 1, "web": 1}, 0, state)
    life(root, logs, {"books": 1}, 1, state)
    assert_proven(logs, 0, or_more=True)


@FEW
@given(data=st.data())
def test_the_audit_counts_along_the_sources_as_the_core_does(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, logs = Path(directory) / "data", Path(directory) / "logs"
        rows = {name: data.draw(st.integers(20, 60)) for name in ("web", "code", "books")}
        for name, count in rows.items():
            write(root, name, 0, range(count))
        state, known = None, set[str]()
        for day in range(1, data.draw(st.integers(2, 5))):
            names = data.draw(st.permutations(sorted(rows)))[: data.draw(st.integers(1, 3))]
            # A new source beside one that is gone is refused: it may be the same under another name.
            names += sorted(known.difference(names)) if set(names) - known else []
            known.update(names)
            weights = {name: data.draw(st.integers(1, 3)) for name in names}
            stop, tail = (
                data.draw(st.sampled_from(some)) for some in (("first", "all", 70), ("drop", "pad"))
            )
            how: dict[str, Any] = {"stop": stop, "tail": tail, "world_size": data.draw(st.integers(1, 2))}
            state = life(root, logs, weights, data.draw(st.integers(0, 20)), state, batch_size=2, **how)
            cursor = fr.Cursor.from_state(state)._core
            own, axes = Place(cursor.to_json()), _core.Axes(cursor)
            assert [axis.total for axis in own.taken.values()] == _core.Axes.rows_taken(cursor)
            for number, name in enumerate(axes.names):
                if axes.weights[number]:
                    mine = points_at(own.axes[name], own.weights, number, np.array([[0, own.positions]]))
                    core = of_buffer(axes.points(number, 0, own.positions))
                    assert np.array_equal(union(mine), union(core))
            for name in data.draw(st.sets(st.sampled_from(sorted(rows)))):
                end = rows[name] + data.draw(st.integers(1, 20))
                write(root, name, day, range(rows[name], end))
                rows[name] = end
        if list(logs.glob("rank-*.log")):
            assert_proven(logs, 0, or_more=True)


def test_a_rank_whose_log_is_missing_is_named(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5, world_size=2)
    life(root, logs, THREE, 4, state)
    log_of(logs, 1).unlink()
    assert "pass 0, batch 0: rank 1 of 2 never delivered it" in found_in(logs)


def test_a_life_whose_logs_are_missing_is_a_state_that_no_log_leads_to(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5)
    log_of(logs, 0).unlink()
    life(root, logs, THREE, 4, state)
    assert "starts from a state that no log leads to (pass 0)" in found_in(logs)
    # On trust, what it says was taken is.
    fitted = json.loads(json.dumps(state))
    made = mixture(root, THREE)
    made.load_state_dict(fitted)
    found = assert_proven(logs, 0, made.state_dict())
    assert "web: 15 of these rows on trust, before the declared start" in found, found


class Cheating:
    """A reader that delivers the rows of the second batch in the fourth, too."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._second: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def front(self) -> Any:
        front = self._reader.front()
        if front is None or front.number not in (1, 3):
            return front
        self._second = self._second or front
        of_rows = {name: getattr(self._second, name) for name in ("memory", "written", "runs")}
        fields = [name for name in dir(front) if not name.startswith("_")]
        return SimpleNamespace(**{name: getattr(front, name) for name in fields} | of_rows)


def test_rows_that_are_not_those_of_their_places_are_found(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastresume.mixing.spec import MixtureSpec

    honest = MixtureSpec.reader

    def cheating(self: MixtureSpec, *given: Any) -> Any:
        return Cheating(honest(self, *given))

    monkeypatch.setattr(MixtureSpec, "reader", cheating)
    logs = tmp_path / "logs"
    life(root, logs, TWO, 8)
    report = audit(logs)
    assert report.problems == 1
    assert "pass 0: the rows handed over are not those of their places" in text_of(report)


def test_a_state_of_the_middle_begins_a_branch_and_the_longer_one_counts(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    early = life(root, logs, TWO, 3)
    life(root, logs, TWO, 4, early)
    life(root, logs, THREE, 9, early)
    found = assert_proven(logs, 0, or_more=True)
    assert "pass 0, stage 1: web 33.33%, code 33.33%, books 33.33%: 36 rows" in found, found


def test_a_state_that_forgets_what_was_delivered_is_found(root: Path, tmp_path: Path) -> None:
    """A core that lost a source's place at a change of weights would begin it again."""
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5)
    text = json.loads(state["fastresume"])
    made = mixture(root, THREE)
    begun = json.loads(made.state_dict()["fastresume"])
    # As many rows were taken, and others.
    wrong = json.loads(json.dumps(begun))
    wrong["order"]["sources"] = [
        [*source[:4], found]
        for source, found in zip(begun["order"]["sources"], ([10], [10], []), strict=True)
    ]
    assert text["order"]["weights"] == [3, 1]
    made.load_state_dict(checked(wrong))
    life(root, logs, THREE, 4, made.state_dict())
    assert "starts from a state that no log leads to (pass 0)" in found_in(logs)


def checked(state: dict[str, Any]) -> State:
    """The state, with its checksum."""
    found = {key: value for key, value in state.items() if key != "check"}
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    return {"fastresume": json.dumps({"check": f"{zlib.crc32(text.encode()):08x}", **found})}
