"""The index of units is kept beside the manifest, tells how far it is, and states its memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastresume as fr
from fastresume.packing import costs
from support.documents import documents, opened, write

UNITS = [
    fr.Packed("tokens", length=16, separator=0),
    fr.Packed("tokens", "labels", length=9, rest="pad"),
    fr.Bins("tokens", cost=30),
    fr.Bins("cost", cost=30),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", [documents(1, 700, 40), [[]], documents(2, 90, 40)], row_group_size=64)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many scans were begun."""
    found: list[int] = []
    for name in ("list_lengths", "_numbers"):
        honest = getattr(costs, name)

        def counted(*given: Any, honest: Any = honest) -> Any:
            found.append(1)
            return honest(*given)

        monkeypatch.setattr(costs, name, counted)
    monkeypatch.setattr("fastresume.packing.packed_table.list_lengths", costs.list_lengths)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_who_opens_next_does_not_scan(data: Path, tmp_path: Path, unit: Any, scans: list[int]) -> None:
    cache = tmp_path / "manifest"
    first = opened(data, unit, manifest_cache=cache)
    assert len(scans) == 1
    again = opened(data, unit, manifest_cache=cache)
    assert len(scans) == 1
    told = first.spec.units_table.arrays, again.spec.units_table.arrays  # type: ignore[attr-defined]
    assert all(np.array_equal(one, other) for one, other in zip(*told, strict=True))
    assert [
        batch["tokens"].tolist() if "document" in batch else batch.rows().tolist() for batch in first
    ] == [batch["tokens"].tolist() if "document" in batch else batch.rows().tolist() for batch in again]
    # Other rows, units and files have their own.
    opened(data, unit, manifest_cache=cache, rows=fr.Intervals([[5, 600]]))
    assert len(scans) == 2
    opened(data, fr.Packed("tokens", length=7), manifest_cache=cache)
    assert len(scans) == 3
    write(data, [documents(1, 700, 40), [[]], documents(2, 90, 40), documents(3, 9, 40)], row_group_size=64)
    opened(data, unit, manifest_cache=cache)
    assert len(scans) == 4
    assert len(list(tmp_path.glob("manifest.units-*"))) == 3


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"x" + data, lambda data: data[:40]])
def test_a_damaged_index_is_made_anew(data: Path, tmp_path: Path, change: Any, scans: list[int]) -> None:
    opened(data, UNITS[0], manifest_cache=tmp_path / "manifest")
    (path,) = tmp_path.glob("manifest.units-*")
    sound = path.read_bytes()
    path.write_bytes(change(sound))
    opened(data, UNITS[0], manifest_cache=tmp_path / "manifest")
    assert (len(scans), path.read_bytes()) == (2, sound)


def test_an_index_that_can_not_be_kept_is_a_warning(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastresume.files.put", full)
    with pytest.warns(UserWarning, match="the index of units .* can't be written: No space left") as told:
        assert len(opened(data, UNITS[0], manifest_cache=tmp_path / "manifest")) > 0
    assert told[0].filename == opened.__code__.co_filename, "it points at the caller"


def test_an_index_of_damaged_files_is_not_kept(data: Path, tmp_path: Path) -> None:
    path = data / "0.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 2000 + path.read_bytes()[2004:])
    how = {"bad_rows": "mask", "max_bad_rows": 1000, "manifest_cache": tmp_path / "manifest"}
    opened(data, UNITS[0], **how)
    assert not list(tmp_path.glob("manifest.units-*"))


def test_the_scan_tells_how_far_it_is_and_the_plan_its_memory(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(costs, "_SECONDS", -1.0)
    with caplog.at_level(logging.INFO, "fastresume"):
        dataset = opened(data, UNITS[0])
    assert "read the lengths of 1 of 14 row groups" in caplog.messages
    table: Any = dataset.spec.units_table  # type: ignore[attr-defined]
    assert table.num_bytes >= sum(each.nbytes for each in table.arrays)
    assert f"in an index of {table.num_bytes:,} bytes" in str(dataset.plan())
