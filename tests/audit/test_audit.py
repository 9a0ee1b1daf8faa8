"""The audit proves the lives of a job, whatever killed it and how it was resumed; by chance, too."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.audit.log_format import START, read_log, state_hash
from fastresume.audit.verify import audit
from fastresume.cli import main
from support.audits import (
    ORDERS,
    ROWS,
    SHUFFLE,
    Ranks,
    State,
    assert_proven,
    bodies,
    found_in,
    log_of,
    write_bodies,
)
from support.jobs import FEWER
from support.killed_ranks import Pipes, go, run_ranks
from support.strategies import plain_spec, written
from support.topologies import TAILS, Shuffle, chains, orders

# ------------------------------------------------------------------------------------------- what is proven


@ORDERS
@pytest.mark.parametrize("tail", TAILS)
def test_lives_of_many_topologies_are_proven(
    data: Path, logs: Path, shuffle: Shuffle | None, tail: str
) -> None:
    state = None
    for world_size, batch_size, kept, lost in ((2, 7, 9, 3), (3, 11, 5, 1), (1, 8, 30, 0), (2, 6, 20, 2)):
        ranks = Ranks(data, logs, world_size, batch_size, state=state, shuffle=shuffle, tail=tail)
        state = ranks.steps(kept)
        ranks.steps(lost)
        ranks.step(0)  # the kill comes before the other ranks have their batch
    ranks = Ranks(data, logs, 2, 13, state=state, shuffle=shuffle, tail=tail)
    ranks.finish()
    ranks.finish()
    ranks.steps(4)
    said = assert_proven(logs, 2)
    assert "; batches 0-8 on 2 ranks, 9-13 on 3 ranks, 14-43 on 1 rank, 44-" in said
    assert "pass 2: unfinished (9%): 104 rows, each exactly once; batches 0-3 on 2 ranks" in said


@ORDERS
def test_breaks_peeks_resets_and_loads_of_earlier_states_are_proven(
    data: Path, logs: Path, shuffle: Shuffle | None
) -> None:
    ranks = Ranks(data, logs, shuffle=shuffle)
    early = ranks.steps(4)
    ranks.begin()
    ranks.step(0)
    ranks.loaders[1].peek()
    ranks.step(1)
    ranks.load(early)
    ranks.steps(3)
    for loader in ranks.loaders:
        loader.reset()
    ranks.begin()
    ranks.finish()
    ranks.load(json.loads(json.dumps(ranks.state)), reset_epochs=True)
    middle = ranks.steps(8)
    ranks.load(middle, reset_epochs=True)
    ranks.finish()
    assert_proven(logs, 2)


@pytest.mark.parametrize(("no_color", "begins"), [("", "\033[32mPROVEN"), ("1", "PROVEN")])
def test_the_verdict_has_a_colour_where_a_terminal_shows_it(
    data: Path,
    logs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str,
    begins: str,
) -> None:
    for _ in fr.Loader(fr.ParquetDataset(data, batch_size=10), audit=logs):
        pass
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert main(["audit", str(logs)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(begins)


@ORDERS
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("rows", [22, 32])
def test_what_workers_deliver_is_proven_as_what_threads_deliver(
    tmp_path: Path, shuffle: Shuffle | None, tail: str, rows: int
) -> None:
    """Copies that filled a worker's batch up were logged as rows that were delivered."""
    data = plain_spec([rows - 7], [7]).write(tmp_path / "data").directory
    order = {} if shuffle is None else Shuffle(3, 4, 12).arguments
    said = []
    for workers in (0, 1):
        logs = tmp_path / f"logs-{workers}"
        for rank in range(2):
            dataset = fr.ParquetDataset(data, batch_size=10, tail=tail, world=(rank, 2), **order)
            with fr.Loader(dataset, num_workers=workers, audit=logs) as loader:
                list(loader)
        said.append(assert_proven(logs, 1))
    assert said[0] == said[1]


def test_evaluation_that_restarts_is_proven_each_time(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, on_iter="restart", tail="short")
    for _ in range(3):
        ranks.finish()
    assert "pass 0: finished" in assert_proven(logs, 1)
    Ranks(data, logs, tail="short").finish()
    assert_proven(logs, 1)


