"""One save: planned, written by all ranks, committed by rank 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import directory, leaves
from fastresume.checkpoint.best import Best
from fastresume.checkpoint.dcp_storage import Writing
from fastresume.checkpoint.directory import CheckpointDirectory, Entry, Timeline
from fastresume.checkpoint.layout import Layout, Sheet
from fastresume.checkpoint.manifest import Manifest, Record
from fastresume.checkpoint.ranks import CheckpointError, Ranks
from fastresume.checkpoint.snapshot import JobSnapshot
from fastresume.files import Digest
from fastresume.state.cursor import Cursor

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
    history: CheckpointDirectory
    keep: int | None
    best: Best | None

    def save(self, capture: Callable[[], JobSnapshot], timeline: Timeline) -> Saved:
        """Saves what `capture` gives on every rank.

        Args:
            capture: gives the moment of this rank; what it raises is raised on all.
            timeline: where the job is.

        Raises:
            CheckpointError, StateError, TypeError, ValueError: on all ranks; nothing that was there is lost.
        """
        attempt = _Attempt(self, capture, timeline)
        try:
            attempt.draft, attempt.layout = self.ranks.together("save", attempt.tell, attempt.begin)
            share = self.ranks.each("save", attempt.plan, attempt.join)
            after = self.ranks.together("save", lambda: attempt.write(share), attempt.commit)
        except BaseException:
            attempt.give_up()
            raise
        finally:
            self.history.end(attempt)
        return Saved(after, list(attempt.tidy()))


class _Attempt:
    """One save on its way."""

    def __init__(self, saving: Saving, capture: Callable[[], JobSnapshot], timeline: Timeline) -> None:
        self._saving = saving
        self._capture = capture
        self._timeline = timeline
        self._moment: JobSnapshot | None = None
        self._writing: Writing | None = None
        self._newest: Entry | None = None
        self._together: Sheet | None = None
        self.draft: Path | None = None
        self.layout = Layout()

    def tell(self) -> Sheet:
        """What this rank has, by which what differs is found; on every rank."""
        moment = self._moment = self._capture()
        return Sheet(
            moment.step,
            moment.cursor,
            moment.names,
            moment.terms,
            moment.extra,
            moment.leaves(self._saving.ranks.world_size),
        )

    def begin(self, found: list[Sheet]) -> tuple[Path, Layout]:
        """Says what is saved for all ranks, and what for each; makes the draft; on rank 0."""
        together = self._together = _agree(found)
        past, is_first = self._saving.history, self._timeline.since is None
        survey = past.survey()
        entries = survey.usable() if is_first else survey.entries
        if is_first and entries:
            writer = entries[-1].manifest.writer
            is_here = writer is not None and writer.is_here
            way = "; this process saved it by another Checkpointer: make one for the whole job" * is_here
            raise _core.StateError(
                f"{past.directory} has checkpoints up to step {entries[-1].step}, and none of them was "
                f"restored: call restore() before the first save, or name another directory{way}"
            )
        self._timeline.check(entries, together.step, past.writer)
        layout = Layout.of(found)
        self.draft = past.draft(self)
        return self.draft, layout

    def plan(self) -> Any:
        """What this rank has to write; on every rank."""
        own = dict.fromkeys(self.layout.own, self._saving.ranks.rank)
        state = self._saved.state
        self._writing = Writing(leaves.under_ranks(state, own) if own else state, self._saving.ranks)
        return self._writing.plan()

    def join(self, plans: list[Any]) -> list[Any]:
        """Says who writes what; on rank 0."""
        return self._written.join(plans)

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

    def commit(self, found: list[tuple[Any, dict[str, Digest]]]) -> Timeline:
        """Makes a checkpoint of the draft, and returns where the job is then; on rank 0."""
        moment, saving = self._saved, self._saving
        survey = saving.history.survey()
        entries = survey.entries
        self._timeline.check(entries, moment.step, saving.history.writer)
        self._written.finish([results for results, _ in found])
        record = self._timeline.record_among(entries)
        is_best = saving.best is not None and saving.best.is_better(moment.metrics, record)
        if saving.best is not None and is_best:
            value = moment.metrics[saving.best.metric]
            record = Record(saving.best.metric, saving.best.mode, value, moment.step)
        files = {name: digest for _, digests in found for name, digest in digests.items()}
        content = Manifest(
            step=moment.step,
            serial=survey.serial + 1,
            world_size=saving.ranks.world_size,
            parts=self._all.parts,
            cursor=self._all.cursor,
            terms=moment.terms,
            extra=self._all.extra,
            metrics=moment.metrics,
            is_best=is_best,
            record=record,
            pinned=moment.pinned,
            files={**files, **self._written.digests},
            writer=saving.history.writer,
            layout=self.layout,
        )
        self._newest = saving.history.commit(self._draft, content)
        return self._timeline.after(content)

    def tidy(self) -> Iterator[str]:
        """Sets the links and removes what need not stay; on rank 0, which tells what it can't do."""
        if self._newest is None:
            return
        saving = self._saving
        try:
            entries, leftovers = saving.history.scan(), saving.history.leftovers()
        except OSError as error:
            yield f"nothing older than {self._newest.path} is removed: {error}"
            return
        yield from saving.history.unsettled()
        yield from saving.history.link(LATEST, self._newest)
        best = directory.best_of(entries)
        if best is not None:
            yield from saving.history.link(BEST, best)
        old = directory.superfluous(entries, self._newest, saving.keep, self._timeline.since)
        yield from saving.history.expire([*(entry.path for entry in old), *leftovers])

    def give_up(self) -> None:
        """Removes the draft, which others may still write to: they fail then, as this rank did."""
        if self._saving.ranks.rank == 0 and self.draft is not None:
            self._saving.history.drop(self.draft)

    @property
    def _saved(self) -> JobSnapshot:
        return _there(self._moment)

    @property
    def _all(self) -> Sheet:
        return _there(self._together)

    @property
    def _written(self) -> Writing:
        return _there(self._writing)

    @property
    def _draft(self) -> Path:
        return _there(self.draft)


def _agree(found: list[Sheet]) -> Sheet:
    """What all ranks have between them; refuses ranks that are at different places.

    Raises:
        StateError: naming two ranks and what they have.
        ValueError: if no rank has anything to save.
    """
    step = found[0].step
    other = next((rank for rank, one in enumerate(found) if one.step != step), None)
    if other is not None:
        raise _core.StateError(f"rank 0 saves step {step}, and rank {other} step {found[other].step}")
    placed = [(rank, one.cursor) for rank, one in enumerate(found) if one.cursor is not None]
    for rank, cursor in placed[1:]:
        if cursor != placed[0][1]:
            first, second = (str(Cursor.from_state(one)) for one in (placed[0][1], cursor))
            raise _core.StateError(
                f"ranks {placed[0][0]} and {rank} are at different places: {first} and {second}"
            )
    extra: dict[str, Any] = {}
    for one in found:
        extra = {**one.extra, **extra}
    parts = tuple(sorted({name for one in found for name in one.parts}))
    if not parts and not extra:
        raise ValueError(
            f"step {step} has nothing to save: write save(step, model=model, optimizer=optimizer, "
            "loader=loader), or extra={'name': value}"
        )
    return found[0]._replace(cursor=placed[0][1] if placed else None, parts=parts, extra=extra)


def _there(value: T | None) -> T:
    if value is None:
        raise RuntimeError("a save is planned, begun, written and committed, in this order")
    return value
