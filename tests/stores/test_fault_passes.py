"""Pass after pass over a store that fails: the rows of the local files or one clear error."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.fault_proxy import FAULTS, Proxy, proxied
from support.object_server import OPTIONS, S3Server, serving

FILES, ROWS = 200, 40
PASSES = int(os.environ.get("FASTRESUME_FAULT_PASSES", "20"))
SERIES = 4
"""So many series of passes may run side by side: each one waits for its store most of the time."""
PASSES_OF_A_DATASET = 5

Rows = list[list[int]]


class Store:
    """A server behind a proxy, which can be killed and started again with the same objects."""

    def __init__(self, tree: Path, proxy: Proxy) -> None:
        self._tree, self._proxy = tree, proxy
        self._ended = contextlib.ExitStack()
        self.server = self._start()

    def _start(self) -> S3Server:
        running = serving()
        self._ended.callback(running.close)
        server = next(running)
        server.put_tree("bucket", self._tree, "data/")
        self._proxy.behind = server.port
        return server

    def restart(self) -> None:
        """Kills the server; requests find nobody until another one has the objects."""
        self.close()
        self.server = self._start()

    def close(self) -> None:
        """Kills the server."""
        self._ended.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    for number in range(FILES):
        write(root / f"part-{number:03}.parquet", number * ROWS)
    return root


def write(path: Path, first: int) -> None:
    ids = np.arange(first, first + ROWS)
    pq.write_table(pa.table({"id": ids, "text": [f"text {row}" for row in ids]}), path, row_group_size=25)


@pytest.fixture
def store(many: Path) -> Iterator[tuple[Store, Proxy]]:
    with proxied(0) as proxy, contextlib.closing(Store(many, proxy)) as store:
        yield store, proxy


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def rows_of(dataset: fr.ParquetDataset, got: Rows, at: int = -1, event: object = None) -> None:
    """Adds the rows of the pass's batches; something happens before one of them."""
    for number, batch in enumerate(dataset):
        if number == at:
            event()  # type: ignore[operator]
        got.append(batch["id"].tolist())


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("series", range(SERIES))
def test_no_pass_of_many_under_all_faults_is_wrong(
    many: Path, store: tuple[Store, Proxy], tmp_path: Path, series: int
) -> None:
    behind, proxy = store
    how = {"batch_size": 64, "rank": 0, "world_size": 1, "tail": "short"}
    expected: Rows = []
    rows_of(fr.ParquetDataset(many, **how), expected)
    write(tmp_path / "other.parquet", 10**6)
    other = (tmp_path / "other.parquet").read_bytes()
    drawn, happened = random.Random(series), Counter[str]()
    options = {**OPTIONS, "endpoint_url": proxy.endpoint}
    files = open_files()
    for number in range(PASSES // SERIES):
        if number % PASSES_OF_A_DATASET == 0:
            proxy.share = 0.05
            dataset = fr.ParquetDataset(
                "s3://bucket/data", storage_options=options, read_bytes=1 << 16, **how
            )
        event = drawn.choices(["nothing", "restart", "rewrite"], [90, 4, 6])[0]
        key = f"data/part-{drawn.randrange(FILES):03}.parquet"
        at, got = drawn.randrange(len(expected)), Rows()

        def rewrite(key: str = key) -> None:
            behind.server.put("bucket", key, other)

        doing = {"nothing": lambda: None, "restart": behind.restart, "rewrite": rewrite}[event]
        failed: fr.SourceError | None = None
        try:
            rows_of(dataset, got, at, doing)
        except fr.SourceError as error:
            failed = error
        if event == "rewrite":
            behind.server.put("bucket", key, (many / Path(key).name).read_bytes())
        if failed is not None:
            assert got == expected[: len(got)], f"pass {number}: a wrong batch before {failed}"
            assert event != "nothing", f"pass {number}: {failed}"
            assert event == "restart" or f"'s3://bucket/{key}'" in str(failed)
            rows_of(dataset, got)
        happened[f"{event}, {'whole' if failed is None else 'an error'}"] += 1
        assert got == expected, f"pass {number}, {event}"
    print(PASSES // SERIES, dict(happened), dict(proxy.injected))
    assert set(proxy.injected) == set(FAULTS)
    del dataset
    assert open_files() <= files + 64  # connections that wait to be used again
