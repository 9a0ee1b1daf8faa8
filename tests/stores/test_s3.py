"""Objects of a real S3 server are read as files are: the same rows, order, states and errors."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.each_of import each_of
from support.object_server import S3Server

ROWS = 1000


def _ids(dataset: fr.ParquetDataset) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_tree_has_the_same_fingerprint_and_order_wherever_it_lies(
    server: S3Server, tree: Path, address: str, shuffle: bool
) -> None:
    local = fr.ParquetDataset(tree, batch_size=64, shuffle=shuffle)
    remote = fr.ParquetDataset(address, batch_size=64, shuffle=shuffle, storage_options=server.options)
    assert remote.fingerprint == local.fingerprint
    for here, there in zip(local, remote, strict=True):
        assert torch.equal(here["id"], there["id"])
        assert torch.equal(here["x"], there["x"])
        assert here["list"].to_list() == there["list"].to_list()
        assert here["text"].to_strings() == there["text"].to_strings()


@each_of("pattern", ["", "/", "/day=*", "/day=*/", "/day=0/*.parquet", "/**/*.parquet", "/day=[1]"])
def test_a_pattern_means_what_it_means_on_a_disk(
    server: S3Server, tree: Path, address: str, pattern: str
) -> None:
    local = fr.ParquetDataset(str(tree) + pattern, batch_size=64)
    remote = fr.ParquetDataset(address + pattern, batch_size=64, storage_options=server.options)
    assert [Path(name).name for name in remote.files] == [Path(name).name for name in local.files]
    assert remote.fingerprint == local.fingerprint


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reads_objects_in_threads_and_in_workers(
    server: S3Server, address: str, workers: int
) -> None:
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=server.options)
    with fr.Loader(dataset, num_workers=workers) as loader:
        got = [batch["id"].tolist() for batch in loader]
        stats = loader.stats()
    rows = [row for batch in got for row in batch]
    assert len(rows) == len(set(rows)) == 93 * 64
    if workers == 0:
        assert stats["requests"] > 0
        assert stats["retries"] == 0
        assert stats["bytes_needed"] > 0


def test_a_filter_and_random_rows_are_read_from_objects(server: S3Server, address: str) -> None:
    dataset = fr.ParquetDataset(
        address, batch_size=10, filter=fr.col("id") >= 5_900, storage_options=server.options
    )
    assert [row for batch in _ids(dataset) for row in batch] == list(range(5_900, 6_000))
    whole = fr.ParquetDataset(address, batch_size=10, storage_options=server.options)
    assert whole.read_rows([5, 4_000, 7])["id"].tolist() == [5, 4_000, 7]


def test_a_dataset_is_pickled_with_what_reaches_its_stores(server: S3Server, address: str) -> None:
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=server.options)
    assert _ids(pickle.loads(pickle.dumps(dataset))) == _ids(dataset)


def test_credentials_are_asked_for(server: S3Server, address: str) -> None:
    asked = 0

    def credentials() -> dict[str, str]:
        nonlocal asked
        asked += 1
        return {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_session_token": "c"}

    options = {name: server.options[name] for name in ("endpoint_url", "region")}
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options, credentials=credentials)
    assert sum(map(len, _ids(dataset))) == 6 * ROWS - 6 * ROWS % 64
    assert asked > 0


def test_credentials_that_fail_are_named(server: S3Server, address: str) -> None:
    def credentials() -> dict[str, str]:
        raise RuntimeError("the vault is closed")

    options = {name: server.options[name] for name in ("endpoint_url", "region")}
    with pytest.raises(fr.SourceError, match="the vault is closed") as raised:
        fr.ParquetDataset(address, batch_size=64, storage_options=options, credentials=credentials)
    cause = raised.value.__cause__
    assert isinstance(cause, RuntimeError)
    assert cause.__traceback__ is not None
    with pytest.raises(fr.SourceError) as raised:
        fr.ParquetDataset(f"{address}/none", batch_size=64, storage_options=server.options)
    assert raised.value.__cause__ is None, "it is another error's"


def test_what_is_wrong_about_an_address_is_said(server: S3Server) -> None:
    def opened(address: str, **options: object) -> None:
        fr.ParquetDataset(address, batch_size=8, storage_options={**server.options, **options})

    with pytest.raises(fr.SourceError, match=r"no object .*s3://bucket/nothing") as raised:
        opened("s3://bucket/nothing")
    assert raised.value.is_missing
    with pytest.raises(fr.SourceError, match="s3://no-such-bucket"):
        opened("s3://no-such-bucket/x")
    with pytest.raises(ValueError, match="nothing reads the address 'ftp://host/x'"):
        opened("ftp://host/x")
    with pytest.raises(ValueError, match="S3 has no option 'acess_key'"):
        opened("s3://bucket/data", acess_key="secret")
    with pytest.raises(ValueError, match=r"'dbfs:/x/y' is a name of Databricks' own: write '/dbfs/x/y'"):
        fr.ParquetDataset("dbfs:/x/y", batch_size=1)
    with pytest.raises(ValueError, match="lost a slash"):
        fr.ParquetDataset(Path("s3://bucket/data"), batch_size=8)


def test_a_table_among_objects_is_refused(server: S3Server, tree: Path) -> None:
    one = next(tree.rglob("*.parquet")).read_bytes()
    server.put("tables", "delta/day=1/a.parquet", one)
    server.put("tables", "delta/_delta_log/00000000000000000000.json", b"{}")
    for named in ("s3://tables/delta", "s3://tables/*", "s3://tables/delta/day=1"):
        with pytest.raises(fr.DataError, match=r"ParquetDataset\('delta://s3://tables/delta'"):
            fr.ParquetDataset(named, batch_size=8, storage_options=server.options)
    dataset = fr.ParquetDataset(
        "s3://tables/delta/day=1/a.parquet", batch_size=8, storage_options=server.options
    )
    assert len(dataset.files) == 1


def test_no_message_has_a_secret(server: S3Server, address: str) -> None:
    options = {**server.options, "aws_secret_access_key": "hunter2-secret"}
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options)
    assert "hunter2" not in repr(dataset) + repr(dataset._spec) + str(dataset.state_dict())
    with pytest.raises(fr.FastresumeError) as raised:
        fr.ParquetDataset("s3://no-such-bucket/x", batch_size=64, storage_options=options)
    assert "hunter2" not in str(raised.value)


def test_a_manifest_cache_knows_objects_by_their_tags(server: S3Server, address: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def requests() -> int:
        dataset = fr.ParquetDataset(
            address, batch_size=64, storage_options=server.options, cache=fr.Cache(manifest=cache)
        )
        return dataset._spec.manifest.stores.counts().requests

    cold, warm = requests(), requests()
    assert warm < cold


def test_a_manifest_cache_is_an_object(server: S3Server, tree: Path, address: str, tmp_path: Path) -> None:
    server.put("manifests", "other", b"{}")
    cache = "s3://manifests/a/manifest"

    def opened(cache: str, paths: object = address) -> fr.ParquetDataset:
        return fr.ParquetDataset(
            paths,
            batch_size=64,
            storage_options=server.options,
            cache=fr.Cache(manifest=cache),  # type: ignore[arg-type]
        )

    plain = fr.ParquetDataset(address, batch_size=64, storage_options=server.options)
    counts = [opened(cache)._spec.manifest.stores.counts() for _ in range(2)]
    assert counts[0].bytes_needed > counts[1].bytes_needed
    warm = opened(cache)
    assert warm.fingerprint == plain.fingerprint
    assert pickle.dumps(warm._spec.manifest) == pickle.dumps(plain._spec.manifest)
    # What is kept in an object is what is kept in a file.
    local = tmp_path / "manifest"
    local.write_bytes(server.get("manifests", "a/manifest"))
    before = local.read_bytes()
    assert opened(str(local)).fingerprint == plain.fingerprint
    assert local.read_bytes() == before
    # Files of a disk may have theirs on a store.
    assert opened("s3://manifests/of-a-disk", tree).fingerprint == plain.fingerprint
    # One that is damaged is replaced.
    server.put("manifests", "a/manifest", before[:-9])
    assert opened(cache).fingerprint == plain.fingerprint
    assert server.get("manifests", "a/manifest") == before


def test_what_a_filter_selects_is_kept_beside_a_manifest_in_a_store(server: S3Server, address: str) -> None:
    server.put("manifests", "other", b"{}")
    how = {"batch_size": 64, "storage_options": server.options, "filter": fr.col("id") < 128}
    how["cache"] = fr.Cache(manifest="s3://manifests/filtered/manifest")
    for is_cached in (False, True):
        dataset = fr.ParquetDataset(address, **how)  # type: ignore[arg-type]
        assert dataset.filter_report().is_cached is is_cached  # type: ignore[union-attr]
        assert [row for batch in dataset for row in batch["id"].tolist()] == list(range(128))


def test_a_manifest_cache_that_can_not_be_written_is_told(server: S3Server, tree: Path, address: str) -> None:
    one = next(tree.rglob("*.parquet")).read_bytes()
    server.put("manifests", "of-something-else", b"{}")
    server.put("manifests", "a.parquet", one)
    for cache, text in {
        "s3://manifests/of-something-else": "it is a file of something else",
        "s3://manifests/a.parquet": "it is a parquet file",
        "s3://no-such-bucket/manifest": "no-such-bucket",
    }.items():
        with pytest.warns(UserWarning, match=f"can't write the manifest cache '{cache}': .*{text}"):
            fr.ParquetDataset(
                address, batch_size=64, storage_options=server.options, cache=fr.Cache(manifest=cache)
            )
    assert server.get("manifests", "of-something-else") == b"{}"
    assert server.get("manifests", "a.parquet") == one
    for wrong, text in {
        "ftp://host/a": "nothing reads the address",
        "s3://manifests": "names no object",
    }.items():
        kept = fr.Cache(manifest=wrong)
        with pytest.raises(ValueError, match=text):
            fr.ParquetDataset(tree, batch_size=64, cache=kept, storage_options=server.options)
    with pytest.raises(ValueError, match=r"manifest of fr\.Cache must be a local path, found the address"):
        fr.ParquetDataset(tree, batch_size=64, cache=fr.Cache(manifest=Path("s3://manifests/a")))


@pytest.mark.parametrize(
    ("columns", "most_requests"), [(["id", "x"], 20), (["id"], 110)], ids=["all bytes", "half of the bytes"]
)
def test_small_row_groups_are_asked_for_together_if_nearly_all_bytes_are_needed(
    server: S3Server, tmp_path: Path, columns: list[str], most_requests: int
) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": pa.array(range(20_000)), "x": pa.array(range(20_000, 40_000))})
    pq.write_table(table, path, row_group_size=200, compression="none", use_dictionary=False)
    server.put("small", "a.parquet", path.read_bytes())
    how = {"batch_size": 500, "columns": columns}
    dataset = fr.ParquetDataset("s3://small", storage_options=server.options, **how)
    before = dataset._spec.manifest.stores.counts()
    assert _ids(dataset) == _ids(fr.ParquetDataset(path, **how))
    after = dataset._spec.manifest.stores.counts()
    needed, asked = after.bytes_needed - before.bytes_needed, after.bytes_asked - before.bytes_asked
    assert 8 * 20_000 * len(columns) < needed <= asked < 1.15 * needed + (64 << 10)
    assert after.requests - before.requests <= most_requests
