"""What properties of PyIceberg's FileIO say of a store is passed on, or named where the store fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyiceberg.io
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from fastresume.tables.file_io import SILENT, reached
from support.each_of import each_of
from support.iceberg_tables import CATALOG
from support.object_server import OPTIONS, S3Server, serving
from support.tables import id_list, opened

FILES = {
    "s3": "s3://b/a.parquet",
    "client": "s3a://b/a.parquet",
    "gcs": "gs://b/a.parquet",
    "adls": "abfss://c@account.dfs.core.windows.net/a.parquet",
    "hf": "hf://datasets/a/b/a.parquet",
}

server = pytest.fixture(scope="module")(serving)


def properties() -> list[str]:
    """All that pyiceberg knows by name."""
    named = [value for name, value in vars(pyiceberg.io).items() if name.isupper() and isinstance(value, str)]
    return sorted({name for name in named if name.partition(".")[0] in FILES and "." in name})


@each_of("name", properties())
def test_each_property_is_passed_on_or_is_silent_or_is_named(name: str) -> None:
    found = reached({name: "1"}, [FILES[name.partition(".")[0]]])
    assert len(found.options) + len(found.unused) == (0 if name in SILENT or name.startswith(PARTS) else 1)
    assert reached({name: "1"}, ["/local/a.parquet"]) == ({}, [])


PARTS = ("adls.connection-string", "adls.blob-storage-scheme")
"""What says something only beside others."""

CASES = {
    "S3": (
        "s3",
        {
            "client.access-key-id": "a",
            "s3.access-key-id": "b",
            "client.secret-access-key": "c",
            "s3.region": "r",
        },
        {"aws_access_key_id": "b", "aws_secret_access_key": "c", "aws_region": "r"},
    ),
    "nobody": ("s3", {"s3.anonymous": "True"}, {"aws_skip_signature": "true"}),
    "hosts": ("s3", {"s3.force-virtual-addressing": False}, {"aws_virtual_hosted_style_request": "false"}),
    "times": ("s3", {"s3.connect-timeout": 2.5}, {"connect_timeout": "2500ms"}),
    "GCS": (
        "gcs",
        {"gcs.oauth2.token": "t", "gcs.service.host": "http://localhost:1", "s3.region": "r"},
        {"google_bearer_token": "t", "google_base_url": "http://localhost:1"},
    ),
    "a connection": (
        "adls",
        {"adls.connection-string": "AccountName=n;AccountKey=k==;BlobEndpoint=http://h:1/n;X=1"},
        {
            "azure_storage_account_name": "n",
            "azure_storage_account_key": "k==",
            "azure_storage_endpoint": "http://h:1/n",
        },
    ),
    "a token of an account": (
        "adls",
        {"adls.sas-token.account.dfs.core.windows.net": "sig=1"},
        {"azure_storage_account_name": "account", "azure_storage_sas_token": "sig=1"},
    ),
    "a server of one's own": (
        "adls",
        {
            "adls.account-name": "n",
            "adls.blob-storage-authority": "127.0.0.1:1",
            "adls.blob-storage-scheme": "http",
        },
        {"azure_storage_account_name": "n", "azure_storage_endpoint": "http://127.0.0.1:1/n"},
    ),
    "all accounts": (
        "adls",
        {"adls.account-name": "n", "adls.blob-storage-authority": ".blob.host"},
        {"azure_storage_account_name": "n", "azure_storage_endpoint": "https://n.blob.host"},
    ),
}


@each_of("name", CASES)
def test_properties_are_passed_on_by_the_names_of_storage_options(name: str) -> None:
    kind, found, expected = CASES[name]
    assert reached(found, [FILES[kind]]) == (expected, [])


def lake(server: S3Server, root: Path, **found: str) -> object:
    server.put("lake", "placeholder", b"")
    where = {
        "uri": f"sqlite:///{root}/catalog.db",
        "warehouse": "s3://lake/w",
        "s3.endpoint": server.endpoint,
    }
    catalog = SqlCatalog(CATALOG, **where, **found)
    catalog.create_namespace_if_not_exists("ns")
    table = catalog.create_table("ns.t", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    return table


def test_a_store_is_reached_by_the_properties_of_any_client(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    found = {
        "client.access-key-id": OPTIONS["aws_access_key_id"],
        "client.secret-access-key": OPTIONS["aws_secret_access_key"],
        "client.region": OPTIONS["region"],
    }
    assert id_list(opened(lake(server, tmp_path, **found))) == [1, 2, 3]
