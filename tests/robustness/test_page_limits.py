"""A page that expands to more than is allowed is one DataError, before memory is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.tables import named_table
from support.child import MIB
from support.each_of import each_of
from support.refusals import open_dataset, refused

pytestmark = pytest.mark.law(11)


def written(path: Path, column: Any, **how: Any) -> Path:
    pq.write_table(pa.table({"b": column}), path, compression="zstd", use_dictionary=False, **how)
    return path


def test_a_page_that_expands_to_more_than_is_read_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(path, [bytes(3 * MIB)])
    stated = 3 * MIB + 4 + 6  # its length, and its levels in front
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", MIB)
    with refused(fr.DataError, path, stated, MIB):
        next(iter(open_dataset(path, batch_size=1)))
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", stated - 1)
    with refused(fr.DataError, stated):
        open_dataset(path, batch_size=1).read_rows([0])
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", stated)
    batch = next(iter(open_dataset(path, batch_size=1)))
    assert batch["b"].to_bytes() == [bytes(3 * MIB)]


def test_values_of_one_length_that_share_their_beginnings_count_as_what_they_are_decoded_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = pa.array([bytes(1000)] * 1000, pa.binary(1000))
    written(path, values, column_encoding={"b": "DELTA_BYTE_ARRAY"})
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", 999_999)
    with refused(fr.DataError, 1_000_000, 999_999):
        next(iter(open_dataset(path)))
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", MIB)
    assert next(iter(open_dataset(path, batch_size=1000)))["b"].count_nonzero() == 0


WAYS: list[dict[str, Any]] = [
    {"batch_size": 1},
    {"batch_size": 32},
    {"batch_size": 2000},
    {"batch_size": 32, "shuffle": True, "block_rows": 64, "window_rows": 1024},
    {"batch_size": 1, "rows": [[1500, 1501]]},
]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of 16 MB in a page of 10 kB: each begins as the one before."""
    texts = ["You are a helpful assistant. " * 290 + f"Question {number}" for number in range(2000)]
    path = tmp_path_factory.mktemp("prompts") / "prompts.parquet"
    return written(path, texts, column_encoding={"b": "DELTA_BYTE_ARRAY"}, data_page_size=1 << 28)


@each_of("how", WAYS)
def test_texts_that_begin_as_the_ones_before_are_read_however_long_all_of_them_are(
    prompts: Path, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_table, "MOST_PAGE_BYTES", MIB)
    batch = next(iter(fr.ParquetDataset(prompts, world=(0, 1), **how)))
    expected = ["You are a helpful assistant. " * 290 + f"Question {row}" for row in batch.rows()]
    assert batch["b"].to_strings() == expected


def test_a_single_text_is_read_however_long_it_is(path: Path) -> None:
    """A dictionary lets few bytes state many, and a row of it has them whatever the batch is."""
    text = bytes(130 * MIB)
    pq.write_table(pa.table({"b": [text]}), path, compression="zstd", dictionary_pagesize_limit=1 << 30)
    batch = next(iter(open_dataset(path, batch_size=1)))
    values, _ = np.asarray(batch["b"].values), batch["b"].offsets
    assert len(values) == len(text)
