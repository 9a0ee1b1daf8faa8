"""Copies of batches: what pickle, `torch.save` and torch's trees make of them is the same batch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils._pytree import keystr, tree_map, tree_map_with_path, tree_structure
from torch.utils.data import DataLoader

import fastresume as fr
from support.jobs import arrays_of, assert_batch_values
from support.rotten_pages import rot_group

Rows = Callable[..., Any]

ASKED = ("num_rows", "epoch", "step", "global_step", "batches_left", "cursor", "cursor_before")

LISTED = ("valid", "source", "unit_offsets")


def assert_same_batch(one: fr.Batch, other: fr.Batch) -> None:
    assert_batch_values(one, arrays_of(other))
    assert told(one) == told(other)


def told(batch: Any) -> dict[str, Any]:
    """What a batch says of its place and its rows."""
    rows = batch.rows()
    found = {name: getattr(batch, name) for name in ASKED}
    found |= {"rows": rows.to_list() if isinstance(rows, fr.Jagged) else rows.tolist()}
    found |= {name: getattr(batch, name).tolist() for name in LISTED if hasattr(batch, name)}
    return found if hasattr(batch, "unit_offsets") else {**found, "seeds": batch.row_seeds().tolist()}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    table = pa.table({"x": range(90), "tokens": [[1], [2, 3], []] * 30, "s": [str(n) for n in range(90)]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=30)
    return lambda **how: fr.ParquetDataset(tmp_path, **{"batch_size": 7, "world": (0, 1), **how})


def masked(batch: fr.Batch) -> fr.Batch:
    batch.mask([1, 4], "too dark")
    return batch


def damaged(rows: Rows) -> Any:
    dataset = rows(bad_rows="mask", batch_size=40)
    (file,) = dataset.files
    rot_group(Path(file), 1)
    return dataset


KINDS: dict[str, Callable[[Rows], Any]] = {
    "plain": lambda rows: rows(),
    "shuffled": lambda rows: rows(shuffle=True, seed=2**52, tail="pad"),
    "masked": lambda rows: rows(bad_rows=fr.MaskBadRows(at_most=90)).map(masked),
    "damaged": damaged,
    "mixed": lambda rows: fr.Mixture(
        {"a": (rows(), 1), "b": (rows(seed=1, shuffle=True), 2)}, batch_size=7, world=(0, 1)
    ),
    "sequences": lambda rows: rows(unit=fr.Packed("tokens", length=4), columns=["tokens"]),
    "bins": lambda rows: rows(unit=fr.Bins("tokens", cost=6)),
}


@pytest.mark.law(5)
@pytest.mark.parametrize("kind", KINDS)
def test_torch_loads_a_batch_that_it_saved(rows: Rows, kind: str, tmp_path: Path) -> None:
    batches = list(KINDS[kind](rows))
    for batch in (batches[1], batches[-1]):
        torch.save({"batch": batch}, tmp_path / "saved.pt")
        loaded = torch.load(tmp_path / "saved.pt")["batch"]
        twice = pickle.loads(pickle.dumps(loaded))
        for copied in (loaded, twice, copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
            assert_same_batch(batch, copied)


def test_torch_loads_rows_that_were_read_by_their_numbers(rows: Rows, tmp_path: Path) -> None:
    torch.save(rows().read_rows([5, 3]), tmp_path / "saved.pt")
    loaded = torch.load(tmp_path / "saved.pt")
    assert loaded["x"].tolist() == loaded.rows().tolist() == [5, 3]
    assert not hasattr(loaded, "step")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_batch_is_a_tree_of_its_tensors(rows: Rows, num_workers: int) -> None:
    batch = next(iter(DataLoader(rows(), batch_size=None, num_workers=num_workers)))
    moved = tree_map(lambda value: value.to("meta"), {"now": [batch]})["now"][0]
    assert {value.device.type for value in moved.values()} == {"meta"}
    assert batch["x"].device.type == "cpu"
    assert moved.state_dict() == batch.state_dict()
    assert_same_batch(tree_map(lambda one, other: one if one is other else None, batch, batch), batch)
    assert tree_map_with_path(lambda path, _: keystr(path), batch)["tokens"] == "['tokens']"


def test_batches_of_the_same_names_are_trees_of_one_form(rows: Rows) -> None:
    one, other, *_ = rows()
    assert tree_structure(one) == tree_structure(other) != tree_structure(rows(columns=["x"]).peek())
    assert tree_map(torch.add, {"x": one["x"]}, {"x": other["x"]})["x"][0] == 7
