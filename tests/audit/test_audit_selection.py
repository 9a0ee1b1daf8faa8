"""The audit of a job that reads a selection of rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fastresume as fr
from fastresume.audit.log_format import selection_file
from support import oracle
from support.audits import ROWS, SHUFFLE, SPEC, Ranks, assert_proven, found_in
from support.each_of import each_of
from support.jobs import fields_of
from support.topologies import Shuffle


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])
def test_the_audit_proves_that_each_selected_row_came_once(tmp_path: Path, shuffle: Shuffle | None) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    rows = fr.Split(0.25, 0.9, seed=5)
    how = {"rows": rows & ~fr.Intervals([[300, 420]]), "shuffle": shuffle}
    ranks = Ranks(data, logs, 2, 10, **how)
    state = ranks.steps(7)
    ranks = Ranks(data, logs, 3, 5, state=state, tail="short", **how)
    ranks.steps(5)
    ranks.finish()
    said = assert_proven(logs, 1)
    selected = [row for row in oracle.positions_of(rows.rows(ROWS).tolist()) if not 300 <= row < 420]
    hash_ = oracle.selection_hash(selected)
    assert f"{len(selected)} rows in 3 files, selection {hash_[:16]}, " in said
    assert f"finished: {len(selected)} rows, each exactly once" in said


@each_of("damage", [None, b"", b"1234567", bytes(64), b"\xff" * 64])
def test_the_audit_misses_the_description_of_a_selection(tmp_path: Path, damage: bytes | None) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(data, logs, rows=fr.Split(0, 0.5))
    ranks.steps(3)
    ranks.finish()
    (path,) = logs.glob("selection-*")
    assert path.name == selection_file(fields_of(ranks.state)["selection"])
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert "the description of the dataset or of its selection is missing or damaged" in found_in(logs)


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])
def test_the_audit_knows_which_row_stands_at_a_position(tmp_path: Path, shuffle: Shuffle | None) -> None:
    """It needs them where a pass is unfinished, and where rows are dropped."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(
        data,
        logs,
        2,
        10,
        rows=fr.Split(0.25, 0.9, seed=5) & ~fr.Intervals([[300, 420]]),
        shuffle=shuffle,
    )
    ranks.finish()
    ranks.steps(9)
    said = assert_proven(logs, 1)
    assert "dropped by tail='drop'" in said
    assert "unfinished" in said
    assert "180 rows, each exactly once" in said


def test_the_audit_refuses_as_many_rows_that_are_others(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    Ranks(data, logs, rows=[[10, 110]]).steps(3)
    (path,) = logs.glob("selection-*")
    path.write_bytes(np.array([[11, 111]], "<i8").tobytes())
    assert "the description of the dataset or of its selection is missing or damaged" in found_in(logs)


def test_the_audit_finds_a_row_that_was_not_selected(tmp_path: Path) -> None:
    """Selected positions with rows beside the selection: the digests differ."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(data, logs, 1, rows=[[0, 1000]])
    other = fr.ParquetDataset(data, rows=[[0, 999], [1001, 1002]], batch_size=10, world=(0, 1))
    loader = ranks.loaders[0]
    loader._spec = replace(loader._spec, manifest=other._spec.manifest)
    ranks.finish()
    assert "the rows handed over are not those of their places" in found_in(logs)
