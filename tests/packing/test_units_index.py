"""The index of units: what it knows of each file is kept, tells how far it is, and states its memory."""

from __future__ import annotations

import logging
import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.packing import index
from support.child import Child, say
from support.documents import documents, opened, units_of, write
from support.rotten_pages import rot_group

UNITS = [
    fr.Packed("tokens", length=16, separator=0),
    fr.Packed("tokens", "labels", length=9, rest="pad"),
    fr.Bins("tokens", cost=30),
    fr.Bins("cost", cost=30),
]

FILES = [documents(1, 700, 40), [[]], documents(2, 90, 40)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", FILES, row_group_size=64)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "caches").mkdir()
    return tmp_path / "caches" / "manifest"


def files_read(dataset: fr.ParquetDataset) -> int:
    spec: Any = dataset._spec
    return int(spec.files_read)


def contents(dataset: fr.ParquetDataset) -> list[Any]:
    return [
        list(units_of(batch)) if "document" in batch else [batch.rows().tolist(), batch.unit_offsets.tolist()]
        for batch in dataset
    ]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_who_opens_next_reads_no_file(data: Path, cache: Path, unit: Any) -> None:
    first = opened(data, unit, manifest_cache=cache)
    assert files_read(first) == 3
    again = opened(data, unit, manifest_cache=cache)
    assert files_read(again) == 0
    assert contents(again) == contents(first) == contents(opened(data, unit))
    # Other rows and units of a file have their own.
    some = opened(data, unit, manifest_cache=cache, rows=fr.Intervals([[5, 600], [700, 791]]))
    assert files_read(some) == 1, "of the files behind, all rows are selected as before"
    other = fr.Packed("tokens", length=7) if isinstance(unit, fr.Packed) else fr.Bins("tokens", cost=29)
    opened(data, other, manifest_cache=cache)
    for each in (unit, other):
        assert files_read(opened(data, each, manifest_cache=cache)) == 0
    write(data, [*FILES, documents(3, 9, 40)], row_group_size=64)
    for name in ("0", "1", "2"):  # written anew, with the same bytes
        os.utime(data / f"{name}.parquet", ns=(1, 1))
    more = opened(data, unit, manifest_cache=cache)
    assert files_read(more) == 4, "other times are other files"
    assert contents(more) == contents(opened(data, unit))
    assert sorted(path.name for path in cache.parent.iterdir()) == ["manifest", "manifest.units"]


def day(log: Path, number: int) -> Path:
    path = log / f"day={number:02d}" / "p.parquet"
    path.parent.mkdir(parents=True)
    ids = np.arange(number * 60, number * 60 + 60)
    lists = pa.array([[int(row)] * 2 for row in ids], pa.list_(pa.int64()))
    pq.write_table(pa.table({"x": ids, "tokens": lists}), path, write_page_checksum=True, row_group_size=20)
    os.utime(path, (time.time() - 1000 + number,) * 2)
    return path


@pytest.mark.parametrize("unit", [fr.Packed("tokens", length=4), fr.Bins("x", cost=100)], ids=repr)
@pytest.mark.parametrize("how", [{}, {"filter": fr.col("x") >= 1}], ids=["all rows", "filtered"])
def test_a_day_that_comes_reads_its_own_files_alone(
    tmp_path: Path, cache: Path, unit: Any, how: dict[str, Any]
) -> None:
    sizes = []
    for number in range(9):
        day(tmp_path / "log", number)
        dataset = opened(tmp_path / "log", unit, manifest_cache=cache, on_change="append", **how)
        assert files_read(dataset) == 1
        assert "; 1 had to be read" in str(dataset.plan())
        sizes.append((cache.parent / "manifest.units").stat().st_size)
    assert contents(dataset) == contents(opened(tmp_path / "log", unit, on_change="append", **how))
    kept = {path.name for path in cache.parent.iterdir()}
    assert {name for name in kept if ".filter-" not in name} == {"manifest", "manifest.units"}
    assert len(kept) == 2 + ("filter" in how), "a filter has one file, however many days come"
    assert max(np.diff(sizes)) < 2 * sizes[0], "each day adds its own"


def test_a_page_that_rots_after_it_was_indexed_stops_nothing(tmp_path: Path, cache: Path) -> None:
    old = day(tmp_path / "log", 0)
    day(tmp_path / "log", 1)
    unit, how = fr.Packed("tokens", length=4), {"manifest_cache": cache, "on_change": "append"}
    before = opened(tmp_path / "log", unit, **how)
    state = before.state_dict()
    times = old.stat().st_mtime_ns
    rot_group(old, 1)
    os.utime(old, ns=(times, times))
    day(tmp_path / "log", 2)
    with pytest.raises(fr.DataError, match="checksum"):
        opened(tmp_path / "log", unit, on_change="append")
    dataset = opened(tmp_path / "log", unit, **how)
    dataset.load_state_dict(state)
    assert dataset.num_rows == before.num_rows + 30
    masked = opened(tmp_path / "log", unit, **how, bad_rows="mask", max_bad_rows=500)
    assert files_read(masked) == 0
    valid = np.concatenate([batch.valid.numpy() for batch in masked])
    assert valid.tolist() == [not 10 <= number < 20 for number in range(len(valid))]


def test_selections_that_come_and_go_leave_a_bounded_file(data: Path, cache: Path) -> None:
    sizes = []
    for number in range(24):
        opened(data, UNITS[0], manifest_cache=cache, rows=fr.Intervals([[number, 700]]))
        sizes.append((cache.parent / "manifest.units").stat().st_size)
    assert max(sizes[8:]) <= sizes[8] + 64
    assert files_read(opened(data, UNITS[0], manifest_cache=cache, rows=fr.Intervals([[20, 700]]))) == 0
    (data / "0.parquet").unlink()
    opened(data, UNITS[0], manifest_cache=cache)
    assert (cache.parent / "manifest.units").stat().st_size < sizes[0]


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"x" + data, lambda data: data[:40]])
def test_a_damaged_index_is_rebuilt(data: Path, cache: Path, change: Any) -> None:
    whole = contents(opened(data, UNITS[0], manifest_cache=cache))
    path = cache.parent / "manifest.units"
    sound = path.read_bytes()
    path.write_bytes(change(sound))
    if change(sound)[:1] == b"x":
        with pytest.warns(UserWarning, match="it is a file of something else; remove it"):
            again = opened(data, UNITS[0], manifest_cache=cache)
        path.unlink()
    else:
        again = opened(data, UNITS[0], manifest_cache=cache)
        assert path.read_bytes() == sound
    assert (files_read(again), contents(again)) == (3, whole)


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_no_byte_of_a_damaged_index_is_believed(data: Path, cache: Path, place: int) -> None:
    whole = opened(data, UNITS[2], manifest_cache=cache)
    path = cache.parent / "manifest.units"
    content = bytearray(path.read_bytes())
    content[-1 - place % len(content)] ^= 4
    path.write_bytes(content)
    again = opened(data, UNITS[2], manifest_cache=cache)
    assert files_read(again) == 3
    assert contents(again) == contents(whole)


