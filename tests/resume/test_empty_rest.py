"""A state may leave fewer rows of a pass than a global batch has: reading goes on behind them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch.utils.data

import fastresume as fr
from fastresume.integrations.resume_state import batches_of_passes
from support.each_of import each_of

pytestmark = [
    pytest.mark.law(3),
    pytest.mark.law(11),
    pytest.mark.filterwarnings("ignore:the pass ends here"),
]

UNITS: dict[str, dict[str, Any]] = {
    "rows": {},
    "shuffled": {"shuffle": True, "seed": 3, "block_rows": 2, "window_rows": 4},
    "packed": {"unit": fr.Packed("tokens", length=4)},
    "bins": {"unit": fr.Bins("tokens", cost=4)},
}
PLAIN = [f"plain {unit}" for unit in UNITS]
MIXED = [f"{stop} {unit}" for stop in ("first", "all") for unit in UNITS if unit != "bins"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 5 rows and one of 10, each with a list of 4 tokens."""
    made = tmp_path_factory.mktemp("sources")
    for name, rows in (("small", 5), ("large", 10)):
        (made / name).mkdir()
        tokens = pa.array([[row] * 4 for row in range(rows)], pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": tokens}), made / name / "a.parquet", row_group_size=3)
    return made


def job(root: Path, kind: str, batch_size: int, **how: Any) -> Any:
    """A dataset of 10 rows or units; a mixture whose passes end with those of a source of 5."""
    stop: Any
    stop, unit = kind.split()
    small, large = (fr.ParquetDataset(root / name, **UNITS[unit]) for name in ("small", "large"))
    if stop == "plain":
        return fr.ParquetDataset(root / "large", batch_size=batch_size, **UNITS[unit], **how)
    return fr.Mixture({"small": (small, 1), "large": (large, 1)}, batch_size=batch_size, stop=stop, **how)


def state_of(root: Path, kind: str) -> Any:
    """A state that leaves 4 places of its pass; of a mixture, of a pass of which nothing was read."""
    stop: Any
    stop, unit = kind.split()
    if stop == "plain":
        return list(islice(job(root, kind, 3), 2))[-1].state_dict()
    small, large = (fr.ParquetDataset(root / name, **UNITS[unit]) for name in ("small", "large"))
    stages = [(3, {"small": 1}), (8, {"large": 1})]
    before = fr.Mixture({"small": (small, 1), "large": (large, 1)}, batch_size=1, stages=stages, stop=stop)
    assert [len(list(before)), len(list(before))] == [3, 8]
    return before.state_dict()


def passes(draw: Callable[[], Any]) -> list[list[tuple[int, int]]]:
    """Where the batches of three iterations stand."""
    return [[(batch.epoch, batch.step) for batch in draw()] for _ in range(3)]


@pytest.mark.filterwarnings("ignore:the dataset has on_iter=.restart.:UserWarning")
@each_of("on_iter", ["continue", "restart"])
@each_of("kind", [*PLAIN, *MIXED])
def test_the_next_pass_follows_and_has_batches(root: Path, kind: str, on_iter: str) -> None:
    dataset = job(root, kind, 5, on_iter=on_iter)
    dataset.load_state_dict(state_of(root, kind))
    first, second, third = passes(lambda: dataset)
    if on_iter == "restart" and kind in PLAIN:
        assert first == second == third != []  # its pass begins anew, with all its rows
        return
    assert first == []
    assert second
    assert third
    assert second[0][1] == 0


@pytest.mark.filterwarnings("ignore:the dataset has on_iter=.restart.:UserWarning")
@pytest.mark.processes
@each_of("on_iter", ["continue", "restart"])
@each_of("kind", ["plain rows", "first rows", "all packed"])
def test_loaders_of_all_kinds_go_on(root: Path, kind: str, on_iter: str) -> None:
    state = state_of(root, kind)
    expected = job(root, kind, 5, on_iter=on_iter)
    expected.load_state_dict(state)
    message = passes(lambda: expected)
    ways: list[dict[str, Any]] = [{"threads": 0}, {"threads": 2}, {"num_workers": 2}]
    for how in ways:
        dataset = job(root, kind, 5, on_iter=on_iter)
        dataset.load_state_dict(state)
        with fr.Loader(dataset, **how) as loader:
            found = passes(lambda: loader)
            assert found[0] == message[0]
            assert all(found[1:])
    dataset = job(root, kind, 5, on_iter=on_iter)
    dataset.load_state_dict(state)
    reader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)
    # The main process can't see an empty pass: the next one follows at once.
    assert all(passes(lambda: reader))


@each_of("kind", [*PLAIN, *MIXED])
def test_what_looks_ahead_finds_the_pass_behind_it(root: Path, kind: str) -> None:
    dataset = job(root, kind, 5)
    dataset.load_state_dict(state_of(root, kind))
    cursor = dataset._shared_cursor.cursor
    counts = list(islice(batches_of_passes(dataset, cursor, 0), 3))
    ahead = [dataset.peek(), dataset.batch_at(cursor.epoch + 1, 0)]
    later = dataset.batch_at(cursor.epoch + 2, 0)
    first, second, third = list(dataset), list(dataset), list(dataset)
    assert counts == [len(first), len(second), len(third)]
    assert first == []
    for batch, found in ((second[0], ahead[0]), (second[0], ahead[1]), (third[0], later)):
        assert (found.epoch, found.step) == (batch.epoch, batch.step)
        assert dataset._spec.locate(found) == dataset._spec.locate(batch)


@each_of("kind", MIXED)
def test_each_row_comes_once_in_each_pass_of_its_source(root: Path, kind: str) -> None:
    dataset = job(root, kind, 5)
    dataset.load_state_dict(state_of(root, kind))
    given = [place for _ in range(6) for batch in dataset for place in dataset._spec.locate(batch)]
    for name, left in (("small", 2), ("large", 2)):
        rows = [(group, row) for path, group, row in given if f"/{name}/" in path]
        assert len(rows) > left
        size = len({*rows})
        for start in range(left, len(rows) - size, size):
            assert len({*rows[start : start + size]}) == size
        assert len({*rows[:left]}) == left


@each_of("tail", ["drop", "short"])
@each_of("stop", ["first", "all", 3])
def test_passes_behind_the_stages_that_have_no_batch_are_refused(root: Path, stop: Any, tail: Any) -> None:
    small, large = (fr.ParquetDataset(root / name) for name in ("small", "large"))
    with pytest.raises(ValueError, match=r"no batch would come from the \d+ rows? of a pass after"):
        fr.Mixture(
            {"small": (small, 1), "large": (large, 1)},
            stages=[(60, {"large": 1})],
            stop=stop,
            tail=tail,
            batch_size=30,
            world=(0, 1) if tail == "drop" else (0, 30),
        )
