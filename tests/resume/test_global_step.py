"""`batch.global_step` counts the global batches that a job was given, over days, passes, ranks and stages."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import fields_of
from support.mixtures import mixture, write_sources

pytestmark = [pytest.mark.law(3), pytest.mark.filterwarnings("ignore:the pass ends here")]


@each_of("tail", ["pad", "short", "drop"])
@each_of("shuffle", [False, True])
def test_it_counts_on_over_days(tmp_path: Path, tail: Any, shuffle: bool) -> None:
    """Each day has a batch that is not full, or rows that make none."""
    state, counted, size = None, 0, 0
    for day in range(12):
        rows = 43 + day % 3
        pq.write_table(pa.table({"id": np.arange(size, size + rows)}), tmp_path / f"{day:02d}.parquet")
        size += rows
        read = fr.ParquetDataset(
            tmp_path, batch_size=4, tail=tail, shuffle=shuffle, on_change="append", world=(0, 1)
        )
        if state is not None:
            read.load_state_dict(state)
        for batch in read:
            assert batch.global_step == counted
            counted, state = counted + 1, batch.state_dict()


@pytest.mark.parametrize("tail", ["pad", "short", "drop"])
def test_it_counts_on_over_other_ranks_and_batch_sizes(tmp_path: Path, tail: Any) -> None:
    """In the middle of passes and between them."""
    pq.write_table(pa.table({"id": np.arange(103)}), tmp_path / "a.parquet")
    chances, state, counted = np.random.default_rng(0), None, 0
    for _ in range(40):
        read = fr.ParquetDataset(
            tmp_path,
            batch_size=int(chances.integers(1, 9)),
            tail=tail,
            world=(0, int(chances.integers(1, 4))),
        )
        counted, state = counted_on(read, state, counted, chances)


def counted_on(
    read: Any, state: dict[str, str] | None, counted: int, chances: np.random.Generator
) -> tuple[int, dict[str, str] | None]:
    """The count and the state after a life of the job, which ends at any of its batches."""
    if state is not None:
        read.load_state_dict(state)
    for batch in read:
        assert batch.global_step == counted
        counted, state = counted + 1, batch.state_dict()
        if chances.random() < 0.1:
            break
    return counted, state


@pytest.mark.parametrize("tail", ["pad", "short", "drop"])
def test_it_counts_on_in_mixtures_whose_passes_differ(tmp_path: Path, tail: Any) -> None:
    write_sources(tmp_path)
    chances, state, counted = np.random.default_rng(0), None, 0
    for _ in range(30):
        weights = {"web": 2.0, "code": float(chances.integers(1, 3))}
        read = mixture(
            tmp_path,
            weights,
            batch_size=int(chances.choice([7, 20])),
            tail=tail,
            stages=[(90, {"web": 1}), (150, {"web": 1, "code": 1})],
            stop=210,
        )
        counted, state = counted_on(read, state, counted, chances)


@pytest.mark.law(5)
def test_a_state_that_does_not_have_the_count_gets_it_with_its_first_batch(tmp_path: Path) -> None:
    """One of an earlier release: what was before counts as the present cut divides it."""
    pq.write_table(pa.table({"id": np.arange(43)}), tmp_path / "a.parquet")
    read = fr.ParquetDataset(tmp_path, batch_size=4, tail="pad", world=(0, 1), on_iter="continue")
    old = {**fields_of(read.state_dict()), "epoch": 3, "cuts": [[1, 1, 4, 5]]}
    del old["earlier_batches"]
    read.load_state_dict({"fastresume": oracle.checked(old)})
    assert fields_of(read.state_dict()) == fields_of({"fastresume": oracle.checked(old)})
    batch = next(iter(read))
    assert (batch.step, batch.global_step) == (5, 3 * 11 + 5)
    assert fields_of(batch.state_dict())["earlier_batches"] == 3 * 11
    assert [batch.global_step for batch in read] == list(range(39, 44))
    assert next(iter(read)).global_step == 44


@pytest.mark.law(5)
@given(data=st.data(), tail=st.sampled_from(["pad", "short", "drop"]), shuffle=st.booleans())
def test_it_is_the_number_of_batches_that_were_given(data: st.DataObject, tail: Any, shuffle: bool) -> None:
    """Over any days, ranks and batch sizes, with kills anywhere, in the texts of all states."""
    with tempfile.TemporaryDirectory() as name:
        state, counted, size = None, 0, 0
        for day in range(data.draw(st.integers(2, 6), label="days")):
            rows = data.draw(st.integers(21, 50), label="rows")
            pq.write_table(pa.table({"id": np.arange(size, size + rows)}), Path(name) / f"{day}.parquet")
            size += rows
            for _ in range(data.draw(st.integers(1, 3), label="lives")):
                read = fr.ParquetDataset(
                    name,
                    batch_size=data.draw(st.integers(1, 7), label="batch size"),
                    tail=tail,
                    shuffle=shuffle,
                    on_change="append",
                    on_iter="continue",
                    world=(0, data.draw(st.integers(1, 3), label="ranks")),
                )
                if state is not None:
                    read.load_state_dict(state)
                for batch in itertools.islice(read, data.draw(st.none() | st.integers(0, 9), label="kept")):
                    assert batch.global_step == counted
                    counted, state = counted + 1, batch.state_dict()
                    fields = fields_of(state)
                    done = sum(cut[3] for cut in fields["cuts"])
                    assert fields["earlier_batches"] + done == counted
