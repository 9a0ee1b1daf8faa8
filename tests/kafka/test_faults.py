"""What is lost or broken is named, with topic, partition and offset, and what to write."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastresume as fr
from fastresume.kafka import JSON, ArrowIPC, KafkaDataset
from support.kafka_broker import SCHEMA, Broker, message, messages

Start = Callable[..., Broker]


def opened(broker: Broker, batch_size: int = 4, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "world": (0, 1), **given}
    return KafkaDataset(broker.address, batch_size=batch_size, **arguments)


def ids(dataset: KafkaDataset) -> list[int]:
    found = [number for batch in dataset for number in batch["id"].tolist()]
    dataset.close()
    return found


def test_a_message_that_cant_be_decoded_is_named_or_skipped(
    broker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = broker()
    kafka.send([(0, message(range(4))), (0, b"not Arrow"), (0, None), (0, message(range(4, 8)))])
    dataset = opened(kafka)
    with pytest.raises(fr.DataError, match=r"message 1 of rows:0 can't be decoded .*bad_rows='skip'"):
        ids(dataset)
    caplog.set_level(logging.WARNING, "fastresume")
    assert ids(opened(kafka, bad_rows="skip")) == [*range(8)]
    assert "skips message 1 of rows:0" in caplog.text


def test_a_message_that_lost_a_column_is_named(broker: Start) -> None:
    kafka = broker()
    sink = pa.BufferOutputStream()
    table = pa.table({"id": [4, 5]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kafka.send([(0, message(range(4))), (0, sink.getvalue().to_pybytes())])
    with pytest.raises(fr.DataError, match=r"message 1 of rows:0 .*no column 'text'"):
        ids(opened(kafka))


def test_removed_messages_are_an_error_or_a_gap(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 6)[0])
    dataset = opened(kafka, round_rows=4)
    state = next(iter(dataset)).state_dict()  # a finished round, whose next one begins at offset 1
    dataset.close()
    kafka.delete_before(0, 3)
    late = opened(kafka)
    late.load_state_dict(state)
    with pytest.raises(fr.SourceError, match=r"removed the messages \[1, 3\) of rows:0 .*on_gap='skip'"):
        ids(late)
    late = opened(kafka, on_gap="skip")
    late.load_state_dict(state)
    with fr.Loader(late, threads=1) as loader:
        assert [number for batch in loader for number in batch["id"].tolist()] == [*range(12, 24)]
        assert loader.stats()["skipped"] == {"rows:0": 2}
    late.close()


def test_a_state_in_a_round_that_is_gone_is_refused(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 6)[0])
    dataset = opened(kafka)
    batches = iter(dataset)
    next(batches)
    state = next(batches).state_dict()
    dataset.close()
    kafka.delete_before(0, 4)
    late = opened(kafka)
    late.load_state_dict(state)
    with pytest.raises(fr.StateError, match=r"retention overtook the state.*offset 0 of rows:0"):
        ids(late)
    assert late.state_dict() == state


def test_a_topic_that_was_created_again_is_refused(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 2)[0])
    dataset = opened(kafka)
    state = next(iter(dataset)).state_dict()
    dataset.close()
    other = broker()
    other.send(messages([(0, 4)] * 2)[0])
    late = opened(other)
    late.load_state_dict(state)
    with pytest.raises(fr.StateError, match="created again"):
        ids(late)


def test_foreign_states_are_refused(broker: Start) -> None:
    kafka, table = broker(), pa.table({"id": [1, 2]})
    kafka.send([(0, message(range(4)))])
    dataset = opened(kafka)
    files = fr.ArrowDataset(table, batch_size=1, world=(0, 1)).state_dict()
    with pytest.raises(fr.StateError, match="Kafka stream"):
        dataset.load_state_dict(files)
    text = dataset.state_dict()["fastresume"]
    damaged = json.loads(text)
    damaged["round"]["number"] = 7
    with pytest.raises(fr.StateError, match="checksum"):
        dataset.load_state_dict(damaged)
    dataset.close()


def test_offsets_of_others_are_taken_with_a_warning(broker: Start) -> None:
    kafka = broker(partitions=2)
    kafka.send(messages([(0, 4), (1, 4), (0, 4), (1, 4)])[0])
    dataset = opened(kafka)
    with pytest.warns(UserWarning, match="read last"):
        dataset.load_state_dict({"rows:0": 0, "rows:1": -1})
    assert sorted(ids(dataset)) == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]


def test_secrets_are_in_no_text(broker: Start) -> None:
    kafka = broker(user="reader:s3cret-word")
    settings = "?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN&sasl.username=reader&sasl.password="
    with pytest.raises(fr.SourceError) as raised:
        KafkaDataset(kafka.address + settings + "wr0ng-word", batch_size=4, world=(0, 1))
    assert "wr0ng-word" not in str(raised.value)
    with pytest.raises(ValueError, match="refuses") as refused:
        KafkaDataset(kafka.address + settings + "s3cret-word&no.such.setting=1", batch_size=4, world=(0, 1))
    assert "s3cret-word" not in str(refused.value)
    schema = pa.schema([("id", pa.int64())])
    given: dict[str, Any] = {"batch_size": 4, "world": (0, 1), "value": JSON(schema)}
    dataset = KafkaDataset(kafka.address + settings + "s3cret-word", **given)
    found = f"{dataset!r} {dataset.state_dict()} {dataset.config()} {fr.Loader(dataset)!r}"
    assert "s3cret-word" not in found
    dataset.close()


def test_values_may_be_json_or_made_by_a_function(broker: Start) -> None:
    kafka = broker()
    rows: list[Any] = [
        {"id": 1, "text": "a"},
        [{"id": 2, "text": "b"}, {"id": 3, "text": "c", "more": 1}],
        [],
    ]
    kafka.send((0, json.dumps(row).encode()) for row in rows)
    assert ids(opened(kafka, 1, value=JSON(SCHEMA))) == [1, 2, 3]

    def decode(values: list[bytes]) -> list[pa.Table]:
        each = [json.loads(value) for value in values]
        return [pa.Table.from_pylist(one if isinstance(one, list) else [one], SCHEMA) for one in each]

    assert ids(opened(kafka, 1, value=decode)) == [1, 2, 3]
    assert ids(opened(kafka, 1, value=JSON(SCHEMA), filter=pc.field("id") != 2)) == [1, 3]


def test_any_form_of_arrow_ipc_is_decoded(broker: Start) -> None:
    kafka = broker()
    rows = pa.table(
        {
            "id": [0, 1, 2, 3],
            "text": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
            "lists": [[1], [], [2, 3], [4]],
        }
    )
    plain = rows.set_column(1, "text", rows["text"].cast(pa.string()))

    def packed(table: pa.Table, most: int | None = None, compression: str | None = None) -> bytes:
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=most)
        return sink.getvalue().to_pybytes()

    def file(table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    for dataset_rows in (rows, plain):
        whole = packed(dataset_rows)
        forms = [
            whole,
            whole,
            packed(dataset_rows, 1),
            whole,
            packed(dataset_rows, compression="zstd"),
            whole,
        ]
        forms += [file(dataset_rows), packed(dataset_rows.slice(0, 0)), whole[:-8], whole]
        table = ArrowIPC().decoded(forms)
        assert table.counts.tolist() == [4, 4, 4, 4, 4, 4, 4, 0, 4, 4]
        assert table.table.cast(dataset_rows.schema).to_pylist() == dataset_rows.to_pylist() * 9
        with pytest.raises(pa.ArrowInvalid):
            ArrowIPC().decoded([whole, whole[: len(whole) // 2]])
    kafka.send((0, packed(plain)) for _ in range(3))
    assert ids(opened(kafka)) == [0, 1, 2, 3] * 3


def test_a_filter_keeps_what_it_keeps_of_a_table(broker: Start) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(0, 5), (1, 0), (0, 3), (1, 9), (0, 1)] * 4)
    kafka.send(given)
    table = pa.concat_tables([pa.ipc.open_stream(value).read_all() for _, value in given])
    conditions: list[Any] = [
        (fr.col("id") >= 7) & ~(fr.col("text") == "row 9"),
        [("id", "in", [3, 8, 8, 70])],
        fr.col("id") < 0,
    ]
    for condition in conditions:
        kept = _kept(table, condition)
        assert sorted(ids(opened(kafka, 1, filter=condition))) == kept
    for wrong, found in (("id > 3", "condition on fr.col"), (fr.col("ID") > 3, "no column matches 'ID'")):
        with pytest.raises((TypeError, fr.DataError), match=found):
            opened(kafka, filter=wrong)


def _kept(table: pa.Table, condition: Any) -> list[int]:
    try:
        dataset = fr.ArrowDataset(table, batch_size=1, columns=["id"], filter=condition, world=(0, 1))
    except ValueError:  # nothing is kept
        return []
    return sorted(number for batch in dataset for number in batch["id"].tolist())


def test_a_stream_begins_and_stops_where_it_is_told(broker: Start) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(0, 1), (1, 1), (0, 1), (1, 1), (0, 1), (1, 1)])
    now = datetime.now(UTC).replace(microsecond=0)
    for number, each in enumerate(given):
        kafka.send([each], timestamp=int((now + timedelta(seconds=number)).timestamp() * 1000))
    assert sorted(ids(opened(kafka, 1))) == [0, 1, 2, 3, 4, 5]
    assert sorted(ids(opened(kafka, 1, start={0: 1, 1: 2}))) == [2, 4, 5]
    assert sorted(ids(opened(kafka, 1, start={"rows:1": 2}))) == [0, 2, 4, 5]
    assert sorted(ids(opened(kafka, 1, stop={0: 1, 1: 1}))) == [0, 1]
    assert sorted(ids(opened(kafka, 1, start=now + timedelta(seconds=2)))) == [2, 3, 4, 5]
    assert sorted(ids(opened(kafka, 1, stop=now + timedelta(seconds=3)))) == [0, 1, 2]
    assert ids(opened(kafka, 1, start="latest")) == []
    with pytest.raises(ValueError, match=r"offset 9 of rows:0, which has \[0, 3\)"):
        opened(kafka, 1, start={0: 9})
    with pytest.raises(TypeError, match="committed:group"):
        opened(kafka, 1, start="now")
    with pytest.raises(ValueError, match="time zone"):
        opened(kafka, 1, start=datetime(2026, 1, 1))
