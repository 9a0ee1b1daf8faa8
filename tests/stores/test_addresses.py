"""Addresses mean what they mean elsewhere: a slash at the end, a query, what browsers percent-encode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.object_server import S3Server
from support.web_server import Request, WebServer, serving_web

ROWS = 100


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    pq.write_table(pa.table({"id": range(ROWS)}), tmp_path / "a.parquet")
    return (tmp_path / "a.parquet").read_bytes()


def _names(address: str, server: S3Server) -> list[str]:
    return list(fr.ParquetDataset(address, batch_size=10, storage_options=server.options).files)


def test_a_slash_at_the_end_is_the_directory_and_never_the_object(server: S3Server, content: bytes) -> None:
    for key in ("day=1", "day=1/a.parquet", "day=1/b.parquet", "x.parquet", "x.parquet/y.parquet"):
        server.put("slashes", key, content)
    for key in ("day=1/", "x.parquet/", "empty/"):
        server.put("slashes", key, b"")
    below = ["s3://slashes/day=1/a.parquet", "s3://slashes/day=1/b.parquet"]
    assert _names("s3://slashes/day=1/", server) == below
    assert _names("s3://slashes/day=1", server) == ["s3://slashes/day=1"]
    assert _names("s3://slashes/day=*/", server) == below
    assert _names("s3://slashes/x.parquet/", server) == ["s3://slashes/x.parquet/y.parquet"]
    with pytest.raises(fr.SourceError, match=r"no object that ends in \.parquet"):
        _names("s3://slashes/empty/", server)


def test_a_directory_of_a_store_without_parquet_says_what_it_has(server: S3Server, content: bytes) -> None:
    for key in (
        "csv/day=1/a.csv",
        "csv/b.csv",
        "csv/x.lock",
        "staged/_temporary/a.parquet",
        "old/_a.parquet",
    ):
        server.put("others", key, content)
    for address, words in (
        ("csv/", "it has 2 .csv files, 1 .lock file; 'b.csv' looks like a text of values: write it as Par"),
        ("staged", "_temporary' has 1 such file: the job that writes them is not done, or failed"),
        ("old", "Write 's3://others/old/_*.parquet' to read such files"),
    ):
        with pytest.raises(fr.SourceError) as caught:
            _names(f"s3://others/{address}", server)
        assert words in str(caught.value)
    assert _names("s3://others/old/_*.parquet", server) == ["s3://others/old/_a.parquet"]


@pytest.fixture
def web(content: bytes) -> Iterator[WebServer]:
    with serving_web(content) as server:
        yield server


@pytest.mark.parametrize("refused", [None, 403, 405, 400, 501])
@pytest.mark.parametrize(
    "name",
    ["a.parquet?X-Signature=se/c%2Fret&x=*[1]//y", "a%20b%2Bc.parquet", "a b.parquet", "%E2%82%AC.parquet"],
)
def test_an_address_of_the_web_is_taken_as_it_stands(web: WebServer, name: str, refused: int | None) -> None:
    asked: list[str] = []
    if refused is not None:
        web.heads = lambda request: request.say(refused, {})

    def answer(request: Request) -> None:
        asked.append(request.path)
        start, end = request.range
        covered = f"bytes {start}-{end - 1}/{len(web.content)}"
        request.say(206, {"Content-Range": covered}, web.content[start:end])

    web.answers = answer
    dataset = fr.ParquetDataset(web.address.replace("a.parquet", name), batch_size=10)
    assert [row for batch in dataset for row in batch["id"].tolist()] == list(range(ROWS))
    assert set(asked) == {"/" + quote(name, safe="/%?&=*[]-")}


def test_a_signature_is_no_part_of_a_file(web: WebServer) -> None:
    first, second = (
        fr.ParquetDataset(f"{web.address}?signature={name}", batch_size=10) for name in ("one", "other")
    )
    assert (
        first.fingerprint == second.fingerprint == fr.ParquetDataset(web.address, batch_size=10).fingerprint
    )
    second.load_state_dict(list(first)[3].state_dict())
    assert [row for batch in second for row in batch["id"].tolist()] == list(range(40, ROWS))
    web.answers = web.heads = lambda request: request.say(403, {}, b"Request has expired")
    with pytest.raises(fr.SourceError, match=r"403") as raised:
        list(fr.ParquetDataset(f"{web.address}?signature=secret", batch_size=10))
    assert "secret" not in str(raised.value)
    assert f"{web.address}?..." in str(raised.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("wasbs://c@a.blob.core.windows.net/x", "write abfss://"),
        ("oss://bucket/x", "write s3://bucket"),
        ("hf://buckets/a/b/c", "hf://datasets/"),
    ],
)
def test_schemes_of_others_are_told_what_to_write(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fr.ParquetDataset(address, batch_size=10)


def test_the_path_of_an_address_has_its_host(web: WebServer) -> None:
    [name] = fr.ParquetDataset(web.address, batch_size=10).files
    assert urlsplit(name).port == web.server_port
