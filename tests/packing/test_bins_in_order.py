"""Bins in their order are decoded as rows are: by the same threads, ahead, into the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.documents import documents, opened, write

UNITS = [fr.Bins("tokens", cost=30), fr.Bins("cost", cost=30, rows=3), fr.Bins("tokens", cost=1)]

GAPS = fr.Intervals([[row, row + 1 + row % 3] for row in range(0, 780, 5)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [documents(1, 700, 40), [[]], documents(2, 90, 40)]
    return write(tmp_path_factory.mktemp("bins") / "data", files, row_group_size=64, data_page_size=200)


def told(batch: fr.Batch) -> Any:
    values = {
        name: value.tolist() if isinstance(value, torch.Tensor) else value.to_list()
        for name, value in batch.items()
    }
    whose = batch.rows().tolist(), batch.valid.tolist(), batch.unit_offsets.tolist()
    return values, *whose, batch.step, batch.state_dict()


def composed(dataset: fr.ParquetDataset) -> Iterator[fr.Batch]:
    """The batches as they are put together of bins that are decoded many at a time."""
    spec: Any = dataset.spec
    cursor = spec.start()
    planned = spec.pass_from(cursor, 1)
    reader = spec._reader(cursor, planned, (spec.world.rank, spec.world.world_size, 0, 1))
    while (front := reader.front()) is not None:
        yield front.with_cursor(front.cursor, spec.share(planned, cursor))
        reader.advance()


@pytest.mark.law(6)
@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize(
    "how",
    [
        {"tail": "short"},
        {"tail": "pad", "lanes": 6},
        {"tail": "pad", "lanes": 2, "rows": GAPS},
        {"tail": "pad", "rows": fr.Intervals([[3, 40]])},
        {"tail": "drop", "lanes": 4, "groups": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [0, 1])
def test_batches_are_the_same_whoever_decodes_them(
    data: Path, unit: fr.Bins, how: dict[str, Any], rank: int
) -> None:
    def dataset() -> fr.ParquetDataset:
        return fr.ParquetDataset(data, batch_size=6, unit=unit, rank=rank, world_size=2, nulls="mask", **how)

    expected = [told(batch) for batch in composed(dataset())]
    assert expected
    assert [told(batch) for batch in dataset()] == expected
    for threads in (1, 2, 8):
        for prefetch_bytes in (1, 1 << 20):
            with fr.Loader(dataset(), threads=threads, prefetch_bytes=prefetch_bytes) as loader:
                assert [told(batch) for batch in loader] == expected
    again = dataset()
    assert [told(again.batch_at(epoch=0, step=step))[:4] for step in range(len(expected))] == [
        each[:4] for each in expected
    ]


def test_workers_and_resumes_give_the_same_bins(data: Path) -> None:
    def dataset() -> fr.ParquetDataset:
        return opened(data, UNITS[0], 4, tail="pad", lanes=2, groups=2)

    expected = [told(batch)[:4] for batch in composed(dataset())]
    with fr.Loader(dataset(), num_workers=2) as loader:
        assert [told(batch)[:4] for batch in loader] == expected
    for stop in (1, 7, len(expected) - 1):
        first = dataset()
        batches = iter(first)
        for _ in range(stop):
            state = next(batches).state_dict()
        second = dataset()
        second.load_state_dict(state)
        assert [told(batch)[:4] for batch in second] == expected[stop:]


def test_threads_decode_bins_and_tell_what_they_do(tmp_path: Path) -> None:
    lengths = np.random.default_rng(3).integers(0, 200, 20_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1], dtype=np.int32)))
    pq.write_table(pa.table({"tokens": tokens}), tmp_path / "0.parquet", row_group_size=1000)
    dataset = opened(tmp_path, fr.Bins("tokens", cost=2048), 8, tail="short")
    with fr.Loader(dataset, threads=2, prefetch_bytes=32 << 20) as loader:
        spec: Any = dataset.spec
        cursor = spec.start()
        reader = spec.reader(cursor, spec.pass_from(cursor, 1), (0, 1, 0, 1), 2, 32 << 20)
        reader.start()
        reader.front()
        assert len(reader.activity.threads()) == 3, "two threads, and who asks"
        reader.close()
        found = [token for batch in loader for token in batch["tokens"].values.tolist()]  # type: ignore[union-attr]
    assert found == list(range(offsets[-1]))
    plan = dataset.plan()
    assert plan.bytes_per_rank > 0
