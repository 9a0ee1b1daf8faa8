"""What is wrong about options and credentials is said, with what to write, and without a secret."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import fastresume as fr
from support.each_of import each_of
from support.object_server import S3Server

RIGHT = {"aws_access_key_id": "a", "aws_secret_access_key": "hunter2"}


def _opened(server: S3Server, address: str, options: dict[str, object], **how: object) -> fr.ParquetDataset:
    options = {**server.options, **options}
    if "credentials" in how:
        options = {name: options[name] for name in ("endpoint_url", "region")}
    return fr.ParquetDataset(address, batch_size=64, storage_options=options, **how)  # type: ignore[arg-type]


@each_of(
    ("name", "instead"),
    [
        ("key", "write 'aws_access_key_id'"),
        ("secret", "write 'aws_secret_access_key'"),
        ("client_kwargs", "write what it holds by itself, as 'endpoint_url', 'region' or 'timeout'"),
        ("region_name", "write 'region'"),
        ("anon", "write 'skip_signature': 'true'"),
        ("profile", "write credentials="),
        ("aws_acess_key_id", "write 'aws_access_key_id'"),
        ("colour", "it has the names of the crate object_store, such as 'aws_access_key_id'"),
    ],
)
def test_an_option_of_another_library_is_told_with_the_one_to_write(
    server: S3Server, address: str, name: str, instead: str
) -> None:
    with pytest.raises(ValueError, match=f"S3 has no option '{name}'; {instead}") as raised:
        _opened(server, address, {name: "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_options_of_another_store_are_told_with_its_own() -> None:
    for address, name, instead in [
        ("gs://bucket/a", "token", "GCS has no option 'token'; write 'service_account'"),
        ("az://bucket/a", "connection_string", "'connection_string'; write its parts, as 'account_name'"),
        ("http://127.0.0.1:1/a", "user", "a web server has no option 'user'"),
    ]:
        with pytest.raises(ValueError, match=instead):
            fr.ParquetDataset(address, batch_size=8, storage_options={name: "x"})


@each_of("endpoint", ["127.0.0.1:9000", "localhost", "http://", "", "ftp://127.0.0.1"])
def test_an_endpoint_that_is_no_address_is_refused(server: S3Server, address: str, endpoint: str) -> None:
    expected = f"'endpoint_url' must be as 'https://host' or 'http://host:9000', found '{endpoint}'"
    with pytest.raises(ValueError, match=expected):
        _opened(server, address, {"endpoint_url": endpoint})


@each_of(
    ("name", "value", "expected"),
    [
        ("timeout", 30, "the value of 'timeout' must be a number and its unit, as '30s'"),
        ("allow_http", "hunter2", "the value of 'allow_http' must be 'true' or 'false'"),
        (
            "aws_access_key_id",
            "hunter2\n",
            "the value of 'aws_access_key_id' has a line's end .* write value.strip()",
        ),
        ("aws_session_token", "hunter2\r", "the value of 'aws_session_token' has a line's end"),
    ],
)
def test_a_value_that_can_not_be_meant_is_told_by_its_name(
    server: S3Server, address: str, name: str, value: object, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected) as raised:
        _opened(server, address, {name: value})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("value", [b"hunter2", ["hunter2"], {"hunter2": 1}])
def test_a_value_is_a_string_a_number_or_a_bool(server: S3Server, address: str, value: object) -> None:
    expected = r"storage_options\['aws_secret_access_key'\] must be a string, a number or a bool, found"
    with pytest.raises(TypeError, match=expected) as raised:
        _opened(server, address, {"aws_secret_access_key": value})
    assert "hunter2" not in str(raised.value)


@each_of(
    "given",
    [
        {**RIGHT, "aws_session_token": None},
        types.MappingProxyType(RIGHT),
        {**RIGHT, "expiration": dt.datetime.max},
        {name.upper(): value for name, value in RIGHT.items()},
    ],
)
def test_credentials_are_a_mapping_as_others_make_it(server: S3Server, address: str, given: object) -> None:
    dataset = _opened(server, address, {}, credentials=lambda: given)
    assert sum(len(batch["id"]) for batch in dataset) > 0


@each_of(
    ("given", "expected"),
    [
        (None, "must return a dict of strings, found NoneType"),
        ("hunter2", "must return a dict of strings, found str"),
        ({**RIGHT, "aws_session_token": b"hunter2"}, "found bytes at 'aws_session_token'"),
        ({**RIGHT, "aws_session_token": "hunter2\n"}, "'session_token' with a line's end in it"),
        ({"AccessKeyId": "hunter2"}, "a dict with 'access_key_id', found only accesskeyid"),
        ({"aws_access_key_id": "hunter2"}, "a dict with 'aws_secret_access_key'"),
    ],
)
def test_credentials_that_are_none_are_told_by_their_names(
    server: S3Server, address: str, given: object, expected: str
) -> None:
    asked: Callable[[], object] = lambda: given  # noqa: E731
    with pytest.raises(fr.SourceError, match=expected) as raised:
        _opened(server, address, {}, credentials=asked)
    assert "hunter2" not in str(raised.value)


def test_a_store_without_credentials_says_what_to_pass(
    server: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    # Who is asked for the machine's credentials answers at once here, and gives none.
    endpoint = f"http://127.0.0.1:{server.port}/169.254.169.254"
    options = {"endpoint_url": server.endpoint, "region": "us-east-1", "metadata_endpoint": endpoint}
    with pytest.raises(fr.SourceError, match=r"no credentials were named.*'skip_signature': 'true'"):
        fr.ParquetDataset(address, batch_size=64, storage_options=options)


def test_an_object_without_a_byte_is_an_error_as_a_file_is(server: S3Server, tree: Path) -> None:
    one = next(tree.rglob("*.parquet")).read_bytes()
    server.put("empty-ones", "lost/a.parquet", one)
    server.put("empty-ones", "lost/b.parquet", b"")
    with pytest.raises(fr.DataError, match=r"0 bytes.*s3://empty-ones/lost/b\.parquet"):
        _opened(server, "s3://empty-ones/lost", {})
    # What names a directory has none, either.
    for name in ("", "day=1/", "day=2/", "c.parquet/", "_SUCCESS", "old_$folder$"):
        server.put("empty-ones", f"kept/{name}", b"")
    server.put("empty-ones", "kept/day=1/a.parquet", one)
    server.put("empty-ones", "kept/c.parquet/part-0.parquet", one)
    for pattern in ("", "/*", "/**"):
        files = _opened(server, f"s3://empty-ones/kept{pattern}", {}).files
        assert list(files) == [
            "s3://empty-ones/kept/c.parquet/part-0.parquet",
            "s3://empty-ones/kept/day=1/a.parquet",
        ]


def test_a_table_whose_log_is_a_marked_directory_is_refused(server: S3Server, tree: Path) -> None:
    server.put("marked", "table/day=1/a.parquet", next(tree.rglob("*.parquet")).read_bytes())
    server.put("marked", "table/_delta_log/", b"")
    server.put("marked", "table/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(fr.DataError, match="delta://s3://marked/table"):
        _opened(server, "s3://marked/table/day=1", {})


def test_one_object_under_two_schemes_is_one_object(server: S3Server, address: str) -> None:
    one = f"{address}/day=0/part-0.parquet"
    with pytest.raises(ValueError, match="the same object twice"):
        _opened(server, [one, one.replace("s3://", "s3a://")], {})  # type: ignore[arg-type]


def test_a_name_that_hides_others_is_told_with_what_to_write(server: S3Server, tree: Path) -> None:
    one = next(tree.rglob("*.parquet")).read_bytes()
    server.put("hidden-names", "a/x.parquet", one)
    server.put("hidden-names", "a//y.parquet", one)
    with pytest.raises(fr.SourceError, match=r"a//y\.parquet.*name the directories or files beside"):
        _opened(server, "s3://hidden-names/a", {})
    assert len(_opened(server, "s3://hidden-names/a/x.parquet", {}).files) == 1


def test_the_endpoint_of_s3_alone_and_its_authority_are_read_from_the_environment(
    server: S3Server, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {name: value for name, value in server.options.items() if name != "endpoint_url"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    assert fr.ParquetDataset(address, batch_size=64, storage_options=keys).files
    # What is named goes before it.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert fr.ParquetDataset(address, batch_size=64, storage_options=server.options).files
    bundle = tmp_path / "bundle.pem"
    for content, found in (
        (None, "No such file"),
        (b"", "expected the form PEM"),
        (b"no\n", "expected the form PEM"),
    ):
        if content is not None:
            bundle.write_bytes(content)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
        with pytest.raises(ValueError, match=f"AWS_CA_BUNDLE='.*bundle.pem'.*{found}"):
            fr.ParquetDataset(address, batch_size=64, storage_options=server.options)


def test_a_profile_that_is_not_read_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    options = {
        "region": "us-east-1",
        "aws_metadata_endpoint": "http://169.254.169.254:9",
        "connect_timeout": "100ms",
    }
    with pytest.raises(
        fr.SourceError, match=r"AWS_PROFILE is set, and profiles are not read: pass credentials="
    ):
        fr.ParquetDataset(address, batch_size=64, storage_options=options)
