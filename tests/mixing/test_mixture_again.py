"""`batch_at` of a mixture gives the batch of any pass as it was, or asks for a state of that pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.jobs import assert_same_batch
from support.mixtures import mixture, places

STAGES: list[tuple[int, dict[str, float]]] = [(50, {"web": 1}), (130, {"web": 1, "code": 2})]
WEIGHTS = {"web": 0.6, "code": 0.3, "books": 0.1}


def made(root: Path, **how: Any) -> fr.Mixture:
    return mixture(root, WEIGHTS, shuffle=True, **{"stages": STAGES, "stop": 90, **how})


def all_of(batch: fr.Batch, of: fr.Mixture) -> tuple[Any, ...]:
    return batch.epoch, batch.step, batch.global_step, places(batch, of), batch.row_seeds().tolist()


@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
def test_a_batch_of_any_pass_is_given_again_wherever_an_unbroken_job_stands(root: Path, tail: str) -> None:
    whole = made(root, tail=tail)
    batches = [batch for _ in range(5) for batch in whole]
    steps = [batch.global_step for batch in batches]
    assert steps == list(range(len(batches)))
    for stands in (None, 0, 1, 2, len(batches) // 2, len(batches) - 1):
        again = made(root, tail=tail)
        if stands is not None:
            again.load_state_dict(batches[stands].state_dict())
        for batch in batches[::2]:
            assert all_of(again.batch_at(batch.epoch, batch.step), again) == all_of(batch, whole)


def test_a_pass_before_a_break_needs_a_state_of_its_own(root: Path) -> None:
    first = made(root)
    second = made(root, batch_size=15)
    second.load_state_dict(next(iter(first)).state_dict())
    rest = [batch for _ in range(3) for batch in second]
    state = rest[-1].state_dict()
    again = made(root, batch_size=15)
    again.load_state_dict(state)
    for epoch in range(again.epoch):
        with pytest.raises(
            fr.StateError, match=r"before pass \d is not known here: give a state of that pass"
        ):
            again.batch_at(epoch, 0)
    with pytest.raises(fr.StateError, match="give a state of that pass"):
        again.batch_at(1 << 40, 0)
    for batch in rest[:-1]:
        if batch.cursor.epoch == batch.epoch:
            found = again.batch_at(batch.epoch, batch.step, batch.state_dict())
            assert all_of(found, again) == all_of(batch, second)


def test_steps_of_a_pass_that_comes_are_counted_after_a_change_of_the_batch_size(root: Path) -> None:
    def one(rows: int) -> fr.ParquetDataset:
        return fr.ParquetDataset(root / "code", columns=["x"], batch_size=rows, world=(0, 1))

    first = one(20)
    batches = iter(first)
    state = [next(batches) for _ in range(5)][-1].state_dict()
    second = one(13)
    second.load_state_dict(state)
    again = one(13)
    again.load_state_dict(state)
    for batch in [batch for _ in range(3) for batch in second]:
        assert again.batch_at(batch.epoch, batch.step).global_step == batch.global_step


@pytest.mark.parametrize("seed", [None, 3], ids=["in file order", "shuffled"])
def test_columns_of_sources_in_another_order_are_given_again_as_they_are_delivered(
    seed: int | None, tmp_path: Path
) -> None:
    names = ("id", "share", "text", "tags", "near", "at")
    for source in (0, 1):
        ids = range(100 * source, 100 * source + 40)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "share": pa.array([one / 7 for one in ids], pa.float64()),
            "text": pa.array([str(one) for one in ids]),
            "tags": pa.array([[one] * (one % 4) for one in ids], pa.list_(pa.int32())),
            "near": pa.array([[one] * (one % 3) for one in ids], pa.list_(pa.int16())),
            "at": pa.array([None if one % 5 == 0 else one for one in ids], pa.int32()),
        }
        order = names if source == 0 else ("at", "near", "tags", "text", "share", "id")
        pq.write_table(pa.table({name: columns[name] for name in order}), tmp_path / f"{source}.parquet")

    def opened(source: int) -> fr.ParquetDataset:
        asked: list[Any] = ["id", "share", "text", "tags", fr.col("near").pad(3)]
        asked.append(fr.col("at").mask_null())
        columns = asked if source == 0 else asked[::-1]
        how: dict[str, Any] = {} if seed is None else {"shuffle": True, "seed": seed}
        return fr.ParquetDataset(tmp_path / f"{source}.parquet", columns=columns, world=(0, 1), **how)

    of = fr.Mixture({"a": (opened(0), 2), "b": (opened(1), 1)}, batch_size=7, world=(0, 1))
    first = of.peek()
    delivered = list(of)
    assert_same_batch(first, delivered[0])
    for batch in delivered:
        assert batch["share"].tolist() == [one / 7 for one in batch["id"].tolist()]
        assert_same_batch(of.batch_at(batch.epoch, batch.step), batch)