@pytest.mark.filterwarnings("ignore:the dataset has on_iter=.restart.:UserWarning")
def test_evaluation_that_restarts_a_pass_from_its_middle_is_proven(data: Path, logs: Path) -> None:
    state = Ranks(data, logs).steps(7)
    Ranks(data, logs, on_iter="restart", state=state).finish()
    assert "batches 0-59 on 2 ranks" in assert_proven(logs, 1)


def test_a_pass_of_one_batch_that_restarts_is_proven(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, 1, ROWS, on_iter="restart")
    for _ in range(2):
        ranks.finish()
    assert "; batches 0-0 on 1 rank" in assert_proven(logs, 1)


@ORDERS
def test_a_pass_that_ends_without_a_batch_is_proven(data: Path, logs: Path, shuffle: Shuffle | None) -> None:
    state = Ranks(data, logs, tail="short", shuffle=shuffle).steps(60)
    ranks = Ranks(data, logs, state=state, shuffle=shuffle)
    with pytest.warns(UserWarning, match="with 3 rows left of it"):
        assert not ranks.step()
    ranks.steps(1)
    assert "1200 rows, each exactly once, 3 dropped by tail='drop'; batches 0-60 on 2" in assert_proven(
        logs, 1
    )


def test_world_sizes_that_share_one_order_prove_each_other(data: Path, logs: Path) -> None:
    state = Ranks(data, logs, 4, 6, lanes=8).steps(7)
    for path in logs.glob("rank-00003-*"):
        path.unlink()
    Ranks(data, logs, 2, 12, lanes=8, state=state).finish()
    assert "rank 3 of 4 never delivered it" in found_in(logs)
    Ranks(data, logs, 2, 12, lanes=8).steps(7)
    assert_proven(logs, 1)


def test_two_jobs_and_two_datasets_in_one_directory_are_audited_each_for_itself(
    data: Path, logs: Path
) -> None:
    Ranks(data, logs).finish()
    Ranks(data, logs, shuffle=SHUFFLE).finish()
    Ranks(data / "part-001.parquet", logs, 1).finish()
    said = assert_proven(logs, 3)
    assert said.count("dataset ") == 3
    assert len(list(logs.glob("dataset-*.json"))) == 2
    log_of(logs, 1).unlink()
    report = audit(logs)
    assert report.problems
    assert sorted(report.finished) == [0, 1, 1]


def test_a_forked_child_that_goes_on_has_a_log_of_its_own(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, 1)
    ranks.steps(3)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            ranks.begin()
            ranks.finish()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(logs.glob("*.log"))) == 2
    assert_proven(logs, 1)


@pytest.mark.parametrize("how", ["break", "close", "both"])
def test_a_rank_that_is_ahead_and_begins_anew_is_no_resume(data: Path, logs: Path, how: str) -> None:
    ranks = Ranks(data, logs)
    state = ranks.steps(3)
    for turn in range(3):
        ranks.step(0)
        ranks.step(0)
        if how != "close" or turn == 1:
            ranks.begin()
        if how != "break" or turn == 1:
            ranks.loaders[0].close()
            ranks.begin()
    ranks.step(0)
    said = assert_proven(logs, 0)
    assert "unfinished (5%): 60 rows, each exactly once; batches 0-2 on 2 ranks" in said
    Ranks(data, logs, 3, state=state).finish()
    assert_proven(logs, 1)


def test_an_epoch_that_a_rank_ended_and_another_one_did_not_is_unfinished(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs)
    ranks.steps(59)
    ranks.step(0)
    assert "pass 0: unfinished (98%): 1180 rows, each exactly once; batches 0-58 on 2 ranks" in assert_proven(
        logs, 0
    )
    ranks.step(1)
    assert_proven(logs, 1)


# ----------------------------------------------------------------------------- processes that are killed


def rank_process(data: Path, logs: Path, saved: Path, cut: tuple[int, int], rank: int, pipes: Pipes) -> None:
    """One rank of a job whose ranks, and rows of each, are the cut."""
    how: dict[str, Any] = {"batch_size": cut[1], "tail": "pad", **SHUFFLE.arguments}
    dataset = fr.ParquetDataset(data, world=(rank, cut[0]), **how)
    if saved.exists():
        dataset.load_state_dict(json.loads(saved.read_text()))
    go(fr.Loader(dataset, threads=1, audit=logs), saved, rank, pipes, passes=2)


