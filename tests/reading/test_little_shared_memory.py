"""Where there is little shared memory: what needs none goes on, and what does is one clear error."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

import fastresume as fr

ROWS = 1000

READ = """
import sys, fastresume as fr
data = fr.ParquetDataset(sys.argv[1], batch_size=100, rank=0, world_size=1)
print(sum(batch.num_rows for batch in data))
with fr.Loader(data) as loader:
    print(sum(batch.num_rows for batch in loader))
with fr.Loader(data, num_workers=1) as loader:
    print(sum(batch.num_rows for batch in loader))
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": range(ROWS)}), tmp_path / "a.parquet")
    return tmp_path


def _can_mount() -> bool:
    mounted = ["unshare", "-m", "mount", "-t", "tmpfs", "x", "/dev/shm"]  # noqa: S108  (another one there)
    return os.geteuid() == 0 and subprocess.run(mounted, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_mount(), reason="only root may put another /dev/shm in its place")
@pytest.mark.parametrize("how", [pytest.param("ro", marks=pytest.mark.slow), "size=64k"])
def test_no_pass_of_ours_needs_dev_shm(data: Path, how: str) -> None:
    child = [sys.executable, "-c", READ, str(data)]
    mounted = f'mount -t tmpfs -o {how} x /dev/shm && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, "sh", *child], check=False, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(ROWS)] * 3, done.stderr


@pytest.fixture
def no_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refused)


@pytest.mark.usefixtures("no_memfd")
def test_without_memory_files_a_pass_needs_none(data: Path) -> None:
    dataset = fr.ParquetDataset(data, batch_size=100)
    assert sum(batch.num_rows for batch in dataset) == ROWS
    with fr.Loader(dataset) as loader:
        assert sum(batch.num_rows for batch in loader) == ROWS
    dataset.load_state_dict(pickle.loads(pickle.dumps(dataset)).state_dict())


@pytest.mark.usefixtures("no_memfd")
def test_workers_that_need_memory_files_say_so(data: Path) -> None:
    dataset = fr.ParquetDataset(data, batch_size=100)
    with (
        pytest.raises(OSError, match=r"memfd_create failed .*: use no workers"),
        fr.Loader(dataset, num_workers=1) as loader,
    ):
        list(loader)
    started = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(OSError, match=r"memfd_create failed .*start them by 'fork'"):
        list(started)
