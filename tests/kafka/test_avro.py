"""Messages of Avro have the columns of one schema, whatever schema of a registry they were written with."""

from __future__ import annotations

import base64
import io
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.kafka import Avro, KafkaDataset
from support.each_of import each_of
from support.kafka_broker import Broker

Start = Callable[..., Broker]
SECRET = "s3cret:w0rd"  # noqa: S105  (of a registry that ends with the test)


class SchemaRegistry(ThreadingHTTPServer):
    """Schemas with numbers from 1 on, for who logs in. `faults` has answers that come first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.faults: list[int] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        return f"http://reader:{SECRET}@{self.host}"

    def add(self, schema: Any, subject: str = "rows-value", references: Any = ()) -> int:
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": json.dumps(schema), "references": list(references)}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> Any:
        parts = path.strip("/").split("/")
        if parts[0] == "schemas":
            return self.schemas.get(int(parts[2]))
        versions = self.subjects.get(parts[1])
        if versions is None:
            return None
        number = versions[-1 if parts[3] == "latest" else int(parts[3]) - 1]
        return {"id": number, **self.schemas[number]}


class Asked(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        login = "Basic " + base64.b64encode(f"reader:{SECRET}".encode()).decode()
        found = self.server.answer(self.path)
        status = 404 if found is None else 200
        if self.headers["Authorization"] != login:
            status = 401
        if self.server.faults:
            status = self.server.faults.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as found:
        yield found
        found.shutdown()


def record(*fields: Any, name: str = "Row") -> dict[str, Any]:
    each = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": each}


def bare(schema: Any, row: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), row)
    return sink.getvalue()


def framed(number: int, schema: Any, row: dict[str, Any]) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + bare(schema, row)


def opened(broker: Broker, value: Avro, **given: Any) -> KafkaDataset:
    return KafkaDataset(
        broker.address, batch_size=1, max_wait=0.1, stop="end", world=(0, 1), value=value, **given
    )


def rows(dataset: KafkaDataset, column: str = "id") -> list[Any]:
    columns: Any = [batch[column] for batch in dataset]
    found = [value for each in columns for value in each.tolist()]
    dataset.close()
    return found


ID = record(("id", "long"))
SCORED = record(("id", "long"), {"name": "score", "type": "double", "default": 0.5})


def test_schemas_are_resolved_to_the_latest_one_and_asked_for_once(
    broker: Start, registry: SchemaRegistry
) -> None:
    kafka = broker()
    old, new = registry.add(ID), registry.add(SCORED)
    kafka.send((0, framed(old, ID, {"id": number})) for number in range(3))
    kafka.send((0, framed(new, SCORED, {"id": number, "score": 2.0})) for number in range(3, 6))
    assert rows(opened(kafka, Avro(registry.address))) == [0, 1, 2, 3, 4, 5]
    assert registry.asked == ["/subjects/rows-value/versions/latest", f"/schemas/ids/{old}"]
    assert rows(opened(kafka, Avro(registry.address)), "score") == [0.5, 0.5, 0.5, 2.0, 2.0, 2.0]
    auth = ("reader", SECRET)
    value = Avro(f"http://{registry.host}/", schema=json.dumps(ID), auth=auth)
    assert rows(opened(kafka, pickle.loads(pickle.dumps(value)))) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("default", [{}, {"default": 0.5}])
def test_a_newer_schema_that_lost_a_column_is_named(
    broker: Start, registry: SchemaRegistry, default: dict[str, Any]
) -> None:
    kafka = broker()
    whole = record(("id", "long"), {"name": "score", "type": "double", **default})
    first = registry.add(whole)
    kafka.send([(0, framed(first, whole, {"id": 0, "score": 1.0}))])
    dataset = opened(kafka, Avro(registry.address), columns=["id"])
    lost = registry.add(ID)
    kafka.send([(0, framed(lost, ID, {"id": 1}))])
    dataset.close()
    given: dict[str, Any] = {"columns": ["id", "score"]}
    later = opened(kafka, Avro(registry.address, schema=whole), **given)
    if default:  # a default that the user wrote is what they want
        assert rows(later) == [0, 1]
    else:
        with pytest.raises(fr.DataError, match=r"message 1 of rows:0 .*schema 2 has no column 'score'"):
            rows(later)
    registry.subjects["latest-of-all"] = [first]
    with pytest.raises(fr.DataError, match=r"message 1 of rows:0 .*no column 'score'.*write schema="):
        rows(opened(kafka, Avro(registry.address, subject="latest-of-all"), **given))


def test_bare_records_are_read_with_the_schema_that_is_given(broker: Start) -> None:
    kafka = broker()
    kafka.send((0, bare(ID, {"id": number})) for number in (7, 8))
    assert rows(opened(kafka, Avro(schema=ID))) == [7, 8]
    kafka.send([(0, bare(SCORED, {"id": 9, "score": 1.0}))])
    with pytest.raises(fr.DataError, match=r"message 2 of rows:0 .*8 bytes left after the record"):
        rows(opened(kafka, Avro(schema=ID)))


def test_a_registry_that_is_away_for_a_moment_is_asked_again_and_no_message_is_skipped(
    broker: Start, registry: SchemaRegistry
) -> None:
    kafka = broker()
    number = registry.add(ID)
    kafka.send([(0, framed(number, ID, {"id": 4})), (0, b"\0\0"), (0, framed(99, ID, {"id": 4}))])
    registry.faults = [503]
    dataset = opened(kafka, Avro(registry.address), bad_rows="skip")
    assert rows(dataset) == [4]
    dataset = opened(kafka, Avro(registry.address, schema=SCORED), bad_rows="skip", columns=["id"])
    registry.faults = [403]
    with pytest.raises(fr.SourceError, match=r"refuses schema 1: HTTP 403"):
        rows(dataset)


def test_the_secrets_of_a_registry_are_in_no_text(broker: Start, registry: SchemaRegistry) -> None:
    kafka = broker()
    texts = []
    for address in (registry.address, registry.address.replace("w0rd", "w0rng")):
        with pytest.raises((fr.DataError, fr.SourceError), match="rows-value") as raised:
            opened(kafka, Avro(address))
        texts += [str(raised.value), repr(Avro(address))]
    for address in ("ftp://a:s3cret@b", "a:s3cret@b", "http://a:s3cret@b?c=d"):
        with pytest.raises(ValueError, match="must be as") as refused:
            Avro(address)
        texts.append(str(refused.value))
    assert "refuses" in texts[2]
    assert not [text for text in texts if "s3cret" in text or "w0r" in text]


EVERY = record(
    ("null", "null"),
    ("flag", "boolean"),
    ("small", "int"),
    ("some", ["null", "long"]),
    ("half", "float"),
    ("raw", "bytes"),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}),
    ("code", {"type": "fixed", "name": "Code", "size": 3}),
    ("tags", {"type": "array", "items": "string"}),
    ("counts", {"type": "map", "values": "int"}),
    ("inner", record(("x", "int"), ("kind", "Kind"), name="Inner")),
    ("again", ["null", "Inner"]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("uuid", {"type": "string", "logicalType": "uuid"}),
)


def test_all_types_of_avro_have_a_type_of_arrow() -> None:
    inner = {"x": 1, "kind": "a"}
    row = {
        "null": None,
        "flag": True,
        "small": 3,
        "some": None,
        "half": 0.5,
        "raw": b"raw",
        "kind": "b",
        "code": b"abc",
        "tags": ["x", "y"],
        "counts": {"a": 1},
        "inner": inner,
        "again": inner,
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "price": Decimal("12.34"),
        "uuid": "8a3f5f0c-0d0e-4c0b-9d3c-2f6f5a8f7f10",
    }
    table, counts = Avro(schema=EVERY).decoded([bare(EVERY, row)])
    assert counts.tolist() == [1]
    assert table.to_pylist() == [{**row, "counts": [("a", 1)]}]
    assert table.schema.field("some") == pa.field("some", pa.int64())
    assert table.schema.field("small") == pa.field("small", pa.int32(), nullable=False)
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")


@each_of("around", ["{}", '["null", {}]', '{{"type": "array", "items": {}}}'])
def test_a_time_that_the_latest_schema_can_t_hold_is_an_error(around: str) -> None:
    """It lost its microseconds where another schema had written them."""

    def schema(unit: str) -> Any:
        return record(("at", json.loads(around.format(json.dumps({"type": "long", "logicalType": unit})))))

    def of(micros: int) -> bytes:
        at = datetime(2026, 1, 2, 3, 4, 5, micros, tzinfo=UTC)
        return framed(1, schema("timestamp-micros"), {"at": [at] if "array" in around else at})

    value = Avro("http://registry:8081", schema=schema("timestamp-millis"))
    value._writers[1] = fastavro.parse_schema(schema("timestamp-micros"))
    table = value.decoded([of(7000), of(8000)]).table
    assert value.schema == table.schema
    assert "timestamp[ms" in str(table.schema.field("at").type)
    assert "5, 8000," in str(table.to_pylist()[1])
    with pytest.raises(fr.DataError, match=r"values of 'at' are .*, and no .*would lose data"):
        value.decoded([of(7000), of(7001)])


def test_schemas_that_refer_to_others_are_read(broker: Start, registry: SchemaRegistry) -> None:
    kafka = broker()
    inner = record(("x", "int"), name="Inner")
    registry.add(inner, "inner")
    whole = record(("id", "long"), ("inner", "Inner"))
    number = registry.add(whole, references=[{"name": "Inner", "subject": "inner", "version": 1}])
    kafka.send([(0, framed(number, record(("id", "long"), ("inner", inner)), {"id": 3, "inner": {"x": 1}}))])
    assert rows(opened(kafka, Avro(registry.address), columns=["id"])) == [3]


def test_what_is_no_avro_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match="needs a registry or a schema"):
        Avro()
    with pytest.raises(ValueError, match="no Avro schema"):
        Avro(schema="{")
    with pytest.raises(TypeError, match=r"column 'id' is a union of 2 types.*write schema="):
        Avro(schema=record(("id", ["int", "string"])))
    with pytest.raises(TypeError, match="must be an Avro record"):
        Avro(schema='"int"')
    with pytest.raises(TypeError, match="leave one out"):
        Avro("http://registry", schema=ID, subject="rows-value")
