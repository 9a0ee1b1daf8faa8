"""The log of a Delta table in a store: each commit is asked for once, while other threads of Python run."""

from __future__ import annotations

import threading
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.delta_tables import append, commit
from support.fault_proxy import Proxy, proxied
from support.object_server import S3Server

COMMITS = 50


@pytest.fixture(scope="module")
def table(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of as many commits as there are files; gives its address."""
    root = tmp_path_factory.mktemp("lake") / "t"
    append(root, pa.table({"id": [0]}))
    for number in range(1, COMMITS):
        pq.write_table(pa.table({"id": [number]}), root / f"{number:02}.parquet")
        size = (root / f"{number:02}.parquet").stat().st_size
        found = {"path": f"{number:02}.parquet", "size": size, "modificationTime": number}
        commit(root, [{"add": {**found, "partitionValues": {}, "dataChange": True}}])
    return server.put_tree("lake", root, "t/")


class Counting(Counter[str]):
    """How often each path was asked for, through a proxy in this process."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        handle, lock = proxy.RequestHandlerClass, threading.Lock()

        class Counted(handle):  # type: ignore[misc, valid-type]
            def _pass_on(counted) -> None:  # noqa: N805
                with lock:
                    self[f"{counted.command} {counted.path.partition('?')[0]}"] += 1
                super()._pass_on()

        proxy.RequestHandlerClass = Counted


def test_each_commit_is_asked_for_once_and_no_thread_waits(server: S3Server, table: str) -> None:
    # Who waits with the interpreter's lock waits for ever: the proxy is a thread of this process.
    with proxied(server.port) as proxy:
        asked = Counting(proxy)
        options = {**server.options, "endpoint_url": proxy.endpoint}
        dataset = fr.ParquetDataset(f"delta://{table}", batch_size=10, storage_options=options)
        assert [row for batch in dataset for row in batch["id"].tolist()] == list(range(COMMITS))
    commits = {name: count for name, count in asked.items() if name.endswith(".json")}
    # Once for the order of the files, and twice by deltalake, which reads the table.
    assert sum(commits.values()) <= 3 * COMMITS + 3
    assert not any(name.startswith("HEAD") and name.endswith(".json") for name in commits)


def test_the_address_of_a_server_in_the_environment_is_that_of_tables_too(
    server: S3Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert len(fr.ParquetDataset(f"delta://{table}", batch_size=10).files) == COMMITS
