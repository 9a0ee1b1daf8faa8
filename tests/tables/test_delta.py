"""Delta tables, written by `deltalake`, and compared with what it reads."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import fastresume as fr
from support.delta_tables import adds, append, commit, delete_rows, told_by_deltalake
from support.tables import id_list, ids, in_order_of, opened, rows_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a table"


PARTITIONS = {
    "day": pa.array([dt.date(2024, 2, 29)] * 2 + [dt.date(1969, 12, 31)] * 2 + [None]),
    "text": pa.array(["a b/ü:%", "a b/ü:%", "1", "1", None]),
    "small": pa.array([-3, -3, 127, 127, None], pa.int8()),
    "half": pa.array([0.1, 0.1, -1.5, -1.5, None], pa.float32()),
    "large": pa.array([0.1, 0.1, 2.5e9, 2.5e9, None], pa.float64()),
    "truth": pa.array([True, True, False, False, None]),
    "at": pa.array([dt.datetime(2024, 1, 1, 3, 4, 5, 6)] * 2 + [dt.datetime(1960, 1, 1)] * 2 + [None]).cast(
        pa.timestamp("us", "UTC")
    ),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_values_of_partitions_are_those_that_deltalake_reads(root: Path, name: str) -> None:
    append(root, ids(0, 5, **{name: PARTITIONS[name]}), partition_by=[name])
    append(root, ids(5, 5, **{name: PARTITIONS[name]}))
    expected = in_order_of("id", told_by_deltalake(root, ["id", name]))
    for columns in (None, ["id", fr.col(name)], ["id", fr.col(name).from_path()]):
        dataset = opened(f"delta://{root}", columns=columns)
        rows = in_order_of("id", rows_of(dataset, ["id", name]))
        found = pa.table({key: [counted(row[key]) for row in rows] for key in ("id", name)})
        assert found.column(name).to_pylist() == [counted(row[name]) for row in expected]
        assert found.column("id").to_pylist() == list(range(10))


def counted(value: Any) -> Any:
    """Dates and times as they are delivered: numbers of their unit."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def test_a_partition_column_is_cast_hashed_coded_and_filtered_as_others_are(root: Path) -> None:
    append(
        root,
        ids(0, 6, day=pa.array([1, 1, 2, 2, 3, 3], pa.int32()), city=["x", "x", "y", "y", "x", "x"]),
        partition_by=["day", "city"],
    )
    plain = root.parent / "plain.parquet"
    pq.write_table(read_by_deltalake(root), plain)
    columns = [
        "id",
        fr.col("day").cast(torch.float32).alias("float"),
        fr.col("day").hash(1000).alias("hashed"),
        fr.col("city").hash(1000).alias("city_hashed"),
        fr.col("city").codes().alias("code"),
    ]
    one = {row["id"]: row for row in rows_of(opened(f"delta://{root}", columns=columns), ALL)}
    other = {row["id"]: row for row in rows_of(opened(plain, columns=columns), ALL)}
    assert one == other
    for condition in (
        fr.col("day") == 2,
        fr.col("day") > 1,
        fr.col("city") == "x",
        fr.col("day").is_null(),
        (fr.col("city") == "y") | (fr.col("id") == 5),
    ):
        found = sorted(found_ids(f"delta://{root}", condition))
        assert found == sorted(found_ids(plain, condition))
    assert opened(f"delta://{root}", filter=fr.col("day") == 2).filter_report().scanned == 0


def test_an_expression_of_pyarrow_by_a_partition_says_what_asks_the_table(root: Path) -> None:
    append(root, ids(0, 4, day=pa.array([1, 1, 2, 2], pa.int32())), partition_by=["day"])
    with pytest.raises(
        fr.DataError, match=r"lacks the column 'day' of its table, .* as fr\.col\('day'\) > 3"
    ):
        opened(f"delta://{root}", filter=(pc.field("day") == 2) & (pc.field("id") > 1))
    assert id_list(opened(f"delta://{root}", filter=pc.field("id") > 1)) == [2, 3]
    assert found_ids(f"delta://{root}", fr.col("day") > 1) == [2, 3]


ALL = ["id", "float", "hashed", "city_hashed", "code"]


def read_by_deltalake(root: Path) -> pa.Table:
    return DeltaTable(str(root)).to_pyarrow_table()


def found_ids(table: Any, condition: Any) -> list[int]:
    try:
        return id_list(opened(table, filter=condition))
    except ValueError:  # no batch would come
        return []


