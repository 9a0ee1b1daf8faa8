"""What is asked of brokers: which partitions there are, their bounds, offsets for times, and messages."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import fastresume._core as _core
from fastresume.kafka.place import Part
from fastresume.kafka.settings import Settings
from fastresume.packages import optional

_log = logging.getLogger("fastresume")

_ASK_SECONDS = 10.0
_AGAIN_SECONDS = 0.5
_POLL_SECONDS = 0.1
_AT_ONCE = 64, 1000
"""The fewest and the most messages that are taken at once, by their sizes."""

AT_ONCE_BYTES = 16 << 20
"""Messages that are taken at once have no more bytes, if they are of the sizes of those before."""

_SILENT_SECONDS = 1.0
"""Brokers that have not answered for so long are named to who asks what is waited for."""

_QUEUE_KIB, _ANSWER_BYTES = 65536, 52428800
"""librdkafka's defaults of `queued.max.messages.kbytes` and `fetch.max.bytes`."""

_MOST_REFUSALS = 5
"""A broker that ends a log-in may be starting; after this number of times the log-in is wrong."""


_handles: set[Any] = set()
"""All of librdkafka's in use. A fork has them without their threads, and must never let one go."""


def _let_go(consumer: Any) -> None:
    """Closes a consumer that this process has made."""
    try:
        consumer.close()
    finally:
        _handles.discard(consumer)


class _Quiet:
    """The log of librdkafka: what matters in it is raised."""

    def log(self, _level: int, text: str, *given: object) -> None:
        """Passes a line on, for who wants to see all."""
        _log.debug(text, *given)


class Message(NamedTuple):
    """A message of a partition: its offset, its time in milliseconds since 1970, and its value."""

    part: Part
    offset: int
    time: int
    value: bytes | None


class Topic(NamedTuple):
    """A topic: the id that it got when it was made ("" if brokers tell none), and its partitions."""

    id: str
    parts: tuple[Part, ...]


class Outages(NamedTuple):
    """How long brokers that don't answer are waited for: before their first answer, and after it."""

    connect_seconds: float
    outage_seconds: float


class ClosedError(Exception):
    """The client was closed while it waited."""


class Client(Protocol):
    """The brokers, as a stream asks them. Calls may come from several threads."""

    def topics(self) -> dict[str, Topic]:
        """The topics that are read."""

    def bounds(self, parts: Iterable[Part]) -> dict[Part, tuple[int, int]]:
        """Of each partition, the first offset, and the one after the last that may be read."""

    def offsets_at(self, parts: Iterable[Part], time: int) -> dict[Part, int]:
        """Of each partition, the first offset from a time on, in milliseconds; the end if there is none."""

    def committed(self, parts: Iterable[Part], group: str) -> dict[Part, int]:
        """Of each partition, the offset that a consumer group has committed; without those that have none."""

    def commit(self, offsets: Mapping[Part, int], group: str) -> None:
        """Lets a consumer group have these offsets."""

    def fetch(
        self, wanted: Mapping[Part, tuple[int, int]], ahead_bytes: int | None = None
    ) -> Iterator[list[Message]]:
        """The messages of partitions between two offsets, in the order of each partition, some at a time.

        It ends when each has reached its second offset. Brokers send more after it: at most `ahead_bytes` and
        an answer, if they are named.
        """

    @property
    def in_flight_bytes(self) -> int:
        """The most that messages take which brokers have sent ahead."""

    def wait_in_words(self) -> str:
        """What brokers are waited for, in words."""

    def close(self) -> None:
        """Ends what waits, and lets connections go; later calls make new ones."""


