"""Law 9 and law 11 for states: what is foreign, damaged or absurd is one StateError, and moves nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from support import oracle
from support.refusals import open_dataset, refused, rows_of, write

pytestmark = pytest.mark.law(11)


@pytest.fixture
def half_read(path: Path) -> fr.ParquetDataset:
    """A dataset of three batches, of which one was delivered."""
    dataset = open_dataset(write(path))
    next(iter(dataset))
    return dataset


def parsed(dataset: fr.ParquetDataset) -> dict[str, Any]:
    """Return the state of a dataset as a dict, to be changed."""
    return json.loads(dataset.state_dict()["fastresume"])


@contextmanager
def refused_state(dataset: fr.ParquetDataset, *words: object) -> Iterator[None]:
    """Expect a StateError that leaves the dataset as it was."""
    before = dataset.state_dict()
    with refused(fr.StateError, *words):
        yield
    assert dataset.state_dict() == before
    assert dataset.batches_left == 2


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        "",
        "{}",
        5,
        {"data": "x"},
        {1: 2},
        {"fastresume": None},
        {"fastresume": ""},
        {"fastresume": "not JSON"},
        {"fastresume": "[]"},
        {"fastresume": "{}"},
        {"fastresume": 1},
        {"fastresume": b"bytes"},
        {"fastresume": float("nan")},
        {"fastresume": "\ud800"},
        {"fastresume": "[" * 100_000},
        {"fastresume": 1, "consumed": [set()]},
        {"fastresume": "{}", "more": 1},
    ],
    ids=lambda state: repr(state)[:30].encode("ascii", "replace").decode(),
)
def test_what_is_no_state_is_refused(half_read: fr.ParquetDataset, state: Any) -> None:
    with refused_state(half_read):
        half_read.load_state_dict(state)


def test_a_state_nested_too_deep_is_refused(half_read: fr.ParquetDataset) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with refused_state(half_read):
        half_read.load_state_dict({"fastresume": 1, "consumed": deep})


def test_a_state_of_another_dataset_is_refused_with_both_fingerprints(
    half_read: fr.ParquetDataset, tmp_path: Path
) -> None:
    other = open_dataset(write(tmp_path / "other.parquet", rows=40))
    with refused_state(half_read, half_read.fingerprint, other.fingerprint, "30 rows", "40 rows"):
        half_read.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("fastresume", 2, ["version 2", "version 1"]),
        ("order", {"kind": "shuffled", "seed": 17}, ["order", "shuffled"]),
        ("order", {"kind": "sequential", "seed": 17}, ["order", "17"]),
        ("selection", {"column": "x"}, []),
        ("epoch", -1, []),
        ("epoch", 2**53, [2**53]),
        ("epoch", 0.5, []),
        ("first_epoch", 7, [7]),
        ("earlier_batches", -1, []),
        ("earlier_batches", 2**53, [2**53]),
        ("earlier_batches", None, []),
        ("consumed", [[5, 3]], []),
        ("consumed", [[0, 31]], []),
        ("consumed", [[0, 5], [3, 8]], []),
        ("cuts", [[1, 1, 10, 4]], ["4", "3"]),
        ("cuts", [[0, 1, 10, 1]], ["0 lanes"]),
        ("cuts", [[3, 2, 10, 1]], ["3 lanes", "2 groups"]),
        ("cuts", [[2**52, 1, 2**52, 1]], [2**52]),
        ("cuts", [[1, 1, 10, 0]], []),
        ("cuts", [[1, 1, 10]], []),
        ("news", 1, ["news"]),
    ],
)
def test_a_state_of_nonsense_is_refused_even_if_its_checksum_is_right(
    half_read: fr.ParquetDataset, key: str, value: Any, words: list[object]
) -> None:
    text = oracle.checked({**parsed(half_read), key: value})
    with refused_state(half_read, *words):
        half_read.load_state_dict({"fastresume": text})
    with refused_state(half_read, *words):
        half_read.load_state_dict(json.loads(text))


def test_a_state_of_absurdly_many_lanes_is_refused_in_time(half_read: fr.ParquetDataset) -> None:
    lanes = 2**28
    rows = {"dataset": {"fingerprint": half_read.fingerprint, "rows": 2**52}}
    text = oracle.checked({**parsed(half_read), **rows, "cuts": [[lanes, lanes, 1, 1]]})
    began = time.process_time()
    with refused_state(half_read):
        half_read.load_state_dict({"fastresume": text})
    assert time.process_time() - began < 1


def test_any_damaged_character_is_noticed(half_read: fr.ParquetDataset) -> None:
    text = half_read.state_dict()["fastresume"]
    for index, character in enumerate(text):
        damaged = text[:index] + ("1" if character != "1" else "2") + text[index + 1 :]
        with refused_state(half_read):
            half_read.load_state_dict({"fastresume": damaged})
    for length in range(len(text)):
        with refused_state(half_read):
            half_read.load_state_dict({"fastresume": text[:length]})


def test_a_refused_state_leaves_a_live_iterator_alone(path: Path) -> None:
    loader = fr.Loader(open_dataset(write(path)), threads=1)
    iterator = iter(loader)
    batches = [next(iterator)]
    with pytest.raises(fr.StateError):
        loader.load_state_dict({"fastresume": "{}"})
    assert rows_of([*batches, *iterator]) == list(range(30))
