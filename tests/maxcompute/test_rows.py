"""Rows of MaxCompute's tables: those of a session, in its order, as tables in memory deliver them."""

from __future__ import annotations

import pickle
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.maxcompute.address import Address
from fastresume.sources import RowSource
from maxcompute.conftest import Open
from support.arrow_rows import assert_same_rows, numbers_in
from support.maxcompute_server import MaxCompute

ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "nulls": "mask", "world": (0, 1)}


def numbered(rows: int, start: int = 0) -> pa.Table:
    return pa.table({"x": range(start, start + rows), "text": [f"row {row}" for row in range(rows)]})


KINDS = [pa.int64(), pa.float64(), pa.float32(), pa.string(), pa.int32()]
LISTS = [pa.list_(kind) for kind in KINDS]
MAPS = [pa.map_(key, kind) for key in (pa.string(), pa.int64(), pa.int32()) for kind in KINDS]
NAMED = [*KINDS, *LISTS, *(pa.list_(kind) for kind in LISTS), *MAPS]
"""The types of TorchEasyRec's reader."""

OTHERS = [pa.int8(), pa.int16(), pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("ms"), pa.timestamp("ns")]
OTHERS += [pa.decimal128(18, 3)]


def value(kind: pa.DataType, row: int) -> Any:
    """A value of a type."""
    if pa.types.is_list(kind):
        return [value(kind.value_type, row + part) for part in range(row % 3)]
    if pa.types.is_map(kind):
        return [(value(kind.key_type, row + part), value(kind.item_type, row)) for part in range(row % 3)]
    if pa.types.is_temporal(kind):
        time = datetime(2020, 1, 1) + timedelta(days=row, seconds=row)
        return time.date() if kind == pa.date32() else time
    if pa.types.is_decimal(kind):
        return Decimal(row) / 8
    others = {pa.string(): f"text {row}", pa.binary(): b"%d" % row, pa.bool_(): row % 2 == 0}
    return others.get(kind, row)


def in_memory(service: MaxCompute) -> list[pa.Table]:
    """The rows of all sessions, in their orders."""
    return [session.rows for session in service.sessions.values()]


@pytest.mark.parametrize("compression", ["lz4", "zstd", None])
@pytest.mark.parametrize("shuffle", [False, fr.Shuffle(window_rows=8192, block_rows=1024)])
def test_a_pass_has_the_rows_of_a_session_in_its_order(
    service: MaxCompute, opens: Open, compression: Any, shuffle: Any
) -> None:
    source = opens(service.put("clicks", numbered(70_000)), compression=compression)
    assert isinstance(source, RowSource)
    given: dict[str, Any] = {**ONE, "batch_size": 999, "shuffle": shuffle, "seed": 7 if shuffle else None}
    dataset = fr.ArrowDataset(source, **given)
    with fr.Loader(dataset, threads=2) as loader:
        for one, other in zip(loader, fr.ArrowDataset(in_memory(service)[0], **given), strict=True):
            assert_same_rows(one, other)
    assert {each["encoding"] for each in service.kinds("rows")} == {
        {"lz4": "LZ4_FRAME", "zstd": "ZSTD", None: ""}[compression]
    }


def test_all_types_that_tables_have_are_delivered_as_from_a_table_in_memory(
    service: MaxCompute, opens: Open
) -> None:
    columns = {
        f"c_{number}": pa.array([None if row % 7 == 3 else value(kind, row) for row in range(50)], kind)
        for number, kind in enumerate([*NAMED, *OTHERS])
    }
    source = opens(service.put("wide", pa.table(columns)))
    assert len(NAMED) == 30
    assert source.schema().types == [*NAMED, *OTHERS]
    found = list(fr.ArrowDataset(source, **ONE))
    for one, other in zip(found, fr.ArrowDataset(in_memory(service)[0], **ONE), strict=True):
        assert_same_rows(one, other)


