"""The audit proves a mixture of sequences or bins that is killed, and goes on by other ranks and weights."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
import fastresume._core as _core
from fastresume.audit.verify import audit
from fastresume.buffers import of_words
from fastresume.mixing.spec import MixtureSpec
from support.audits import assert_proven, found_in, text_of
from support.documents import Oracle, documents, write
from support.jobs import FEW
from support.killed_ranks import Pipes, go, run_ranks

pytestmark = pytest.mark.filterwarnings("ignore:the pass ends here")

FILES = {
    "web": [documents(1, 150, 40), documents(2, 70, 40)],
    "code": [documents(3, 90, 30)],
    "books": [documents(4, 40, 25), documents(5, 20, 60)],
}
TWO, THREE = {"web": 3, "code": 1}, {"web": 1, "code": 1, "books": 1}
PACKED = fr.Packed("tokens", "labels", length=16, separator=None)
BINS = fr.Bins("tokens", cost=30)
ORDER: dict[str, Any] = {"shuffle": True, "block_rows": 8, "window_rows": 24, "seed": 3}
State = Mapping[str, str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("sources"))


def written(directory: Path) -> Path:
    for name, files in FILES.items():
        write(directory / name, files, row_group_size=32)
    return directory


def mixture(root: Path, weights: Mapping[str, float], unit: Any = PACKED, **how: Any) -> fr.Mixture:
    order = {**ORDER, **how.pop("order", {})}
    sources = {
        name: (fr.ParquetDataset(root / name, unit=unit, nulls="mask", **order), weight)
        for name, weight in weights.items()
    }
    return fr.Mixture(sources, **{"batch_size": 4, "rank": 0, "world_size": 1, **how})


def life(
    root: Path, logs: Path, weights: Mapping[str, float], steps: int, state: State | None = None, **how: Any
) -> State:
    """Delivers so many global batches, and one more to a rank of several; returns the state before that."""
    ranks, loading = how.pop("world_size", 1), how.pop("loading", {"threads": 0})
    made = [mixture(root, weights, rank=rank, world_size=ranks, **how) for rank in range(ranks)]
    loaders = [fr.Loader(one, audit=logs, **loading) for one in made]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    after, done, iterators = loaders[0].state_dict(), 0, [iter(loader) for loader in loaders]
    while done < steps:
        batches = [next(iterator, None) for iterator in iterators]
        if batches[0] is None:
            iterators = [iter(loader) for loader in loaders]
            continue
        after, done = loaders[0].state_dict(), done + 1
    for iterator in iterators[: int(ranks > 1)]:
        next(iterator, None)
    for loader in loaders:
        loader.close()
    return after


# ------------------------------------------------------------------------------------------- what is proven


def test_stages_and_passes_are_proven_by_their_sequences_and_tokens(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5)
    state = life(root, logs, TWO, 3, state, world_size=2)
    life(root, logs, THREE, 40, state, world_size=3, batch_size=2, stop=100, tail="pad")
    found = assert_proven(logs, 3)
    dropped = {name: Oracle(files, 16, None, "drop").dropped for name, files in FILES.items()}
    for words in (
        "pass 0, stage 0: web 75.00%, code 25.00%: 44 sequences, each exactly once, with all its tokens",
        "batches 0-4 on 1 rank, 5-7 on 2 ranks",
        "56 sequences, each exactly once, with all its tokens; batches 8-17 on 3 ranks",
        *(f"with every token of every document but {dropped[name]} after" for name in ("code", "books")),
    ):
        assert words in found, found
    assert "can't be told" not in found


def test_bins_are_proven_by_their_rows(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5, unit=BINS)
    state = life(root, logs, TWO, 3, state, unit=BINS, world_size=2)
    life(root, logs, THREE, 60, state, unit=BINS, world_size=3, batch_size=2, stop=300, tail="pad")
    found = assert_proven(logs, 3, or_more=True)
    assert "44 bins, each exactly once, with all its rows; batches 0-4 on 1 rank, 5-7 on 2 ranks" in found, (
        found
    )
    for name in FILES:
        assert re.search(rf"{name}: pass\S* \S+ finished: .* bins.*with every selected row", found), found


@pytest.mark.slow
@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_a_killed_elastic_reweighted_packed_job_is_proven(root: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        logs = Path(directory) / "logs"
        separator, rest = data.draw(st.sampled_from((None, 7))), data.draw(st.sampled_from(("drop", "pad")))
        packed = fr.Packed("tokens", length=16, separator=separator, rest=rest)
        unit: Any = data.draw(st.sampled_from((packed, BINS)))
        order = data.draw(st.sampled_from(({}, {"shuffle": False, "block_rows": None, "window_rows": None})))
        state, before = None, set[str]()
        for _ in range(data.draw(st.integers(1, 4))):
            names = data.draw(st.permutations(sorted(FILES)))[: data.draw(st.integers(1, 3))]
            if state is not None and set(names) - set(before) and set(before) - set(names):
                names = sorted(
                    {*names, *before}
                )  # sources that left and others that came may be renamed ones
            before = names
            weights = {name: data.draw(st.integers(1, 3)) for name in names}
            how: dict[str, Any] = {
                "stop": data.draw(st.sampled_from(("first", "all", 70))),
                "tail": data.draw(st.sampled_from(("drop", "short", "pad"))),
                "world_size": data.draw(st.integers(1, 3)),
            }
            steps = data.draw(st.integers(1, 12))
            state = life(root, logs, weights, steps, state, unit=unit, order=order, batch_size=2, **how)
        found = assert_proven(logs, 0, or_more=True)
        assert "can't be told" not in found, found
        assert "with all its" in found


@pytest.mark.parametrize("loading", [{"threads": 2}, {"num_workers": 2}], ids=str)
def test_what_threads_and_workers_make_is_audited(
    root: Path, tmp_path: Path, loading: dict[str, Any]
) -> None:
    life(root, tmp_path / "logs", TWO, 9, lanes=2, loading=loading)
    found = assert_proven(tmp_path / "logs", 0)
    assert "36 sequences, each exactly once, with all its tokens" in found, found


def test_a_source_that_grows_is_proven(tmp_path: Path) -> None:
    root, logs, order = written(tmp_path), tmp_path / "logs", {"on_change": "append"}
    state = life(root, logs, TWO, 6, order=order)
    write(tmp_path / "new", [documents(8, 60, 40)])
    (tmp_path / "new" / "0.parquet").rename(root / "web" / "2.parquet")
    life(root, logs, TWO, 60, state, world_size=2, order=order)
    found = assert_proven(logs, 1, or_more=True)
    assert "can't be told" not in found, found
    assert re.search(r"web: pass\S* \S+ finished: \d+ sequences", found), found


def test_what_is_on_trust_is_not_told_to_be_whole(root: Path, tmp_path: Path) -> None:
    state = life(root, tmp_path / "earlier", TWO, 5)
    life(root, tmp_path / "logs", TWO, 45, state)
    found = assert_proven(tmp_path / "logs", 0, state, or_more=True)
    assert "web: 15 of these sequences on trust, before the declared start" in found
    assert "code: pass 0 finished" in found
    assert "every token" not in found


def test_without_the_file_of_contents_tokens_are_not_told(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    life(root, logs, TWO, 5)
    next(logs.glob("contents-*.bin")).unlink()
    found = assert_proven(logs, 0)
    assert "what the sequences of 5 batches held can't be told" in found


# ----------------------------------------------------------------------------- processes that are killed


def rank_process(
    root: Path,
    logs: Path,
    saved: Path,
    world_size: int,
    weights: Mapping[str, float],
    rank: int,
    pipes: Pipes,
) -> None:
    made = mixture(root, weights, rank=rank, world_size=world_size, stop=240)
    if saved.exists():
        made.load_state_dict(json.loads(saved.read_text()))
    go(fr.Loader(made, threads=1, audit=logs), saved, rank, pipes, passes=9)


LIVES = [(2, TWO, 8), (3, {"web": 1, "code": 2}, 5), (1, THREE, 7), (2, {"code": 1, "books": 2}, 4)]


@pytest.mark.processes
@pytest.mark.parametrize(
    "lives", [LIVES, pytest.param(LIVES * 6, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_processes_that_are_killed_are_proven(
    root: Path, tmp_path: Path, lives: list[tuple[int, Mapping[str, float], int]]
) -> None:
    chance, logs, saved = random.Random(5), tmp_path / "logs", tmp_path / "state.json"
    for world_size, weights, steps in lives:
        work = partial(rank_process, root, logs, saved, world_size, weights)
        run_ranks(work, world_size, steps, chance.uniform(0, 0.003))
    found = assert_proven(logs, 0, or_more=True)
    assert "can't be told" not in found
    assert found.count("with all its tokens") >= len(LIVES), found
    assert len(list(logs.glob("rank-*.log"))) == sum(ranks for ranks, _, _ in lives)


# ------------------------------------------------------------------------------------- what is not, is seen

HELD = {"memory", "written", "runs", "unit_offsets", "unit_numbers"}


class Cheat:
    """A batch in whose place another one is handed over, or what some of its units hold."""

    def __init__(self, honest: _core.Delivered, other: _core.Delivered, taken: AbstractSet[str]) -> None:
        self._honest, self._other, self._taken = honest, other, taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other if name in self._taken else self._honest, name)


class OfOthers(Cheat):
    """A batch that is said to have the units with its numbers of the other source each."""

    def unit_numbers(self) -> tuple[Any, Any]:
        numbers, sources = self._honest.unit_numbers()
        return numbers, 1 - of_words(sources)


class CheatingReader:
    """A reader that hands over something else in the place of the third batch."""

    def __init__(self, reader: Any, cheat: Callable[[_core.Delivered, Any], Any]) -> None:
        self._reader, self._cheat = reader, cheat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def front(self) -> Any:
        honest = self._reader.front()
        return (
            self._cheat(honest, self._reader.batch) if honest is not None and honest.number == 2 else honest
        )


def twice(honest: _core.Delivered, batch: Any) -> Cheat:
    """The second batch stands in the place of the third one, too."""
    return Cheat(honest, batch(1), HELD)


def left_out(honest: _core.Delivered, batch: Any) -> Cheat:
    """The third batch is left out, and the one behind it comes too early."""
    return Cheat(honest, batch(3), HELD)


def another(honest: _core.Delivered, batch: Any) -> Cheat:
    """Its sequences are said to be of other sources."""
    return OfOthers(honest, honest, set())


def other_tokens(honest: _core.Delivered, batch: Any) -> Cheat:
    """The sequences have the numbers that they should have, and hold what those of the next batch do."""
    return Cheat(honest, batch(3), HELD - {"unit_numbers"})


@pytest.mark.parametrize("cheat", [twice, left_out, another, other_tokens])
def test_sequences_that_are_not_those_of_their_places_are_seen(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cheat: Callable[..., Any]
) -> None:
    honest = MixtureSpec.reader
    monkeypatch.setattr(
        MixtureSpec, "reader", lambda *given, **named: CheatingReader(honest(*given, **named), cheat)
    )
    life(root, tmp_path / "logs", TWO, 6)
    report = audit(tmp_path / "logs")
    found = text_of(report)
    held = "what the sequences held is not what those of their places hold"
    assert held in found, found
    if cheat is other_tokens:
        assert report.problems == 1
    else:
        assert "the sequences handed over are not those of their places" in found, found
    assert "batch 2, rank 0" in found
    assert "not proven; batches 0-5" in found


def test_a_rank_whose_log_is_missing_is_seen(root: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = life(root, logs, TWO, 5, world_size=2)
    life(root, logs, THREE, 4, state)
    next(logs.glob("rank-00001-*.log")).unlink()
    assert "pass 0, batch 0: rank 1 of 2 never delivered it" in found_in(logs)
