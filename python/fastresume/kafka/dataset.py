"""Kafka topics as an iterable dataset of batches."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self, cast

import numpy as np
from torch.utils.data import IterableDataset

import fastresume._core as _core
from fastresume.agreement.peers import Peers
from fastresume.agreement.same_reads import SameReads
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.buffers import Intervals
from fastresume.columns.request import Columns
from fastresume.kafka.client import ConfluentClient, Message, Outages, Topic
from fastresume.kafka.commits import Commits
from fastresume.kafka.decoder import Decoder, found_schema
from fastresume.kafka.follower import Limits
from fastresume.kafka.place import Part, Place
from fastresume.kafka.round import Round
from fastresume.kafka.row_filter import RowFilter
from fastresume.kafka.settings import NO_GROUP, Settings
from fastresume.kafka.spec import RoundSpec
from fastresume.kafka.starts import checked_start, checked_stop, start_offsets, stop_offsets
from fastresume.kafka.stream import Stream
from fastresume.kafka.values import value_of
from fastresume.messages import warn
from fastresume.mixing.remaining import rows_left
from fastresume.options.checks import at_least, one_of, positive, quoted
from fastresume.options.rows import Shuffle
from fastresume.options.units import Bins, Packed
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World
from fastresume.plan import Plan
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.resumable import ComparedRanks
from fastresume.reading.torch_dataloader.guards import iterator_that_begins, without_workers
from fastresume.rows_dataset import Asked, Found, RowsDataset
from fastresume.sources.schema import arrow
from fastresume.state.cursor import KEY, Cursor
from fastresume.state.session import sessions_of
from fastresume.state.shared_cursor import SharedCursor

if TYPE_CHECKING:
    import pyarrow as pa
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


class _Opened(NamedTuple):
    """What rank 0 found when the topics were opened."""

    topics: dict[str, Topic]
    begins: dict[Part, Place]
    stops: dict[Part, int] | None
    learned: object
    schema: pa.Schema


class _Used:
    """Is there as long as anybody reads a stream."""


@takes_no_other("KafkaDataset", "dataset")
class KafkaDataset(RowsDataset):
    """An iterable of `Batch`es over Kafka topics. A job that is killed resumes with the next row.

    A topic is read in rounds: all ranks agree on where a round ends in each partition, once a round. A round
    is then read as any other dataset, and the next one is fetched meanwhile. `epoch` counts rounds. The
    iteration goes from round to round, and ends only if `stop` says where. It needs confluent-kafka and
    pyarrow.

    Args:
        address: "kafka://broker:9092/topic?name=value", with settings as librdkafka names them. Several
            brokers or topics have commas between them.
        topic: a topic, or several, if the address has none.
        config: more settings of librdkafka. "oauth_cb" is a function that returns a token.
        batch_size: rows, or units, per rank and step. A source of a `Mixture` has none.
        global_batch_size: the same per step over all ranks, instead of `batch_size`.
        columns: what is delivered, as of a `ParquetDataset`.
        filter: keep the rows where a condition is true, as `fr.col("label") > 0`; or an expression of
            pyarrow. It is asked when messages are decoded.
        shuffle: deliver the rows of a round in a shuffled order.
        seed: of the shuffled order, and of what transforms draw.
        lanes: into how many contiguous parts a round is divided, as of a `ParquetDataset`.
        unit: what is counted instead of rows: `fr.Packed(...)`, `fr.Bins(...)`, or None for rows. Those of a
            partition follow one another over all rounds.
        nulls: what happens to a null that `columns` says nothing of: "error" or "mask".
        world: which of how many ranks this is. Several ranks need a process group.
        start: where a job without a state begins: "earliest", "latest", a datetime, `{partition: offset}`
            or "committed:group", the offsets of a consumer group.
        value: what messages are: `fr.kafka.ArrowIPC()` (the default), `fr.kafka.Avro(registry)`,
            `fr.kafka.JSON(schema)`, or a function of a list of bytes that returns Arrow: a row for each, or a
            list with a table for each.
        round_rows: the most rows of a round, unless a global batch of units takes more.
        round_bytes: a round ends when messages of this size were fetched.
        max_wait: seconds after which a round ends that has rows for a batch, if the loop waits.
        stop: where to stop: None for never, "end" for what is there now, a datetime or `{partition: offset}`.
            Partitions that are added later are not read then.
        bad_rows: what happens to messages that can't be decoded: "error", or "skip" with a line in the log.
        on_gap: what happens if messages were removed before they were read: "error" or "skip".
        isolation: "read_committed" leaves out messages of transactions that were not committed.
        commit: "after save" commits offsets to the consumer group `config={"group.id": ...}` after each save
            of a `Checkpointer`, once it is durable: for dashboards of lag. They are never read back.
        connect_seconds: brokers that don't answer when the dataset is made are an error after this time.
        outage_seconds: brokers that answered once, and don't any more, are an error after this time.

    Raises:
        TypeError, ValueError: for arguments of another type, or out of range.
        SourceError: if brokers don't answer in time, or refuse.
        DataError: if the first message can't be decoded, or columns can't be delivered.
        ImportError: if confluent-kafka or pyarrow is not installed.

    Rows that make no whole global batch begin the next round. A state has the places of all partitions; it
    fits any number of ranks and batch sizes. Secrets are in no state, error, log or `repr`.

    Under a torch DataLoader with workers, one iteration is one round; `persistent_workers` are refused. An
    `Evaluator` takes a dataset with `stop=`, and reads all of it each time.

    Threads and forks: connections are made in the process that uses them. Draw batches in one thread. It
    can't be pickled, except for workers.

    Examples:
        >>> dataset = KafkaDataset("kafka://localhost:9092/clicks", batch_size=512)  # doctest: +SKIP
        >>> for batch in fr.Loader(dataset):  # doctest: +SKIP
        ...     train(batch)
    """

    _spec: RoundSpec
    _is_stream = True
    _is_open: bool | None = None
    """For workers: whether there is a round; None if none was looked for."""
    _mixed_as: tuple[str, SharedCursor] | None = None
    """Its name in the mixture that reads it, and where that is; None if it is read by itself."""

    def __init__(
        self,
        address: str | None = None,
        *,
        topic: str | Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        columns: Columns | None = None,
        filter: object = None,  # noqa: A002  (what users call it)
        shuffle: bool | Shuffle = False,
        seed: int | None = None,
        lanes: int | None = None,
        unit: Packed | Bins | None = None,
        nulls: Literal["error", "mask"] = "error",
        world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None = None,
        start: str | datetime | Mapping[Any, int] = "earliest",
        value: object = None,
        round_rows: int = 1_000_000,
        round_bytes: int = 256 << 20,
        max_wait: float = 5.0,
        stop: str | datetime | Mapping[Any, int] | None = None,
        bad_rows: Literal["error", "skip"] = "error",
        on_gap: Literal["error", "skip"] = "error",
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        commit: Literal["after save"] | None = None,
        connect_seconds: float = 10.0,
        outage_seconds: float = 120.0,
    ) -> None:
        IterableDataset.__init__(self)
        arrow()
        settings = Settings(address, topic, config)
        asked = Asked.of(
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            columns=columns,
            rows=None,
            filter=None,
            shuffle=shuffle,
            seed=seed,
            lanes=lanes,
            groups=None,
            tail="drop",
            nulls=nulls,
            cache=None,
            on_iter="continue",
            on_change="append",
            bad_rows="error",
            unit=unit,
            world=world,
        )
        of_batch = (asked.rows_of_rank or 0) * asked.world.world_size
        if at_least(1, "round_rows", round_rows) < of_batch and unit is None:
            raise ValueError(
                f"round_rows is {round_rows}, less than the {plural(of_batch, 'row')} of a global batch"
            )
        limits = Limits(round_rows, at_least(1, "round_bytes", round_bytes), positive("max_wait", max_wait))
        own_start, own_stop, own_value = checked_start(start), checked_stop(stop), value_of(value)
        skips = one_of("bad_rows", bad_rows, ("error", "skip"))
        gaps = one_of("on_gap", on_gap, ("error", "skip"))
        level = one_of("isolation", isolation, ("read_committed", "read_uncommitted"))
        group = _group(commit, settings)
        peers = _peers_of(asked.world)
        outages = Outages(
            positive("connect_seconds", connect_seconds), positive("outage_seconds", outage_seconds)
        )
        client = ConfluentClient(settings, level, outages)
        self._used = _Used()  # which datasets that `map` makes share
        weakref.finalize(self._used, client.close)  # also if there is an error below

        def opened() -> _Opened:
            topics = client.topics()
            parts = [part for found in topics.values() for part in found.parts]
            offsets = start_offsets(own_start, parts, client)

            def first() -> Message | None:
                for messages in client.fetch(client.bounds(parts)):
                    for message in messages:
                        if message.value is not None:
                            return message
                return None

            learned = own_value._learn(settings.topics)
            own_value._know(learned)
            schema = found_schema(own_value, first, settings.name)
            begins = {part: Place(offset) for part, offset in offsets.items()}
            return _Opened(topics, begins, stop_offsets(own_stop, parts, client), learned, schema)

        found = opened() if peers is None else peers.lead("open the topics", opened)
        own_value._know(found.learned)
        if own_value.schema is None:
            own_value.schema = found.schema
        kept = None if filter is None else RowFilter(filter, found.schema)
        decoder = Decoder(own_value, found.schema, kept, skips)
        self._stream = Stream(asked, settings.name, client, decoder, limits, gaps, peers, found.stops)
        self._commits = None if group is None else Commits(client, group)
        weakref.finalize(self._used, self._stream.close)
        self._topics = tuple((name, topic.id) for name, topic in sorted(found.topics.items()))
        self._begins = found.begins
        self._spec = self._stream.empty(self._topics, found.begins)
        self._length = 0
        self._filter_report = None
        self._shared_cursor = SharedCursor(
            self._spec.start(), ComparedRanks(self._spec, SameReads(self._spec.world))
        )

    @property
    def _has_end(self) -> bool:
        """Whether `stop` says where the stream ends."""
        return self._stream.has_end

    @contextmanager
    def _from_the_beginning(self) -> Iterator[None]:
        """A context in which all rows from `start` to `stop` are delivered, each once, as in an evaluation.

        Rows at the end that make no whole global batch are filled up, as with `tail="pad"`. Afterwards the
        dataset is where it was. All ranks enter and leave it together. If one fails in it, the others fail at
        the next round but one, or when they leave it.
        """
        spec, cursor = self._spec, self._shared_cursor.cursor
        empty = self._at_start()
        self._spec = replace(empty, transforms=spec.transforms, masking=spec.masking, tail="pad")
        self._shared_cursor.load(self._spec.start())
        try:
            yield
        except Exception as error:
            self._stream.end(error)
            raise
        else:
            self._stream.end(None)
        finally:
            self._spec = spec
            self._shared_cursor.load(cursor)

    def _follow(self) -> bool:
        """Makes the round of the next batch this dataset's; False if the stream has ended. It waits.

        All ranks call it together.

        Raises:
            FastresumeError: in a process that the dataset was sent to.
        """
        if "_stream" not in self.__dict__:
            raise _core.FastresumeError(
                "this KafkaDataset was sent to this process, and has no connection here: make it here"
            )
        found = self._stream.opened(self._spec, self._shared_cursor.cursor)
        if found is None:
            return False
        spec, cursor = found
        self._spec = spec
        if cursor != self._shared_cursor.cursor:
            self._shared_cursor.follow(cursor)
        return True

    def _wait_in_words(self, seconds: float) -> str:
        """What `_follow` waits for, for the watchdog of a `Loader`."""
        round_ = self._spec.round
        is_alone, next_one = self._mixed_as is None, round_.number + (round_.rows > 0)
        return self._stream.wait_in_words(seconds, self._shared_cursor.cursor.epoch if is_alone else next_one)

    def _of_worker(self, worker: int, workers: int) -> Iterator[Batch]:
        """The batches of a worker in one round, which the main process found with the DataLoader's iterator.

        Raises:
            FastresumeError: in a worker of something else, which finds no round before.
        """
        is_over = self._shared_cursor.cursor.epoch > self._spec.round.number  # no one looked for the next
        if self._is_open is None or (self._is_open and is_over):
            raise _core.FastresumeError(
                "no round of the KafkaDataset was open when this worker began: give the dataset itself "
                "to DataLoader(dataset, batch_size=None, num_workers=n), or write "
                "fr.Loader(dataset, num_workers=n)"
            )
        return super()._of_worker(worker, workers) if self._is_open else iter(())

    # What a DataLoader asks whenever it makes an iterator, before it starts workers by whatever method.
    @property  # type: ignore[misc]  # the one of `object` can be assigned, too
    def __class__(self) -> type[Self]:
        if (found := iterator_that_begins(sys._getframe(1))) is not None:
            loader, iterator = found
            with without_workers(iterator):
                self._open_for_workers(loader)
        return type(self)

    def _open_for_workers(self, loader: Any) -> None:
        """Finds the round of a DataLoader's new iterator: its workers can't agree on it with other ranks."""
        if loader.persistent_workers:
            raise _core.FastresumeError(
                "persistent_workers=True: workers that stay don't hear of the next round of a KafkaDataset. "
                "Leave it out, or write fr.Loader(dataset, num_workers=n), whose workers stay"
            )
        self._is_open = self._follow()

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is None:
            raise TypeError(
                "a KafkaDataset can't be pickled, except for workers: make it in the process that reads it"
            )
        of_process = ("_used", "_stream", "_commits")
        return {name: value for name, value in self.__dict__.items() if name not in of_process}

    def __len__(self) -> NoReturn:
        """Refused: a topic has no end.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a KafkaDataset has no length, since its topics have no end: count steps, or use "
            "dataset.batches_left for the present round"
        )

    @property
    def watermark(self) -> np.datetime64 | None:
        """The event time up to which all partitions that have rows were delivered, a `datetime64[ms]`.

        It is the least over the partitions of the round. None before it is known.
        """
        round_, left, spec = self._left()
        found = round_.watermarks[not len(left)] if spec is None else spec.watermark(left)
        return None if found is None else np.datetime64(found, "ms")

    def _left(self) -> tuple[Round, Intervals, RoundSpec | None]:
        """The round that the place in the stream names, its rows that are left, and its spec if open."""
        if self._mixed_as is not None:
            name, shared = self._mixed_as
            cursor = shared.cursor
            spec = self._of_round(Round.of(sessions_of(cursor).get(name)))
            return spec.round, rows_left(cursor, name, spec), spec if spec.is_open else None
        cursor = self._shared_cursor.cursor
        round_ = Round.parse(cursor.round or "null")
        if round_ == self._spec.round:
            return round_, self._spec.left_at(cursor), self._spec
        count = 0 if cursor.epoch > round_.number else 1
        return round_, np.array([[0, round_.rows]] * count, np.int64).reshape(-1, 2), None

    def _of_round(self, round_: Round) -> RoundSpec:
        """What a round delivers, which may have to be read still."""
        return self._spec if round_ == self._spec.round else self._stream.unread(round_)

    def _at_start(self) -> RoundSpec:
        """The round before the first one of a job without a state."""
        return self._stream.empty(self._topics, self._begins)

    def _in_session(self, named: Any, present: FilesSpec) -> Found | None:
        """What is delivered of the round that the state of a mixture names; None if that is the present one.

        Raises:
            StateError: if it is of other topics.
        """
        if named is None:  # of a state that is not a mixture's
            return None
        round_ = Round.of(named)
        self._check_topics(round_)
        if isinstance(present, RoundSpec) and present.round == round_:
            return None
        return Found(self._of_round(round_), None)

    def _take_found(self, found: Found) -> None:
        self._spec = cast("RoundSpec", found.spec)

    def load_state_dict(self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False) -> None:
        """Resumes from a state at the next `iter()`, on any number of ranks. It asks no broker.

        Args:
            state: from `state_dict()` of a batch, dataset or `Loader`; its parsed JSON; or a `Cursor`. Or
                offsets of the last messages that were read, as TorchEasyRec has them: `{"topic:0": 41}`.
            reset_epochs: keep the position, and count the rounds of this job from here.

        Raises:
            StateError: if the state is empty, damaged, or of other topics. The dataset stays as it was.

        Warns:
            UserWarning: that offsets don't tell of messages that were read in part.
        """
        self._shared_cursor.check_process()
        super().load_state_dict(Cursor(self._imported(state)) if _are_offsets(state) else state, reset_epochs)

    def _fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of these topics: it says itself which round it is in.

        Raises:
            StateError: if it is of another dataset.
        """
        if "mixture" in Cursor(cursor).order:
            raise _core.StateError(
                "the state is of a mixture, and this is one dataset: load it into the Mixture"
            )
        if cursor.round is None:
            raise _core.StateError("the state is of a dataset of files or tables, and this is a Kafka stream")
        self._check_topics(Round.parse(cursor.round))
        if cursor.values()["selection"] != self._spec.hash_of_selection:
            hint = self._spec.unit_hint
            raise _core.StateError(f"the state does not fit this stream: it needs the same topics{hint}")
        return cursor

    def _check_topics(self, round_: Round) -> None:
        names, own = ([name for name, _ in each] for each in (round_.topics, self._topics))
        if names != own:
            raise _core.StateError(f"the state is of the topics {quoted(names)}, these are {quoted(own)}")

    def _imported(self, state: Any) -> _core.Cursor:
        places = dict(self._begins)
        for key, offset in state.items():
            topic, _, number = key.rpartition(":")
            part = Part(topic, int(number))
            if part not in places:
                raise _core.StateError(f"the state has the partition '{key}', which is not there")
            places[part] = Place(offset + 1)
        warn(
            "offsets tell which message was read last: rows of it that were not trained are lost, and "
            "partitions that are not named begin where start= says"
        )
        return self._stream.empty(self._topics, places).start()

    def plan(self, workers: int = 0) -> Plan:
        """What is left of the present round and what reading it takes; see `ParquetDataset.plan`.

        Its `bytes_of_rounds` is what rounds take besides.

        Raises:
            ValueError: if that many workers can't share the lanes.
        """
        made = super().plan(workers)
        return replace(made, bytes_of_rounds=self._held_bytes(self._spec))

    def _held_bytes(self, spec: RoundSpec) -> int:
        """The most that rounds take in memory."""
        return self._stream.held_bytes(spec)

    def _check_present(self) -> None:
        if self._shared_cursor.cursor.round != self._spec.start().round:
            raise _core.StateError("the round of the state that was loaded is not open yet: draw a batch")

    def _after_save(self) -> Callable[[], None] | None:
        """What commits the present offsets, on rank 0; None without `commit=`."""
        commits = self._commits
        if commits is None or self.world.rank:
            return None
        round_, left, spec = self._left()
        places = round_.begins if len(left) else round_.ends
        offsets = {part: place.offset for part, place in places.items()}
        offsets |= {} if spec is None else spec.offsets(left)
        return lambda: commits.add(offsets)

    def close(self) -> None:
        """Ends the search for the next round, and the connections. A new `iter()` makes new ones."""
        if self._commits is not None:
            self._commits.close()
        self._stream.close()


def _peers_of(world: World) -> Peers | None:
    """The ranks that agree on rounds; None for one alone.

    Raises:
        ValueError: if there is no process group of its size.
    """
    if world.world_size == 1:
        return None
    if World.of_default_group() != world:
        raise ValueError(
            f"{world} needs a process group of {world.world_size} ranks, which agree on each round: call "
            "torch.distributed.init_process_group before"
        )
    return Peers(made="KafkaDataset(...)")


def _group(commit: object, settings: Settings) -> str | None:
    """The group whose offsets are committed; None for none."""
    if commit is not None:
        one_of("commit", str(commit), ("after save",), "None")
    if commit is not None and settings.group is None:
        raise TypeError("commit='after save' needs config={'group.id': 'group'}")
    if commit is None and settings.group is not None:
        raise TypeError(f"group.id is set, and {NO_GROUP}")
    return settings.group


def _are_offsets(state: object) -> bool:
    """Whether it is a mapping of "topic:partition" to offsets."""
    if not isinstance(state, Mapping) or not state or KEY in state:
        return False
    return all(
        isinstance(key, str) and key.rpartition(":")[2].isdigit() and isinstance(offset, int) and offset >= -1
        for key, offset in state.items()
    )
