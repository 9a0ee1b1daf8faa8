"""From one round to the next: which rows they have is agreed on by all ranks, once a round."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import fastresume._core as _core
from fastresume.agreement.peers import Peers
from fastresume.kafka.buffer import Index
from fastresume.kafka.client import Client, ClosedError
from fastresume.kafka.decoder import Decoder
from fastresume.kafka.even import Even
from fastresume.kafka.follower import Counted, Follower, Found, Limits
from fastresume.kafka.place import Part, Place
from fastresume.kafka.round import Gap, Round, Topics
from fastresume.kafka.source import RoundSource
from fastresume.kafka.spec import OF_PARTITIONS, RoundSpec, round_spec
from fastresume.kafka.unit_counter import UnitCounter
from fastresume.options.rows import OrderChoice
from fastresume.rows_dataset import Asked

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("fastresume")

_LOOK = "look for the next round"


class _Request(NamedTuple):
    """Which rows, or units, are looked for: those after places, and the `rest` that is left before them.

    With `takes_all` also the last ones before the stop that make no whole batch.
    """

    topics: Topics
    begins: dict[Part, Place]
    rest: int
    even: Even
    takes_all: bool


class _Ahead:
    """The search for the next round, in a thread of its own."""

    def __init__(self, request: _Request, find: Callable[[_Ahead], Found], before: _Ahead | None) -> None:
        self.request = request
        self.began = time.monotonic()
        self._before = before  # ranks look for one round at a time
        self.is_asked, self.is_cancelled = threading.Event(), threading.Event()
        self._is_done = threading.Event()
        self._found: Found | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(find,), name="fastresume-rounds", daemon=True)

    def start(self) -> None:
        """Begins to search, if it has not: `close()` finds the search before its thread is there."""
        if self._thread.ident is None:
            self._thread.start()

    @property
    def goes_on(self) -> bool:
        """Whether ranks look for a round after the one that is found; waits for it."""
        self.is_asked.set()
        self.wait()
        return self._error is None

    def _run(self, find: Callable[[_Ahead], Found]) -> None:
        try:
            if self._before is not None:
                self._before.wait()
                self._before = None
            self._found = find(self)
        except BaseException as error:  # noqa: BLE001  (raised where the round is asked for)
            self._error = error
        finally:
            self._is_done.set()

    def found(self) -> Found:
        """What was found; waits for it."""
        self.is_asked.set()
        self._is_done.wait()
        if self._found is None:
            raise self._error or _core.FastresumeError("the search for a round ended without one")
        return self._found

    def cancel(self) -> None:
        """Ends the search, soon."""
        self.is_cancelled.set()

    def wait(self) -> None:
        """Waits for its end, if it has begun."""
        if self._thread.ident is not None:
            self._is_done.wait()


class Stream:
    """The rounds of topics, one after another.

    Args:
        asked: what a dataset of each round is asked for.
        name: the brokers and topics.
        client: the brokers.
        decoder: what makes rows of messages.
        limits: when a round ends.
        on_gap: what happens if messages were removed before they were read.
        peers: the ranks; None where this one reads alone.
        stops: where to stop reading; None for never.
    """

    def __init__(
        self,
        asked: Asked,
        name: str,
        client: Client,
        decoder: Decoder,
        limits: Limits,
        on_gap: Literal["error", "skip"],
        peers: Peers | None,
        stops: Mapping[Part, int] | None,
    ) -> None:
        self._asked = asked
        self._name = name
        self._client = client
        self._decoder = decoder
        self._peers = peers
        self._choice: OrderChoice = None
        nothing = self.empty((), {})
        if (choice := asked.choice) is not None:  # as large as windows are without a row
            self._choice = choice[0], choice[1], nothing.start().order["window_rows"]
        units = None if asked.unit is None else UnitCounter(asked.unit, nothing.cost_columns)
        self._follower = Follower(client, decoder, limits, on_gap, stops, units)
        self._ahead: _Ahead | None = None
        self._latest: _Ahead | None = None
        self._process = os.getpid()

    def empty(self, topics: Topics, places: Mapping[Part, Place]) -> RoundSpec:
        """The round before the first one, which has no rows."""
        return self._spec_of(Round.empty(topics, places), Counted((), (), {}), None)

    def unread(self, round_: Round) -> RoundSpec:
        """A round of rows that a state describes, before its messages are read."""
        return self._spec_of(round_, None, None)

    def opened(self, spec: RoundSpec, cursor: _core.Cursor) -> tuple[RoundSpec, _core.Cursor] | None:
        """The round with the next batch after a cursor, and the cursor in it; None if the stream has ended.

        All ranks call it together.

        Raises:
            SourceError, DataError, StateError: on all ranks.
        """
        self._own()
        round_ = Round.parse(cursor.round or "null")
        even, takes_all = Even(spec.global_batch_size), spec.tail == "pad"
        left = _left(cursor)
        is_done = cursor.epoch > round_.number or round_.rows == 0
        if not is_done and spec.round == round_ and _whole(spec, cursor):
            return spec, cursor
        begins, mark, gaps = round_.ends, round_.watermarks[1], tuple[Gap, ...]()
        if not is_done and not cursor.consumed_rows() and even.rows(left) < left:
            # Nothing was delivered: it is cut for these ranks.
            is_done, begins, mark, gaps = True, round_.begins, round_.watermarks[0], round_.gaps
        if is_done:
            request = _Request(round_.topics, begins, 0, even, takes_all)
            found = self._fresh(cursor.epoch, mark, request, gaps)
            return None if found is None else self._ready(spec, found, cursor.followed_by(found.start()))
        if spec.round != round_:
            spec = self._as_before(spec, self._read_again(round_))
            cursor = spec.fitted(cursor)
        if not _whole(spec, cursor):
            found = self._grown(spec, _Request(round_.topics, round_.ends, left, even, takes_all))
            return None if found is None else self._ready(spec, found, found.fitted(cursor))
        return self._ready(spec, spec, cursor)

    def beside(self, spec: RoundSpec, left: int, even: Even, *, needs_more: bool) -> RoundSpec | None:
        """The round with the next rows of a mixture; None if the stream has ended.

        All ranks call it together.

        Args:
            spec: the round that has rows left, maybe unread; or one that is done.
            left: how many rows of it are.
            even: which numbers of rows make whole global batches of the mixture.
            needs_more: whether these don't.

        Raises:
            SourceError, DataError, StateError: on all ranks.
        """
        self._own()
        round_ = spec.round
        request = _Request(round_.topics, round_.ends, left, even, takes_all=False)
        if not left:
            return self._fresh(round_.number + (round_.rows > 0), round_.watermarks[1], request, ())
        if not spec.is_open:
            spec = self._read_again(round_)
        return self._grown(spec, request) if needs_more else spec

    def look_ahead(self, spec: RoundSpec, rest: int, even: Even) -> None:
        """Begins to search for what follows a round that will have `rest` rows left."""
        self._look_ahead(_Request(spec.round.topics, spec.round.ends, rest, even, takes_all=False))

    def _fresh(
        self, number: int, mark: int | None, request: _Request, gaps: tuple[Gap, ...]
    ) -> RoundSpec | None:
        """The round of this number, with the watermark before it; None if the stream has ended."""
        counted, tables = self._next(request)
        if counted is None:
            return None
        round_ = Round(number, request.topics, (counted.generation,), (mark, None), (*gaps, *counted.gaps))
        return self._marked(self._spec_of(round_, counted, tables), round_)

    def _grown(self, spec: RoundSpec, request: _Request) -> RoundSpec | None:
        """A round with more rows; None if the stream has ended."""
        counted, more = self._next(request)
        if counted is None:
            return None
        grown = spec.round.grown(counted.generation, counted.gaps)
        tables = spec.source.tables
        both = None if tables is None or more is None else [*tables, *more]
        whole = self._indexed(grown, counted, [*spec.source.indices, *counted.indices], both)
        return self._marked(self._spec_of(grown, whole, both), grown)

    def _read_again(self, round_: Round) -> RoundSpec:
        """A round that a state describes."""
        read, tables = self._together("read a round again", lambda: self._again(round_))
        return self._spec_of(round_, read, tables)

    def wait_in_words(self, seconds: float, number: int) -> str:
        """What is waited for while there is no round of this number, in words."""
        world = self._asked.world
        by = "" if world.rank == 0 else ": rank 0 looks for it"
        waits = f"next() has waited {seconds:.1f} s for round {number}"
        of = f"on rank {world.rank} of {world.world_size}{by}"
        return f"{waits}, {of}\n  {self._client.wait_in_words()}; {self._follower.rows_in_words()}"

    def held_bytes(self, spec: RoundSpec) -> int:
        """The most that this rank holds of rounds in decoded rows, and of messages on their way.

        Ranks that did not count a round hold what they read of it.
        """
        of_rounds = self._follower.held_bytes(spec.layout.row_bytes)
        return of_rounds if self._asked.world.rank == 0 else of_rounds // 2

    @property
    def has_end(self) -> bool:
        """Whether there is a place to stop."""
        return self._follower.has_end

    def end(self, error: Exception | None) -> None:
        """Meets the other ranks after all rounds. They fail, too, if this one has an error.

        A rank with an error meets those that still look for a round.

        Raises:
            Exception: of another rank, if this one has none.
        """
        if self._peers is None or (self._latest is not None and not self._latest.goes_on):
            return  # or they know of an error already

        def fail() -> None:
            if error is not None:
                raise error

        with contextlib.nullcontext() if error is None else contextlib.suppress(Exception):
            self._peers.together(_LOOK, fail, lambda _: None)

    def close(self) -> None:
        """Ends the search for the next round, and lets connections go."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            # Other ranks hear of it from rank 0, which may close later: it is not waited for here.
            ahead.cancel()
        self._client.close()

    def _own(self) -> None:
        if self._process != os.getpid():  # the thread is not in a fork
            self._process, self._ahead, self._latest = os.getpid(), None, None

    def _ready(
        self, before: RoundSpec, found: RoundSpec, cursor: _core.Cursor
    ) -> tuple[RoundSpec, _core.Cursor]:
        """A round that is begun: the search for the next one begins."""
        found = self._as_before(before, found)
        even, takes_all, left = Even(found.global_batch_size), found.tail == "pad", _left(cursor)
        rest = 0 if takes_all else left - even.rows(left)
        round_ = found.round
        self._look_ahead(_Request(round_.topics, round_.ends, rest, even, takes_all))
        _log.info(
            "round %d has %s of %d partitions", found.round.number, found.row_text(), len(found.round.ends)
        )
        return found, cursor

    def _as_before(self, before: RoundSpec, found: RoundSpec) -> RoundSpec:
        return dataclasses.replace(
            found, transforms=before.transforms, masking=before.masking, tail=before.tail
        )

    def _marked(self, spec: RoundSpec, round_: Round) -> RoundSpec:
        """The same with the watermark after it."""
        everything = spec.source.watermark(spec.source.all_rows)
        before = round_.watermarks[0]
        known = [one for one in (before, everything) if one is not None]
        watermarks = (before, max(known) if known else None)
        return dataclasses.replace(spec, round=dataclasses.replace(round_, watermarks=watermarks))

    def _spec_of(
        self, round_: Round, counted: Counted | None, tables: list[list[pa.Table]] | None
    ) -> RoundSpec:
        """What a round delivers; with nothing counted, before its messages are read."""
        known = Counted((), (), {}) if counted is None else counted
        indices = None if counted is None else known.indices
        source = RoundSource(round_, indices, self._client, self._decoder, tables)
        spec, _ = self._asked.found(source.described(), (self._name,), OF_PARTITIONS, units=known.table)
        return round_spec(spec, round_, source, self._choice, _named(known.behind))

    def _indexed(
        self, grown: Round, more: Counted, indices: list[Index], tables: list[list[pa.Table]] | None
    ) -> Counted:
        """What there is to know of a round that has grown, on all ranks; of units, rank 0 tells it."""
        if self._asked.unit is None:
            return more._replace(indices=tuple(indices))

        def work() -> Found:
            return self._follower.indexed(grown, indices, tables or [])._replace(tables=None)

        found = self._lead("count the units of a round", work).counted or more
        return found._replace(behind=more.behind)

    def _next(self, request: _Request) -> tuple[Counted | None, list[list[pa.Table]] | None]:
        """What was counted after places; None if the stream ends."""
        if self._ahead is not None and self._ahead.request != request:
            self._ahead.cancel()
            self._ahead = None
        ahead = self._look_ahead(request)
        try:
            found = ahead.found()
        except Exception:
            self._ahead = None  # it is looked for again
            raise
        self._ahead = None
        if found.is_cancelled:
            raise _core.FastresumeError("the stream was closed while it waited for the next round")
        return found.counted, found.tables

    def _look_ahead(self, request: _Request) -> _Ahead:
        if self._ahead is None:
            self._ahead = self._latest = _Ahead(request, self._find, self._latest)
        ahead = self._ahead
        ahead.start()
        return ahead

    def _find(self, ahead: _Ahead) -> Found:
        """Looks for rows until there are some, on rank 0; the others hear what it found."""
        own: list[Found] = []

        def gather() -> Found:
            try:
                found = self._follower.gather(*ahead.request, ahead.began, ahead.is_asked, ahead.is_cancelled)
            except ClosedError:
                found = Found(None, None, is_cancelled=True)
            own.append(found)
            return found._replace(tables=None)

        while True:
            found = self._lead(_LOOK, gather)
            if found.counted is not None or found.is_end or found.is_cancelled:
                return own[-1] if own else found

    def _again(self, round_: Round) -> Found:
        try:
            return self._follower.again(round_, self._client.topics())
        except ClosedError:
            raise _core.FastresumeError("the stream was closed while it read a round again") from None

    def _together(self, step: str, work: Callable[[], Found]) -> tuple[Counted, list[list[pa.Table]] | None]:
        """Does work on rank 0, in this thread, after what is looked for ahead."""
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None
        if self._latest is not None:
            self._latest.wait()
        own: list[Found] = []

        def done() -> Found:
            own.append(work())
            return own[0]._replace(tables=None)

        counted = self._lead(step, done).counted
        if counted is None:
            raise _core.FastresumeError(f"{step}: it was not found")
        return counted, own[0].tables if own else None

    def _lead(self, step: str, work: Callable[[], Found]) -> Found:
        return work() if self._peers is None else self._peers.lead(step, work)


def _left(cursor: _core.Cursor) -> int:
    """How many rows, or units, of the cursor's round are left."""
    return cursor.num_rows - cursor.consumed_rows()


def _whole(spec: RoundSpec, cursor: _core.Cursor) -> bool:
    """Whether a whole global batch is left of the cursor's round."""
    return spec.pass_from(cursor, 1).batches_left > 0


def _named(behind: Mapping[Part, int]) -> dict[str, int]:
    return {str(part): count for part, count in sorted(behind.items())}
