"""What files of Iceberg tables call their columns, where that is not what the table calls them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform

import fastresume as fr
from support.iceberg_tables import CATALOG, catalog_in, files_of
from support.tables import id_list, ids, in_order_of, opened, rows_of


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path / "lake")


def told_by_pyiceberg(table: Table, names: list[str]) -> list[dict[str, Any]]:
    return in_order_of("id", table.scan().to_arrow().select(names).to_pylist())


def paths_of(table: Table) -> list[Path]:
    return [Path(file.removeprefix("file://")) for file in files_of(table)]


NAMES = {
    # As pyiceberg writes them, and as Java does.
    "a.b": ("a_x2Eb", "a_x2Eb"),
    "two words": ("two_x20words", "two_x20words"),
    "1st": ("_1st", "_1st"),
    "größe%": ("größe_x25", "größe_x25"),
    "x½": ("x½", "x_xBD"),
    "😀": ("_x1F600", "_xD83D_xDE00"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_avro_would_not_take_is_found_as_writers_write_it(catalog: SqlCatalog, name: str) -> None:
    data = ids(0, 3, **{name: ["x", None, "z"]})
    table = catalog.create_table("ns.t", schema=data.schema)
    table.append(data)
    [path] = paths_of(table)
    by_pyiceberg, by_java = NAMES[name]
    assert pq.read_schema(path).names == ["id", by_pyiceberg]
    expected = told_by_pyiceberg(table, ["id", name])
    assert rows_of(opened(table), ["id", name]) == expected == data.to_pylist()
    pq.write_table(pq.ParquetFile(path).read().rename_columns(["id", by_java]), path)
    assert rows_of(opened(table), ["id", name]) == expected


def test_members_of_structs_with_such_names_are_found_under_the_names_that_they_had(
    catalog: SqlCatalog,
) -> None:
    data = ids(0, 2, **{"s t": pa.array([{"u v": 1, "w": [{"x-y": 3}]}, None])})
    table = catalog.create_table("ns.t", schema=data.schema)
    table.append(data)
    with table.update_schema() as change:
        change.rename_column(("s t", "u v"), "now")
        change.rename_column("s t", "s")
    names = ["id", "s.now", "s.w.x-y"]
    assert rows_of(opened(table), names) == [
        {"id": 0, "s.now": 1, "s.w.x-y": [3]},
        {"id": 1, "s.now": None, "s.w.x-y": None},
    ]


def test_the_names_of_files_that_a_table_maps_are_followed(catalog: SqlCatalog, tmp_path: Path) -> None:
    data = pa.table({"id": [0, 1], "price": [1.5, None]})
    path = tmp_path / "added.parquet"
    pq.write_table(data, path)
    table = catalog.create_table("ns.t", schema=data.schema)
    table.add_files([f"file://{path}"])
    mapping = NameMapping(
        [
            MappedField(field_id=1, names=["id", "ID"]),
            MappedField(field_id=2, names=["price", "Price"]),
        ]
    )
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping.model_dump_json()})
    pq.write_table(data.rename_columns(["ID", "Price"]), path)
    found = rows_of(opened(table), ["id", "price"])
    assert found == told_by_pyiceberg(table, ["id", "price"]) == data.to_pylist()


def test_names_of_schemas_that_a_table_has_forgotten_are_those_of_its_files(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", schema=ids(0, 1, old=[1], s=pa.array([{"a": 1}])).schema)
    table.append(ids(0, 2, old=[1, 2], s=pa.array([{"a": 1}, None])))
    with table.update_schema() as change:
        change.rename_column("old", "new")
        change.rename_column(("s", "a"), "b")
    table.append(ids(2, 1, new=[3], s=pa.array([{"b": 2}])))
    # As by `expire_snapshots(clean_expired_metadata => true)`.
    path = Path(table.metadata_location.removeprefix("file://"))
    found = json.loads(path.read_text())
    found["schemas"] = [
        schema for schema in found["schemas"] if schema["schema-id"] == found["current-schema-id"]
    ]
    path.write_text(json.dumps(found))
    table = catalog.load_table("ns.t")
    assert list(table.schemas()) == [1]
    assert rows_of(opened(table), ["id", "new", "s.b"]) == [
        {"id": 0, "new": 1, "s.b": 1},
        {"id": 1, "new": 2, "s.b": None},
        {"id": 2, "new": 3, "s.b": 2},
    ]


def partitioned(catalog: SqlCatalog, part: pa.Array) -> Table:
    """A table of two files, of which the first lacks the column of its partitions, as files of Hive do."""
    table = catalog.create_table("ns.t", schema=ids(0, 1, part=part[:1]).schema)
    with table.update_spec() as change:
        change.add_field("part", IdentityTransform())
    for number in range(len(part)):
        table.append(ids(number, 1, part=part[number : number + 1]))
    for path in paths_of(table):
        content = pq.ParquetFile(path).read()
        if content["id"].to_pylist() == [0]:
            pq.write_table(content.drop_columns(["part"]), path)
    return table


def test_bytes_of_a_partition_are_read_where_files_lack_them(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, pa.array([b"a\xff\x00", b"", None]))
    assert rows_of(opened(table), ["id", "part"]) == told_by_pyiceberg(table, ["id", "part"])


def test_decimals_of_a_partition_are_read_where_files_lack_them(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, pa.array([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(9, 2)))
    assert rows_of(opened(table), ["part"]) == [{"part": 125}, {"part": -350}]
    floats = opened(table, columns=["id", fr.col("part").decimal("float64")])
    assert rows_of(floats, ["part"]) == [{"part": 1.25}, {"part": -3.5}]


# --------------------------------------------------------------------------------------------------- refusals


def test_a_damaged_table_is_a_source_error(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", schema=ids(0, 1).schema)
    table.append(ids(0, 3))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).write_bytes(b"garbage")
    with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'ns\.t': ") as failed:
        opened(table)
    assert len(str(failed.value)) < 700


def test_a_table_without_files_is_refused_by_its_name(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", schema=ids(0, 1).schema)
    table.append(ids(0, 3))
    table.delete("true")
    with pytest.raises(fr.SourceError, match=r"of the Iceberg table 'ns\.t' has no files: append rows"):
        opened(table)


def test_a_catalog_whose_database_is_not_there_is_a_source_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg import catalog as catalogs
    from pyiceberg.utils.config import Config

    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__URI", f"sqlite:///{tmp_path}/none/catalog.db")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())
    with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'lake/ns\.t': .*unable to open"):
        opened(f"iceberg://{CATALOG}/ns.t")
    for named in ("lake/ns..t", "lake/.t", "/ns.t", "lake/t"):
        with pytest.raises(ValueError, match=r"names no table: write 'iceberg://catalog/namespace\.table'"):
            opened(f"iceberg://{named}")


def test_what_is_of_a_table_and_is_none_says_what_to_pass(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", schema=ids(0, 1).schema)
    table.append(ids(0, 3))
    assert id_list(opened(table.scan())) == [0, 1, 2]
    for part in ({"row_filter": "id > 1"}, {"selected_fields": ("id",)}, {"limit": 2}):
        with pytest.raises(ValueError, match=r"a part of a table is not read: write table\.scan"):
            opened(table.scan(**part))
    with pytest.raises(TypeError, match=r"of pyiceberg: pass its pyiceberg\.table\.Table"):
        opened(catalog)
