"""Datasets of Hugging Face: their files are segments, their indices name the rows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import assert_same_rows, numbers_in

datasets = pytest.importorskip("datasets", reason="made with the package datasets: make test-all has it")

ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "world": (0, 1)}
ROWS = 2500


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A dataset of two files that are mapped."""
    folder = tmp_path_factory.mktemp("stored")
    rows = {"x": list(range(ROWS)), "ids": [[row, row + 1] for row in range(ROWS)]}
    datasets.Dataset.from_dict(rows).save_to_disk(folder, num_shards=2)
    return datasets.load_from_disk(str(folder))


def test_files_are_segments_and_rows_are_those_of_their_table(stored: Any) -> None:
    dataset = fr.ArrowDataset(stored, **ONE)
    assert [Path(name).suffix for name in dataset.files] == [".arrow"] * 2
    again = pickle.dumps(dataset)
    assert len(again) < 20_000  # no values
    expected = list(fr.ArrowDataset(stored.data.table, **ONE))
    for found in (dataset, pickle.loads(again)):
        for one, other in zip(found, expected, strict=True):
            assert_same_rows(one, other)


def test_rows_come_as_indices_name_them(stored: Any) -> None:
    halves = stored.train_test_split(0.2, seed=1)
    joined = datasets.concatenate_datasets([stored.select(range(5, 900)), stored.select([3, 3, 2400])])
    for made in (
        stored.shuffle(seed=1),
        stored.select([7, 7, 0, ROWS - 1]),
        stored.select(range(100, 2000)),
        stored.shuffle(seed=2).select(range(10, 1500)),
        stored.filter(lambda row: row["x"] % 3 == 0),
        halves["train"],
        halves["test"],
        joined,
        joined.shuffle(seed=3),
        stored.rename_column("ids", "other").with_format("torch", columns=["x"]),
    ):
        asked = fr.ArrowDataset(made, **ONE)
        assert numbers_in(asked) == made.with_format(None)["x"][:]
        assert numbers_in(pickle.loads(pickle.dumps(asked))) == numbers_in(asked)
        with fr.Loader(fr.ArrowDataset(made, **ONE), threads=2) as loader:
            assert numbers_in(loader) == numbers_in(asked)
    formatted = fr.ArrowDataset(stored.with_format("numpy", columns=["x"]), **ONE)
    assert formatted.column_names == ("x",)


def test_a_state_fits_the_same_rows_in_the_same_order_alone(stored: Any) -> None:
    shuffled = stored.shuffle(seed=1)
    state = next(iter(fr.ArrowDataset(shuffled, **ONE))).state_dict()
    again = fr.ArrowDataset(stored.shuffle(seed=1), **ONE)
    again.load_state_dict(state)
    assert numbers_in(again) == shuffled["x"][64:]
    for other in (stored, stored.shuffle(seed=2), shuffled.select(range(2000))):
        with pytest.raises(fr.StateError):
            fr.ArrowDataset(other, **ONE).load_state_dict(state)


def test_rows_in_memory_are_known_by_all_their_values() -> None:
    rows = {"x": list(range(2000))}
    one, other = (
        datasets.Dataset.from_dict(made) for made in (rows, {"x": [*range(1000), 7, *range(1001, 2000)]})
    )
    assert numbers_in(fr.ArrowDataset(one, **ONE)) == rows["x"]
    assert fr.ArrowDataset(one, **ONE).fingerprint != fr.ArrowDataset(other, **ONE).fingerprint


def test_what_has_no_rows_by_number_is_refused_with_what_to_write(stored: Any) -> None:
    for source, found in (
        (datasets.DatasetDict({"train": stored}), r"source\['train'\]"),
        (stored.to_iterable_dataset(), "streaming=True"),
        (stored.with_transform(lambda rows: rows), r"with_format\(None\)"),
    ):
        with pytest.raises(TypeError, match=found):
            fr.ArrowDataset(source, **ONE)
    assert isinstance(stored.data.table, pa.Table)
