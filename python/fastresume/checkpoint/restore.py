"""One restore: chosen by rank 0, compared, checked and loaded by all ranks, random generators last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import compatibility, dcp_storage
from fastresume.checkpoint.dcp_storage import Reading
from fastresume.checkpoint.directory import CheckpointDirectory, Entry, Survey, Timeline, best_of
from fastresume.checkpoint.job import JobParts, Template
from fastresume.checkpoint.layout import Seat, listed
from fastresume.checkpoint.manifest import Manifest
from fastresume.checkpoint.randomness import Randomness, derive
from fastresume.checkpoint.ranks import CheckpointError, Ranks
from fastresume.checkpoint.save import random_name
from fastresume.messages import warn
from fastresume.options.attributes import OF_RESTORED
from fastresume.options.checks import quoted
from fastresume.options.unknown import refuse_attribute


@dataclass(frozen=True)
class Restored:
    """What a job resumes from.

    Attributes:
        step: the step at which it was saved.
        extra: the plain values that were saved as `extra`; this rank's, if they differed by rank.
        metrics: the metrics that were saved with it.
        world_size: by how many ranks it was saved.
        path: the directory that it was read from.
    """

    step: int
    extra: dict[str, Any]
    metrics: dict[str, float]
    world_size: int
    path: Path
    _rank: int = 0
    _ranks: int = 1

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what others' classes have."""
            refuse_attribute(self, name, "a Restored", OF_RESTORED)

    def __getitem__(self, name: object) -> NoReturn:
        """Refused: it is no mapping.

        Raises:
            TypeError: always; it says what to write.
        """
        way = (
            f"restored.{name}" if name in ("step", "extra", "metrics") else f"restored.extra[{quoted(name)}]"
        )
        raise TypeError(f"a Restored is no mapping: write {way}")

    def __index__(self) -> NoReturn:
        """Refused: it is no number.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError("a Restored is no number: write restored.step")

    def restore_random(self) -> None:
        """Sets the random generators of this process to what they were at the save.

        `Checkpointer.restore` does it as its last step, unless `random=False`. On the same number of ranks
        each gets its own back; on another number, `derive` says what they get. Draw no batch before it: a
        transform would draw from another place in the stream of a global generator.

        Raises:
            StateError: if their file is damaged.
        """
        is_same = self._ranks == self.world_size
        place = self.path / random_name(self._rank if is_same else 0)
        with files.naming(place):
            text = place.read_bytes()
        if is_same:
            Randomness.from_json(text).restore()
        else:
            derive(text, self._rank, self._ranks)

    def __repr__(self) -> str:
        metrics = _some([f"{name!r}: {value}" for name, value in self.metrics.items()])
        names = _some([*map(repr, self.extra)])
        parts = f"metrics={{{metrics}}}, extra=[{names}], world_size={self.world_size}"
        return f"Restored(step={self.step}, path={str(self.path)!r}, {parts})"


@dataclass(frozen=True)
class Restoring:
    """How a job is restored from a directory.

    Attributes:
        ranks: all of them call `restore` together.
        history: of the directory.
    """

    ranks: Ranks
    history: CheckpointDirectory

    def choose(
        self, step: int | str | None, began_with: int | None, seen: Survey | None
    ) -> tuple[Entry, Timeline] | None:
        """The checkpoint of a step, "best", or the latest one for None; the same one on all ranks.

        Also returns where a job is that resumes from it.

        Args:
            step: which one.
            seen: what there is, on rank 0.
            began_with: the serial of the one that the job resumed from or saved last; 0 if there was none.

        Raises:
            StateError: if the one that is named is not there, or there are some and all are damaged, or there
                were some, or there are some below.
            ValueError: for another text than "best".
        """
        return self.ranks.lead(
            "restore", lambda: self._choice(step, began_with, seen or self.history.survey())
        )

    def restore(
        self,
        chosen: Entry,
        parts: JobParts,
        accumulation: int,
        partial: bool,
        allow: frozenset[str],
    ) -> Restored:
        """Compares, checks, and only then loads; the random generators are not touched.

        Raises:
            StateError: on all ranks, if it is damaged or of another job; nothing is changed but, at most, the
                loader's cursor.
            CheckpointError: on all ranks, if it can't be read.
        """
        path, saved = chosen.path, chosen.manifest
        ranks = self.ranks
        worlds = saved.world_size, ranks.world_size
        seat = Seat(saved.layout, ranks.rank, worlds[0] == worlds[1])
        damage = self._damage(chosen)
        if damage is not None:
            raise _core.StateError(f"{damage}; {self._way_on(chosen)}")
        reading = Reading(path, saved.files, seat)
        asked = ranks.together(
            "restore", lambda: parts.names, lambda found: {one for own in found for one in own}
        )
        planned: list[tuple[JobParts, Template]] = []
        warnings: list[str] = []  # given once nothing is refused

        def check() -> set[str]:
            others, warning = compatibility.compare(saved, parts, accumulation, partial, allow, seat, asked)
            warnings.extend([warning] if warning else [])
            left = parts.without(others)
            if "ranks" not in allow:
                seat.check(lambda name: _is_of(name, left.names), not partial, saved.step, worlds)
            template = left.template(reading, allow)
            warnings.extend(template.warnings)
            may_lack = {"model", "optimizer"} if "model" in allow else ()
            filled = reading.plan(template.state, lambda part: part not in may_lack)
            if "optimizer" in template.state:
                groups = {"optimizer": {"groups": b""}}
                alone = Reading(path, saved.files, seat)
                alone.plan(groups, lambda _: False)
                alone.fill()
                left.check_groups(template, groups["optimizer"]["groups"])
            if left.loader is not None:
                _go_on(left.loader, saved, allow)
            planned.append((left, template))
            return filled

        def check_all(filled: list[set[str]]) -> None:
            some = [] if seat.is_same else [name for name in saved.layout.leaves if _is_of(name, asked)]
            lost = sorted(set(some).difference(*filled))
            if lost and "model" not in allow:
                raise _core.StateError(
                    "what the checkpoint holds is not what there is now: it had "
                    f"{listed(lost)}, which no rank has"
                )

        ranks.together("restore", check, check_all)
        ((left, template),) = planned

        def load() -> None:
            reading.fill()
            left.restore(template)

        ranks.all("restore", load)
        for warning in warnings:
            warn(warning)
        return Restored(
            saved.step,
            seat.plain_values(saved.extra),
            saved.metrics,
            saved.world_size,
            path,
            ranks.rank,
            ranks.world_size,
        )

    def _damage(self, chosen: Entry, or_unreadable: bool = False) -> str | None:
        """What is wrong with a checkpoint's files; each rank reads a share, and all return the same."""
        path, ranks = chosen.path, self.ranks

        def compare() -> str | None:
            if not path.is_dir():
                raise CheckpointError(
                    f"{path} is not there: all ranks must share the directory, and a job that saves into it "
                    "removes what need not stay"
                )
            try:
                return dcp_storage.damage(path, chosen.manifest.files, ranks.rank, ranks.world_size)
            except OSError as error:
                if not or_unreadable:
                    raise
                return str(error)

        return ranks.together("restore", compare, lambda found: next(filter(None, found), None))

    def _way_on(self, damaged: Entry) -> str:
        """What to do if a checkpoint is damaged; the same on all ranks."""
        others = self.ranks.lead(
            "restore", lambda: [one for one in reversed(self.history.scan()) if one.serial != damaged.serial]
        )
        whole = next((one for one in others if self._damage(one, or_unreadable=True) is None), None)
        if whole is None:
            return "no other one there is whole"
        newest = f"the newest one that is whole is of step {whole.step}: "
        newer = [one.path.name for one in others if one.step == whole.step and one.serial > whole.serial]
        if damaged.step == whole.step and damaged.serial > whole.serial:
            newer.append(damaged.path.name)
        if newer:  # they have its step, and would be taken for it
            return f"{newest}remove {', '.join(newer)}, and restore(step={whole.step}) takes it"
        return f"{newest}restore(step={whole.step}) takes it"

    def _choice(
        self, step: int | str | None, began_with: int | None, seen: Survey
    ) -> tuple[Entry, Timeline] | None:
        if isinstance(step, str) and step != "best":
            raise ValueError(f"step must be a number, 'best', or None for the latest, found {quoted(step)}")
        entries = seen.usable()
        if step is None:
            found = entries[-1] if entries else None
        elif step == "best":
            found = best_of(entries)
        else:
            found = next((entry for entry in reversed(entries) if entry.step == step), None)
        if found is None and step is not None:
            steps = listed([str(entry.step) for entry in reversed(entries)], 20) or "none"
            what = "best checkpoint" if step == "best" else f"checkpoint of step {step}"
            message = f"there is no {what} in {self.history.directory}; steps that are, the latest first: "
            message += steps
            if step == "best" and entries:
                message += "; Checkpointer(..., best=('loss', 'min')) that saves with metrics= makes one"
            raise _core.StateError("; ".join([message, *filter(None, [self.history.renamed()])]))
        if found is None:
            self._check_new(began_with)
            return None
        saved = found.manifest
        has_place = saved.cursor is not None
        return found, Timeline(found.serial, seen.serial, found.step, saved.record, has_place)

    def _check_new(self, began_with: int | None) -> None:
        """Refuses to start over where there were checkpoints, or are some under other names or below.

        Raises:
            StateError: naming the directory, and those that have some.
        """
        directory = self.history.directory
        if began_with != 0 and not self.history.renamed():
            raise _core.StateError(
                f"{directory} has no checkpoint any more: there were some when this Checkpointer was made, "
                "or it has saved some; to start over, make another one"
            )
        self.history.check_empty()


