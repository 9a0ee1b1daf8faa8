"""What a public object prints says what one wants to know of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr


@pytest.fixture
def objects(tmp_path: Path) -> dict[str, Any]:
    """One of each public class, of a small dataset in mid pass."""
    table = {"label": [1.0] * 40, "i_0": list(range(40)), "i_1": list(range(40)), "name": ["ab", None] * 20}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=10)
    dataset, other = (
        fr.ParquetDataset(
            tmp_path,
            batch_size=8,
            shuffle=True,
            seed=17,
            world=(0, 1),
            columns=["*", "!i_*", fr.col("name").mask_null(), fr.stack("i_*", name="both")],
        )
        for _ in range(2)
    )
    loader = fr.Loader(dataset.map(keep), threads=1, audit=tmp_path / "audit", watchdog_seconds=60)
    batch = next(iter(loader))
    return {
        "ParquetDataset": dataset,
        "ArrowDataset": fr.ArrowDataset(pa.table({"x": range(40)}), batch_size=8, world=(0, 1)),
        "Loader": loader,
        "Mixture": fr.Mixture({"web": (dataset, 0.7), "code": (other, 0.3)}, batch_size=8),
        "Batch": batch,
        "Jagged": batch["name"],
        "Cursor": batch.cursor,
        "Field": dataset.schema["both"],
        "Schema": dataset.schema,
        "Plan": dataset.plan(),
        "Split": fr.Split(0.0, 0.9, seed=3),
        "FilterReport": fr.FilterReport(
            rows=100, kept=20, scanned=30, left_out_by_statistics=70, left_out_by_scan=10
        ),
        "Intervals": fr.Intervals([[3, 4], [10, 20]]),
        "World": fr.World(1, 2),
        "Shuffle": fr.Shuffle(window_rows=4096),
        "Cache": fr.Cache(manifest="m", data="/local/cache", data_bytes=1000),
        "MaskBadRows": fr.MaskBadRows(at_most=0.01),
        "Packed": fr.Packed("tokens", length=2048, separator=0),
        "Bins": fr.Bins("tokens", cost=8192),
        "Stats": loader.stats(),
        "Column": fr.col("label").hash(1000, seed=7).pad(16, side="left"),
        "Stack": fr.stack("i_*", fr.col("label").cast(torch.int64), name="both"),
        "Condition": (fr.col("label") > 0.5) & ~fr.col("name").is_null(),
        "iterator": iter(loader),
    }


def keep(batch: fr.Batch) -> fr.Batch:
    return batch


WORDS = {
    "ParquetDataset": [
        "1 file,",
        "40 rows",
        "shuffled with seed 17",
        "batch_size=8",
        "rank 0 of 1",
        "epoch 0",
        "4 batches left",
    ],
    "ArrowDataset": ["ArrowDataset(1 segment,", "40 rows", "batch_size=8", "5 batches left"],
    "Loader": ["ParquetDataset(", "mapped by keep", "threads=1", "audit", "watchdog_seconds=60", "batches=1"],
    "Mixture": ["web 70.0%", "code 30.0%", "batch_size=8", "rank 0 of 1"],
    "Batch": ["rows=8", "epoch=0", "step=0", "both: int64[8, 2]", "label: float64[8]", "name: uint8[8, *]"],
    "Jagged": ["rows=8", "uint8[", "valid=bool[8]"],
    "Cursor": ["epoch=0", "step=1", "8 of 40 (20.0%)", "shuffled with seed 17"],
    "Field": ["'both'", "torch.int64", "('i_0', 'i_1')"],
    "Schema": ["both: int64 [B, 2] i_0, i_1", "label: float64 [B]", "name: uint8 [B, *] string, valid"],
    "Plan": ["32 rows left", "shuffled", "seed 17"],
    "Split": ["0.0", "0.9", "seed=3"],
    "FilterReport": ["rows=100", "kept=20", "scanned=30", "left_out_by_statistics=70", "left_out_by_scan=10"],
    "Intervals": ["fr.Intervals([[3, 4], [10, 20]])"],
    "World": ["rank=1", "world_size=2"],
    "Shuffle": ["Shuffle(block_rows=None, window_rows=4096)"],
    "Cache": ["Cache(manifest='m', data='/local/cache', data_bytes=1000)"],
    "MaskBadRows": ["MaskBadRows(at_most=0.01, damaged=True)"],
    "Packed": ["fr.Packed('tokens', length=2048, separator=0)"],
    "Bins": ["fr.Bins('tokens', cost=8192)"],
    "Stats": ["batches=1, rows=8", "in next()", "waiting", "decoding", "ready: ", "pass 0: 20% done"],
    "Column": ["fr.col('label').hash(1000, seed=7).pad(16, side='left')"],
    "Stack": ["fr.stack(fr.col('i_*'), fr.col('label').cast(torch.int64), name='both')"],
    "Condition": ["(fr.col('label') > 0.5)", "&", "~fr.col('name').is_null()"],
    "iterator": ["at step 1 of pass 0", "ParquetDataset("],
}


def test_a_dataset_without_a_batch_size_says_so(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "a.parquet")
    source = fr.ParquetDataset(tmp_path / "a.parquet")
    assert repr(source) == "ParquetDataset(1 file, 10 rows, 1 tensor, sequential, without a batch size)"
    assert repr(source) in repr(fr.Loader(source))


def test_every_public_object_says_what_it_is(objects: dict[str, Any]) -> None:
    for name, words in WORDS.items():
        text = repr(objects[name])
        missing = [word for word in words if word not in text]
        assert not missing, f"{name}: {missing} not in {text}"
        assert not re.search(r" object at 0x[0-9a-f]+", text), text
        assert len(text) < 1000
    objects["Loader"].close()


def test_one_row_is_named_in_the_singular(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [7], "l": [[1]]}), tmp_path / "a.parquet")
    made = {"batch_size": 1, "world": (0, 1), "bad_rows": fr.MaskBadRows(at_most=1)}
    for more in ({}, {"shuffle": True}, {"filter": fr.col("x") > 0}, {"unit": fr.Bins("l", cost=1)}):
        dataset: Any = fr.ParquetDataset(tmp_path, **made, **more)
        mixture = fr.Mixture({"a": (dataset, 1)}, batch_size=1, world=(0, 1))
        for of in (dataset, mixture):
            texts = [repr(of), str(of.plan(workers=1)), repr(fr.Loader(of)), str(fr.Loader(of).stats())]
            found = [re.findall(r"(?<![\d.,])1 \w+s\b(?! left)", text) for text in texts]
            assert not any(found), f"{found} in {texts}"


def test_no_public_class_is_left_out() -> None:
    classes = {name for name in fr.__all__ if isinstance(getattr(fr, name), type)}
    errors = {name for name in classes if issubclass(getattr(fr, name), Exception)}
    assert classes - errors == set(WORDS) - {"iterator"}
