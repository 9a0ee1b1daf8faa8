"""Lists and single ids as torchrec's KeyedJaggedTensor."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.jobs import make
from support.strategies import Dataset


class StandIn:
    """What the tests need of torchrec's KeyedJaggedTensor, where torchrec can't be imported.

    `make test-torchrec` runs them with torchrec itself.
    """

    def __init__(
        self,
        keys: list[str],
        values: torch.Tensor,
        lengths: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
        stride: int | None = None,
    ) -> None:
        assert (lengths is None) != (offsets is None)
        assert weights is None or weights.shape == values.shape
        self._keys, self._values, self._weights, self._stride = keys, values, weights, stride
        self._lengths = lengths if offsets is None else offsets.diff()

    def keys(self) -> list[str]:
        return self._keys

    def values(self) -> torch.Tensor:
        return self._values

    def weights(self) -> torch.Tensor:
        assert self._weights is not None
        return self._weights

    def weights_or_none(self) -> torch.Tensor | None:
        return self._weights

    def lengths(self) -> torch.Tensor:
        return self._lengths

    def stride(self) -> int | None:
        return self._stride


@pytest.fixture
def torchrec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torchrec, or what stands in for it."""
    try:
        with warnings.catch_warnings():  # other projects may warn of what they like
            warnings.simplefilter("ignore")
            importlib.import_module("torchrec")
    except (ImportError, OSError):  # not installed, or without the libraries that it wants
        monkeypatch.setitem(sys.modules, "torchrec", SimpleNamespace(KeyedJaggedTensor=StandIn))


def test_one_key_of_a_keyed_jagged_tensor_shares_the_memory(torchrec: None) -> None:
    jagged = fr.Jagged(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]), torch.tensor([True, False, True]))
    keyed = jagged.to_keyed_jagged_tensor("clicks")
    assert list(keyed.keys()) == ["clicks"]
    assert keyed.values().data_ptr() == jagged.values.data_ptr()
    assert keyed.lengths().tolist() == [2, 0, 1]
    assert keyed.stride() == 3


def test_several_keys_stand_one_after_the_other(torchrec: None, lists: Dataset) -> None:
    batch = next(iter(make(lists, columns=["tokens", "name", "weight"], nulls="mask")))
    batch["again"] = batch["tokens"][:]
    tokens = batch["tokens"]
    for names in (["tokens"], ["again", "tokens"]):
        keyed = batch.to_keyed_jagged_tensor(names)
        count = len(names)
        assert list(keyed.keys()) == names
        assert keyed.values().tolist() == tokens.values.tolist() * count
        assert keyed.lengths().tolist() == tokens.lengths.tolist() * count
        assert keyed.stride() == 10
    batch["dense"] = torch.zeros(10, 2)
    with pytest.raises(TypeError, match=r"'dense' is a tensor \[10, 2\]: .* lists, and of tensors \[B\]"):
        batch.to_keyed_jagged_tensor(["tokens", "dense"])
    with pytest.raises(ValueError, match=r"'tokens' is 10 rows of int32, 'name' is 10 rows of uint8"):
        batch.to_keyed_jagged_tensor(["tokens", "name"])
    with pytest.raises(KeyError, match="no tensor 'nope' in the batch"):
        batch.to_keyed_jagged_tensor(["nope"])
    with pytest.raises(ValueError, match="of no keys"):
        batch.to_keyed_jagged_tensor([])


IDS = [3, None, 5, 8]
CLICKS = [[10, None, 11], None, [], [12]]
SECONDS = [[0.5, 1.5, 2.5], None, [], [None]]
"""Weights of the clicks; where a click is null, its weight goes as well."""