def _some(texts: list[str]) -> str:
    """Some of them, each in bounded length."""
    shown = [
        text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}..." for text in texts[:_SHOWN]
    ]
    return ", ".join([*shown, "..."] if len(texts) > _SHOWN else shown)


_SHOWN, _SHOWN_LETTERS = 6, 60
"""A message shows at most this many metrics and names, and this many letters of each."""


def _is_of(name: str, parts: Collection[str]) -> bool:
    """Whether a leaf is one of the parts."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def _go_on(loader: Any, saved: Manifest, allow: frozenset[str]) -> None:
    """Gives the loader its cursor, but where it belongs to other data, and may.

    Raises:
        StateError: if it belongs to other data, and may not; both are named.
        TypeError: if it takes no cursor.
    """
    if not hasattr(loader, "load_state_dict"):
        raise TypeError(f"loader must have load_state_dict to be restored, found {type(loader).__name__}")
    if saved.cursor is None:
        return
    try:
        loader.load_state_dict(saved.cursor)
    except _core.StateError as error:
        present = JobParts(None, (), None, loader, {}).cursor() or {}
        names = ("dataset", "selection")
        kind = "dataset" if any(present.get(name) != saved.cursor.get(name) for name in names) else "order"
        if kind in allow:
            return
        raise _core.StateError(
            f"the checkpoint of step {saved.step}: {error}; allow={{'{kind}'}} starts the data over"
        ) from None
