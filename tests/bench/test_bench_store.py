"""`fastresume bench` measures files in a store, by the readers that can read them there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastresume import cli
from support.object_server import OPTIONS, S3Server, serving


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    yield from serving()


@pytest.mark.processes
@pytest.mark.slow  # it starts five readers, each with its libraries
@pytest.mark.parametrize("is_quick", [False, True])
def test_files_in_a_store_are_measured_by_those_that_read_stores(
    server: S3Server,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_quick: bool,
) -> None:
    address, message = server.put_tree("bench", files), tmp_path / "out.json"
    # Secrets come from where users have them.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OPTIONS["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OPTIONS["aws_secret_access_key"])
    options = {"endpoint_url": server.endpoint, "region": OPTIONS["region"], "allow_http": "true"}
    arguments = ["bench", address, "--rounds", "1", "--batch-size", "64", "--json", str(message)]
    arguments += [f"--storage-option={name}={value}" for name, value in options.items()]
    names = "fastresume-shuffled,pyarrow,pyarrow-dataset,polars,duckdb"
    status = cli.main([*arguments, *(["--quick"] if is_quick else ["--contenders", names, "--no-resume"])])
    out, err = capsys.readouterr()
    assert status == 0, out + err
    found = json.loads(message.read_text())
    assert found["same_rows"]
    assert found["files"] == [f"{address}/a.parquet", f"{address}/b.parquet"]
    if not is_quick:
        assert "duckdb: reads local files alone" in out
    measured = {name for name, one in found["contenders"].items() if one["passes"]}
    expected = "fastresume-stacked,pyarrow-tensors,polars" if is_quick else names.removesuffix(",duckdb")
    assert measured == set(expected.split(","))
    for text in (out, message.read_text()):
        assert OPTIONS["aws_secret_access_key"] not in text


def test_an_option_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "s3://bucket/", "--storage-option", "endpoint_url"])
    assert "expected NAME=VALUE" in capsys.readouterr().err