@pytest.fixture
def clicks(tmp_path: Path) -> fr.Batch:
    """Single ids, lists of ids, and weights of both, with nulls among them."""
    table = pa.table(
        {
            "user": pa.array(IDS, pa.int64()),
            "share": pa.array([0.25, 0.5, None, 1.0], pa.float32()),
            "clicks": pa.array(CLICKS, pa.list_(pa.int64())),
            "seconds": pa.array(SECONDS, pa.list_(pa.float32())),
            "fewer": pa.array([[0.5, 1.5], None, [], [1.0]], pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    return next(iter(fr.ParquetDataset(tmp_path, batch_size=4, nulls="mask", world=(0, 1))))


def test_single_ids_are_rows_of_one_value_and_nulls_are_left_out(torchrec: None, clicks: fr.Batch) -> None:
    keyed = clicks.to_keyed_jagged_tensor(["user", "clicks"])
    assert list(keyed.keys()) == ["user", "clicks"]
    assert keyed.values().tolist() == [3, 5, 8, 10, 11, 12]
    assert keyed.lengths().tolist() == [1, 0, 1, 1, 2, 0, 0, 1]
    assert keyed.stride() == 4
    assert keyed.weights_or_none() is None


def test_single_ids_without_nulls_share_their_memory(torchrec: None, clicks: fr.Batch) -> None:
    clicks["place"] = torch.tensor([7, 7, 8, 9])
    keyed = clicks.to_keyed_jagged_tensor("place")
    assert keyed.values().data_ptr() == clicks["place"].data_ptr()
    assert (keyed.values().tolist(), keyed.lengths().tolist()) == ([7, 7, 8, 9], [1, 1, 1, 1])


@pytest.mark.parametrize("weights", [["share", "seconds"], {"user": "share", "clicks": "seconds"}])
def test_each_value_has_its_weight(torchrec: None, clicks: fr.Batch, weights: Any) -> None:
    keyed = clicks.to_keyed_jagged_tensor(["user", "clicks"], weights=weights)
    assert keyed.values().tolist() == [3, 5, 8, 10, 11, 12]
    # The weights of 5 and 12 are null, and 0 takes their place.
    assert keyed.weights().tolist() == [0.25, 0, 1, 0.5, 2.5, 0]


def test_where_some_keys_have_weights_those_of_the_others_are_1(torchrec: None, clicks: fr.Batch) -> None:
    keyed = clicks.to_keyed_jagged_tensor(["user", "clicks"], weights={"clicks": "seconds"})
    assert keyed.weights().tolist() == [1, 1, 1, 0.5, 2.5, 0]
    alone = clicks["clicks"].to_keyed_jagged_tensor("clicks", clicks["seconds"])
    assert (alone.values().tolist(), alone.weights().tolist()) == ([10, 11, 12], [0.5, 2.5, 0])


def test_weights_that_do_not_fit_are_refused(torchrec: None, clicks: fr.Batch) -> None:
    with pytest.raises(ValueError, match="'clicks' has 3 values in row 0 of the batch, and 2 weights"):
        clicks.to_keyed_jagged_tensor(["clicks"], weights=["fewer"])
    with pytest.raises(ValueError, match="'clicks' has 4 rows, and its weights have 2"):
        clicks["clicks"].to_keyed_jagged_tensor("clicks", clicks["seconds"][:2])
    with pytest.raises(ValueError, match="2 names and 1 of weights"):
        clicks.to_keyed_jagged_tensor(["user", "clicks"], weights=["share"])
    with pytest.raises(ValueError, match="'usr', which is not among the names"):
        clicks.to_keyed_jagged_tensor(["user"], weights={"usr": "share"})
    with pytest.raises(ValueError, match=r"'user' are torch\.int64, those of 'clicks' are torch\.float32"):
        clicks.to_keyed_jagged_tensor(["user", "clicks"], weights=["user", "seconds"])


def test_without_torchrec_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchrec", None)
    with pytest.raises(
        ModuleNotFoundError,
        match="to_keyed_jagged_tensor needs the package torchrec: pip install torchrec,",
    ):
        fr.Jagged(torch.tensor([1]), torch.tensor([0, 1])).to_keyed_jagged_tensor("clicks")
