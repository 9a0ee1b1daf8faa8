"""What a store does wrong is tried again; a batch never changes, and what does not end is one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fastresume as fr
from support.each_of import each_of
from support.fault_proxy import FAULTS, Proxy, proxied
from support.object_server import S3Server


def _ids(dataset: fr.ParquetDataset) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset]


@each_of("kind", FAULTS)
def test_a_fault_is_tried_again_and_changes_no_batch(
    server: S3Server, tree: Path, address: str, kind: str
) -> None:
    expected = _ids(fr.ParquetDataset(tree, batch_size=64))
    with proxied(server.port, share=0.2, kinds=(kind,)) as proxy:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options)
        assert _ids(dataset) == expected
        assert proxy.injected[kind] > 0
        counts = dataset._spec.manifest.stores.counts()
    if kind in ("503", "429", "reset"):
        assert counts.retries == proxy.injected[kind]


def test_a_pass_goes_on_from_the_last_batch_after_its_store_was_gone(
    server: S3Server, tree: Path, address: str
) -> None:
    expected = _ids(fr.ParquetDataset(tree, batch_size=64))
    with proxied(server.port) as proxy:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options, read_bytes=1)
        got: list[list[int]] = []
        with pytest.raises(fr.SourceError, match=r"s3://bucket/data/day=\d/part-\d\.parquet"):
            _read_until_gone(dataset, got, proxy)
        assert 0 < len(got) < len(expected)
        proxy.share = 0.0
        assert got + _ids(dataset) == expected


@pytest.mark.parametrize(
    "kind",
    ["403", pytest.param("503", marks=pytest.mark.slow), pytest.param("reset", marks=pytest.mark.slow)],
)  # what may mend itself is tried for half a minute
def test_a_store_that_does_not_answer_is_no_damage(
    server: S3Server, tree: Path, address: str, kind: str
) -> None:
    expected = _ids(fr.ParquetDataset(tree, batch_size=64))
    with proxied(server.port) as proxy:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        how = {"storage_options": options, "read_bytes": 1, "bad_rows": fr.MaskBadRows(at_most=1.0)}
        dataset = fr.ParquetDataset(address, batch_size=64, **how)
        got: list[list[int]] = []
        with pytest.raises(fr.SourceError, match=r"s3://bucket/data/day=\d/part-\d\.parquet"):
            _read_until_gone(dataset, got, proxy, kind)
        assert got == expected[: len(got)], "no row was masked"
        proxy.share = 0.0
        assert got + _ids(dataset) == expected


def test_an_object_that_went_is_damage(server: S3Server, tree: Path) -> None:
    address = server.put_tree("went", tree, "data/")
    how = {"storage_options": server.options, "bad_rows": fr.MaskBadRows(at_most=1.0)}
    dataset = fr.ParquetDataset(address, batch_size=64, columns=["id"], tail="short", **how)
    server.delete("went", "data/day=0/part-1.parquet")
    batches = list(dataset)
    masked = [row for batch in batches for row in batch.rows()[~batch.valid.numpy()].tolist()]
    assert masked == list(range(1000, 2000))
    assert [row for batch in batches for row in batch["id"].tolist() if row] == [
        *range(1, 1000),
        *range(2000, 6000),
    ]


def _read_until_gone(
    dataset: fr.ParquetDataset, got: list[list[int]], proxy: Proxy, kind: str = "404"
) -> None:
    for batch in dataset:
        assert batch.valid.all()
        got.append(batch["id"].tolist())
        # No try mends what is not there.
        proxy.share, proxy.kinds = 1.0, (kind,)


def test_whole_columns_are_asked_for_and_little_else(server: S3Server, address: str) -> None:
    dataset = fr.ParquetDataset(address, batch_size=64, columns=["text"], storage_options=server.options)
    before = dataset._spec.manifest.stores.counts()
    list(dataset)
    after = dataset._spec.manifest.stores.counts()
    assert after.bytes_needed > before.bytes_needed
    assert after.requests - before.requests < 100


def test_a_forked_child_reads_after_its_parent_has(server: S3Server, address: str) -> None:
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=server.options)
    expected = _ids(dataset)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if _ids(dataset) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _ids(dataset) == expected
