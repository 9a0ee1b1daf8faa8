"""Objects are known by what both answers of a store tell of them: tags, else times in seconds, else sizes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.page_server import NAMES, TELLS, PageServer, serving_pages

FILES = sum(map(len, NAMES))


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[PageServer]:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    with serving_pages("s3", (tmp_path / "a.parquet").read_bytes()) as server:
        yield server


@pytest.mark.parametrize("tells", TELLS)
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_store_that_tells_little_is_read_and_said_once(
    pages: PageServer, tells: str, is_cached: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = fr.Cache(data=tmp_path / "cache") if is_cached else None
    with caplog.at_level(logging.WARNING, "fastresume"):
        dataset = fr.ParquetDataset(
            pages.address(tells), batch_size=3, storage_options=pages.options, cache=cache
        )
        for _ in range(2):
            assert sum(batch.num_rows for batch in dataset) == 3 * FILES
    said = [record.getMessage() for record in caplog.records if "replaced object" in record.getMessage()]
    assert len(said) == (tells != "weak-tags"), said
    assert all("tells no tags (ETag)" in text for text in said)