def test_a_partition_that_can_not_be_delivered_is_refused_by_name_and_left_out(root: Path) -> None:
    blob = pa.array([b"x"] * 3)
    append(root, ids(0, 3, blob=blob), partition_by=["blob"])
    with pytest.raises(fr.DataError, match=r"binary of partitions.*columns=\['\*', '!blob'\]"):
        opened(f"delta://{root}")
    assert id_list(opened(f"delta://{root}", columns="!blob")) == [0, 1, 2]


def test_decimals_of_partitions_are_those_that_the_log_tells(root: Path) -> None:
    price = pa.array([Decimal("1.25"), Decimal("3.50"), None], pa.decimal128(9, 2))
    append(root, ids(0, 3, price=price), partition_by=["price"])
    dataset = opened(f"delta://{root}", columns=["id", fr.col("price").decimal("float64")])
    expected = [{"id": 0, "price": 1.25}, {"id": 1, "price": 3.5}, {"id": 2, "price": None}]
    assert in_order_of("id", rows_of(dataset, ["id", "price"])) == expected


def test_files_stand_in_the_order_of_the_commits_and_of_paths_within_one(root: Path) -> None:
    for commit_number in range(4):
        parts = ["b", "a", "c"] if commit_number % 2 else ["z", "y", "x"]
        append(root, ids(commit_number * 3, 3, part=parts), partition_by=["part"])
    dataset = opened(f"delta://{root}")
    parts = [re.findall("part=(.)", file)[0] for file in dataset.files]
    assert parts == ["x", "y", "z", "a", "b", "c"] * 2
    assert id_list(dataset) == [2, 1, 0, 4, 3, 5, 8, 7, 6, 10, 9, 11]


def test_a_log_whose_first_commits_are_gone_gives_the_same_rows(root: Path) -> None:
    for commit_number in range(4):
        append(root, ids(commit_number * 3, 3))
    table = DeltaTable(str(root))
    table.create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    assert id_list(opened(f"delta://{root}")) == list(range(12))


