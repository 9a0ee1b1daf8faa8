"""A mixture has each source's share at every place, and resumes exactly, whatever has changed."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import fastresume as fr
from support.audits import assert_proven
from support.jobs import FEW, arrays_of
from support.mixtures import PLACE, SIZES, WEIGHTS, mixture, places, source
from support.profile import one_in


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_source_is_within_one_row_of_its_share_at_every_prefix(root: Path, shuffle: bool) -> None:
    made = mixture(root, WEIGHTS, shuffle)
    counts, steps = Counter[int](), len(made)
    for number, each in enumerate(np.concatenate([batch.source for batch in made]).tolist(), 1):
        counts[each] += 1
        for place, weight in enumerate(WEIGHTS.values()):
            assert abs(counts[place] - number * weight) <= 1
    assert number == steps * 20


@pytest.mark.parametrize("shuffle", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    "how", [{}, {"lanes": 4}, {"tail": "pad", "batch_size": 33}, {"stop": "all"}], ids=str
)
def test_every_value_is_that_of_its_row_in_its_source(root: Path, shuffle: bool, how: dict[str, Any]) -> None:
    made = mixture(root, WEIGHTS, shuffle, **how)
    alone = {name: source(root, name) for name in SIZES}
    seen: Counter[tuple[str, int]] = Counter()
    for batch in made:
        at = places(batch, made)
        assert batch["x"].tolist() == [PLACE[name] * 10_000 + row for name, row in at]
        for name in SIZES:
            if not any(other == name for other, _ in at):
                continue
            mine = [place for place, (other, _) in enumerate(at) if other == name]
            rows = alone[name].read_rows([at[place][1] for place in mine])
            own, picked = arrays_of(rows), torch.tensor(mine)
            for key, value in batch.items():
                if isinstance(value, fr.Jagged):
                    assert key == "text" or value.take(picked).to_list() == rows[key].to_list()  # type: ignore[union-attr]
                elif value.dtype != torch.uint16:
                    np.testing.assert_array_equal(value[picked].numpy(), own[key])
        texts = batch["text"].to_strings()  # type: ignore[union-attr]
        assert texts == [None if row % 5 == 0 else f"{name} {row}" for name, row in at]
        assert batch["short"].tolist() == [row for _, row in at]
        seen.update(place for place, valid in zip(at, batch.valid.tolist(), strict=True) if valid)
    if "stop" not in how:
        assert set(seen.values()) == {1}, "no row comes twice in a pass"
    else:
        assert {row for name, row in seen if name == "books"} == set(range(SIZES["books"]))


@pytest.mark.law(2)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("how", [{}, {"lanes": 5}, {"stop": 130}], ids=str)
def test_resume_after_every_batch_equals_no_interruption(
    root: Path, shuffle: bool, how: dict[str, Any]
) -> None:
    whole, first = [], mixture(root, WEIGHTS, shuffle, **how)
    for _ in range(3):
        whole += [(places(batch, first), batch.state_dict()) for batch in first]
    for number in range(0, 2 * len(whole) // 3, one_in(9)):
        made = mixture(root, WEIGHTS, shuffle, **how)
        made.load_state_dict(whole[number][1])
        begun = [places(batch, made) for batch in made]
        assert begun == [rows for rows, _ in whole[number + 1 : number + 1 + len(begun)]]


class Job:
    """Lives of a job, which tell what was delivered by whom."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state: dict[str, str] | None = None
        self.delivered: dict[str, list[int]] = {name: [] for name in SIZES}

    def live(self, weights: dict[str, float], world_size: int, steps: int, **how: Any) -> None:
        ranks = [
            mixture(self.root, weights, rank=rank, world_size=world_size, **how) for rank in range(world_size)
        ]
        if self.state is not None:
            for rank in ranks:
                rank.load_state_dict(self.state)
        for _ in range(3):
            iterators = [iter(rank) for rank in ranks]
            while steps:
                batches = [next(iterator, None) for iterator in iterators]
                if None in batches:
                    assert batches == [None] * world_size, "all ranks have the same number of batches"
                    break
                steps -= 1
                states = set()
                for batch, rank in zip(batches, ranks, strict=True):
                    assert batch is not None
                    states.add(json.dumps(batch.state_dict()))
                    for name, row in places(batch, rank):
                        self.delivered[name].append(row)
                assert len(states) == 1
                self.state = json.loads(states.pop())


