"""One save: planned, written by all ranks, committed by rank 0."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import directory
from fastresume.checkpoint.best import Best
from fastresume.checkpoint.dcp_storage import Writing
from fastresume.checkpoint.directory import Entry, History, Timeline
from fastresume.checkpoint.manifest import Manifest, Record, Writer
from fastresume.checkpoint.ranks import CheckpointError, Ranks
from fastresume.checkpoint.snapshot import Moment
from fastresume.files import Digest
from fastresume.state.cursor import Cursor

_log = logging.getLogger("fastresume")

T = TypeVar("T")

LATEST, BEST = "latest", "best"
"""Names of the links, which nothing here ever follows."""


def random_name(rank: int) -> str:
    """The file of a rank's random generators."""
    return f"random-{rank}.json"


@dataclass(frozen=True)
class Saved:
    """What came of a save."""

    timeline: Timeline
    complaints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Saving:
    """How saves into a directory are done.

    A save is: a draft directory, files that are durable, then the manifest, then the rename, and only then is
    anything else removed. So a kill at any moment leaves what was there or the new one, and what could not
    be ended never counts.

    Attributes:
        ranks: all of them call `save` together.
        history: of the directory.
        keep: how many checkpoints stay; None for all.
        best: what makes one the best.
    """

    ranks: Ranks
    history: History
    keep: int | None
    best: Best | None

    def save(self, capture: Callable[[], Moment], timeline: Timeline) -> Saved:
        """Saves what `capture` gives on every rank.

        Args:
            capture: gives the moment of this rank; what it raises is raised on all.
            timeline: where the job stands.

        Raises:
            CheckpointError, StateError, TypeError, ValueError: on all ranks; nothing that was there is gone.
        """
        attempt = _Attempt(self, capture, timeline)
        try:
            attempt.draft, share = self.ranks.each("save", attempt.plan, attempt.begin)
            serial = self.ranks.together("save", lambda: attempt.write(share), attempt.commit)
        except BaseException:
            attempt.give_up()
            raise
        return Saved(Timeline(serial, timeline.known), list(attempt.tidy()))


class _Attempt:
    """One save on its way."""

    def __init__(self, saving: Saving, capture: Callable[[], Moment], timeline: Timeline) -> None:
        self._saving = saving
        self._capture = capture
        self._timeline = timeline
        self._moment: Moment | None = None
        self._writing: Writing | None = None
        self._newest: Entry | None = None
        self.draft: Path | None = None

    def plan(self) -> tuple[Any, tuple[int, Any]]:
        """What this rank has to write, and what must be the same on all; on every rank."""
        self._moment = self._capture()
        self._writing = Writing(self._moment.state, self._saving.ranks)
        return self._writing.plan(), (self._moment.step, self._moment.cursor)

    def begin(self, found: list[tuple[Any, tuple[int, Any]]]) -> list[tuple[Path, Any]]:
        """Makes the draft, and says where to write what; on rank 0."""
        _agree([same for _, same in found])
        past, is_first = self._saving.history, self._timeline.since is None
        entries = past.usable() if is_first else past.scan()
        if is_first and entries:
            raise _core.StateError(
                f"{past.directory} has checkpoints up to step {entries[-1].step}, of which none was "
                "restored: call restore() before the first save, or name another directory"
            )
        self._timeline.check(entries)
        shares = self._written.join([plan for plan, _ in found])
        self.draft = past.draft()
        return [(self.draft, share) for share in shares]

    def write(self, share: Any) -> tuple[Any, dict[str, Digest]]:
        """Writes this rank's files; on every rank."""
        draft, name = self._draft, random_name(self._saving.ranks.rank)
        if not draft.is_dir():
            raise CheckpointError(
                f"{draft} is not there: all ranks must share the directory, and no other job save into it"
            )
        results = self._written.write(draft, share)
        states = files.write(draft / name, self._saved.randomness.to_json())
        return results, {**self._written.digests, name: states}

    def commit(self, found: list[tuple[Any, dict[str, Digest]]]) -> int:
        """Makes a checkpoint of the draft; on rank 0."""
        moment, saving = self._saved, self._saving
        entries = saving.history.scan()
        self._timeline.check(entries)
        self._written.finish([results for results, _ in found])
        record = entries[-1].manifest.record if entries else None
        is_best = saving.best is not None and saving.best.is_better(moment.metrics, record)
        if saving.best is not None and is_best:
            value = moment.metrics[saving.best.metric]
            record = Record(saving.best.metric, saving.best.mode, value, moment.step)
        files = {name: digest for _, digests in found for name, digest in digests.items()}
        content = Manifest(
            step=moment.step,
            serial=saving.history.last_serial() + 1,
            world_size=saving.ranks.world_size,
            parts=moment.names,
            cursor=moment.cursor,
            terms=moment.terms,
            extra=moment.extra,
            metrics=moment.metrics,
            is_best=is_best,
            record=record,
            pinned=moment.pinned,
            files={**files, **self._written.digests},
            writer=Writer.own(),
        )
        self._newest = saving.history.commit(self._draft, content)
        return content.serial

    def tidy(self) -> Iterator[str]:
        """Sets the links and removes what need not stay; on rank 0, which tells what it can't do."""
        if self._newest is None:
            return
        saving = self._saving
        try:
            entries = saving.history.scan()
        except OSError as error:
            yield f"nothing older than {self._newest.path} is removed: {error}"
            return
        yield from saving.history.link(LATEST, self._newest)
        best = directory.best_of(entries)
        if best is not None:
            yield from saving.history.link(BEST, best)
        old = directory.superfluous(entries, self._newest, saving.keep, self._timeline.since)
        later = [entry for entry in old if directory.is_unasked(entry, self._newest, self._timeline.since)]
        if later:
            _log.warning(
                "step %d is saved after later ones and takes their place: those of steps %s are removed; "
                "count on from Restored.step (batch.step begins anew in each pass), and restore(step=...) "
                "to go back",
                self._newest.step,
                ", ".join(str(entry.step) for entry in later),
            )
        yield from saving.history.expire(old)

    def give_up(self) -> None:
        """Removes the draft, which others may still write to: they fail then, as this rank did."""
        if self._saving.ranks.rank == 0 and self.draft is not None:
            self._saving.history.drop(self.draft)

    @property
    def _saved(self) -> Moment:
        return _there(self._moment)

    @property
    def _written(self) -> Writing:
        return _there(self._writing)

    @property
    def _draft(self) -> Path:
        return _there(self.draft)


def _agree(found: list[tuple[int, Any]]) -> None:
    """Refuses ranks that are at different places.

    Raises:
        StateError: naming two ranks and what they have.
    """
    step, cursor = found[0]
    for rank, (other_step, other_cursor) in enumerate(found):
        if other_step != step:
            raise _core.StateError(f"rank 0 saves step {step}, and rank {rank} step {other_step}")
        if other_cursor != cursor:
            places = (None if one is None else Cursor.from_state(one) for one in (cursor, other_cursor))
            first, other = map(str, places)
            raise _core.StateError(f"ranks 0 and {rank} are at different places: {first} and {other}")


def _there(value: T | None) -> T:
    if value is None:
        raise RuntimeError("a save is planned, begun, written and committed, in this order")
    return value
