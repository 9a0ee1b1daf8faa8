"""Rows that can't be read are in no unit, and a page that rots later masks the units near it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.audits import assert_proven
from support.documents import Documents, Oracle, documents, opened, units_of, write
from support.rotten_pages import FILE_ROWS, KINDS, pages_of, rot, rot_group, write_file

LISTS: Documents = [[row + 1, row + 2, row + 3] for row in range(FILE_ROWS)]
MASK: dict[str, Any] = {"bad_rows": fr.MaskBadRows(at_most=10_000)}


def contents(batch: fr.Batch) -> list[Any]:
    names = {"tokens": "list"} if "list" in batch else {}
    parts = (
        batch[names.get("tokens", "tokens")].tolist(),
        batch["document"].tolist(),
        batch["position"].tolist(),
    )
    return list(zip(*parts, batch.rows().to_list(), strict=True))


@pytest.mark.parametrize(("version", "has_index"), KINDS)
def test_rows_that_the_index_can_not_read_have_no_tokens(
    tmp_path: Path, version: str, has_index: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file(tmp_path / "0.parquet", version, has_index)
    pages = [page for page in pages_of(path, version, has_index) if page.column == "list"]
    page = pages[2]
    rot(path, page)
    with caplog.at_level(logging.WARNING, "fastresume"):
        dataset = opened(path, fr.Packed("list", length=7), 2, tail="short", **MASK)
    left = set(range(FILE_ROWS)) - set(page.rows)
    oracle = Oracle([LISTS], 7, None, "drop", left)
    assert [unit for batch in dataset for unit in contents(batch)] == oracle.units
    assert all(batch.valid.all() for batch in dataset)
    assert caplog.messages[0].startswith("left out of all units: rows [")
    assert f"left out: {len(page.rows)} rows that can't be read" in str(dataset.plan())
    with pytest.raises(
        fr.DataError, match=r"bad_rows= allows 3 rows to be left out since the index of units"
    ):
        opened(path, fr.Packed("list", length=7), 2, bad_rows=fr.MaskBadRows(at_most=3))
    with pytest.raises(fr.DataError, match="checksum"):
        opened(path, fr.Packed("list", length=7), 2)


@pytest.mark.parametrize("name", ["list", "x"])
def test_rows_whose_cost_can_not_be_read_are_in_no_bin(tmp_path: Path, name: str) -> None:
    path = write_file(tmp_path / "0.parquet", *KINDS[0])
    page = next(page for page in pages_of(path, *KINDS[0]) if page.column == name and page.rows.start)
    rot(path, page)
    dataset = opened(path, fr.Bins(name, cost=40), 2, tail="short", columns=["code", "list"], **MASK)
    found = [row for batch in dataset for row in batch.rows().tolist()]
    assert found == [row for row in range(FILE_ROWS) if row not in page.rows]


def test_a_file_that_is_gone_has_no_tokens(tmp_path: Path) -> None:
    directory = write(tmp_path / "data", [documents(1, 60, 30), documents(2, 60, 30)])
    data = (directory / "1.parquet").read_bytes()
    (directory / "1.parquet").write_bytes(data[:4] + b"\0" * 400 + data[404:])
    dataset = opened(directory, fr.Packed("tokens", length=9), tail="short", **MASK)
    found = [unit for batch in dataset for unit in units_of(batch)]
    assert found == Oracle([documents(1, 60, 30)], 9, None, "drop").units


GROUP = 100
FILE = documents(5, 12 * GROUP, 20)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", [FILE], row_group_size=GROUP, write_page_checksum=True)


@pytest.mark.parametrize("how", [{}, {"shuffle": True, "block_rows": 8, "window_rows": 32}], ids=str)
@pytest.mark.parametrize("reader", [{"threads": 0}, {"num_workers": 1}], ids=str)
def test_a_page_that_rots_later_masks_the_sequences_near_it(
    data: Path, tmp_path: Path, how: dict[str, Any], reader: dict[str, Any]
) -> None:
    unit, order = fr.Packed("tokens", length=16, separator=-1), {"tail": "pad", **how}
    sound = [unit for batch in opened(data, unit, 4, **order) for unit in units_of(batch)]
    dataset = opened(data, unit, 4, **order, **MASK)
    rot_group(data / "0.parquet", 7)
    damaged, found, masked = range(700, 800), [], 0
    with fr.Loader(dataset, audit=tmp_path / "logs", **reader) as loader:
        for batch in loader:
            for each, is_valid in zip(units_of(batch), batch.valid.tolist(), strict=True):
                found.append(each if is_valid else None)
                if not is_valid and len(found) <= dataset.num_rows:
                    masked += 1
                    assert (set(each[0]), set(each[1])) == ({0}, {-1})
                    assert set(each[3]) <= set(damaged)
        assert loader.stats().masked_rows == masked > 0
    for own, other in zip(found[: dataset.num_rows], sound, strict=False):
        if set(other[3]) & set(damaged):
            assert own is None
        elif own is None:
            assert other[3][-1] >= 700 - 512
            assert other[3][0] < 800 + 512
        else:
            assert own == other
    said = assert_proven(tmp_path / "logs", 1)
    assert "can't be told" in said
    assert "masked as not valid" in said


def test_a_state_of_a_run_that_died_on_a_page_goes_on_under_mask_and_without_once_it_is_mended(
    data: Path, tmp_path: Path
) -> None:
    unit, path = fr.Packed("tokens", length=16), data / "0.parquet"
    whole = [list(units_of(batch)) for batch in opened(data, unit, 4)]
    strict, masking = opened(data, unit, 4), opened(data, unit, 4, **MASK)
    sound, times = path.read_bytes(), path.stat()
    rot_group(path, 3)
    with pytest.raises(fr.DataError, match="checksum"):
        for _ in strict:
            pass
    masking.load_state_dict(strict.state_dict())
    found, batches = [], iter(masking)
    while len(found) < 40:
        found.append(next(batches))
    masked = next(batch for batch in found if not batch.valid.all())
    assert masking.batch_at(epoch=0, step=masked.step).valid.tolist() == masked.valid.tolist()
    path.write_bytes(sound)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    mended = opened(data, unit, 4)
    mended.load_state_dict(masking.state_dict())
    assert [list(units_of(batch)) for batch in mended] == whole[found[-1].step + 1 :]


def test_rows_of_bins_that_rot_later_are_masked(data: Path) -> None:
    dataset = opened(data, fr.Bins("cost", cost=40), 4, tail="short", **MASK)
    rot_group(data / "0.parquet", 3)
    found = []
    for batch in dataset:
        valid = batch.valid.tolist()
        found += list(zip(batch.rows().tolist(), batch["tokens"].to_list(), valid, strict=True))  # type: ignore[union-attr]
    expected = [
        (row, [] if row in range(300, 400) else tokens or [], row not in range(300, 400))
        for row, tokens in enumerate(FILE)
    ]
    assert [(row, tokens or [], is_valid) for row, tokens, is_valid in found] == expected


def test_what_a_rule_refuses_is_no_damage(tmp_path: Path) -> None:
    pq.write_table(pa.table({"gap": [[1, None], [2]]}), tmp_path / "0.parquet")
    dataset = opened(tmp_path, fr.Packed("gap", length=1), 1, **MASK)
    with pytest.raises(fr.DataError, match="an element of a list is null"):
        next(iter(dataset))
    pq.write_table(pa.table({"tokens": [[1, 2], [3]], "labels": [[1, 2], [3, 4]]}), tmp_path / "0.parquet")
    with pytest.raises(fr.DataError, match="row 1 of the row group has"):
        opened(tmp_path, fr.Packed("tokens", "labels", length=2), 1, **MASK)
