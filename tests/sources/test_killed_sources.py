"""Jobs over rows that are no Parquet files, killed at any moment: each row comes once."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import TableSource
from support.ipc_writer import write_ipc
from support.killed_jobs import run_and_kill
from support.quick_waits import wait_in_no_time

ROWS = 3000
SIZES = (1000, 0, 750, 1250)


@pytest.mark.processes
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["source", "zstd"])
def test_each_row_comes_once_over_kills_and_reads_that_fail(
    tmp_path: Path, kind: str, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_in_no_time(monkeypatch)
    table = pa.table({"x": range(ROWS), "ids": [[row] * (row % 3) for row in range(ROWS)]})
    path = write_ipc(table, tmp_path / "rows.arrow", "zstd", 700)
    draw = random.Random(kills)

    def opened(batch_size: int) -> fr.ArrowDataset:
        source = TableSource(table, SIZES, fails=0.05, seed=draw.randrange(1 << 30))
        shuffle = fr.Shuffle(window_rows=512, block_rows=64)
        rows = source if kind == "source" else path
        return fr.ArrowDataset(rows, batch_size=batch_size, shuffle=shuffle, seed=3, tail="short")

    kept = run_and_kill(opened, tmp_path, kills, draw)
    assert sorted(kept) == list(range(ROWS))
