"""A resume seeks, it does not replay: what is read for the next batch does not depend on the position."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr

ROWS_PER_GROUP = 20_000
GROUPS = 30
BATCH = 500


def bytes_read() -> int:
    (count,) = re.findall(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    return int(count)


def state_at(dataset: fr.ParquetDataset, batches_done: int) -> fr.Cursor:
    consumed = {f"{dataset.paths[0]}:0": batches_done * BATCH - 1}
    return fr.Cursor.from_offsets(consumed, dataset)


@pytest.fixture(scope="module", params=["one row group", "many row groups"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = ROWS_PER_GROUP * GROUPS
    random = np.random.default_rng(0)
    columns = {f"f{index}": random.standard_normal(rows) for index in range(16)}
    path: Path = tmp_path_factory.mktemp("seek") / "data.parquet"
    group_rows = rows if request.param == "one row group" else ROWS_PER_GROUP
    table = pa.table({"row": np.arange(rows), **columns})
    pq.write_table(table, path, row_group_size=group_rows, use_dictionary=False, data_page_size=64 << 10)
    return path


@pytest.mark.law(12)
def test_the_bytes_read_for_the_next_batch_do_not_grow_with_the_position(path: Path) -> None:
    size = path.stat().st_size
    read = []
    for part in (0.0, 0.5, 0.99):
        dataset = fr.ParquetDataset(path, batch_size=BATCH)
        done = int(len(dataset) * part)
        dataset.load_state_dict(state_at(dataset, done))
        before = bytes_read()
        batch = next(iter(dataset))
        read.append(bytes_read() - before)
        assert batch.rows().tolist() == list(range(done * BATCH, (done + 1) * BATCH))
    # One segment at most, and the headers of what was skipped; a replay would read all that lies before.
    assert max(read) < 1.1 * read[0] + size * 0.05, f"{read} of {size}"