@pytest.mark.processes
def test_ranks_that_are_killed_again_and_again_are_proven(data: Path, tmp_path: Path) -> None:
    chance, logs, saved = random.Random(5), tmp_path / "logs", tmp_path / "state.json"
    lives = [(2, 3, 80), (3, 4, 41), (1, 5, 33), (2, 3, 60), (4, 2, 50), (2, 3, 2), (3, 3, 30)]
    for world_size, batch_size, steps in lives:
        work = partial(rank_process, data, logs, saved, (world_size, batch_size))
        run_ranks(work, world_size, steps, chance.uniform(0, 0.003))
    run_ranks(partial(rank_process, data, logs, saved, (2, 8)), 2, None)
    assert len(list(logs.glob("*.log"))) == 2 + 3 + 1 + 2 + 4 + 2 + 3 + 2
    said = assert_proven(logs, 2)
    assert said.count("finished: 1203 rows, each exactly once") == 2
    path = log_of(logs, 1)
    write_bodies(path, bodies(path)[:40])
    assert "rank 1 of 2 never delivered it" in found_in(logs)


# ------------------------------------------------------------------------------------------------ by chance


def live(
    data: Path, logs: Path, legs: Sequence[Any], shuffle: Shuffle | None, chance: random.Random
) -> tuple[set[int], int]:
    """Let a job live these lives and end its pass; return the states that count, and the passes done."""
    state: State | None = None
    counts: set[int] = set()
    for leg in [*legs, None]:
        topology = legs[-1].topology if leg is None else leg.topology
        how = topology.arguments
        ranks = Ranks(data, logs, topology.world_size, state=state, shuffle=shuffle, **how)
        epoch, left = ranks.loaders[0].epoch, 10**6 if leg is None else leg.kept
        while left and not (leg is None and ranks.loaders[0].epoch > epoch):
            ranks.step()
            counts.add(state_hash(ranks.state["fastresume"]))
            left -= 1
        state = ranks.state
        if leg is not None:
            for _ in range(leg.lost):
                ranks.step()
            if ahead := chance.randrange(topology.world_size):
                ranks.step(*range(ahead))
    return counts, fr.Cursor.from_state(state or {}).epoch


@pytest.mark.filterwarnings("ignore:the pass ends here")
@FEWER
@given(rows=st.integers(1, 90), data=st.data())
def test_any_chain_of_lives_is_proven_and_no_record_of_it_can_be_missing(
    rows: int, data: st.DataObject
) -> None:
    shuffle = data.draw(orders(rows))
    legs = data.draw(
        chains(
            rows,
            max_legs=3,
            max_steps=8,
            world_sizes=st.integers(1, 4),
            workers=st.just(0),
            tails=TAILS,
            small=True,
        )
    )
    chance = random.Random(data.draw(st.integers(0, 9)))
    spec = plain_spec([rows // 3, 0, rows // 5], [], [rows - rows // 3 - rows // 5])
    with written(spec) as dataset, tempfile.TemporaryDirectory() as directory:
        logs = Path(directory)
        counts, passes = live(dataset.directory, logs, legs, shuffle, chance)
        assert_proven(logs, passes, or_more=True)
        found = sum(audit(logs).finished)
        effective = effective_records(logs, counts)
        assume(effective)
        rank, body = data.draw(st.sampled_from(sorted(effective)))
        for path in logs.glob(f"rank-{rank:05}-*.log"):
            kept = [other for other in bodies(path) if other != body]
            write_bodies(path, kept)
        report = audit(logs)
        assert report.problems or sum(report.finished) < found


def effective_records(logs: Path, counts: set[int]) -> set[tuple[int, bytes]]:
    """The records, each with its rank, without which a state that counts can't be reached."""
    ways: dict[int, set[tuple[object, ...]]] = {}
    found: dict[int, set[tuple[int, bytes]]] = {}
    for path in logs.glob("rank-*.log"):
        starts, records, damage = read_log(path)
        assert damage is None
        of_batches = [body for body in bodies(path) if body[0] != START]
        assert len(of_batches) == len(records.start)
        for place, body in enumerate(of_batches):
            start, after = starts[records.start[place]], int(records.after[place])
            way = int(records.before[place]), start.world_size, start.cut, start.tail
            ways.setdefault(after, set()).add(way)
            found.setdefault(after, set()).add((start.rank, body))
    return {entry for after in counts if len(ways.get(after, ())) == 1 for entry in found[after]}
