"""The global step of a mixture: it counts the batches of all passes, and never falls."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr

SIZES = {"web": 130, "code": 47}


def mixture(root: Path, weights: tuple[float, float] = (0.7, 0.3), **how: Any) -> fr.Mixture:
    sources = {}
    for (name, rows), weight in zip(SIZES.items(), weights, strict=True):
        if not (root / name).exists():
            (root / name).mkdir()
            pq.write_table(pa.table({"x": np.arange(rows)}), root / name / "a.parquet", row_group_size=20)
        sources[name] = (fr.ParquetDataset(root / name), weight)
    return fr.Mixture(sources, **{"batch_size": 8, "rank": 0, "world_size": 1, **how})


def steps_of(made: fr.Mixture, passes: int) -> list[list[int]]:
    """The global steps of each pass."""
    return [[batch.global_step for batch in made] for _ in range(passes)]


@pytest.mark.parametrize("stop", ["first", "all", 100])
@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
def test_it_counts_each_batch_once(tmp_path: Path, stop: Any, tail: str) -> None:
    passes = steps_of(mixture(tmp_path, stop=stop, tail=tail, on_iter="continue"), 5)
    assert len({len(steps) for steps in passes}) > (stop == "first"), "passes differ in length"
    found = list(itertools.chain(*passes))
    assert found == list(range(len(found)))


def test_it_goes_on_where_weights_change_and_over_a_resume(tmp_path: Path) -> None:
    found, state = [], None
    for weights in ((0.7, 0.3), (0.2, 0.8), (0.5, 0.5), (0.7, 0.3)):
        made = mixture(tmp_path, weights, on_iter="continue")
        if state is not None:
            made.load_state_dict(state)
        batches = itertools.chain.from_iterable(iter(made) for _ in itertools.count())
        for batch in itertools.islice(batches, 13):
            found.append(batch.global_step)
            state = batch.state_dict()
    assert found == list(range(4 * 13))


def test_sources_named_in_another_order_go_on_as_the_same_mixture(tmp_path: Path) -> None:
    first = mixture(tmp_path, stop=100)
    whole = list(first)
    weights = {"code": 0.3, "web": 0.7}
    sources = {name: (fr.ParquetDataset(tmp_path / name), weight) for name, weight in weights.items()}
    again = fr.Mixture(sources, batch_size=8, stop=100, world=(0, 1))
    again.load_state_dict(whole[4].state_dict())

    def seen(made: fr.Mixture, batch: fr.Batch) -> tuple[Any, ...]:
        names = [made.sources[number] for number in batch.source.tolist()]
        return batch.step, names, batch.rows().tolist(), batch.state_dict()

    assert [seen(again, batch) for batch in again] == [seen(first, batch) for batch in whole[5:]]
