"""Where Delta tables and their files lie: links, clones, versions that are there no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import fastresume as fr
from support.delta_tables import adds, append, commit, delete_rows
from support.object_server import OPTIONS, S3Server, serving
from support.tables import id_list, ids, in_order_of, opened, rows_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ä table%"


def test_rows_are_deleted_however_the_path_of_the_table_is_written(root: Path) -> None:
    append(root, ids(0, 5, part=["a b"] * 5), partition_by=["part"])
    delete_rows(root, adds(root, 0)[0], [1, 4])
    link = root.parent / "link"
    link.symlink_to(root)
    untidy = f"{root.parent}/nothing/../{root.name}"
    (root.parent / "nothing").mkdir()
    for path in (root, link, untidy, f"/{root}", f"file://{quote(str(root))}"):
        assert id_list(opened(f"delta://{path}")) == [0, 2, 3], path


def test_the_log_of_a_table_is_refused_by_the_table(root: Path) -> None:
    append(root, ids(0, 5))
    log = root / "_delta_log"
    for path in (log, next(log.glob("*.json")), f"{log}/*.json"):
        with pytest.raises((fr.DataError, fr.SourceError), match="of the log of a Delta table") as caught:
            fr.ParquetDataset(path, batch_size=1)
        assert id_list(opened(eval(str(caught.value).partition(": write ")[2]))) == list(range(5))  # noqa: S307


@pytest.mark.parametrize("written", ["file:", "file://", ""])
def test_files_of_a_clone_lie_elsewhere(root: Path, written: str) -> None:
    append(root, ids(0, 3))
    elsewhere = root.parent / "an other%20"
    elsewhere.mkdir()
    for number in (1, 2):
        path = elsewhere / f"ü {number}%.parquet"
        pq.write_table(ids(5 * number, 5), path)
        add = {
            "path": f"{written}{quote(str(path))}",
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": 5}),
        }
        commit(root, [{"add": add}])
    assert id_list(opened(f"delta://{root}")) == [0, 1, 2, *range(5, 15)]
    delete_rows(root, add, [0, 3])
    assert id_list(opened(f"delta://{root}")) == [0, 1, 2, *range(5, 10), 11, 12, 14]


def test_a_version_that_is_not_there_is_refused_at_once(root: Path) -> None:
    append(root, ids(0, 3))
    append(root, ids(3, 3))
    for version in (2, 1_700_000_000_000, 2**63 - 1):
        found = rf"it has no version {version}, its latest is 1"
        with pytest.raises(fr.SourceError, match=found):
            opened(f"delta://{root}?version={version}")


def test_a_version_that_the_log_does_not_reach_any_more_is_told(root: Path) -> None:
    for number in range(4):
        append(root, ids(3 * number, 3))
    DeltaTable(str(root)).create_checkpoint()
    for version in range(3):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(fr.SourceError, match="reaches back to version 1 no more, its latest is 3"):
        opened(f"delta://{root}?version=1")
    assert id_list(opened(f"delta://{root}?version=3")) == list(range(12))


def test_a_version_whose_files_were_removed_is_told(root: Path) -> None:
    append(root, ids(0, 3))
    write_deltalake(str(root), ids(10, 3), mode="overwrite")
    DeltaTable(str(root)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(
        fr.SourceError, match=r"no such file.*a file of version 0 of the Delta table.*VACUUM.*version="
    ):
        opened(f"delta://{root}?version=0")
    assert id_list(opened(f"delta://{root}")) == [10, 11, 12]


@pytest.mark.parametrize("made", ["created", "emptied", "without rows"])
def test_a_table_without_files_is_refused_by_its_name(root: Path, made: str) -> None:
    if made == "created":
        DeltaTable.create(str(root), schema=ids(0, 1).schema)
    else:
        append(root, ids(0, 3 if made == "emptied" else 0))
        DeltaTable(str(root)).delete()
    with pytest.raises(
        fr.SourceError, match=r"version \d of the Delta table '.*' has no files: append rows to it first"
    ):
        opened(f"delta://{root}")


def test_a_partition_of_bytes_is_refused_by_name_as_writers_do_not_agree_on_its_text(root: Path) -> None:
    append(root, ids(0, 3, part=pa.array([b"a", b"\xff", None])), partition_by=["part"])
    with pytest.raises(fr.DataError, match=r"binary of partitions is not supported.*'!part'"):
        opened(f"delta://{root}")
    assert id_list(opened(f"delta://{root}", columns="!part")) == [0, 1, 2]


@pytest.mark.parametrize("content", [None, "", "{}garbage", "[1]"])
def test_what_is_no_table_is_a_source_error_of_few_words(
    root: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    root.mkdir()
    if content is not None:
        (root / "_delta_log").mkdir()
        (root / "_delta_log" / f"{0:020}.json").write_text(content)
    message = "can't read the Delta table" + (".*no directory '_delta_log'" if content is None else "")
    with pytest.raises(fr.SourceError, match=message) as failed:
        opened(f"delta://{root}")
    assert len(str(failed.value)) < 700
    assert "<unknown>" not in str(failed.value)


def test_a_store_that_is_not_there_is_a_source_error() -> None:
    options: dict[str, Any] = {
        "aws_endpoint_url": "http://127.0.0.1:9",
        "aws_allow_http": "true",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "hidden",
        "region": "us-east-1",
        "max_retries": "0",
    }
    with pytest.raises(fr.SourceError, match=r"can't read the Delta table 's3://lake/t'") as failed:
        opened("delta://s3://lake/t", storage_options=options)
    assert "hidden" not in str(failed.value)
    assert "\x1b" not in str(failed.value)


def test_an_address_without_a_table_says_what_to_write() -> None:
    for named in ("delta://", "delta://file://"):
        with pytest.raises(ValueError, match="names no table: write 'delta://' before the table's path"):
            opened(named)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    yield from serving()


def test_a_table_of_a_store_is_reached_as_its_object_is(server: S3Server, root: Path) -> None:
    append(root, ids(0, 4, part=["a b", "ü%", "x=1", None]), partition_by=["part"])
    server.put_tree("lake", root, "ä table/b c/")
    options = {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": OPTIONS["region"],
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",  # which writers need
    }
    secret = {name: OPTIONS[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
    address = "s3://lake/ä table/b c"
    table = DeltaTable(address, storage_options=options | secret)
    for dataset in (
        opened(table),
        opened(table, credentials=lambda: secret),
        opened(f"delta://{address}/", storage_options=options | secret),
        opened(f"delta://{address.replace('s3', 's3a')}", storage_options=options | secret),
    ):
        found = in_order_of("id", rows_of(dataset, ["id", "part"]))
        assert found == in_order_of("id", table.to_pyarrow_table().to_pylist())