def test_an_index_that_can_not_be_kept_is_a_warning(data: Path, cache: Path) -> None:
    (cache.parent / "manifest.units").mkdir()
    with pytest.warns(
        UserWarning, match="can't write the index of units .*: it is not a regular file"
    ) as warned:
        assert len(opened(data, UNITS[0], manifest_cache=cache)) > 0
    assert warned[0].filename == opened.__code__.co_filename, "it points at the caller"


def test_what_is_known_of_damaged_files_is_not_kept(data: Path, cache: Path) -> None:
    path = data / "0.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 2000 + path.read_bytes()[2004:])
    how = {"bad_rows": "mask", "max_bad_rows": 1000, "manifest_cache": cache}
    assert files_read(opened(data, UNITS[0], **how)) == 3
    again = opened(data, UNITS[0], **how)
    assert files_read(again) == 1
    assert "rows that can't be read" in str(again.plan())


def write_on(data: Path, cache: Path) -> None:
    """Write the index again and again, until somebody kills this process."""
    say("begun")
    while True:
        for path in cache.parent.glob("manifest*"):
            path.unlink(missing_ok=True)
        opened(data, fr.Bins("tokens", cost=1), manifest_cache=cache)


def test_whoever_is_killed_while_it_is_written_leaves_nothing(data: Path, cache: Path) -> None:
    drawn = random.Random(5)
    for _ in range(4):
        with Child() as child:
            child.start(write_on, data, cache)
            assert child.heard() == "begun"
            time.sleep(drawn.random() / 4)  # it is killed anywhere
        draft = cache.parent / ".manifest.units.tmp"
        draft.write_bytes(b"what one left")  # in the midst of writing
        dataset = opened(data, fr.Bins("tokens", cost=1), manifest_cache=cache)
        names = {path.name for path in cache.parent.iterdir()}
        assert names - {"manifest"} == {"manifest.units"}
        assert contents(dataset) == contents(opened(data, fr.Bins("tokens", cost=1)))


def test_a_dataset_takes_its_index_along(data: Path) -> None:
    for unit in UNITS:
        dataset = opened(data, unit)
        assert contents(pickle.loads(pickle.dumps(dataset))) == contents(dataset)


def test_the_index_tells_how_far_it_is_and_the_plan_its_memory(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index, "_SECONDS", -1.0)
    progress = index._Progress()
    with caplog.at_level(logging.INFO, "fastresume"):
        progress(1, 14)
        dataset = opened(data, UNITS[0])
    assert "the index of units: read 1 of 14 row groups" in caplog.messages
    assert any("3 of 3 files read" in message for message in caplog.messages)
    table: Any = dataset._spec.units_table  # type: ignore[attr-defined]
    assert f"in an index of {table.num_bytes:,} bytes of 3 files; 3 had to be read" in str(dataset.plan())
