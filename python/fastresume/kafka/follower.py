"""What rank 0 does: it fetches messages, counts their rows, and divides them into rounds."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.kafka.buffer import Buffer, Index, Taken
from fastresume.kafka.client import AT_ONCE_BYTES, Client, Message, Topic
from fastresume.kafka.decoder import Chunk, Decoder
from fastresume.kafka.even import Even
from fastresume.kafka.place import Part, Place
from fastresume.kafka.round import Gap, Generation, Round, Stretch, Topics
from fastresume.kafka.source import RoundSource
from fastresume.kafka.unit_counter import MadeOf, MadeOfRows, Table, Taking, UnitCounter

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("fastresume")

_LOOK_SECONDS = (0.02, 0.25)
"""So often a topic that has no new messages is asked, at most and at least; a tenth of `max_wait` between."""

_TELL_SECONDS = 20.0
"""After so long without a round the other ranks hear that there is none yet."""

_TOPICS_SECONDS = 30.0
"""So often it is asked whether there are new partitions."""


class Limits(NamedTuple):
    """When a round ends: by its rows, by the bytes of its messages, or by time."""

    rows: int
    bytes: int
    wait_seconds: float


class Counted(NamedTuple):
    """Rows that make whole global batches, as rank 0 tells the other ranks of them."""

    generation: Generation
    indices: tuple[Index, ...]
    behind: dict[Part, int]
    gaps: tuple[Gap, ...] = ()
    table: Table | None = None
    """Which rows each unit is made of; None if rows are counted."""


class Found(NamedTuple):
    """What was counted, and the rows, where they are held."""

    counted: Counted | None
    tables: list[list[pa.Table]] | None
    is_end: bool = False
    is_cancelled: bool = False


class Seen(NamedTuple):
    """How many rows were decoded, of messages of how many bytes, and what they take in memory."""

    rows: int
    given_bytes: int
    held_bytes: int

    def more(self, chunk: Chunk) -> Seen:
        """The same with the rows of more messages. Tables may be made of the messages' own memory."""
        held = max(chunk.table.nbytes, chunk.bytes)
        return Seen(self.rows + chunk.table.num_rows, self.given_bytes + chunk.bytes, self.held_bytes + held)


