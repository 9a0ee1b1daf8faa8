"""Iceberg tables of a REST catalog: what it tells of them, and what its failures become."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

import fastresume as fr
from support.iceberg_rest import TOKEN, RestServer, serving_catalog
from support.iceberg_tables import catalog_in
from support.tables import id_list, ids, opened

NAMED = "PYICEBERG_CATALOG__REST__"


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path / "lake")


@pytest.fixture
def server(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    with serving_catalog(catalog) as server:
        for name, value in {"TYPE": "rest", "URI": server.uri, "TOKEN": TOKEN}.items():
            monkeypatch.setenv(f"{NAMED}{name}", value)
        look_again(monkeypatch)
        yield server


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the environment anew: pyiceberg does once, when it is imported."""
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())


def made(catalog: SqlCatalog, name: str = "ns.t") -> None:
    table = catalog.create_table(name, schema=ids(0, 1, text=["a"]).schema)
    table.append(ids(0, 5, text=["a", "b", None, "d", "e"]))
    table.append(ids(5, 4, text=pa.nulls(4, pa.string())))


def test_a_table_of_a_rest_catalog_is_read_as_its_snapshots_are(
    catalog: SqlCatalog, server: RestServer
) -> None:
    made(catalog)
    dataset = opened("iceberg://rest/ns.t")
    assert id_list(dataset) == list(range(9))
    assert server.asked == ["/v1/config", "/v1/namespaces/ns/tables/t"]
    first = catalog.load_table("ns.t").snapshots()[0].snapshot_id
    assert id_list(opened(f"iceberg://rest/ns.t?version={first}")) == list(range(5))
    with pytest.raises(fr.SourceError, match=r"'rest/ns\.t' has no snapshot 7"):
        opened("iceberg://rest/ns.t?version=7")


def test_a_namespace_may_have_parts(catalog: SqlCatalog, server: RestServer) -> None:
    catalog.create_namespace("a.b")
    made(catalog, "a.b.t")
    assert id_list(opened("iceberg://rest/a.b.t")) == list(range(9))


def test_a_token_stands_in_nothing_that_is_told_or_kept(
    catalog: SqlCatalog, server: RestServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(catalog)
    with caplog.at_level(logging.DEBUG, "fastresume"):
        dataset = opened("iceberg://rest/ns.t", manifest_cache=tmp_path / "cache")
        state = next(iter(dataset)).state_dict()
    message = [repr(dataset), str(dataset.plan()), str(dataset.plan().table), str(state), caplog.text]
    for status in (401, 403, 503):
        server.failure = (status, f"<html>you sent: Bearer {TOKEN}</html>")
        with pytest.raises(fr.SourceError) as failed:
            opened("iceberg://rest/ns.t")
        message.append(str(failed.value))
    server.failure = (200, f'{{"metadata": "{TOKEN}"}}')
    with pytest.raises(fr.SourceError) as failed:
        opened("iceberg://rest/ns.t")
    message.append(str(failed.value))
    kept = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    kept.append(pickle.dumps(dataset))
    assert not [text for text in message if TOKEN in text]
    assert not [content for content in kept if TOKEN.encode() in content]


def test_what_a_catalog_answers_in_place_of_a_table_is_a_source_error(
    catalog: SqlCatalog, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(catalog)
    with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'rest/ns\.u': .*does not exist"):
        opened("iceberg://rest/ns.u")
    for failure, found in {
        (503, '{"error": {"message": "come back", "type": "Busy", "code": 503}}'): "Busy: come back",
        (503, ""): "Service Unavailable",
        (503, "<html>" + "x" * 100_000): "503",
        (500, "{}"): "500",
        (429, '{"error": {"message": "slow down", "type": "TooMany", "code": 429}}'): "slow down",
        (200, "{}"): "what it answers is not in the form of a table",
        (200, "<html>"): "what it answers is not in the form of a table",
    }.items():
        server.failure = failure
        with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'rest/ns\.t': ") as failed:
            opened("iceberg://rest/ns.t")
        assert found in str(failed.value)
        assert len(str(failed.value)) < 1000
    server.failure = None
    assert id_list(opened("iceberg://rest/ns.t")) == list(range(9)), "nothing of it is kept"
    monkeypatch.setenv(f"{NAMED}TOKEN", "another")
    look_again(monkeypatch)
    with pytest.raises(fr.SourceError, match=r"'rest/ns\.t': NotAuthorizedException: no such token"):
        opened("iceberg://rest/ns.t")


def test_a_catalog_that_is_not_there_is_a_source_error(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{NAMED}URI", "http://127.0.0.1:9/")
    look_again(monkeypatch)
    with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'rest/ns\.t': ") as failed:
        opened("iceberg://rest/ns.t")
    assert TOKEN not in "".join(traceback.format_exception(failed.value))