@pytest.mark.parametrize("form", ["text", "object", "list", "relative"])
def test_a_table_is_named_by_its_path_or_is_an_object(
    root: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(root, ids(0, 3))
    append(root, ids(3, 4))
    monkeypatch.chdir(root.parent)
    named: dict[str, Any] = {
        "text": f"delta://{root}",
        "object": DeltaTable(str(root)),
        "list": [f"delta://{root}"],
        "relative": "delta://a table",
    }
    dataset = opened(named[form])
    assert id_list(dataset) == list(range(7))
    assert dataset.version == 1
    assert "version 1 of a Delta table" in repr(dataset)
    assert dataset.plan().table == f"version 1 of the Delta table '{root}'"
    assert str(root) in repr(opened(named[form]).plan())
    copy = pickle.loads(pickle.dumps(opened(named[form])))
    assert (copy.version, id_list(copy)) == (1, list(range(7)))
    assert id_list(opened(f"delta://{root}?version=0")) == [0, 1, 2]


def test_an_object_is_read_at_its_own_version(root: Path) -> None:
    append(root, ids(0, 3))
    append(root, ids(3, 4))
    old = DeltaTable(str(root), version=0)
    assert id_list(opened(old)) == [0, 1, 2]
    assert old.version() == 0


def test_deleted_rows_are_not_selected_and_row_numbers_count_them(root: Path) -> None:
    append(root, ids(0, 10))
    append(root, ids(10, 5))
    first, second = adds(root, 0)[0], adds(root, 1)[0]
    delete_rows(root, first, [0, 3, 9])
    delete_rows(root, second, [4])
    dataset = opened(f"delta://{root}")
    expected = [row["id"] for row in pa.table(DeltaTable(str(root)).scan()).to_pylist()]
    assert id_list(dataset) == sorted(expected) == [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13]
    assert dataset.num_file_rows == 15
    assert dataset.selection is not None
    assert dataset.selection.tolist() == [[1, 3], [4, 9], [10, 14]]
    assert dataset.read_rows([14])["id"].tolist() == [14]
    assert id_list(opened(f"delta://{root}", rows=[[0, 5]])) == [1, 2, 4]
    assert id_list(opened(f"delta://{root}", filter=fr.col("id") >= 8)) == [8, 10, 11, 12, 13]
    assert id_list(opened(f"delta://{root}?version=2")) == [1, 2, 4, 5, 6, 7, 8, *range(10, 15)]


def test_a_column_that_was_added_is_null_in_old_files(root: Path) -> None:
    append(root, ids(0, 3, s=["a", "b", "c"]))
    append(root, ids(3, 3, new=[1.5, 2.5, 3.5], list=[[1], [], [2, 3]]), schema_mode="merge")
    names = ["id", "s", "new", "list"]
    expected = in_order_of("id", told_by_deltalake(root, names))
    dataset = opened(f"delta://{root}")
    assert dataset.column_names == tuple(names)
    assert rows_of(dataset, names) == expected
    with pytest.raises(fr.DataError, match=r"all of it is null.*column 'new'"):
        opened(f"delta://{root}", nulls="error")


def test_a_column_that_no_file_has_yet_is_null(root: Path) -> None:
    append(root, ids(0, 3))
    DeltaTable(str(root)).alter.add_columns([Field("later", PrimitiveType("integer"))])
    assert rows_of(opened(f"delta://{root}"), ["id", "later"]) == told_by_deltalake(root, ["id", "later"])


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_were_renamed_are_those_of_the_table_or_refused(root: Path, mode: str) -> None:
    def field(name: str, number: int) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})

    schema = pa.schema([field("col-a", 1), field("col-b", 2), field("col-c", 3)])
    table = pa.table([[1, 2, 3], [10, 20, 30], [7, 8, 9]], schema=schema)
    (root / "_delta_log").mkdir(parents=True)
    (root / "day=ignored").mkdir()
    pq.write_table(table, root / "day=ignored" / "one.parquet")

    def told_field(name: str, physical: str, number: int) -> dict[str, Any]:
        mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        return {"name": name, "type": "long", "nullable": True, "metadata": mapped}

    # The names of two columns have changed places since, and one was dropped.
    fields = [told_field("col-b", "col-a", 1), told_field("col-a", "col-b", 2), told_field("day", "col-d", 4)]
    meta = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {"delta.columnMapping.mode": mode},
        "createdTime": 1,
    }
    size = (root / "day=ignored" / "one.parquet").stat().st_size
    add = {
        "path": "day=ignored/one.parquet",
        "partitionValues": {"col-d": "5"},
        "size": size,
        "modificationTime": 1,
        "dataChange": True,
    }
    commit(
        root, [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": meta}, {"add": add}]
    )
    expected = [
        {"col-b": 1, "col-a": 10, "day": 5},
        {"col-b": 2, "col-a": 20, "day": 5},
        {"col-b": 3, "col-a": 30, "day": 5},
    ]
    if mode == "id":
        with pytest.raises(fr.DataError, match="maps its columns by 'id', and only 'name' is supported"):
            opened(f"delta://{root}")
        return
    dataset = opened(f"delta://{root}")
    assert dataset.column_names == ("col-b", "col-a", "day")
    assert rows_of(dataset, ["col-b", "col-a", "day"]) == expected
    assert pa.table(DeltaTable(str(root)).scan()).to_pylist() == expected


@pytest.mark.law(2)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_job_goes_on_where_the_table_has_grown(root: Path, shuffle: bool) -> None:
    for commit_number in range(3):
        parts = pa.array([f"{row % 3}" for row in range(20)])
        append(root, ids(commit_number * 20, 20, part=parts), partition_by=["part"])
    options = {"shuffle": shuffle, "tail": "pad", "batch_size": 7, "on_change": "append"}

    def read(dataset: fr.ParquetDataset, most: int = 10**9) -> tuple[list[int], Any]:
        seen: list[int] = []
        state = None
        for number, batch in enumerate(dataset):
            seen += batch["id"][batch.valid].tolist()
            state = batch.state_dict()
            if number + 1 == most:
                break
        return seen, state

    for most in (1, 4, 10**9):
        before, state = read(opened(f"delta://{root}?version=2", **options), most)
        append(root, ids(1000, 11, part=["0"] * 11))
        grown = opened(f"delta://{root}?version=3", **options)
        grown.load_state_dict(state)
        after, _ = read(grown)
        everything = [row["id"] for row in told_by_deltalake(root, ["id"], version=3)]
        assert sorted(before + after) == sorted(everything), "each row once"


def test_a_state_of_a_snapshot_that_was_rewritten_is_refused_with_the_commit(root: Path) -> None:
    append(root, ids(0, 20))
    append(root, ids(20, 20))
    batch = next(iter(opened(f"delta://{root}", on_change="append")))
    state = batch.state_dict()
    DeltaTable(str(root)).delete("id = 7")
    append(root, ids(40, 20))
    for version in (2, 3):
        dataset = opened(f"delta://{root}", on_change="append", version=version)
        with pytest.raises(fr.StateError, match=r"was commit 2 \(DELETE\): name .* by '\?version=1' at"):
            dataset.load_state_dict(state)
    old = opened(f"delta://{root}?version=1")
    old.load_state_dict(state)
    assert id_list(old) == list(range(3, 40))


def test_a_column_that_is_newer_than_a_file_has_no_value_in_it(root: Path) -> None:
    append(root, ids(0, 5))
    write_deltalake(
        root, pa.table({"id": pa.array([5], pa.int64()), "new": [1]}), mode="append", schema_mode="merge"
    )
    with pytest.raises(fr.DataError, match=r"null, as the file has no value of it; .*'new'"):
        opened(f"delta://{root}", nulls="error")
    masked = opened(f"delta://{root}", columns=["id", fr.col("new").fill_null(0)])
    assert sorted(id_list(masked)) == list(range(6))


def test_a_table_that_only_grew_since_a_state_has_one_advice(root: Path) -> None:
    append(root, ids(0, 20))
    DeltaTable(str(root)).delete("id = 7")
    state = next(iter(opened(f"delta://{root}"))).state_dict()
    append(root, ids(40, 20))
    with pytest.raises(fr.StateError, match=r"1 file more.*on_change='append'\) resumes with them$"):
        opened(f"delta://{root}").load_state_dict(state)
    with pytest.raises(fr.StateError, match="has removed rows: the state is of another"):
        opened(f"delta://{root}?version=0").load_state_dict(state)


def test_a_state_of_a_file_that_lost_rows_since_is_refused(root: Path) -> None:
    append(root, ids(0, 20))
    state = next(iter(opened(f"delta://{root}", on_change="append"))).state_dict()
    delete_rows(root, adds(root, 0)[0], [5])
    append_by_hand(root)
    with pytest.raises(fr.StateError, match=r"commit 1 \(DELETE\)"):
        opened(f"delta://{root}", on_change="append").load_state_dict(state)


def append_by_hand(root: Path) -> None:
    pq.write_table(ids(20, 5), root / "more.parquet")
    size = (root / "more.parquet").stat().st_size
    add = {
        "path": "more.parquet",
        "partitionValues": {},
        "size": size,
        "modificationTime": 1,
        "dataChange": True,
    }
    commit(root, [{"add": add}])


def test_what_names_no_table_is_refused_with_what_to_write(root: Path, tmp_path: Path) -> None:
    append(root, ids(0, 3))
    with pytest.raises(fr.SourceError, match="can't read the Delta table"):
        opened(f"delta://{tmp_path}/nothing")
    with pytest.raises(fr.SourceError, match="can't read the Delta table"):
        opened(f"delta://{root}?version=9")
    for paths in ([f"delta://{root}", str(tmp_path)], [[str(tmp_path)], [f"delta://{root}"]]):
        with pytest.raises(ValueError, match="a table is read alone"):
            opened(paths)
    with pytest.raises(ValueError, match=r"nothing reads the address 'Delta:.*delta:// or iceberg://"):
        opened(f"Delta://{root}")
    with pytest.raises(ValueError, match=r"version of a table is a number.*found 'latest'"):
        opened(f"delta://{root}?version=latest")
    with pytest.raises(ValueError, match=r"version=1 names a snapshot.*as 'delta://path\?version=1'"):
        opened(tmp_path, version=1)
    with pytest.raises(fr.DataError, match=re.escape(f"write ParquetDataset('delta://{root}', ...)")):
        opened(root)


def test_a_manifest_cache_is_one_for_a_table_and_for_its_files(root: Path, tmp_path: Path) -> None:
    append(root, ids(0, 6, day=[1, 1, 2, 2, 3, 3]), partition_by=["day"])
    cache = tmp_path / "cache"
    for _ in range(2):
        dataset = opened(f"delta://{root}", manifest_cache=cache)
        assert in_order_of("id", rows_of(dataset, ["id", "day"])) == in_order_of(
            "id", told_by_deltalake(root, ["id", "day"])
        )
    assert opened(list(dataset.files), manifest_cache=cache).column_names == ("id",)


@pytest.mark.processes
def test_threads_and_worker_processes_read_a_table_alike(root: Path) -> None:
    append(root, ids(0, 40, day=[number % 4 for number in range(40)]), partition_by=["day"])
    expected = [(batch["id"].tolist(), batch["day"].tolist()) for batch in opened(f"delta://{root}")]
    for workers in (0, 2):
        with fr.Loader(opened(f"delta://{root}"), num_workers=workers) as loader:
            found = [(batch["id"].tolist(), batch["day"].tolist()) for batch in loader]
        assert sorted(value for one, _ in found for value in one) == list(range(40))
        if workers == 0:
            assert found == expected


def test_files_of_a_table_that_was_overwritten_are_not_read(root: Path) -> None:
    append(root, ids(0, 5))
    write_deltalake(str(root), ids(100, 5), mode="overwrite")
    assert id_list(opened(f"delta://{root}")) == list(range(100, 105))
    assert id_list(opened(f"delta://{root}?version=0")) == list(range(5))
