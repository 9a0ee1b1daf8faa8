"""Pages of listings: of every store, each is checked for what it is, so that none loses rows in silence."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.page_server import NAMES, PAGES, WRONG, PageServer, serving_pages

STORES = ("s3", "gs", "az", "hf")


@pytest.fixture(params=STORES)
def pages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PageServer]:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    with serving_pages(request.param, (tmp_path / "a.parquet").read_bytes()) as server:
        yield server


def _opened(server: PageServer, wrong: str) -> fr.ParquetDataset:
    return fr.ParquetDataset(server.address(wrong), batch_size=1, storage_options=server.options)


@pytest.mark.parametrize("wrong", ["right", "mends", "mends-html"])
def test_all_pages_of_a_listing_are_read(pages: PageServer, wrong: str) -> None:
    dataset = _opened(pages, wrong)
    assert len(dataset.files) == sum(map(len, NAMES))
    assert pages.asked[wrong, 1] == 1 + (wrong != "right")
    assert sum(batch.num_rows for batch in dataset) == 3 * len(dataset.files)


def _error(server: PageServer, wrong: str) -> str:
    try:
        return f"no error, {len(_opened(server, wrong).files)} files"
    except fr.SourceError as error:
        return f"SourceError {error}"


def test_a_page_that_is_none_is_an_error_and_loses_no_row(pages: PageServer) -> None:
    # Azure says by the marker alone that more follows, the hub by the link.
    kinds = [wrong for wrong in WRONG if wrong != "no-token" or pages.kind in ("s3", "gs")]
    with ThreadPoolExecutor(len(kinds)) as threads:
        found = dict(zip(kinds, threads.map(lambda wrong: _error(pages, wrong), kinds), strict=True))
    for wrong, error in found.items():
        assert error.startswith("SourceError"), (wrong, error)
        assert pages.address(wrong) in error
        assert 1 < pages.asked[wrong, 1] < 10, "it may mend itself, and is asked again, not for ever"
        assert pages.asked[wrong, PAGES - 1] == 0


@pytest.mark.slow  # a try takes 40 s
def test_a_listing_that_trickles_has_an_end(pages: PageServer) -> None:
    assert "the answer did not come within 40 s" in _error(pages, "trickles")
