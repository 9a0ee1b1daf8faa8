"""Iceberg tables, written by `pyiceberg`, and compared with what it reads."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.catalog
import pyiceberg.table
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType
from pyiceberg.utils.config import Config

import fastresume as fr
from support.iceberg_tables import CATALOG, catalog_in, delete_rows, files_of
from support.object_server import OPTIONS, S3Server, serving
from support.tables import id_list, ids, in_order_of, opened, rows_of


def told_by_pyiceberg(table: Table, names: list[str]) -> list[dict[str, Any]]:
    return in_order_of("id", table.scan().to_arrow().select(names).to_pylist())


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlCatalog:
    root = tmp_path / "lake"
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__URI", f"sqlite:///{root}/catalog.db")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__WAREHOUSE", f"file://{root}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it looks once, when it is imported
    return catalog_in(root)


def made(catalog: SqlCatalog, *tables: pa.Table) -> Table:
    table = catalog.create_table("ns.t", schema=tables[0].schema)
    for each in tables:
        table.append(each)
    return table


def test_files_stand_in_the_order_of_the_commits(catalog: SqlCatalog) -> None:
    table = made(catalog, *(ids(3 * number, 3) for number in range(5)))
    for named in (f"iceberg://{CATALOG}/ns.t", [f"iceberg://{CATALOG}/ns.t"], table):
        dataset = opened(named)
        assert id_list(dataset) == list(range(15))
        assert dataset.version == table.current_snapshot().snapshot_id  # type: ignore[union-attr]
        assert f"version {dataset.version} of an Iceberg table" in repr(dataset)
    assert id_list(pickle.loads(pickle.dumps(dataset))) == list(range(15))


def test_a_snapshot_is_named_by_its_id(catalog: SqlCatalog) -> None:
    table = made(catalog, ids(0, 3), ids(3, 3), ids(6, 3))
    for number, snapshot in enumerate(table.snapshots()):
        found = opened(f"iceberg://{CATALOG}/ns.t?version={snapshot.snapshot_id}")
        assert id_list(found) == list(range(3 * number + 3))
    with pytest.raises(fr.SourceError, match=r"'lake/ns\.t' has no snapshot 7"):
        opened(f"iceberg://{CATALOG}/ns.t?version=7")


def test_the_metadata_of_a_table_is_refused_by_what_reads_it(catalog: SqlCatalog) -> None:
    location = made(catalog, ids(0, 3), ids(3, 3)).metadata_location
    path = Path(location.removeprefix("file://"))
    for named in (location, path, [str(path)], path.parent):
        with pytest.raises(
            (fr.DataError, fr.SourceError), match="the metadata of an Iceberg table"
        ) as caught:
            fr.ParquetDataset(named, batch_size=1)  # type: ignore[arg-type]
        way = str(caught.value).partition(": write ")[2].removesuffix(" instead of a path")
        table = eval(way, {"pyiceberg": pyiceberg})  # noqa: S307  (our own words)
        assert id_list(opened(table)) == list(range(6))


PARTITIONS = {
    "day": pa.array([dt.date(2024, 2, 29)] * 2 + [dt.date(1969, 12, 31)] * 2 + [None]),
    "text": pa.array(["a b/ü:%", "a b/ü:%", "1", "1", None]),
    "small": pa.array([-3, -3, 127, 127, None], pa.int32()),
}


@pytest.mark.parametrize("is_in_files", [True, False])
@pytest.mark.parametrize("name", PARTITIONS)
def test_the_values_of_partitions_are_those_that_pyiceberg_reads(
    catalog: SqlCatalog, name: str, is_in_files: bool
) -> None:
    data = ids(0, 5, **{name: PARTITIONS[name]})
    table = catalog.create_table("ns.t", schema=data.schema)
    with table.update_spec() as change:
        change.add_field(name, IdentityTransform())
    table.append(data)
    expected = told_by_pyiceberg(table, ["id", name])
    if not is_in_files:  # as files of Hive that are added to a table
        for file in files_of(table):
            path = file.removeprefix("file://")
            pq.write_table(pq.ParquetFile(path).read().drop_columns([name]), path)
    found = in_order_of("id", rows_of(opened(table), ["id", name]))
    days = [
        {**row, name: (row[name] - dt.date(1970, 1, 1)).days if isinstance(row[name], dt.date) else row[name]}
        for row in expected
    ]
    assert found == days


def test_a_column_is_found_by_its_id_under_every_name_that_it_had(catalog: SqlCatalog) -> None:
    table = made(catalog, ids(0, 3, old=pa.array([1, 2, 3], pa.int32()), gone=["x", "y", "z"]))
    with table.update_schema() as change:
        change.rename_column("old", "new")
        change.add_column("later", StringType())
        change.delete_column("gone")
    table.append(ids(3, 2, new=pa.array([4, 5], pa.int32()), later=["p", "q"]))
    with table.update_schema() as change:
        change.update_column("new", LongType())
        change.rename_column("new", "newest")
        change.move_first("later")
    table.append(pa.table({"later": ["r"], "id": pa.array([5], pa.int64()), "newest": pa.array([1 << 40])}))
    names = ["later", "id", "newest"]
    dataset = opened(table)
    assert [name for name in dataset.schema if not name.endswith("_valid")] == names
    assert in_order_of("id", rows_of(dataset, names)) == told_by_pyiceberg(table, names)
    first = opened(table.scan(snapshot_id=table.snapshots()[0].snapshot_id))
    assert in_order_of("id", rows_of(first, ["id", "old", "gone"]))[0] == {"id": 0, "old": 1, "gone": "x"}


def test_members_of_structs_are_found_by_their_ids(catalog: SqlCatalog) -> None:
    inner = pa.array([{"a": 1, "b": [1.5]}, {"a": 2, "b": []}])
    table = made(catalog, ids(0, 2, s=inner))
    with table.update_schema() as change:
        change.rename_column("s.a", "renamed")
        change.rename_column("s", "t")
    expected = [row["t"] for row in told_by_pyiceberg(table, ["id", "t"])]
    found = rows_of(opened(table), ["id", "t.renamed", "t.b"])
    assert [{"renamed": row["t.renamed"], "b": row["t.b"]} for row in found] == expected


def test_the_partition_column_of_an_older_snapshot_may_have_been_dropped_since(catalog: SqlCatalog) -> None:
    data = ids(0, 2, day=pa.array([3, 3], pa.int32()))
    table = catalog.create_table("ns.t", schema=data.schema)
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform())
    table.append(data)
    first = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    with table.update_spec() as change:
        change.remove_field("day")
    with table.update_schema() as change:
        change.delete_column("day")
    table.append(ids(2, 2))
    assert id_list(opened(table)) == [0, 1, 2, 3]
    assert rows_of(opened(table.scan(snapshot_id=first)), ["day"]) == [{"day": 3}, {"day": 3}]


@pytest.mark.law(2)
def test_an_appended_snapshot_is_a_dataset_that_has_grown(catalog: SqlCatalog) -> None:
    table = made(catalog, ids(0, 7), ids(7, 4))
    how: dict[str, Any] = {"tail": "pad", "on_change": "append"}
    states = [batch.state_dict() for batch in opened(table, **how)]
    table.append(ids(11, 5))
    for number, state in enumerate(states):
        dataset = opened(table, **how)
        dataset.load_state_dict(state)
        left = [value for batch in dataset for value in batch["id"][batch.valid].tolist()]
        assert left == list(range(min(3 * number + 3, 11), 16))


def test_a_snapshot_that_rewrote_rows_is_refused_by_its_id(catalog: SqlCatalog) -> None:
    table = made(catalog, ids(0, 7), ids(7, 4))
    before = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    state = next(iter(opened(table))).state_dict()
    table.delete("id == 5")
    assert sorted(id_list(opened(table))) == [*range(5), *range(6, 11)]
    number = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    words = rf"it was snapshot {number} \(overwrite\): name .* by '\?version={before}' at the end"
    with pytest.raises(fr.StateError, match=words):
        opened(table).load_state_dict(state)
    opened(table.scan(snapshot_id=before)).load_state_dict(state)


def test_rows_that_are_deleted_by_their_positions_are_not_selected(catalog: SqlCatalog) -> None:
    table = made(catalog, ids(0, 7), ids(7, 4))
    files = sorted(
        files_of(table), key=lambda file: pq.read_table(file.removeprefix("file://"))["id"][0].as_py()
    )
    delete_rows(table, {files[0]: [0, 3, 6], files[1]: [1], "file:///gone.parquet": [0]})
    table.append(ids(11, 3))
    delete_rows(table, {files[0]: [3, 4]}, number=1)
    expected = [row["id"] for row in told_by_pyiceberg(table, ["id"])]
    assert expected == [1, 2, 5, 7, 9, 10, 11, 12, 13]
    dataset = opened(table)
    assert id_list(dataset) == expected
    assert [row for batch in dataset for row in batch.rows().tolist()] == expected, "row numbers count all"


def test_what_names_no_table_is_refused_with_what_to_write(catalog: SqlCatalog) -> None:
    made(catalog, ids(0, 3))
    with pytest.raises(ValueError, match=r"write 'iceberg://catalog/namespace\.table'"):
        opened("iceberg://ns.t")
    with pytest.raises(fr.SourceError, match=r"can't read the Iceberg table 'lake/ns\.u': .*ns\.u"):
        opened("iceberg://lake/ns.u")
    with pytest.raises(fr.SourceError, match="can't open the Iceberg catalog 'nowhere'"):
        opened("iceberg://nowhere/ns.t")
    with pytest.raises(ValueError, match="a table is read alone"):
        opened(["iceberg://lake/ns.t", "b.parquet"])
    catalog.create_table("ns.empty", schema=ids(0, 1).schema)
    with pytest.raises(fr.SourceError, match=r"'lake/ns\.empty' has no snapshot yet: append rows"):
        opened("iceberg://lake/ns.empty")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    yield from serving()


def test_a_table_in_a_store_is_reached_as_its_catalog_says(server: S3Server, tmp_path: Path) -> None:
    server.put("lake", "placeholder", b"")
    catalog = SqlCatalog(
        CATALOG,
        **{
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": "s3://lake/tables",
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": OPTIONS["aws_access_key_id"],
            "s3.secret-access-key": OPTIONS["aws_secret_access_key"],
            "s3.region": OPTIONS["region"],
        },
    )
    catalog.create_namespace("ns")
    table = made(catalog, ids(0, 5, text=["a", "b", None, "d", "e"]), ids(5, 4, text=["f"] * 4))
    dataset = opened(table)
    assert all(file.startswith("s3://lake/tables/") for file in map(str, dataset.files))
    found = in_order_of("id", rows_of(dataset, ["id", "text"]))
    assert found == told_by_pyiceberg(table, ["id", "text"])
    assert OPTIONS["aws_secret_access_key"] not in repr(dataset)


def test_a_table_of_the_first_format_has_its_files_in_the_order_of_commits(catalog: SqlCatalog) -> None:
    data = [ids(3 * number, 3) for number in range(4)]
    table = catalog.create_table("ns.old", schema=data[0].schema, properties={"format-version": "1"})
    for each in data:
        table.append(each)
    assert table.metadata.format_version == 1
    assert id_list(opened(table)) == list(range(12))


def test_files_that_are_added_to_a_table_follow_its_names(catalog: SqlCatalog, tmp_path: Path) -> None:
    path = tmp_path / "added.parquet"
    pq.write_table(ids(0, 3, x=[1.5, 2.5, None]), path)
    table = catalog.create_table("ns.added", schema=pq.read_schema(path))
    table.add_files([f"file://{path}"])
    with table.update_schema() as change:
        change.rename_column("x", "y")
    table.append(ids(3, 2, y=[3.5, 4.5]))
    found = in_order_of("id", rows_of(opened(table), ["id", "y"]))
    assert found == told_by_pyiceberg(table, ["id", "y"])
