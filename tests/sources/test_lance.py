"""Lance datasets: fragments are segments, and rows that were deleted are not there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import numbers_in

lance = pytest.importorskip("lance", reason="made with Lance, which has 80 MB: pip install pylance")

ONE: dict[str, Any] = {"batch_size": 10, "tail": "short", "world": (0, 1)}


def test_versions_fragments_and_deleted_rows_are_those_of_lance(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.lance")
    table = pa.table({"x": range(100), "s": [f"row {row}" for row in range(100)]})
    lance.write_dataset(table, path, max_rows_per_file=40)
    source = fr.sources.lance(path)
    assert isinstance(source, fr.sources.RowSource)
    dataset = fr.ArrowDataset(source, columns=["x"], **ONE)
    assert numbers_in(dataset) == list(range(100))
    assert [segment.rows for segment in source.segments()] == [40, 40, 20]
    state = next(iter(dataset)).state_dict()
    lance.write_dataset(table.slice(0, 7), path, mode="append")
    grown = fr.ArrowDataset(fr.sources.lance(lance.dataset(path)), columns=["x"], on_change="append", **ONE)
    grown.load_state_dict(state)
    assert numbers_in(grown) == [*range(10, 100), *range(7)]
    lance.dataset(path).delete("x % 10 = 5")
    fewer = fr.ArrowDataset(fr.sources.lance(path), columns=["x"], **ONE)
    assert numbers_in(fewer) == [row for row in [*range(100), *range(7)] if row % 10 != 5]
    with pytest.raises(fr.StateError):
        fewer.load_state_dict(state)
    before = fr.ArrowDataset(fr.sources.lance(path, version=1), columns=["x"], **ONE)
    before.load_state_dict(state)
    assert numbers_in(pickle.loads(pickle.dumps(before))) == list(range(10, 100))
    with fr.Loader(fr.ArrowDataset(fr.sources.lance(path), **ONE), threads=2) as loader:
        assert numbers_in(loader) == numbers_in(fewer)
    with pytest.raises(TypeError, match="a path or a lance"):
        fr.sources.lance(7)
