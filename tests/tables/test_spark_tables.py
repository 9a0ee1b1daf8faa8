"""Tables that Spark wrote, kept here, and compared with the rows that Spark itself read of them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import fastresume as fr
from golden import make_spark_tables
from support.each_of import each_of
from support.iceberg_tables import CATALOG
from support.object_server import OPTIONS, serving
from support.tables import in_order_of, opened, rows_of

ARCHIVE = Path(__file__).parents[1] / "golden" / "spark_tables.tar.xz"

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spark")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(root, filter="data")
    return root


@pytest.fixture(scope="module")
def read_by_spark(root: Path) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = json.loads((root / "expected.json").read_text())
    return found


def delivered(rows: Rows) -> Rows:
    """Rows as they are delivered: members of structs are columns."""
    found = []
    for row in rows:
        flat = {}
        for name, value in row.items():
            flat.update(
                {f"{name}.{member}": each for member, each in value.items()}
                if isinstance(value, dict)
                else {name: value}
            )
        found.append(flat)
    # A struct that is null has no members there.
    names = max(found, key=len)
    return in_order_of("id", [{name: row.get(name) for name in names} for row in found])


def read(table: Any, **options: Any) -> Rows:
    dataset = opened(table, batch_size=64, **options)
    return in_order_of("id", rows_of(dataset, list(dataset.column_names)))


# ------------------------------------------------------------------------------------------------------ Delta

APART = {"by_id", "variant", "widened", "widened_double"}


@each_of("name", sorted(make_spark_tables.DELTA.keys() - APART))
def test_a_delta_table_has_the_rows_that_spark_reads(
    root: Path, read_by_spark: dict[str, Any], name: str
) -> None:
    assert read(f"delta://{root}/delta/{name}") == delivered(read_by_spark["delta"][name][""])


def test_columns_that_were_widened_are_those_that_spark_reads_or_refused(
    root: Path, read_by_spark: dict[str, Any]
) -> None:
    table, names = f"delta://{root}/delta/widened", ["id", "b", "s", "i", "f"]
    rows = [row for row in read_by_spark["delta"]["widened"][""] if row["id"] < 15]
    assert only(names, read(table, version=7)) == only(names, in_order_of("id", rows))
    with pytest.raises(fr.DataError, match=r"made times of dates.*DROP FEATURE 'typeWidening'.*version="):
        opened(table)
    table = f"delta://{root}/delta/widened_double"
    with pytest.raises(fr.DataError, match=r"(?s)'i': .*float64, expected int32.*'j': .*decimal\(12, 2\)"):
        opened(table)
    [rows] = read_by_spark["delta"]["widened_double"].values()
    dataset = opened(table, columns=["id", fr.col("i").cast(torch.float64)])
    assert in_order_of("id", rows_of(dataset, ["id", "i"])) == only(["id", "i"], in_order_of("id", rows))


@pytest.mark.parametrize(
    ("name", "message"),
    {"by_id": "maps its columns by 'id'", "variant": "asks its readers for variantType"}.items(),
)
def test_what_is_not_read_of_a_delta_table_is_refused_by_name(root: Path, name: str, message: str) -> None:
    with pytest.raises(fr.DataError, match=message):
        opened(f"delta://{root}/delta/{name}")


# ---------------------------------------------------------------------------------------------------- Iceberg


@pytest.fixture(scope="module")
def catalog(root: Path) -> Iterator[SqlCatalog]:
    # Paths of Iceberg are whole, so that its tables are where they were written: in a store.
    for server in serving():
        server.put_tree("lake", root / "iceberg")
        how = {
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": OPTIONS["aws_access_key_id"],
            "s3.secret-access-key": OPTIONS["aws_secret_access_key"],
            "s3.region": OPTIONS["region"],
        }
        catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{root}/catalog.db", warehouse="s3://lake", **how)
        catalog.create_namespace("ns")
        yield catalog


def registered(catalog: SqlCatalog, name: str, message: dict[str, Any]) -> Table:
    return catalog.register_table(f"ns.{name}", message["metadata"])


@each_of("name", sorted(make_spark_tables.ICEBERG))
def test_each_snapshot_of_an_iceberg_table_has_the_rows_that_spark_reads(
    catalog: SqlCatalog, read_by_spark: dict[str, Any], name: str
) -> None:
    message = read_by_spark["iceberg"][name]
    table = registered(catalog, name, message)
    snapshots = {number: rows for number, rows in message.items() if number.isdecimal()}
    assert len(snapshots) >= 2
    for number, rows in snapshots.items():
        found, expected = read(table, version=int(number)), delivered(rows)
        # Spark reads an old snapshot by the present schema here, and we by its own.
        if name == "swapped" and len(rows) < len(message[""]):
            found = [{"id": row["id"], "a": row["b"], "b": row["a"]} for row in found]
        names = found[0].keys() & expected[0].keys()
        assert "id" in names
        assert only(names, found) == only(names, expected), number
    assert read(table) == delivered(message[""])


def only(names: Iterable[str], rows: Rows) -> Rows:
    return [{name: row[name] for name in names} for row in rows]
