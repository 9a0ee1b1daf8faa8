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


@pytest.mark.parametrize("tail", ["short", "pad"])
@pytest.mark.parametrize(("lanes", "times"), [(None, 1), (2, 3)])
def test_the_tail_is_read_with_the_rows_before_it(tmp_path: Path, tail: str, lanes: int, times: int) -> None:
    """The dictionary and the only page of a row group are not read again for a few rows at its end.

    A second lane reads them twice: its first batches come before its others.
    """
    values = np.random.default_rng(0).permutation(60_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet", dictionary_pagesize_limit=1 << 20)
    dataset = fr.ParquetDataset(tmp_path, batch_size=1024, tail=tail, lanes=lanes)  # type: ignore[arg-type]
    before = bytes_read()
    batches = list(dataset)
    read = bytes_read() - before
    assert sorted(np.concatenate([batch["x"][batch.valid] for batch in batches])) == list(range(60_000))
    size = (tmp_path / "x.parquet").stat().st_size
    assert times - 0.1 < read / size < times + 0.4