def test_columns_are_chosen_when_the_session_begins_and_may_be_those_of_partitions(
    service: MaxCompute, opens: Open
) -> None:
    address = service.put("clicks", {"ds=1/hour=2": numbered(10), "ds=2/hour=1": numbered(10, 10)})
    source = opens(address, columns=["x", "ds"])
    (batch,) = fr.ArrowDataset(source, columns=["x", fr.col("ds").codes()], **ONE)
    assert sorted(zip(batch["x"].tolist(), batch["ds"].tolist(), strict=True)) == [
        (number, number // 10) for number in range(20)
    ]


def test_tables_of_one_name_in_other_projects_and_schemas_are_told_apart(
    service: MaxCompute, opens: Open
) -> None:
    addresses = [
        service.put("clicks", numbered(10)),
        service.put("clicks", numbered(10, 100), schema="log"),
        service.put("clicks", numbered(10, 200), project="mall"),
    ]
    assert addresses[1] == "odps://shop/tables/log.clicks"
    dataset = fr.ArrowDataset(opens(",".join(addresses)), **ONE)
    found = numbers_in(dataset)
    assert [{number // 100 for number in found[start : start + 10]} for start in (0, 10, 20)] == [
        {0},
        {1},
        {2},
    ]
    assert sorted(number % 100 for number in found) == sorted([*range(10)] * 3)
    assert [name.split("#")[0] for name in dataset.files] == addresses


def test_partitions_come_in_their_order_if_each_has_its_session(service: MaxCompute, opens: Open) -> None:
    address = service.put("clicks", {f"ds={day}": numbered(10, 10 * day) for day in range(3)})
    together = numbers_in(fr.ArrowDataset(opens(address), **ONE))
    in_order = numbers_in(fr.ArrowDataset(opens(address, by_partition=True), **ONE))
    assert [number // 10 for number in in_order] == sorted(number // 10 for number in in_order)
    assert [number // 10 for number in together] != sorted(number // 10 for number in together)
    assert sorted(together) == sorted(in_order) == list(range(30))


def test_a_session_is_waited_for_while_it_is_made(service: MaxCompute, opens: Open) -> None:
    service.polls = 3
    source = opens(service.put("clicks", numbered(10)))
    assert [segment.rows for segment in source.segments()] == [10]
    assert len(service.kinds("session")) == 3


def test_addresses_are_as_those_of_torcheasyrec() -> None:
    parse = Address.parse
    assert parse("odps://p/tables/t")[1:] == ("p", None, "t", ())
    assert parse("odps://p/tables/s.t/ds=1")[1:] == ("p", "s", "t", ("ds=1",))
    assert parse("odps://p/tables/t/ds=1/h=2&ds=2/h=1")[1:] == ("p", None, "t", ("ds=1/h=2", "ds=2/h=1"))
    for wrong in (
        "p/tables/t",
        "odps://p/table/t",
        "odps://p/tables/",
        "odps://p/tables/t/1",
        "odps://p/tables/t/d=1&d=1",
        "s3://b/tables/t",
    ):
        with pytest.raises(ValueError, match=r"odps://project/tables|named twice"):
            parse(wrong)


@pytest.mark.slow  # two new interpreters
def test_worker_processes_read_the_session_of_the_job(service: MaxCompute, opens: Open) -> None:
    dataset = fr.ArrowDataset(opens(service.put("clicks", numbered(1000))), **ONE)
    with fr.Loader(dataset, num_workers=2, multiprocessing_context="spawn") as loader:
        assert sorted(numbers_in(loader)) == list(range(1000))
    assert len(service.kinds("open")) == 1


def test_without_pyodps_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odps", None)
    with pytest.raises(ImportError, match=r"pip install 'fastresume\[maxcompute\]'"):
        fr.maxcompute.open("odps://p/tables/t")


def test_a_pickle_reads_on(service: MaxCompute, opens: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opens(service.put("clicks", numbered(10)))
    again = pickle.loads(pickle.dumps(source))
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "an-access-id")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "a-secret-key")
    assert again.read(0, 2, 5, ["x"]) == source.read(0, 2, 5, ["x"])
