"""Statistics of a loader: what it has delivered, how long that took, and what is ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fastresume.amounts import plural
from fastresume.batch.delivered import Delivered
from fastresume.buffers import row_count
from fastresume.messages import bounded
from fastresume.options.attributes import METHODS_OF_STATS
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.reading.monitor.activity import Activity
from fastresume.reading.spec import ReadSpec
from fastresume.reading.store_counts import StoreCounts
from fastresume.state.shared_cursor import SharedCursor

PACE_SECONDS = 30.0
"""The remaining time is estimated from the pace of the last one to two times this many seconds."""


class Counts(NamedTuple):
    """The counters of `Stats`, replaced as one value, so that a signal handler never sees half an update."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    next_seconds: float = 0.0
    wait_seconds: float = 0.0
    dropped_rows: int = 0
    padded_rows: int = 0
    masked_rows: int = 0


@takes_no_other("fr.Stats", "stats")
class Stats:
    """Statistics of a loader since it was made: a live object, always on, cheap to read.

    A copy and a pickle of it stay as they were made: `copy.copy(loader.stats())` before a part of the loop
    tells, after it, where the counts began.

    What is counted and timed is kept over the ends of passes. `epoch`, `step`, `progress` and `eta_seconds`
    are of the pass that the next batch belongs to: after a pass they tell of the next one, at its start.

    Attributes:
        batches: the number of delivered batches.
        rows: the rows in them.
        bytes: the bytes of their tensors.
        next_seconds: the time spent in `next()`, all batches together.
        wait_seconds: the part of that spent waiting for a batch (reading it, if there are no threads).
        dropped_rows: rows that no rank got of the passes that ended here, by the tail policy.
        padded_rows: padding rows in this rank's batches.
        masked_rows: rows that were delivered as not valid: they could not be read, or a function masked them
            or failed over them.

    Examples:
        >>> loader.stats()
        Stats(batches=0, rows=0, bytes=0, pass 0: 0% done)
    """

    def __init__(self, spec: ReadSpec, shared: SharedCursor) -> None:
        self._spec = spec
        self._shared = shared
        self._counts = Counts()
        self._skipped = spec.skipped
        self._activity: Activity | None = None
        self._read_before = self._transformed_before = 0.0
        self._asked_before = StoreCounts()
        self._began: float | None = None
        self._last = 0.0
        self._pace: tuple[tuple[float, int], tuple[float, int]] | None = None

    @property
    def batches(self) -> int:
        """The number of delivered batches."""
        return self._counts.batches

    @property
    def rows(self) -> int:
        """The rows in them."""
        return self._counts.rows

    @property
    def bytes(self) -> int:
        """The bytes of their tensors."""
        return self._counts.bytes

    @property
    def next_seconds(self) -> float:
        """The time spent in `next()`, all batches together."""
        return self._counts.next_seconds

    @property
    def wait_seconds(self) -> float:
        """The time that `next()` waited for a batch, all batches together."""
        return self._counts.wait_seconds

    @property
    def dropped_rows(self) -> int:
        """Rows that no rank got of the passes that ended here, by the tail policy."""
        return self._counts.dropped_rows

    @property
    def padded_rows(self) -> int:
        """Padding rows in this rank's batches."""
        return self._counts.padded_rows

    @property
    def masked_rows(self) -> int:
        """Rows that were delivered as not valid, since they can't be read or a function masked them."""
        return self._counts.masked_rows

    @property
    def seconds(self) -> float:
        """The time from the first `next()` to the last batch that it returned."""
        return 0.0 if self._began is None else self._last - self._began

    @property
    def wait_share(self) -> float:
        """The share of `next()` that was spent waiting, in `[0, 1]`."""
        return self.wait_seconds / self.next_seconds if self.next_seconds else 0.0

    @property
    def next_share(self) -> float:
        """The share of the whole time that was spent in `next()`, in `[0, 1]`: what data costs the loop."""
        return min(self.next_seconds / self.seconds, 1.0) if self.seconds > 0 else 0.0

    @property
    def decode_seconds(self) -> float:
        """The time spent reading and decoding files, summed over all threads or workers."""
        return self._read_before + (self._activity.seconds if self._activity is not None else 0.0)

    @property
    def transform_seconds(self) -> float:
        """The time that the functions given to `map` ran, summed over all threads or workers."""
        ahead = self._activity.transform_seconds if self._activity is not None else 0.0
        return self._transformed_before + ahead

    @property
    def requests(self) -> int:
        """HTTP requests to stores since the dataset was opened, of workers, too; retries among them."""
        return self._asked().requests

    @property
    def retries(self) -> int:
        """Requests that a store answered by a fault, and that were made again."""
        return self._asked().retries

    @property
    def bytes_asked(self) -> int:
        """The bytes of objects that were asked for."""
        return self._asked().bytes_asked

    @property
    def bytes_needed(self) -> int:
        """The bytes of column chunks and footers among them."""
        return self._asked().bytes_needed

    @property
    def bytes_from_cache(self) -> int:
        """The bytes of objects that `fr.Cache(data=)` had, so that no store was asked for them."""
        return self._asked().bytes_from_cache

    @property
    def wait_for_bytes_seconds(self) -> float:
        """How long decoding waited for the bytes of objects, summed over its threads."""
        return self._asked().wait_for_bytes_seconds

    @property
    def queued_batches(self) -> int:
        """The number of batches that are ready for `next()`."""
        return self._queued()[0]

    @property
    def queued_bytes(self) -> int:
        """The bytes of the batches that are ready."""
        return self._queued()[1]

    @property
    def epoch(self) -> int:
        """The number of the current pass: `batch.epoch` of its batches."""
        return self._shared.cursor.epoch

    @property
    def step(self) -> int:
        """The delivered batches of the current pass, over all runs of the job: the next `batch.step`."""
        return self._shared.cursor.steps

    @property
    def progress(self) -> float:
        """The delivered share of the current pass, over all ranks: from 0.0 to below 1.0."""
        cursor = self._shared.cursor
        return cursor.consumed_rows() / max(cursor.num_rows, 1)

    @property
    def batches_per_second(self) -> float | None:
        """The pace of about the last minute, the loop's own work included; None before the second batch."""
        if self._pace is None:
            return None
        (began, first), _ = self._pace
        return (self.batches - first) / (self._last - began) if self._last > began else None

    @property
    def eta_seconds(self) -> float | None:
        """The time that the rest of the pass will take at the current pace; None before the second batch."""
        pace = self.batches_per_second
        return self._spec.pass_from(self._shared.cursor, 1).batches_left / pace if pace else None

    @property
    def lag(self) -> dict[str, int] | None:
        """Of a `KafkaDataset`, the offsets after the present round, by partition, when it was counted."""
        return self._spec.lag

    @property
    def skipped(self) -> dict[str, int] | None:
        """Of a `KafkaDataset`, the offsets that were removed before they were read, by partition.

        Those before the rounds that this loader read, and in them.
        """
        return self._skipped

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what there is not."""
            refuse_attribute(self, name, "a Stats", METHODS_OF_STATS, _NAMES)

    def __getitem__(self, name: str) -> float | dict[str, int] | None:
        """One of them by its name.

        Raises:
            KeyError: if there is none of that name.

        Examples:
            >>> loader.stats()["rows"]
            0
        """
        if name not in _NAMES:
            raise KeyError(bounded(f"no statistic {name!r}; there are: {', '.join(_NAMES)}"))
        value: float | dict[str, int] | None = getattr(self, name)
        return value

    def keys(self) -> tuple[str, ...]:
        """The names of all statistics, so that `dict(stats)` is `stats.as_dict()`."""
        return _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def as_dict(self) -> dict[str, float | dict[str, int] | None]:
        """All of it at this moment, by name, for a log or a dashboard.

        Examples:
            >>> loader.stats().as_dict()["rows"]
            0
        """
        return {name: getattr(self, name) for name in _NAMES}

    def __reduce__(self) -> tuple[Any, ...]:
        return stats_of_values, (self.as_dict(),)

    def __repr__(self) -> str:
        parts = [f"batches={self.batches:,}, rows={self.rows:,}, bytes={self.bytes:,}"]
        if self.batches:
            parts.append(
                f"{self.next_share:.0%} of the time in next(), {self.wait_share:.0%} of that waiting"
            )
            parts.append(f"decoding {self.decode_seconds:.1f} s in {self.seconds:.1f} s")
            if transforms := self.transform_seconds:
                parts.append(f"transforms {transforms:.1f} s")
            parts.append(
                f"ready: {plural(self.queued_batches, 'batch', 'batches')} of {self.queued_bytes:,} bytes"
            )
        if self.dropped_rows or self.padded_rows:
            parts.append(f"dropped_rows={self.dropped_rows}, padded_rows={self.padded_rows}")
        if self.masked_rows:
            parts.append(f"masked_rows={self.masked_rows}")
        if self.batches and self.epoch and not self.step:
            parts.append(f"pass {self.epoch - 1} is done, pass {self.epoch} not begun")
            return f"Stats({', '.join(parts)})"
        parts.append(f"pass {self.epoch}: {self.progress:.0%} done")
        if (eta := self.eta_seconds) is not None:
            parts.append(f"{eta:.0f} s left at {self.batches_per_second:.1f} batches/s")
        return f"Stats({', '.join(parts)})"

    def _follow(self, spec: ReadSpec) -> None:
        """Counts the next round of the stream."""
        self._spec = spec
        more = spec.skipped
        if self._skipped is not None and more:
            self._skipped = {
                part: self._skipped.get(part, 0) + more.get(part, 0) for part in {**self._skipped, **more}
            }

    def _asked(self) -> StoreCounts:
        """What was asked of stores, by this process and its workers."""
        asked = StoreCounts.of(self._spec.stores).plus(self._asked_before)
        return asked if self._activity is None else asked.plus(self._activity.asked)

    def _queued(self) -> tuple[int, int]:
        return (0, 0) if self._activity is None else self._activity.queued()

    def _watch(self, activity: Activity) -> None:
        """Counts what a source does from now on, on top of earlier sources."""
        if activity is not self._activity:
            self._read_before, self._transformed_before = self.decode_seconds, self.transform_seconds
            if self._activity is not None:
                self._asked_before = self._asked_before.plus(self._activity.asked)
            self._activity = activity

    def _count(self, delivered: Delivered, began: float, waited: float, masked: int = 0) -> None:
        """Counts a batch that is delivered now, with its masked rows; `waited` is when it was ready."""
        now = time.perf_counter()
        batches, rows, size, next_seconds, wait_seconds, dropped, padded, masked_before = self._counts
        if delivered.ends_pass:
            dropped += row_count(delivered.dropped)
        rows_here = delivered.num_rows
        self._counts = Counts(
            batches + 1,
            rows + rows_here,
            size + delivered.num_bytes,
            next_seconds + now - began,
            wait_seconds + waited - began,
            dropped,
            padded + rows_here - delivered.valid_rows,
            masked_before + masked,
        )
        self._last = now
        if self._pace is None:
            self._began = began
            self._pace = ((now, batches + 1), (now, batches + 1))
        elif now - self._pace[1][0] > PACE_SECONDS:
            self._pace = (self._pace[1], (now, batches + 1))

    def _drop(self, rows: int) -> None:
        """Counts the dropped rows of a pass that ended without a batch."""
        self._counts = self._counts._replace(dropped_rows=self.dropped_rows + rows)


_NAMES = (
    *Counts._fields,
    "seconds",
    "next_share",
    "wait_share",
    "decode_seconds",
    "transform_seconds",
    "requests",
    "retries",
    "bytes_asked",
    "bytes_needed",
    "bytes_from_cache",
    "wait_for_bytes_seconds",
    "queued_batches",
    "queued_bytes",
    "epoch",
    "step",
    "progress",
    "batches_per_second",
    "eta_seconds",
    "lag",
    "skipped",
)


class _StatsThen(Stats):
    """The statistics of one moment."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values


def _value_then(name: str) -> property:
    return property(lambda self: self._values[name])


for _name in _NAMES:
    setattr(_StatsThen, _name, _value_then(_name))


def stats_of_values(values: dict[str, Any]) -> Stats:
    """The statistics of one moment by their names, which `torch.load` may call."""
    return _StatsThen(values)


torch.serialization.add_safe_globals([stats_of_values])
