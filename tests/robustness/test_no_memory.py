"""Law 11 where memory runs out: a large request that the system refuses is an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.no_memory import JOBS, SOURCE

ROWS = 30_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers, texts of which each is another, and lists, in row groups of several pages."""
    path = tmp_path_factory.mktemp("no_memory") / "file.parquet"
    offsets, values = np.arange(ROWS + 1, dtype=np.int32) * 3, pa.array(np.arange(3 * ROWS) % 99)
    table = {
        "n": np.arange(ROWS),
        "u": [f"{row} is the text" for row in range(ROWS)],
        "l": pa.ListArray.from_arrays(offsets, values),
    }
    pq.write_table(pa.table(table), path, row_group_size=10_000)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler, which makes the system refuse memory")
    found = tmp_path_factory.mktemp("library") / "no_memory.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", found, SOURCE, "-ldl"], check=True)
    return found


@pytest.mark.slow
@pytest.mark.law(11)
@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", JOBS)
def test_a_large_request_that_is_refused_is_an_error(file: Path, library: Path, job: str) -> None:
    command = [sys.executable, "-m", "support.no_memory", str(file), job, "3"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "LD_PRELOAD": str(library)}
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    assert json.loads(ended.stdout) == []


FEW_ADDRESSES = """
import resource, sys, torch
import fastresume as fr
torch.set_num_threads(1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (int(sys.argv[2]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (used, used))
try:
    dataset = fr.ParquetDataset(sys.argv[1], batch_size=100, shuffle=True)
    with fr.Loader(dataset, threads=2) as loader:
        print(sum(batch.num_rows for batch in loader))
except (ValueError, fr.FastresumeError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.law(11)
@pytest.mark.processes
@pytest.mark.parametrize("left_mib", [8, 10, 12, 15, 18, 25])
def test_threads_without_a_reserve_end_by_an_error(tmp_path: Path, left_mib: int) -> None:
    path = tmp_path / "long.parquet"
    table = pa.table({"s": [f"{'x' * 1000}{row}" for row in range(100_000)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    command = [sys.executable, "-c", FEW_ADDRESSES, str(path), str(left_mib)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr[-300:]
    assert ended.stdout
