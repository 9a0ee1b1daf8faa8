"""Values of JSON become rows as they were written, or are an error that names the field."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.kafka import JSON, KafkaDataset
from support.each_of import each_of
from support.kafka_broker import Broker

INTEGERS = [pa.int8(), pa.uint32(), pa.int64(), pa.date32(), pa.timestamp("ms", "UTC"), pa.duration("s")]
AROUND: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a field": (lambda of: of, "{}"),
    "a list": (pa.list_, "[1, {}]"),
    "an object": (lambda of: pa.struct([("b", of)]), '{{"b": {}}}'),
    "a map": (lambda of: pa.map_(pa.string(), of), '{{"x": 1, "y": {}}}'),
    "objects of lists": (
        lambda of: pa.list_(pa.struct([("b", pa.list_(of))])),
        '[{{"b": [1]}}, {{"b": [{}]}}]',
    ),
}


def of_type(of: Any, **given: Any) -> JSON:
    return JSON(pa.schema([of if isinstance(of, pa.Field) else ("a", of)]), **given)


def decoded(value: JSON, *each: str) -> list[Any]:
    """What column "a" has, by a copy of the value that another process has."""
    messages = [f'{{"a": {one}}}'.encode() for one in each]
    found: list[Any] = pickle.loads(pickle.dumps(value)).decoded(messages).table["a"].to_pylist()
    return found


def innermost(found: Any) -> Any:
    """The last value in lists and objects."""
    while isinstance(found, list | tuple | dict):
        found = [*(found.values() if isinstance(found, dict) else found)][-1]
    return found


@each_of("around", AROUND)
def test_a_number_that_its_field_can_t_have_is_an_error_wherever_it_is(around: str) -> None:
    made, text = AROUND[around]
    bad = [(of, "1.7") for of in INTEGERS] + [(of, "-0.9") for of in INTEGERS]
    bad += [(pa.int64(), "9007199254740993.0"), (pa.int64(), "true"), (pa.int64(), "NaN")]
    bad += [
        (pa.float32(), "1e40"),
        (pa.float64(), "-1e400"),
        (pa.float16(), "65520.0"),
        (pa.float16(), "2049"),
    ]
    bad += [(pa.float32(), "16777217"), (pa.float64(), "9007199254740993"), (pa.float64(), "true")]
    bad += [(pa.string(), "1"), (pa.int64(), '"1"'), (pa.list_(pa.string()), '"abc"')]
    bad += [(pa.struct([("c", pa.int64())]), "[]")]
    for of, number in bad:
        with pytest.raises(fr.DataError, match=r"^field 'a(\.b)?' is "):
            decoded(of_type(made(of)), text.format(number))


@each_of("around", AROUND)
def test_a_number_that_fits_is_as_it_was_written(around: str) -> None:
    made, text = AROUND[around]
    for of, number, kept in [
        (pa.int64(), "2.0", 2),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.float32(), "16777217.0", 16777216.0),
        (pa.float64(), "1e300", 1e300),
        (pa.float16(), "2048", 2048.0),
        (pa.float32(), "null", None),
        (pa.float32(), "-Infinity", float("-inf")),
    ]:
        assert innermost(decoded(of_type(made(of)), text.format(number))[0]) == kept


@each_of("of", [pa.dictionary(pa.int8(), pa.int64()), pa.run_end_encoded(pa.int32(), pa.int64())])
def test_encoded_numbers_are_looked_at(of: pa.DataType) -> None:
    with pytest.raises(fr.DataError, match=r"^value 1: field 'a' is 1.7"):
        decoded(of_type(of), "1", "1.7")
    assert decoded(of_type(of), "1", "2.0") == [1, 2]


def test_the_first_bad_value_of_several_is_named() -> None:
    value = JSON(pa.schema([("a", pa.int64()), ("b", pa.float32())]))
    good, rows = b'{"a": 1, "b": 0.5}', b'[{"a": 1, "b": 0.5}, {"a": 1, "b": 1e39}]'
    for values in ([good, rows, good], [good, rows, b'{"a": 1.5, "b": 1}']):
        with pytest.raises(fr.DataError, match=r"^value 1: field 'b' is 1e\+39, which is no float"):
            value.decoded(values)


def test_a_field_that_a_row_lacks_is_an_error_that_says_what_to_write() -> None:
    value = JSON(pa.schema([("user_id", pa.int64())]))
    with pytest.raises(
        fr.DataError, match=r"no field 'user_id', found \['userId'\].* optional=\['user_id'\]"
    ):
        value.decoded([b'{"userId": 5}'])
    with pytest.raises(fr.DataError, match=r"no field 'a\.b'"):
        decoded(of_type(pa.struct([("b", pa.int64())])), '{"c": 1}')
    assert value.decoded([b'{"user_id": null, "more": 1}']).table.to_pylist() == [{"user_id": None}]


def test_optional_fields_are_null_where_a_row_lacks_them() -> None:
    schema = pa.schema([("id", pa.int64()), ("meta", pa.struct([("city", pa.string())]))])
    rows = b'[{"id": 1, "meta": {}}, {"id": 2, "meta": null}]'
    for optional in ("meta.city", ["meta.*"], ("*",)):
        found = JSON(schema, optional=optional).decoded([rows]).table
        assert found.to_pylist() == [{"id": 1, "meta": {"city": None}}, {"id": 2, "meta": None}]
    with pytest.raises(fr.DataError, match="no field 'meta'"):
        JSON(schema, optional="meta.city").decoded([b'{"id": 1}'])
    assert JSON(schema, optional=["meta"]).decoded([b'{"id": 1}']).table["meta"].to_pylist() == [None]


TIMES = {
    "a zone": (
        pa.timestamp("us", "UTC"),
        "2026-11-30T01:02:03.5+02:00",
        dt.datetime(2026, 11, 29, 23, 2, 3, 500000),
    ),
    "no zone": (pa.timestamp("ns"), "2026-11-30 01:02:03", dt.datetime(2026, 11, 30, 1, 2, 3)),
    "zeros": (pa.timestamp("s", "UTC"), "2026-11-30T01:02:03.000Z", dt.datetime(2026, 11, 30, 1, 2, 3)),
    "a day": (pa.date32(), "2026-11-30", dt.date(2026, 11, 30)),
    "a day in milliseconds": (pa.date64(), "2026-11-30", dt.date(2026, 11, 30)),
    "a time of day": (pa.time32("ms"), "01:02:03.25", dt.time(1, 2, 3, 250000)),
}


@each_of("what", TIMES)
@each_of("around", AROUND)
def test_a_time_is_a_text_in_iso_8601_or_a_number_in_the_unit_of_the_schema(around: str, what: str) -> None:
    (made, template), (of, text, expected) = AROUND[around], TIMES[what]
    read = decoded(of_type(made(of)), template.format(f'"{text}"'), template.format("null"))
    found = innermost(read[0])
    assert (found.replace(tzinfo=None) if isinstance(found, dt.datetime) else found) == expected
    assert innermost(read[1]) is None
    assert decoded(of_type(pa.timestamp("s")), "1", '"1970-01-01T00:00:02"') == [
        dt.datetime(1970, 1, 1, 0, 0, second) for second in (1, 2)
    ]


@each_of("around", AROUND)
def test_a_decimal_is_a_number_or_a_text_and_exactly_that(around: str) -> None:
    made, template = AROUND[around]
    value = of_type(made(pa.decimal128(38, 18)))
    for text in ("12345678901234567890.123456789012345678", '"-0.10"', "7", "1e3"):
        assert innermost(decoded(value, template.format(text))[0]) == Decimal(text.strip('"'))
    beside = JSON(pa.schema([("d", pa.decimal64(9, 2)), ("f", pa.float32()), ("i", pa.int64())]))
    rows = beside.decoded([b'{"d": 1.5, "f": 0.1, "i": 2.0}']).table.to_pylist()
    assert rows == [{"d": Decimal("1.50"), "f": 0.10000000149011612, "i": 2}]
    with pytest.raises(fr.DataError, match=r"^field 'f' is inf, which is no float"):
        beside.decoded([b'{"d": 1.5, "f": 1e400, "i": 2.0}'])


UTC, DECIMAL = pa.timestamp("us", "UTC"), pa.decimal128(9, 2)
OTHERS = [
    (UTC, '"2026-11-30T01:02:03"', "pa.timestamp('us')"),
    (UTC, '"2026-11-30T01:02:03.123456789Z"', "pa.timestamp('ns', 'UTC')"),
    (UTC, '"01:02:03"', "pa.time64('us')"),
    (UTC, '"soon"', "pa.string()"),
    (pa.timestamp("ms"), '"2026-11-30T01:02:03Z"', "pa.timestamp('ms', 'UTC')"),
    (pa.date32(), '"2026-11-30T00:00:00"', "pa.timestamp('us')"),
    (pa.time32("s"), '"01:02:03.5"', "pa.time64('us')"),
    (DECIMAL, "1.234", "pa.decimal128(10, 3)"),
    (DECIMAL, '"12345678.5"', "pa.decimal128(10, 2)"),
    (DECIMAL, "1e400", "pa.float64()"),
    (DECIMAL, '"1e400"', "pa.string()"),
    (DECIMAL, '"1_0"', "pa.string()"),
]


@each_of("number", range(len(OTHERS)))
def test_a_text_that_another_type_has_is_an_error_that_names_it(number: int) -> None:
    of, text, named = OTHERS[number]
    with pytest.raises(fr.DataError, match=r"^value 1: field 'a' is .*which is no ") as caught:
        decoded(of_type(of), "1", text)
    assert str(caught.value).endswith(f": name {named} in the schema")
    if text != "1e400":
        decoded(of_type(eval(named, {"pa": pa})), text)  # noqa: S307  (it is advice of ours)


def test_a_field_in_an_object_is_named_as_the_schema_has_to() -> None:
    for name, of, text in (("s.a", pa.int64(), '{"s": {"a": 1}}'), ("s.a.b", UTC, '{"s": {"a": {"b": 1}}}')):
        schema = pa.schema([(name, of)])
        with pytest.raises(
            fr.DataError, match=r"found \['s'\]: name .* in the schema, which is an object"
        ) as said:
            JSON(schema).decoded([text.encode()])
        member = str(said.value).split("name ")[1].split(" in the schema")[0]
        field = eval(member, {"pa": pa, "schema": schema})  # noqa: S307  (it is advice of ours)
        found = JSON(pa.schema([field])).decoded([text.encode()]).table.flatten()
        while pa.types.is_struct(found.schema.types[0]):
            found = found.flatten()
        assert (found.schema.names, found.column(0).null_count) == ([name], 0)
    with pytest.raises(fr.DataError, match=r"no field 'U', found \['u'\]: did you mean 'u'\?"):
        JSON(pa.schema([("U", pa.int64())])).decoded([b'{"u": 1}'])


def test_a_null_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(fr.DataError, match="'a' is null, and the schema says that it never is"):
        decoded(of_type(pa.field("a", pa.int64(), nullable=False)), "null")


@each_of("optional", [3, [3], {"a"}, ["b"], "a.b"])
def test_optional_takes_names_of_fields_alone(optional: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^optional "):
        of_type(pa.int64(), optional=optional)


def test_a_message_with_a_number_cut_off_is_named_or_left_out(broker: Callable[..., Broker]) -> None:
    kafka = broker()
    kafka.send((0, text) for text in (b'{"id": 1}', b'{"id": 1.7}', b'{"ID": 2}', b'{"id": 3}'))
    given: dict[str, Any] = {"batch_size": 1, "max_wait": 0.1, "stop": "end", "world": (0, 1)}
    value = JSON(pa.schema([("id", pa.int64())]))
    with pytest.raises(fr.DataError, match=r"message 1 of rows:0 .*field 'id' is 1.7, which is no int64"):
        next(iter(KafkaDataset(kafka.address, value=value, **given)))
    dataset = KafkaDataset(kafka.address, value=value, bad_rows="skip", **given)
    found: list[Any] = [batch["id"] for batch in dataset]
    assert [number for each in found for number in each.tolist()] == [1, 3]
    dataset.close()


def test_values_that_are_no_json_are_named_with_what_to_write() -> None:
    value: Any = of_type(pa.int64())
    for values, kind, said in (
        (['{"a": 1}'], TypeError, r"a value must be bytes, found '.*': write text\.encode\(\)"),
        (b'{"a": 1}', TypeError, r"values must be a list of bytes, .*: write \[value\]"),
        ([b'{"a": 1}', b"not JSON"], fr.DataError, r"^value 1: it is no JSON \("),
        ([b""], fr.DataError, r"^it is no JSON \("),
        ([b'\0\0\0\0\7{"a": 1}'], fr.DataError, r"the header of a schema registry: write value=a function"),
        (
            [b'{"a": 1}\n{"a": 2}'],
            fr.DataError,
            r"one object, or a list of objects: \[\{\.\.\.\}, \{\.\.\.\}\]",
        ),
        ([b"1"], fr.DataError, "a row must be a JSON object, found 1"),
    ):
        with pytest.raises(kind, match=said):
            value.decoded(values)
    table, counts = value.decoded([b'{"a": 1}', None, b'[{"a": 2}, {"a": 3}]'])
    assert (table["a"].to_pylist(), counts.tolist()) == ([1, 2, 3], [1, 0, 2])
