"""A server of objects, and a tree of files that is there and on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.object_server import S3Server, serving

FILES, ROWS = 6, 1000


@pytest.fixture(scope="package")
def server() -> Iterator[S3Server]:
    yield from serving()


@pytest.fixture(scope="package")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in two partitions, with what is left out beside them."""
    root, random = tmp_path_factory.mktemp("tree"), np.random.default_rng(0)
    for number in range(FILES):
        directory = root / f"day={number // 3}"
        directory.mkdir(exist_ok=True)
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        lists = [list(range(index % 4)) for index in range(ROWS)]
        texts = [f"text {index}" for index in range(ROWS)]
        # Larger than what comes with a footer.
        noise = [random.bytes(100) for _ in range(ROWS)]
        columns = {"id": ids, "x": ids.astype(np.float32), "list": lists, "text": texts, "noise": noise}
        table = pa.table(columns)
        pq.write_table(table, directory / f"part-{number}.parquet", row_group_size=300)
    (root / "_temporary").mkdir()
    (root / "_temporary" / "x.parquet").write_bytes(b"not whole")
    (root / "day=0" / "notes.txt").write_text("no rows")
    return root


@pytest.fixture(scope="package")
def address(server: S3Server, tree: Path) -> str:
    return server.put_tree("bucket", tree, "data/")
