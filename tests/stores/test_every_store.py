"""S3, GCS, Azure and a web server: real servers of each give the rows, order and states of local files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of
from support.object_server import ObjectServer, S3Server, azurite, serving_azure, serving_gcs


@dataclass(frozen=True)
class Store:
    """Where the tree lies."""

    server: ObjectServer
    address: str

    @property
    def how(self) -> dict[str, object]:
        return {"batch_size": 64, "storage_options": self.server.options}


needs_azurite = pytest.mark.skipif(azurite() is None, reason="azurite is not installed: make azurite")


@pytest.fixture(scope="module", params=["s3", "gcs", pytest.param("azure", marks=needs_azurite)])
def store(request: pytest.FixtureRequest, tree: Path) -> Iterator[Store]:
    if request.param == "s3":
        server = request.getfixturevalue("server")
        yield Store(server, request.getfixturevalue("address"))
        return
    for other in serving_gcs() if request.param == "gcs" else serving_azure():
        yield Store(other, other.put_tree("bucket", tree, "data/"))


def _ids(dataset: fr.ParquetDataset) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset]


@each_of("pattern", ["", "/day=*/", "/**/*.parquet"])
def test_a_tree_is_the_local_one(store: Store, tree: Path, pattern: str) -> None:
    local = fr.ParquetDataset(f"{tree}{pattern}", batch_size=64, shuffle=True)
    remote = fr.ParquetDataset(store.address + pattern, shuffle=True, **store.how)
    assert remote.fingerprint == local.fingerprint
    assert _ids(remote) == _ids(local)


def test_a_state_of_local_files_goes_on(store: Store, tree: Path) -> None:
    local = fr.ParquetDataset(tree, batch_size=64, shuffle=True)
    batches = list(local)
    remote = fr.ParquetDataset(store.address, shuffle=True, **store.how)
    remote.load_state_dict(batches[20].state_dict())
    assert _ids(remote) == [batch["id"].tolist() for batch in batches[21:]]


def test_workers_read_it(store: Store, tree: Path) -> None:
    dataset = fr.ParquetDataset(store.address, **store.how)
    with fr.Loader(dataset, num_workers=2) as loader:
        got = [batch["id"].tolist() for batch in loader]
    with fr.Loader(fr.ParquetDataset(tree, batch_size=64), num_workers=2) as loader:
        assert got == [batch["id"].tolist() for batch in loader]


def test_an_object_that_was_replaced_is_named(store: Store, tree: Path, tmp_path: Path) -> None:
    one = next(tree.rglob("*.parquet"))
    store.server.put("changing", "a.parquet", one.read_bytes())
    dataset = fr.ParquetDataset(store.server.address("changing", "a.parquet"), **store.how)
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(one).slice(1), other, row_group_size=300)
    store.server.put("changing", "a.parquet", other.read_bytes())
    with pytest.raises(fr.SourceError, match=r"the object was changed .*changing/a\.parquet"):
        _ids(dataset)


def test_what_is_not_there_is_said(store: Store) -> None:
    # The server of GCS answers 500 for a bucket that it lacks, which is waited for.
    for bucket in ("bucket", "no-such-bucket") if store.server.scheme != "gs" else ("bucket",):
        address = store.server.address(bucket, "nothing")
        with pytest.raises(fr.SourceError, match=f"'{address}'"):
            fr.ParquetDataset(address, **store.how)


def test_no_message_has_a_secret(store: Store) -> None:
    secrets = {"aws_secret_access_key": "aHVudGVyMg==", "account_key": "aHVudGVyMg=="}
    options = {name: secrets.get(name, value) for name, value in store.server.options.items()}
    with pytest.raises(fr.SourceError) as raised:
        fr.ParquetDataset(store.server.address("bucket", "nothing"), batch_size=8, storage_options=options)
    assert "aHVudGVyMg" not in str(raised.value)


def test_files_of_a_web_server_are_read(server: S3Server, tree: Path, address: str) -> None:
    root = f"{server.endpoint}/{address.removeprefix('s3://')}"
    files = [f"{root}/{path.relative_to(tree)}" for path in sorted(tree.glob("day=*/*.parquet"))]
    local = fr.ParquetDataset(tree, batch_size=64, shuffle=True)
    remote = fr.ParquetDataset(files, batch_size=64, shuffle=True)
    assert remote.fingerprint == local.fingerprint
    assert _ids(remote) == _ids(local)


@pytest.mark.parametrize("named", ["", "/day=*/*.parquet", "/nothing.parquet"])
def test_a_web_server_lists_no_directories(server: S3Server, address: str, named: str) -> None:
    root = f"{server.endpoint}/{address.removeprefix('s3://')}"
    with pytest.raises(fr.SourceError, match="a web server lists no directories: name each file"):
        fr.ParquetDataset(root + named, batch_size=64)