@pytest.mark.law(1)
@pytest.mark.filterwarnings("ignore:the pass ends here")
@FEW
@given(data=st.data())
def test_no_row_comes_again_before_all_have_come_whatever_changes(root: Path, data: st.DataObject) -> None:
    job = Job(root)
    known: set[str] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        names = data.draw(st.sets(st.sampled_from(list(SIZES)), min_size=1))
        # A mixture of none of the state's sources is refused, and a new one beside one that is gone.
        names |= known if names - known else {data.draw(st.sampled_from(sorted(known)))}
        weights = {name: data.draw(st.sampled_from((0.1, 1, 3, 7))) for name in SIZES if name in names}
        size = data.draw(st.sampled_from((4, 6, 12)))
        world_size = data.draw(st.integers(1, 3))
        steps = data.draw(st.integers(0, 12))
        gone = dict.fromkeys(known - names)  # else a new source beside these is refused
        job.live(weights, world_size, steps, batch_size=size, renamed=gone or None)
        known |= names if steps else set()
    for name, rows in job.delivered.items():
        counts = Counter(rows)
        assert not counts or max(counts.values()) <= -(-len(rows) // SIZES[name]) + 1


@pytest.mark.parametrize("how", [{"threads": 0}, {"threads": 3}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_delivers_the_same(root: Path, how: dict[str, Any], shuffle: bool) -> None:
    workers = how.get("num_workers", 1)
    lanes = {"lanes": 2} if workers > 1 else {}
    plain = mixture(root, WEIGHTS, shuffle)
    steps = len(plain)
    with fr.Loader(mixture(root, WEIGHTS, shuffle, **lanes), **how) as loader:
        found = [(places(batch, loader.dataset), batch["x"].tolist()) for batch in loader]  # type: ignore[arg-type]
        again = [batch.rows().tolist() for batch in loader.replay(2)]
        assert again == [[row for _, row in rows] for rows, _ in found[-2:]]
    if workers == 1:
        assert found == [(places(batch, plain), batch["x"].tolist()) for batch in plain]
    each = Counter(place for rows, _ in found for place in rows)
    assert set(each.values()) == {1}
    assert sum(each.values()) == steps * 20


def test_a_dataloader_with_workers_resumes(root: Path) -> None:
    made = mixture(root, WEIGHTS, lanes=2)
    found: list[tuple[str, int]] = []
    for number, batch in enumerate(DataLoader(made, batch_size=None, num_workers=2)):
        found += places(batch, made)
        state = batch.state_dict()
        if number == 6:
            break
    other = mixture(root, WEIGHTS)
    other.load_state_dict(state)
    found += [place for batch in other for place in places(batch, other)]
    assert set(Counter(found).values()) == {1}


def test_workers_of_a_dataloader_read_sources_of_any_names(root: Path) -> None:
    def named() -> fr.Mixture:
        sources = {"Straße": (source(root, "web"), 2), "日本": (source(root, "code"), 1)}
        return fr.Mixture(sources, batch_size=60, world=(0, 1))

    expected = [batch["x"].tolist() for batch in named()]
    each = iter(DataLoader(named(), batch_size=None, num_workers=1))
    found = [next(each) for _ in range(3)]
    resumed = named()
    resumed.load_state_dict(found[-1].state_dict())
    found += list(DataLoader(resumed, batch_size=None, num_workers=1))
    assert [batch["x"].tolist() for batch in found] == expected


def test_transforms_seeds_and_random_access_are_there(root: Path) -> None:
    made = mixture(root, WEIGHTS, seed=3)
    mapped = made.map(lambda batch: {"x": batch["x"] + 1, "own": batch.source})
    batches = list(mapped)
    assert all(torch.equal(batch["own"], batch.source) for batch in batches)
    again = mixture(root, WEIGHTS, seed=3)
    assert again.batch_at(epoch=0, step=7)["x"].tolist() == (batches[7]["x"] - 1).tolist()
    assert torch.equal(again.batch_at(epoch=0, step=7).row_seeds(), batches[7].row_seeds())
    assert again.peek()["x"].tolist() == (batches[0]["x"] - 1).tolist()
    assert again.datasets["code"].read_rows([5])["x"].tolist() == [10_005]
    assert pickle.loads(pickle.dumps(batches[3])).source.tolist() == batches[3].source.tolist()


def test_a_function_that_fails_is_told_with_the_place_of_the_batch(root: Path) -> None:
    def fail(batch: fr.Batch) -> fr.Batch:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        next(iter(mixture(root, WEIGHTS).map(fail)))
    assert "row 0 of row group 0 in" in caught.value.__notes__[0]


@pytest.mark.law(2)
def test_a_state_tells_the_batches_before_a_change_of_weights(root: Path) -> None:
    whole, state = [], None
    changes: list[tuple[dict[str, float], dict[str, Any]]] = [
        (WEIGHTS, {}),
        ({"web": 1, "code": 2, "books": 1}, {"lanes": 2}),
        ({"web": 5, "code": 1, "books": 1}, {}),
    ]
    for weights, how in changes:
        made = mixture(root, weights, shuffle=True, **how)
        if state is not None:
            made.load_state_dict(state)
            assert places(made.batch_at(0, len(whole), state), made) == places(made.peek(), made)
        for _, batch in zip(range(4), made, strict=False):
            whole.append(places(batch, made))
            state = batch.state_dict()
    assert state is not None
    for step, rows in enumerate(whole):
        assert places(made.batch_at(0, step, state), made) == rows
        assert places(made.batch_at(0, step), made) == rows
    fewer = mixture(root, {"web": 1, "books": 1}, shuffle=True)
    fewer.load_state_dict(state)
    with pytest.raises(fr.StateError, match="rows of the source 'code', which the mixture does not read"):
        fewer.batch_at(0, 3)
    assert len(fewer.peek()) > 0


def test_stages_follow_in_time(root: Path) -> None:
    stages = [(100, {"web": 1}), (60, {"code": 1, "books": 2})]
    made = mixture(root, {"web": 1, "code": 1, "books": 1}, stages=stages, stop=30, batch_size=10)
    shares = []
    for epoch in range(3):
        counts = Counter(name for batch in made for name, _ in places(batch, made))
        shares.append(dict(counts))
        assert made.epoch == epoch + 1
    assert shares == [{"web": 100}, {"code": 20, "books": 40}, {"web": 10, "code": 10, "books": 10}]


@pytest.mark.filterwarnings("ignore:the pass ends here")
def test_a_stage_is_a_pass_which_a_loader_ends_with_and_a_state_goes_on_in(root: Path) -> None:
    stages = [(105, {"web": 1}), (60, {"web": 1, "code": 2})]
    how: dict[str, Any] = {"stages": stages, "stop": 40, "batch_size": 10}
    loader = fr.Loader(mixture(root, {"web": 1, "code": 1}, **how), threads=0)
    made, whole = loader.dataset, []
    assert isinstance(made, fr.Mixture)
    for steps, rows in ((10, {"web": 105}), (6, {"web": 20, "code": 40}), (4, {"web": 20, "code": 20})):
        assert (len(loader), loader.batches_left, made.plan().steps) == (steps, steps, steps)
        assert made.plan().rows == rows
        batches = list(loader)
        assert [batch.step for batch in batches] == list(range(steps))
        whole += [(batch.epoch, places(batch, made), batch.state_dict()) for batch in batches]
    # What makes no whole batch of the first stage comes first of its source in the next one.
    assert next(row for name, row in whole[10][1] if name == "web") == 100
    for number in (3, 9, 12, 15):
        again = fr.Loader(mixture(root, {"web": 1, "code": 1}, **how), threads=0)
        again.load_state_dict(whole[number][2])
        rest = [epoch for epoch, _, _ in whole[number + 1 :]]
        assert len(again) == sum(epoch == rest[0] for epoch, _, _ in whole)
        found = [(batch.epoch, places(batch, made)) for batch in again]
        assert found == [(epoch, rows) for epoch, rows, _ in whole[number + 1 :] if epoch == rest[0]]


def job(
    root: Path, log: Path, state: Path, rank: int, world_size: int, weights: dict[str, int], pipe: Connection
) -> None:
    """Read a batch whenever it is told to go on."""
    sources = {name: fr.ParquetDataset(root / name, columns="x") for name in weights}
    made = fr.Mixture(
        {name: (sources[name], weight) for name, weight in weights.items()},
        batch_size=12 // world_size,
        world=(rank, world_size),
        lanes=world_size,
    )
    loader = fr.Loader(made, threads=1, audit=state.parent / "audit")
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    with log.open("a") as out:
        for batch in loader:
            line = json.dumps([batch.epoch, batch.step, batch["x"].tolist(), batch.state_dict()])
            print(line, file=out, flush=True)
            pipe.send(None)
            pipe.recv()


@pytest.mark.processes
def test_a_killed_job_goes_on_on_other_ranks_with_a_source_added(root: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    state, seen = tmp_path / "state.json", list[int]()
    for life, (world_size, weights) in enumerate(
        [(1, {"web": 3, "code": 1}), (3, {"web": 3, "code": 1, "books": 1}), (2, {"code": 1, "books": 1})]
    ):
        logs = [tmp_path / f"{life}-{rank}" for rank in range(world_size)]
        pipes = [context.Pipe() for _ in logs]
        jobs = [
            context.Process(
                target=job, args=(root, log, state, rank, world_size, weights, theirs), daemon=True
            )
            for rank, (log, (theirs, _)) in enumerate(zip(logs, pipes, strict=True))
        ]
        for each in jobs:
            each.start()
        for _ in range(5):
            for _, ours in pipes:
                assert ours.poll(60), "a rank logs no batch"
                ours.recv()
                ours.send(None)
        for each in jobs:
            each.kill()
            each.join()
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()[:5]]
        seen += [x for _, _, xs, _ in lines for x in xs]
        assert len({json.dumps(line[3]) for line in lines if line[1] == lines[-1][1]}) == 1
        state.write_text(json.dumps(lines[-1][3]))
    assert len(seen) == len(set(seen)) == 3 * 5 * 12
    found = assert_proven(tmp_path / "audit", 0, or_more=True)
    assert "mixture of web, code, books: 6 logs" in found
    for words in (
        "pass 0, stage 0: web 75.00%, code 25.00%: ",
        "pass 0, stage 1: web 60.00%, code 20.00%, books 20.00%: ",
        "pass 0, stage 2: code 50.00%, books 50.00%: ",
    ):
        assert words in found, found


def test_a_job_is_saved_whole_and_goes_on(root: Path, tmp_path: Path) -> None:
    from fastresume.checkpoint import Checkpointer

    loader, model = fr.Loader(mixture(root, WEIGHTS), threads=1), torch.nn.Linear(1, 1)
    rows = []
    for batch in loader:
        rows.append(batch.rows().tolist())
        if len(rows) == 4:
            break
    with Checkpointer(tmp_path / "saved") as checkpointer:
        checkpointer.save(4, loader=loader, model=model)
    other = fr.Loader(mixture(root, WEIGHTS), threads=1)
    with Checkpointer(tmp_path / "saved") as checkpointer:
        checkpointer.restore(loader=other, model=model)
    rows += [batch.rows().tolist() for batch in other]
    assert rows == [batch.rows().tolist() for batch in mixture(root, WEIGHTS)]
