"""`config()` is what was asked for as plain values; a job that resumes with another one is told."""

from __future__ import annotations

import functools
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume.checkpoint import Checkpointer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(60), "y": range(60), "tokens": [[1, 2]] * 60}), path)
    return path


def dataset(file: Path, **how: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(file, **{"batch_size": 2, "columns": ["x"], "world": (0, 1), **how})


def double(batch: fr.Batch) -> fr.Batch:
    batch["x"] = batch["x"] * 2
    return batch


def doubled_elsewhere(batch: fr.Batch) -> fr.Batch:
    return double(batch)


class Scaled:
    def __call__(self, batch: fr.Batch) -> fr.Batch:
        return batch


def test_a_config_is_plain_and_the_same_on_all_ranks(file: Path) -> None:
    columns = ["x", fr.col("y").cast(torch.float32)]
    how = {"columns": columns, "shuffle": fr.Shuffle(window_rows=8), "seed": 3, "lanes": 2}
    found = [
        fr.ParquetDataset(file, global_batch_size=4, world=(rank, 2), **how).map(double).config()
        for rank in range(2)
    ]
    assert found[0] == found[1] == json.loads(json.dumps(found[0]))
    assert found[0]["columns"] == ["x", "fr.col('y').cast(torch.float32)"]
    assert found[0]["shuffle"] == {"seed": 3, "block_rows": None, "window_rows": 8}
    assert found[0]["transforms"][0]["name"] == "double"
    loader = fr.Loader(dataset(file), threads=1)
    assert loader.config() == {**loader.dataset.config(), "loader": loader.config()["loader"]}
    assert loader.config()["loader"]["threads"] == 1


def test_configs_of_units_and_mixtures_are_plain_too(file: Path) -> None:
    packed = [fr.ParquetDataset(file, unit=fr.Packed("tokens", length=4)) for _ in range(2)]
    sources = {"a": (packed[0], 0.7), "b": (packed[1], 0.3)}
    mixture = fr.Mixture(sources, batch_size=2, world=(0, 1))
    found = mixture.config()
    assert found == json.loads(json.dumps(found))
    assert found["sources"]["a"]["unit"] == "fr.Packed('tokens', length=4)"
    assert found["stages"] == [{"weights": {"a": 0.7, "b": 0.3}, "stop": "first"}]


def test_a_transform_is_known_by_its_name_and_source(file: Path) -> None:
    def source(transform: Any) -> tuple[str, str | None]:
        [found] = dataset(file).map(transform).config()["transforms"]
        return found["name"], found["source"]

    assert source(double) == source(double)
    assert source(double)[1] != source(doubled_elsewhere)[1]
    assert source(functools.partial(double))[1] == source(double)[1]
    assert source(Scaled())[0] == "Scaled"
    assert source(Scaled())[1] is not None
    assert source(torch.nn.Identity())[1] is not None
    made: dict[str, Any] = {}
    exec("def nowhere(batch): return batch", made)  # noqa: S102  (Python has no source of it)
    assert source(made["nowhere"])[1] is None


OTHERS: dict[str, tuple[Any, list[str]]] = {
    "columns": (lambda file: dataset(file, columns=["y"]), ["columns was ['x'], and is ['y']"]),
    "a transform": (lambda file: dataset(file).map(double), ["transforms were [], and are ['double']"]),
    "nulls": (lambda file: dataset(file, nulls="mask"), ["nulls was 'error', and is 'mask'"]),
    "bad rows": (
        lambda file: dataset(file, bad_rows="mask", tail="pad"),
        ["tail was 'drop', and is 'pad'", "bad_rows.damaged was False, and is True"],
    ),
}


@pytest.mark.parametrize("which", OTHERS)
def test_a_job_that_resumes_with_another_dataset_is_told(file: Path, tmp_path: Path, which: str) -> None:
    make, found = OTHERS[which]
    loader = fr.Loader(dataset(file), threads=0)
    checkpointer = Checkpointer(tmp_path / "run")
    next(iter(loader))
    checkpointer.save(1, loader=loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Checkpointer(tmp_path / "run").restore(loader=fr.Loader(dataset(file), threads=0))
    with pytest.warns(UserWarning, match="resumes from step 1 with another dataset") as warned:
        Checkpointer(tmp_path / "run").restore(loader=fr.Loader(make(file), threads=0))
    for text in found:
        assert text in str(warned[0].message)


@pytest.mark.parametrize(
    ("shuffle", "message"), [(True, "True"), (fr.Shuffle(window_rows=64), "Shuffle(window_rows=64)")]
)
def test_another_shuffle_is_told_as_it_was_asked_for(
    file: Path, tmp_path: Path, shuffle: bool | fr.Shuffle, message: str
) -> None:
    Checkpointer(tmp_path / "run").save(1, loader=fr.Loader(dataset(file), threads=0))
    with pytest.warns(UserWarning, match=re.escape(f"shuffle was False, and is {message}")):
        Checkpointer(tmp_path / "run").restore(
            loader=fr.Loader(dataset(file, shuffle=shuffle), threads=0), allow={"order"}
        )


def test_another_source_of_a_transform_is_told_and_other_ranks_are_not(file: Path, tmp_path: Path) -> None:
    def transform(batch: fr.Batch) -> fr.Batch:
        return batch

    saved = fr.Loader(dataset(file).map(transform), threads=0)
    next(iter(saved))
    Checkpointer(tmp_path / "run").save(1, loader=saved)

    def transform(batch: fr.Batch) -> fr.Batch:  # type: ignore[no-redef]
        return double(batch)

    with pytest.warns(UserWarning, match=r"the source of .*transform is another one"):
        Checkpointer(tmp_path / "run").restore(loader=fr.Loader(dataset(file).map(transform), threads=0))
