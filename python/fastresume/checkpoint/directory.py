"""The checkpoints of a directory: which there are, which is the latest, which may go."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import manifest
from fastresume.checkpoint.layout import listed
from fastresume.checkpoint.manifest import Manifest, Record, Writer

WRITING = ".writing-"
"""How names begin of what is not a checkpoint yet."""

REMOVED = ".removed-"
"""How names begin of what is no checkpoint any more."""

LINK = ".link-"
"""The prefix of links that are not renamed into place yet."""

_OWN = re.compile(r"\.metadata(\.tmp)?|__\d+_\d+\.distcp|random-\d+\.json|\.nfs\w+")
"""Names of files that a checkpoint has in addition to its manifest."""

_begun: dict[Path, object] = {}
"""The directories into which this process saves at this moment, each with its save."""

_LOOKED_AT = 1000
"""If a directory has no checkpoint, at most this many directories below it are searched for some."""


@dataclass(frozen=True)
class Entry:
    """A whole checkpoint, and where it is."""

    path: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        """The step at which it was saved."""
        return self.manifest.step

    @property
    def serial(self) -> int:
        """Its number among the saves into its directory."""
        return self.manifest.serial


@dataclass(frozen=True)
class Survey:
    """What a directory of checkpoints holds.

    Attributes:
        entries: the whole ones, the earliest save first.
        torn: what has a checkpoint's name and is none: damaged, or torn where renames are not atomic.
        serial: the highest in a name, of a whole one or not; 0 if there is none.
    """

    entries: list[Entry]
    torn: list[Path]
    serial: int

    def damaged(self) -> list[Path]:
        """What is torn, except what has no manifest: that never was a checkpoint, or no longer is one."""
        return [path for path in self.torn if files.is_there(path / manifest.NAME)]

    def usable(self) -> list[Entry]:
        """The whole ones. If all are damaged that is an error, so that no job starts over because of damage.

        Raises:
            StateError: if none is whole and some are damaged; they are named.
        """
        damaged = [] if self.entries else self.damaged()
        if damaged:
            raise _core.StateError(
                f"no checkpoint of {damaged[0].parent} is whole; damaged: "
                f"{listed([path.name for path in damaged])}; remove them to start over"
            )
        return self.entries


@dataclass(frozen=True)
class Timeline:
    """Where a job is among the checkpoints of its directory.

    Attributes:
        since: the serial of the one that it resumed from, or saved last; 0 if it began with none; None while
            there are some and it has restored none of them.
        known: the highest serial that there was when it began or restored.
        step: the step of the one that it resumed from, or saved last; None if there is none.
        record: the best evaluation up to there; None if there is none.
        has_place: whether its checkpoints have the place in the data.
    """

    since: int | None
    known: int
    step: int | None = None
    record: Record | None = None
    has_place: bool = False

    def after(self, saved: Manifest) -> Timeline:
        """Where the job is once it has saved."""
        return Timeline(saved.serial, self.known, saved.step, saved.record, saved.cursor is not None)

    def record_among(self, entries: list[Entry]) -> Record | None:
        """The best evaluation of the timeline, that of others does not count."""
        if self.since is not None:
            return self.record
        return entries[-1].manifest.record if entries else None

    def check(self, entries: list[Entry], step: int, own: Writer) -> None:
        """Refuses to save where another job does, too, and to go back to an earlier step unless asked.

        Raises:
            StateError: if another than `own` has saved since this job began or restored; it is named. If the
                step is lower than that of the checkpoint that the job resumed from, or saved last.
        """
        if self.step is not None and step < self.step:
            raise _core.StateError(
                f"step {step} is saved after step {self.step}, whose place it would take: a "
                "job's own count of steps only grows (batch.step starts over in each pass; count on from "
                f"Restored.step); to go back, restore(step=...) one of step {step} or before"
            )
        for entry in entries:
            writer = entry.manifest.writer
            if entry.serial > self.known and writer != own:
                is_here = writer is not None and writer.is_here
                way = "save with one, and milestones by pin=True" if is_here else "end one of them"
                raise _core.StateError(
                    f"{entry.path.parent} has a checkpoint of step {entry.step} that "
                    f"{writer or 'another job'} saved after this job had begun or restored: one job at a "
                    f"time saves into a directory, so {way}, or name another directory; restore() resumes "
                    "from what is there"
                )


class CheckpointDirectory:
    """A directory of checkpoints, read again each time: the directories in it are the truth, links are not.

    Every save has a name of its own, with a serial number one above all others. So the commit is one rename,
    and nothing need be removed before something new is durable. The latest is the one with the highest
    serial, also after a job went back to an earlier step.

    Examples:
        >>> CheckpointDirectory(Path.cwd()).scan()
        []
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._real = directory.resolve()  # a link leads to the same checkpoints
        self._word = os.urandom(8).hex()
        self._unsettled: OSError | None = None
        self._is_reported = False

    @property
    def writer(self) -> Writer:
        """Who saves through this object; in a fork, another one."""
        return Writer.here(self._word)

    def make(self) -> None:
        """Makes the directory, durable as far as its file system can.

        Raises:
            OSError: if it can't be made.
        """
        self._note(files.make_directory(self.directory))

    def survey(self) -> Survey:
        """What is there, by one look.

        Raises:
            OSError: if what is there can't be read.
        """
        entries, torn, serial = [], [], 0
        for name in self._names():
            parsed = manifest.parse_name(name)
            if parsed is None:
                continue
            path, serial = self.directory / name, max(serial, parsed[1])
            one = manifest.read(path)
            if one is None:
                torn.append(path)
            else:
                entries.append(Entry(path, one))
        return Survey(sorted(entries, key=lambda entry: entry.serial), torn, serial)

    def scan(self) -> list[Entry]:
        """All whole checkpoints, the earliest save first; what is not whole is not there.

        Raises:
            OSError: if what is there can't be read.
        """
        return self.survey().entries

    def elsewhere(self) -> list[Path]:
        """Directories below this one, up to two levels, that have checkpoints; as far as they can be read."""
        found: list[Path] = []
        level, looked = [self.directory], 0
        for _ in range(2):
            inner: list[Path] = []
            for above in level:
                for name in files.names_in(above):
                    looked += 1
                    is_own = name.startswith(".") or manifest.parse_name(name) is not None
                    if is_own or looked > _LOOKED_AT:
                        continue
                    names = files.names_in(above / name)
                    has_one = any(
                        manifest.parse_name(one) is not None
                        and os.path.lexists(above / name / one / manifest.NAME)
                        for one in names
                    )
                    (found if has_one else inner).append(above / name)
            level = inner
        return found

    def renamed(self) -> str:
        """What to rename, if checkpoints here have other names than saves give; empty if none has."""
        found = {
            name: needed
            for name in files.names_in(self.directory)[:_LOOKED_AT]
            if not name.startswith(".")
            and (needed := manifest.name_it_needs(self.directory / name)) is not None
        }
        renamed = [f"{name} is a checkpoint that must be called {needed}" for name, needed in found.items()]
        return listed(renamed)

    def check_empty(self) -> None:
        """Refuses to start over where checkpoints were renamed, or where directories below have some.

        Raises:
            StateError: naming them.
        """
        if renamed := self.renamed():
            raise _core.StateError(
                f"{self.directory} has no checkpoint by its name, but {renamed}: rename it to resume, or "
                "name another directory to start over"
            )
        if below := self.elsewhere():
            names = listed([str(path.relative_to(self.directory)) for path in below])
            raise _core.StateError(
                f"{self.directory} has no checkpoint, but directories in it have: {names}; name one of them "
                "to resume, or another directory to start over"
            )

    def leftovers(self) -> list[Path]:
        """Files of checkpoints that were removed in part, the manifest first; no other files."""
        found = []
        for path in self.survey().torn:
            names = files.names_in(path)
            is_own = not path.is_symlink() and path.is_dir() and all(map(_OWN.fullmatch, names))
            if is_own and not files.is_there(path / manifest.NAME):
                found.append(path)
        return found

    def draft(self, save: object) -> Path:
        """A new directory, in which a checkpoint can be written; what earlier jobs left goes.

        Args:
            save: for which it is; there is no other until `end` is called with it.

        Raises:
            StateError: if this process is in another save.
            OSError: if it can't be made.
        """
        if _begun.setdefault(self._real, save) is not save:
            raise _core.StateError(
                f"another save into {self.directory} has begun in this process and is not over: save in one "
                "thread, and in no signal handler; save(..., wait=False) writes while the job continues"
            )
        for name in self._names():
            if name.startswith((WRITING, REMOVED, LINK)):
                place = self.directory / name
                if place.is_symlink() or not place.is_dir():
                    with contextlib.suppress(OSError):
                        place.unlink()
                else:
                    list(files.remove(place, manifest.NAME))  # what stays is no checkpoint, and is met again
        made = self.directory / f"{WRITING}{os.urandom(8).hex()}"
        made.mkdir()
        return made

    def end(self, save: object) -> None:
        """Lets others save: this one is over, with or without a checkpoint."""
        if _begun.get(self._real) is save:
            del _begun[self._real]

    def commit(self, draft: Path, content: Manifest) -> Entry:
        """Makes a checkpoint of a draft whose files are all durable: the manifest last, then the rename.

        Raises:
            OSError: if it can't be made durable.
        """
        for name, digest in content.files.items():
            size = (draft / name).stat().st_size
            if size != digest.size:
                raise OSError(f"{draft / name} has {size} bytes here, {digest.size} where it was written")
        files.write(draft / manifest.NAME, content.to_json())
        self._note(files.settle(draft))
        place = self.directory / manifest.directory_name(content.step, content.serial)
        self._note(files.publish(draft, place))
        return Entry(place, content)

    def drop(self, draft: Path) -> None:
        """Removes a draft that came to nothing, as far as that goes."""
        list(files.remove(draft, manifest.NAME))

    def expire(self, paths: Iterable[Path]) -> Iterator[str]:
        """Removes checkpoints; yields what can't be removed.

        They are renamed first, so that none is ever there in part; where that fails, the manifest goes first.
        """
        for path in paths:
            place = self.directory / f"{REMOVED}{path.name}"
            try:
                path.rename(place)
            except OSError as error:
                yield f"{path} can't be removed: {error}"
                continue
            for left in files.remove(place, manifest.NAME):
                yield f"{path} can't be removed whole: {left}"

    def unsettled(self) -> Iterator[str]:
        """Yields once that a directory can't be synced."""
        if self._unsettled is not None and not self._is_reported:
            self._is_reported = True
            yield (
                f"{self.directory} is on a file system that can't sync directories "
                f"({self._unsettled.strerror}): a power cut may take the last checkpoint"
            )

    def link(self, name: str, entry: Entry) -> Iterator[str]:
        """Points a link at a checkpoint, for people to look at; yields why it can't."""
        place = self.directory / name
        try:
            if place.exists() and not place.is_symlink():
                yield f"{place} is no link, and is left as it is"
                return
            files.link(place, entry.path.name, self.directory / f"{LINK}{name}-{os.urandom(8).hex()}")
        except OSError as error:
            yield f"the link {place} can't be made: {error}"

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.directory))  # noqa: PTH208  (names, not paths)
        except FileNotFoundError:
            message = "the directory of checkpoints is gone, which was there when its Checkpointer was made"
            raise FileNotFoundError(errno.ENOENT, message, str(self.directory)) from None

    def _note(self, error: OSError | None) -> None:
        self._unsettled = self._unsettled or error


def superfluous(entries: list[Entry], newest: Entry, keep: int | None, since: int | None) -> list[Entry]:
    """The checkpoints that may go once `newest` is durable.

    Those of another timeline: of the same step or later ones, and those saved after the one that this job
    resumed from. And all but the `keep` latest of the rest. Never the newest itself, a pinned one, or the
    best: the latest save among those that were best when saved.

    Args:
        entries: all, the earliest save first, `newest` among them.
        newest: the one that was just saved.
        keep: how many to keep; None for all.
        since: the serial of the one that this job resumed from or saved before; None if there is none.
    """
    best = best_of(entries)
    earlier = [entry for entry in entries if entry.serial < newest.serial]
    left = [
        entry
        for entry in earlier
        if entry.step >= newest.step or (since is not None and entry.serial > since)
    ]
    line = [entry for entry in earlier if entry not in left]
    old = [] if keep is None else line[: max(len(line) - (keep - 1), 0)]
    return [entry for entry in (*left, *old) if not entry.manifest.pinned and entry != best]


def best_of(entries: list[Entry]) -> Entry | None:
    """The best one: each that was saved as best was better than all before it."""
    return next((entry for entry in reversed(entries) if entry.manifest.is_best), None)