class ConfluentClient:
    """The brokers, asked by confluent-kafka: connections are made in the process that needs them.

    Args:
        settings: where they are.
        isolation: "read_committed" or "read_uncommitted".
        outages: how long brokers that don't answer are waited for.
    """

    def __init__(self, settings: Settings, isolation: str, outages: Outages) -> None:
        self._settings = settings
        self._isolation = isolation
        self._outages = outages
        self._has_answered = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._admin: Any = None
        self._idle: dict[int | None, list[Any]] = {}
        self._closed = threading.Event()
        self._trouble: Any = None
        self._refusals = 0
        self._waits: dict[int, tuple[str, float]] = {}  # by threads: what for, and since when

    def _own(self) -> None:
        """Leaves connections of the parent alone: their threads are not in a fork."""
        if self._process != os.getpid():
            self._left = self._admin, self._idle
            self._begin()

    def _config(self) -> dict[str, Any]:
        config = dict(self._settings.config)
        config.setdefault("client.id", "fastresume")
        config.setdefault("enable.metrics.push", False)
        config.update({"error_cb": self._hear, "logger": _Quiet()})
        return config

    def _made(self, make: Callable[[], Any]) -> Any:
        kafka = confluent_kafka()
        try:
            handle = make()
            _handles.add(handle)
            return handle
        except (kafka.KafkaException, TypeError, ValueError) as error:
            raise ValueError(
                f"librdkafka refuses the settings: {self._settings.without_secrets(error)}"
            ) from None

    def _hear(self, error: Any) -> None:
        self._trouble = error
        # Some brokers hang up where others say that the log-in is wrong.
        is_refusal = error.code() == confluent_kafka().KafkaError._AUTHENTICATION
        self._refusals += is_refusal or "SASL authentication error" in error.str()

    def topics(self) -> dict[str, Topic]:
        """The topics that are read."""
        kafka = confluent_kafka()
        names = list(self._settings.topics)
        asked = kafka.TopicCollection(names)
        found = self._asked(
            lambda admin: admin.describe_topics(asked, request_timeout=self._ask_seconds), "the topics"
        )
        return {
            name: Topic(str(topic.topic_id), tuple(sorted(Part(name, each.id) for each in topic.partitions)))
            for name, topic in found.items()
        }

    def bounds(self, parts: Iterable[Part]) -> dict[Part, tuple[int, int]]:
        """The first offset of each partition, and the one after the last that may be read."""
        admin = confluent_kafka_admin()
        each = list(parts)
        lows = self._offsets(each, admin.OffsetSpec.earliest())
        highs = self._offsets(each, admin.OffsetSpec.latest())
        return {part: (lows[part], max(highs[part], lows[part])) for part in each}

    def offsets_at(self, parts: Iterable[Part], time: int) -> dict[Part, int]:
        """The first offset of each partition from a time on."""
        each = list(parts)
        found = self._offsets(each, confluent_kafka_admin().OffsetSpec.for_timestamp(time))
        late = [part for part in each if found[part] < 0]
        ends = self.bounds(late) if late else {}
        return {part: ends[part][1] if part in ends else found[part] for part in each}

    def committed(self, parts: Iterable[Part], group: str) -> dict[Part, int]:
        """The offsets that a consumer group has committed."""
        kafka = confluent_kafka()
        asked = [kafka.TopicPartition(*part) for part in parts]
        consumer = self._made(lambda: kafka.Consumer({**self._config(), "group.id": group}))
        try:
            found = consumer.committed(asked, timeout=self._ask_seconds)
        except kafka.KafkaException as error:
            raise self._failed(f"the offsets of the group '{group}'", error.args[0]) from None
        finally:
            _let_go(consumer)
        return {Part(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def commit(self, offsets: Mapping[Part, int], group: str) -> None:
        """Lets a consumer group have these offsets."""
        kafka = confluent_kafka()
        positions = [kafka.TopicPartition(*part, offset) for part, offset in sorted(offsets.items())]
        consumer = self._made(lambda: kafka.Consumer({**self._config(), "group.id": group}))
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except kafka.KafkaException as error:
            raise self._failed(f"a commit to the group '{group}'", error.args[0]) from None
        finally:
            _let_go(consumer)

    def _offsets(self, parts: Sequence[Part], spec: Any) -> dict[Part, int]:
        kafka = confluent_kafka()
        level = kafka.IsolationLevel[self._isolation.upper()]
        wanted = {kafka.TopicPartition(*part): spec for part in parts}
        if not wanted:
            return {}
        found = self._asked(
            lambda admin: admin.list_offsets(
                wanted, isolation_level=level, request_timeout=self._ask_seconds
            ),
            "the offsets",
        )
        return {Part(of.topic, of.partition): answer.offset for of, answer in found.items()}

    def _asked(self, ask: Callable[[Any], dict[Any, Any]], what: str) -> dict[Any, Any]:
        """What brokers answer; they are asked again as long as an outage may last."""
        self._own()
        with self._waiting(what, time.monotonic()):
            return self._answered(ask, what)

    @contextlib.contextmanager
    def _waiting(self, what: str, since: float) -> Iterator[None]:
        waits = self._waits
        waits[threading.get_ident()] = what, since
        try:
            yield
        finally:
            del waits[threading.get_ident()]

    def wait_in_words(self) -> str:
        """What brokers are waited for, in words."""
        what, since = min(self._waits.copy().values(), key=lambda each: each[1], default=("", math.inf))
        silent = time.monotonic() - since
        if silent < _SILENT_SECONDS:
            return f"{self._settings.name} answers"
        heard = "" if self._trouble is None else f": {self._settings.without_secrets(self._trouble)}"
        return f"{self._settings.name} has not given {what} for {silent:.1f} s{heard}"

    @property
    def in_flight_bytes(self) -> int:
        """The most of librdkafka's queue of messages, and of an answer that follows it."""
        config = self._settings.config
        queue = int(config.get("queued.max.messages.kbytes", _QUEUE_KIB)) << 10
        return queue + int(config.get("fetch.max.bytes", _ANSWER_BYTES))

    def _answered(self, ask: Callable[[Any], dict[Any, Any]], what: str) -> dict[Any, Any]:
        kafka = confluent_kafka()
        closed, ends = self._closed, time.monotonic() + self._patience
        while True:
            with self._lock:
                if self._admin is None:
                    self._admin = self._made(lambda: confluent_kafka_admin().AdminClient(self._config()))
                admin = self._admin
            try:
                futures = ask(admin)
                while not all(future.done() for future in futures.values()):
                    admin.poll(0)  # which asks for tokens, and hears errors
                    if self._refusals >= _MOST_REFUSALS:
                        refusals, self._refusals = self._refusals, 0
                        raise self._failed(f"{what}, and refused {refusals} times", self._trouble)
                    if closed.wait(0.002):
                        raise ClosedError
                found = {of: future.result() for of, future in futures.items()}
                if any(getattr(one, "offset", 0) == kafka.OFFSET_INVALID for one in found.values()):
                    # A broker that stops in the middle of an answer is no error of librdkafka's.
                    raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
                self._has_answered = True
                return found
            except kafka.KafkaException as error:
                trouble = error.args[0]
                if self._is_final(trouble) or time.monotonic() > ends:
                    raise self._failed(what, trouble) from None
                self._trouble = trouble
                if trouble.code() in (
                    kafka.KafkaError.FENCED_LEADER_EPOCH,
                    kafka.KafkaError.UNKNOWN_LEADER_EPOCH,
                ):
                    with self._lock:
                        _handles.discard(self._admin)
                        self._admin = None  # which never hears of other leaders by itself
                if closed.wait(_AGAIN_SECONDS):
                    raise ClosedError from None

    def fetch(
        self, wanted: Mapping[Part, tuple[int, int]], ahead_bytes: int | None = None
    ) -> Iterator[list[Message]]:
        """The messages of partitions between two offsets."""
        kafka = confluent_kafka()
        left = {part: bounds for part, bounds in wanted.items() if bounds[0] < bounds[1]}
        if not left:
            return
        self._own()
        closed = self._closed
        with self._consumer(closed, ahead_bytes) as consumer:
            assigned = [kafka.TopicPartition(*part, first) for part, (first, _) in left.items()]
            consumer.assign(assigned)
            consumer.resume(assigned)  # a pause outlives an assignment
            heard, at_once = time.monotonic(), _AT_ONCE[0]
            while left:
                found: list[Message] = []
                part = min(left)
                with self._waiting(f"{part} from offset {left[part][0]} on", heard):
                    came = consumer.consume(at_once, _POLL_SECONDS)
                for one in came:
                    part, error = Part(one.topic(), one.partition()), one.error()
                    if error is not None:
                        self._check_error(error, part, one, left)
                    elif part in left and one.offset() < left[part][1]:
                        found.append(Message(part, one.offset(), one.timestamp()[1], one.value()))
                    if part in left and error is None and one.offset() + 1 >= left[part][1]:
                        del left[part]
                        if left:
                            consumer.pause([kafka.TopicPartition(*part)])
                if closed.is_set():
                    raise ClosedError
                if found:
                    heard = time.monotonic()
                    given = sum(len(message.value or b"") for message in found)
                    # librdkafka takes what comes for as long as a poll may last.
                    at_once = max(min(AT_ONCE_BYTES * len(found) // max(given, 1), _AT_ONCE[1]), 1)
                    yield found
                elif time.monotonic() - heard > self._patience:
                    part = min(left)
                    raise self._failed(f"{part} from offset {left[part][0]} on", self._trouble)

    def _check_error(self, error: Any, part: Part, event: Any, left: dict[Part, tuple[int, int]]) -> None:
        kafka = confluent_kafka().KafkaError
        if part not in left and error.code() in (kafka._PARTITION_EOF, kafka.OFFSET_OUT_OF_RANGE):
            return
        if error.code() == kafka._PARTITION_EOF:
            if event.offset() >= left[part][1]:
                del left[part]
                return
            _, high = self.bounds([part])[part]
            if high < left[part][1]:
                raise _core.SourceError(
                    f"{part} ends at offset {high}, and was read up to {left[part][1]}: it was truncated, or "
                    "created again"
                )
        elif error.code() in (kafka._AUTO_OFFSET_RESET, kafka.OFFSET_OUT_OF_RANGE):
            low, high = self.bounds([part])[part]
            raise _core.SourceError(
                f"{part} has no offset {left[part][0]} any more: it has [{low}, {high}). Retention removed it"
            )
        elif self._is_final(error):
            raise self._failed(str(part), error)
        else:
            self._trouble = error

    @contextlib.contextmanager
    def _consumer(self, closed: threading.Event, ahead_bytes: int | None) -> Iterator[Any]:
        kafka = confluent_kafka()
        with self._lock:
            all_idle = self._idle
            idle = all_idle.setdefault(ahead_bytes, [])
            consumer = idle.pop() if idle else None
        if consumer is None:
            config = {
                **self._config(),
                "group.id": "fastresume",  # librdkafka asks for one, and joins none without a subscription
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": self._isolation,
            }
            if ahead_bytes is not None:
                config["queued.max.messages.kbytes"] = ahead_bytes >> 10
            consumer = self._made(lambda: kafka.Consumer(config))
        try:
            yield consumer
        finally:
            is_kept = not closed.is_set() and self._idle is all_idle
            with contextlib.suppress(kafka.KafkaException, RuntimeError):
                if is_kept:
                    consumer.unassign()
                else:
                    _let_go(consumer)
            if is_kept:
                with self._lock:
                    idle.append(consumer)

    @property
    def _patience(self) -> float:
        return self._outages.outage_seconds if self._has_answered else self._outages.connect_seconds

    @property
    def _ask_seconds(self) -> float:
        """How long one request may take."""
        return min(_ASK_SECONDS, self._patience)

    def _is_final(self, error: Any) -> bool:
        kafka = confluent_kafka().KafkaError
        return error is not None and error.code() in (
            kafka._AUTHENTICATION,
            kafka.SASL_AUTHENTICATION_FAILED,
            kafka.TOPIC_AUTHORIZATION_FAILED,
            kafka.CLUSTER_AUTHORIZATION_FAILED,
            kafka.GROUP_AUTHORIZATION_FAILED,
            kafka.UNKNOWN_TOPIC_OR_PART,
            kafka._UNKNOWN_TOPIC,
            kafka._UNKNOWN_PARTITION,
            kafka._SSL,
        )

    def _failed(self, what: str, error: Any) -> Exception:
        heard = "" if self._trouble is None or self._trouble is error else f"; {self._trouble}"
        reason = self._settings.without_secrets(f"{error}{heard}")
        advice = (
            ""
            if self._has_answered or self._is_final(error)
            else ". No broker has answered yet: is the address right? connect_seconds= says how long to wait"
        )
        return _core.SourceError(f"{self._settings.name} does not give {what}: {reason}{advice}")

    def close(self) -> None:
        """Ends what waits, and lets connections go; later calls make new ones."""
        self._own()
        closed, idle = self._closed, self._idle
        closed.set()
        with self._lock:
            _handles.discard(self._admin)
            self._idle, self._admin, self._closed = {}, None, threading.Event()
        for consumer in itertools.chain.from_iterable(idle.values()):
            _let_go(consumer)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfluentClient, (self._settings, self._isolation, self._outages)


def confluent_kafka() -> Any:
    """The package confluent_kafka.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    return optional("confluent_kafka", "KafkaDataset", "'fastresume[kafka]'")


def confluent_kafka_admin() -> Any:
    """Its client for administration."""
    return optional("confluent_kafka.admin", "KafkaDataset", "'fastresume[kafka]'")