class Follower:
    """Fetches what follows places of all partitions.

    Args:
        client: the brokers.
        decoder: what makes rows of messages.
        limits: when a round ends.
        on_gap: what happens if messages were removed before they were read.
        stops: where to stop reading; None for never.
        units: what counts units; None if rows are counted.
    """

    def __init__(
        self,
        client: Client,
        decoder: Decoder,
        limits: Limits,
        on_gap: Literal["error", "skip"],
        stops: Mapping[Part, int] | None,
        units: UnitCounter | None,
    ) -> None:
        self._client = client
        self._decoder = decoder
        self._limits = limits
        self._on_gap = on_gap
        self._stops = stops
        self._units = units
        self._times = 1  # of the limits, as long as what they allow makes no global batch
        self._known: tuple[object, dict[Part, MadeOf]] | None = None  # what certain rows make
        self._buffers: dict[Part, Buffer] = {}
        self._topics_asked = 0.0
        self._gaps: list[Gap] = []
        self._seen = Seen(0, 0, 0)

    @property
    def has_end(self) -> bool:
        """Whether there is a place to stop."""
        return self._stops is not None

    def rows_in_words(self) -> str:
        """What there is for the next round, in words."""
        buffers = list(self._buffers.values())
        rows = plural(sum(buffer.rows for buffer in buffers), "row")
        return f"{rows} of {plural(len(buffers), 'partition')} there"

    def held_bytes(self, row_bytes: int) -> int:
        """The most that the rows of two rounds take, and what is fetched before it is in one.

        Args:
            row_bytes: of a row, as long as none was seen.
        """
        seen, limits = self._seen, self._limits
        rows, given, held = seen if seen.rows else (1, row_bytes, row_bytes)
        of_round = min(limits.rows * held // rows, limits.bytes * held // given)
        # Messages that come after the last one of a round: in its last tables, and beside them.
        after = AT_ONCE_BYTES * held // given
        return 2 * of_round + 2 * after + self._client.in_flight_bytes

    def gather(
        self,
        topics: Topics,
        begins: Mapping[Part, Place],
        rest: int,
        even: Even,
        takes_all: bool,
        began: float,
        is_asked: threading.Event,
        is_cancelled: threading.Event,
    ) -> Found:
        """What makes whole global batches after places, with what is left of the round before.

        Args:
            topics: the topics that the places are of, with their ids.
            begins: where they begin.
            rest: how many rows, or units, are left of the round before.
            even: how many make whole global batches.
            takes_all: whether the last ones before the stop are taken if they make no whole batch, too.
            began: when the search began, by the monotonic clock.
            is_asked: set when somebody waits. Before, more rows are taken in, up to the limits.
            is_cancelled: set when the rows are not needed any more.

        Raises:
            SourceError: if brokers don't give messages, or messages were removed.
            DataError: if a message can't be decoded.
            StateError: if a topic was created again.
        """
        self._begin_at(begins)
        self._look_at_topics(topics)
        tells_at = time.monotonic() + _TELL_SECONDS
        while not is_cancelled.is_set():
            if time.monotonic() - self._topics_asked >= _TOPICS_SECONDS:
                self._look_at_topics(topics)
            bounds = self._client.bounds(self._buffers)
            ends = self._ends(bounds)
            self._fetch(ends, rest, even, is_cancelled)
            now = time.monotonic()
            is_full = self._is_full(rest, even)
            is_at_stop = self._is_at_stop()
            is_late = is_asked.is_set() and now - began >= self._limits.wait_seconds
            if is_full or is_at_stop or is_late:
                made = self._made()
                count = rest + sum(each.count for each in made.values())
                takes_rest = takes_all and is_at_stop and count > 0 and not self._is_cut
                if self._units is None and count > (most := max(self._limits.rows, even.enough(rest))):
                    count, takes_rest = most, False
                whole = count if takes_rest else even.rows(count)
                if takes_rest or whole > rest:
                    highs = {part: high for part, (_, high) in bounds.items()}
                    self._look_at_topics(topics)  # what was fetched was of these
                    return self._divided(made, whole - rest, highs)
                if is_full:
                    self._times *= 2
                    if now <= tells_at:
                        continue
                    return Found(None, None)
            if is_at_stop and not is_cancelled.is_set():
                return Found(None, None, is_end=True)
            if now > tells_at:
                return Found(None, None)
            is_cancelled.wait(min(max(self._limits.wait_seconds / 10, _LOOK_SECONDS[0]), _LOOK_SECONDS[1]))
        return Found(None, None, is_cancelled=True)

    def again(self, round_: Round, topics: Mapping[str, Topic]) -> Found:
        """The rows of a round that a state describes.

        Raises:
            StateError: if the topic does not have them any more.
        """
        check_topics(round_.topics, topics)
        self._check_bounds(round_)
        indices, tables = [], []
        buffers = {part: Buffer(place) for part, place in round_.begins.items()}
        stops = dict.fromkeys(buffers, 0)
        for one in (one for generation in round_.generations for one in generation):
            stops[one.part] = max(stops[one.part], one.stop)
        wanted = {part: (buffer.reached, stops[part]) for part, buffer in buffers.items()}
        for messages in self._client.fetch(wanted):
            self._add(buffers, messages)
        for stretch in round_.stretches:
            buffer = buffers[stretch.part]
            if buffer.rows < stretch.rows:
                raise _core.StateError(
                    f"the state has {plural(stretch.rows, 'row')} of {stretch.part} from {stretch.begin} to "
                    f"{stretch.end}, found {buffer.rows}: messages were removed (by compaction, say), or "
                    "value=, filter= or bad_rows= differ from then"
                )
            taken = buffer.take(stretch.rows, stretch.end.tokens)
            indices.append(taken.index)
            tables.append(taken.tables)
        self._buffers = buffers
        return Found(
            self._in_units(Counted(round_.generations[-1], tuple(indices), {}), round_, tables), tables
        )

    def indexed(self, round_: Round, indices: Sequence[Index], tables: list[list[pa.Table]]) -> Found:
        """A round that has grown, with the index of all its units."""
        counted = Counted(round_.generations[-1], tuple(indices), {})
        return Found(self._in_units(counted, round_, tables), tables)

    def _in_units(self, counted: Counted, round_: Round, tables: list[list[pa.Table]]) -> Counted:
        """The same, with the units of the round."""
        if self._units is None:
            return counted
        source = RoundSource(round_, counted.indices, self._client, self._decoder, tables)
        table, indices = self._units.table(source)
        return counted._replace(table=table, indices=tuple(indices))

    def _begin_at(self, begins: Mapping[Part, Place]) -> None:
        """Keeps what was fetched after these places already."""
        own = {part: buffer.begin for part, buffer in self._buffers.items()}
        self._times = 1
        if any(own.get(part) != place for part, place in begins.items()):
            self._buffers = {part: Buffer(place) for part, place in begins.items()}
            self._gaps = []

    @property
    def _bytes(self) -> int:
        return sum(buffer.bytes for buffer in self._buffers.values())

    def _most_rows(self, rest: int, even: Even) -> int:
        """How many rows are fetched, with a rest of rows."""
        rows = self._limits.rows * self._times
        return rows if self._units is not None else max(rows, even.enough(rest)) - rest

    def _is_full(self, rest: int, even: Even) -> bool:
        """Whether a round has as many rows or bytes as it may have."""
        rows = sum(buffer.rows for buffer in self._buffers.values())
        is_long = rows >= self._most_rows(rest, even)
        return is_long or self._bytes >= self._limits.bytes * self._times

    def _look_at_topics(self, topics: Topics) -> None:
        """Refuses topics that were created again; new partitions begin at their first offset."""
        present = self._client.topics()
        check_topics(topics, present)
        found = [part for topic in present.values() for part in topic.parts]
        self._topics_asked = time.monotonic()
        if new := [part for part in found if part not in self._buffers]:
            for part, (low, _) in self._client.bounds(new).items():
                if self._stops is None:
                    _log.info("partition %s is new: it is read from offset %d on", part, low)
                self._buffers[part] = Buffer(Place(low))

    def _ends(self, bounds: Mapping[Part, tuple[int, int]]) -> dict[Part, int]:
        """Up to where each partition can be read now."""
        ends = {}
        for part, (low, high) in bounds.items():
            reached = self._buffers[part].reached
            if high < reached:
                raise _core.SourceError(
                    f"{part} ends at offset {high}, and was read up to {reached}: it was truncated. Write "
                    f"start={{{part.partition}: {high}}} to start without a state"
                )
            wanted = self._stops is None or reached < self._stops.get(part, reached)
            if low > reached and wanted:
                self._skip(part, reached, low)
            # A partition that is added later has nothing before the stop.
            stop = high if self._stops is None else min(high, self._stops.get(part, reached))
            ends[part] = stop
        return ends

    def _skip(self, part: Part, reached: int, low: int) -> None:
        if self._on_gap == "error":
            raise _core.SourceError(
                f"retention removed the messages [{reached}, {low}) of {part} before they were read. Write "
                "on_gap='skip' to continue after them"
            )
        self._gaps.append(Gap(part, reached, low))
        _log.warning(
            "the messages [%d, %d) of %s were removed before they were read: skipped", reached, low, part
        )
        buffer = self._buffers[part]
        if buffer.rows == 0:
            self._buffers[part] = Buffer(Place(low))
        else:
            buffer.reached = low

    def _fetch(self, ends: Mapping[Part, int], rest: int, even: Even, is_cancelled: threading.Event) -> None:
        if self._is_full(rest, even):
            return
        wanted = {part: (self._buffers[part].reached, end) for part, end in ends.items()}
        messages = self._client.fetch(wanted)
        try:
            for some in messages:
                self._add(self._buffers, some)
                if self._is_full(rest, even) or is_cancelled.is_set():
                    return
        finally:
            messages.close()  # type: ignore[attr-defined]  # a generator
        for part, end in ends.items():
            # After the last message there may be offsets without one.
            self._buffers[part].reached = max(self._buffers[part].reached, end)

    def _add(self, buffers: dict[Part, Buffer], messages: list[Message]) -> None:
        by_part: dict[Part, list[Message]] = {}
        for message in messages:
            by_part.setdefault(message.part, []).append(message)
        for part, chunk in self._decoder.chunks(by_part).items():
            self._seen = self._seen.more(chunk)
            buffers[part].add(chunk, by_part[part][-1].offset + 1)

    def _is_at_stop(self) -> bool:
        if self._stops is None:
            return False
        return all(
            buffer.reached >= self._stops[part]
            for part, buffer in self._buffers.items()
            if part in self._stops
        )

    @property
    def _is_cut(self) -> bool:
        """Whether units are counted, and a round takes not all rows that there are."""
        rows = sum(buffer.rows for buffer in self._buffers.values())
        return self._units is not None and rows > self._limits.rows * self._times

    def _made(self) -> dict[Part, MadeOf]:
        """What the rows of each partition make."""
        rows = {part: buffer.rows for part, buffer in sorted(self._buffers.items())}
        if self._units is None:
            return {part: MadeOfRows(count) for part, count in rows.items()}
        shares = fair_shares(rows, min(sum(rows.values()), self._limits.rows * self._times))
        places = tuple((buffer.begin, buffer.reached, buffer.rows) for buffer in self._buffers.values())
        if self._known is not None and self._known[0] == (self._times, places):
            return self._known[1]
        stops = self._stops or {}
        stretches, tables, are_last = [], [], []
        for part in (part for part, count in shares.items() if count):
            buffer = self._buffers[part]
            stretches.append(Stretch(part, buffer.begin, Place(buffer.reached), shares[part]))
            tables.append(buffer.tables(shares[part]))
            are_last.append(shares[part] == buffer.rows and buffer.reached >= stops.get(part, math.inf))
        if not stretches:
            return {}
        source = RoundSource(Round(0, (), (tuple(stretches),)), [], self._client, self._decoder, tables)
        each = zip(stretches, self._units.made(source, are_last), strict=True)
        self._known = (self._times, places), {stretch.part: made for stretch, made in each}
        return self._known[1]

    def _divided(self, made: Mapping[Part, MadeOf], count: int, highs: Mapping[Part, int]) -> Found:
        """Takes this count from all partitions alike."""
        shares = fair_shares({part: of.count for part, of in made.items()}, count)
        stretches, indices, tables = [], [], []
        for part, buffer in sorted(self._buffers.items()):
            begin = buffer.begin
            taking = made[part].taking(shares[part]) if part in made else Taking(0)
            taken: Taken = buffer.take(*taking)
            stretches.append(Stretch(part, begin, taken.end, taking.rows))
            if taking.rows:
                indices.append(taken.index)
                tables.append(taken.tables)
        behind = {part: high - self._buffers[part].begin.offset for part, high in highs.items()}
        gaps, self._gaps, self._times, self._known = tuple(self._gaps), [], 1, None
        counted = Counted(tuple(stretches), tuple(indices), behind, gaps)
        return Found(self._in_units(counted, Round(0, (), (counted.generation,)), tables), tables)

    def _check_bounds(self, round_: Round) -> None:
        bounds = self._client.bounds(round_.begins)
        for part, place in round_.begins.items():
            low, high = bounds[part]
            stop = max(
                one.stop for generation in round_.generations for one in generation if one.part == part
            )
            if place.offset < low and stop > place.offset:
                raise _core.StateError(
                    f"retention overtook the state: it is in the middle of a round that begins at offset "
                    f"{place.offset} of {part}, whose first one is {low} now. Write start={{...}} to begin "
                    "without the state, after the rows that are gone"
                )
            if stop > high:
                raise _core.StateError(
                    f"{part} was truncated: the state has read up to offset {stop}, and it ends at {high}. "
                    "Start without the state, as start={...}"
                )


def check_topics(topics: Topics, found: Mapping[str, Topic]) -> None:
    """Refuses topics that were created again since places of them were counted.

    Raises:
        StateError: naming the topic, and its ids.
    """
    for name, id_ in topics:
        if name not in found:
            raise _core.StateError(f"the state is of the topic '{name}', which is not read here")
        if id_ and found[name].id and found[name].id != id_:
            raise _core.StateError(
                f"the topic '{name}' was created again since the state was made: its id was {id_}, and is "
                f"{found[name].id}. Offsets of the state mean other messages now: start without it, as "
                "start='earliest'"
            )


def fair_shares(rows: Mapping[Part, int], wanted: int) -> dict[Part, int]:
    """How many rows each partition gives, so that none waits for the others: as equal as can be.

    Examples:
        >>> list(fair_shares({Part("a", 0): 10, Part("a", 1): 2, Part("a", 2): 9}, 14).values())
        [6, 2, 6]
    """
    shares: dict[Part, int] = {}
    left, parts = wanted, len(rows)
    for part, count in sorted(rows.items(), key=lambda item: (item[1], item[0])):
        shares[part] = min(count, -(-left // parts) if parts else 0)
        left -= shares[part]
        parts -= 1
    return {part: shares[part] for part in rows}
