"""Values of Arrow IPC that are alike are decoded together, and mean what each of them means alone."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.kafka import ArrowIPC
from support.each_of import each_of

MANY = pa.schema(
    [
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("u8", pa.uint8()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("half", pa.float16()),
    ]
)


def rows(first: int, count: int, **others: Any) -> pa.Table:
    """A table of numbers of every width."""
    numbers = np.arange(first, first + count)
    columns: dict[str, Any] = {
        "i64": numbers,
        "f32": numbers.astype(np.float32) / 3,
        "u8": (numbers % 200).astype(np.uint8),
        "day": pa.array([date(2026, 1, 1 + int(number) % 28) for number in numbers], pa.date32()),
        "at": pa.array(numbers * 1_000_003, MANY.field("at").type),
        "half": numbers.astype(np.float16),
    }
    return pa.table({**columns, **others})


def packed(table: pa.Table, compression: str | None = None, most: int | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=most)
    return sink.getvalue().to_pybytes()


def alone(values: list[bytes], schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows as each value has them."""
    tables = [pa.ipc.open_stream(value).read_all().select(schema.names).cast(schema) for value in values]
    return pa.concat_tables(tables).to_pylist()


def kinds(first: int) -> list[bytes]:
    """Values of one writer that differ in all that may differ."""
    nulls = pa.array([None, 1, None, 3], pa.int64())
    whole = packed(rows(first, 4))
    return [
        whole,
        packed(rows(first, 4)),
        packed(rows(first, 5)),
        packed(rows(first, 0)),
        packed(rows(first, 4, i64=nulls)),
        packed(rows(first, 4), compression="zstd"),
        packed(rows(first, 4), most=2),
        whole[:-8],  # without its end
        packed(rows(first, 4).slice(1, 3)),
        packed(rows(first, 4).replace_schema_metadata({"made": "by another"})),
        packed(rows(first, 4).select(["f32", "i64", *MANY.names[2:]])),  # of the same length
    ]


def test_values_are_decoded_together_as_they_are_alone() -> None:
    draw = np.random.default_rng(3)
    value = ArrowIPC(MANY)
    for _ in range(12):  # what is known of the last ones is used for the next
        values, kind = [], 0
        for number in range(40):
            if draw.random() < 0.2:
                kind = int(draw.integers(11))
            values.append(kinds(4 * number)[kind])
        found = value.decoded(values)
        assert found.table.cast(MANY).to_pylist() == alone(values, MANY)
        assert found.counts.tolist() == [len(alone([one], MANY)) for one in values]
        found.table.validate(full=True)
        value = pickle.loads(pickle.dumps(value)) if draw.random() < 0.5 else value


def test_values_of_one_form_make_one_piece_of_each_column() -> None:
    value = ArrowIPC()
    values = [packed(rows(4 * number, 4)) for number in range(30)]
    value.decoded(values[:3])
    table = value.decoded(values).table
    assert [column.num_chunks for column in table.columns] == [1] * 6
    assert table.to_pylist() == alone(values, table.schema)


@each_of(
    "column",
    [
        pa.array(["a", "b", "", "d"]),
        pa.array([True, False, True, True]),
        pa.array([[1], [], [2, 3], [4]]),
        pa.array([Decimal("1.5"), Decimal(2), Decimal(3), Decimal(4)]),
        pa.array(["a", "b", "a", "b"]).dictionary_encode(),
        pa.array([{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]),
        pa.nulls(4),
    ],
)
def test_columns_of_other_types_are_decoded_one_by_one(column: pa.Array) -> None:
    values = [packed(rows(number, 4, more=column)) for number in range(12)]
    found = ArrowIPC().decoded(values).table
    assert found.to_pylist() == alone(values, found.schema)


def test_a_damaged_value_among_others_of_its_form_is_an_error() -> None:
    values = [packed(rows(4 * number, 4)) for number in range(8)]
    for at in (3, 7):
        for cut in (20, len(values[at]) // 2):
            damaged = [*values]
            damaged[at] = values[at][:cut]
            with pytest.raises((pa.ArrowInvalid, OSError)):
                ArrowIPC().decoded(damaged)


LOST: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([0.5, 1e40]), pa.float32()),
    (pa.array([[0.5], [1e40]]), pa.list_(pa.float32())),
    (pa.array([{"a": 0.5}, {"a": 1e40}]), pa.struct([("a", pa.float32())])),
    (pa.array([0.5, 1e40]).dictionary_encode(), pa.float32()),
    (pa.array([1, 2049]), pa.float16()),
    (pa.array([1, 2]), pa.bool_()),
    (pa.array([0.5, 1.239]), pa.decimal128(5, 2)),
    (pa.array([0, 1], pa.timestamp("us")), pa.date32()),
    (pa.array([0, 1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
    (pa.array([1.0, 1.5]), pa.int64()),
]


@each_of("before, stated", LOST)
def test_a_value_that_the_schema_can_t_hold_is_an_error(before: pa.Array, stated: pa.DataType) -> None:
    schema, values = pa.schema([("x", stated)]), [packed(pa.table({"x": before}))]
    with pytest.raises(fr.DataError, match=r"values of 'x' are .*, and no .* name .* in the schema"):
        ArrowIPC(schema).decoded(values)
    if stated != pa.bool_() and not pa.types.is_temporal(stated):  # these are of another kind
        fits = [packed(pa.table({"x": before[:1]}))]
        assert ArrowIPC(schema).decoded(fits).table["x"].to_pylist() == before[:1].to_pylist()
