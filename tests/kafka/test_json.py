"""Values of JSON become rows as they were written, or are an error that names the field."""

from __future__ import annotations

import pickle
from collections.abc import Callable
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
        found = decoded(of_type(made(of)), text.format(number))[0]
        while isinstance(found, list | tuple | dict):
            found = [*(found.values() if isinstance(found, dict) else found)][-1]
        assert found == kept


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
