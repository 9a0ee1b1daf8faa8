"""One restore: chosen by rank 0, compared, checked and loaded by all ranks, random generators last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastresume._core as _core
from fastresume.checkpoint import compatibility, dcp_storage
from fastresume.checkpoint.dcp_storage import Reading
from fastresume.checkpoint.directory import Entry, History, Timeline, best_of
from fastresume.checkpoint.job import Parts
from fastresume.checkpoint.manifest import Manifest
from fastresume.checkpoint.ranks import CheckpointError, Ranks
from fastresume.checkpoint.rng_state import Randomness, derive
from fastresume.checkpoint.save import random_name


@dataclass(frozen=True)
class Restored:
    """What a job goes on from.

    Attributes:
        step: the step at which it was saved.
        extra: the plain values that were saved as `extra`.
        metrics: the evaluation that was saved with it.
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

    def restore_random(self) -> None:
        """Sets the random generators of this process to those of the moment that was saved.

        `Checkpointer.restore` does it as its last step, unless it is told not to. On as many ranks as have
        saved, each gets its own; on others, `derive` says what. Draw no batch before it: what a transform
        draws from a global generator would come from another place in its stream.

        Raises:
            StateError: if their file is damaged.
        """
        if self._ranks == self.world_size:
            Randomness.from_json((self.path / random_name(self._rank)).read_bytes()).restore()
        else:
            derive((self.path / random_name(0)).read_bytes(), self._rank, self._ranks)


@dataclass(frozen=True)
class Restoring:
    """How a job is restored from a directory.

    Attributes:
        ranks: all of them call `restore` together.
        history: of the directory.
    """

    ranks: Ranks
    history: History

    def choose(self, step: int | str | None) -> tuple[Entry, Timeline] | None:
        """The checkpoint of a step, "best", or the latest one for None; the same one on all ranks.

        With it comes where a job stands that goes on from it.

        Raises:
            StateError: if the one that is named is not there, or there are some and all are damaged.
            ValueError: for another text than "best".
        """
        return self.ranks.lead("restore", lambda: self._choice(step))

    def restore(
        self,
        chosen: Entry,
        parts: Parts,
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

        def compare() -> None:
            if not path.is_dir():
                raise CheckpointError(
                    f"{path} is not there: all ranks must share the directory, and a job that saves into it "
                    "removes what need not stay"
                )
            dcp_storage.compare(path, saved.files, ranks.rank, ranks.world_size)

        ranks.all("restore", compare)
        reading = Reading(path, saved.files)

        def check() -> tuple[Parts, dict[str, Any]]:
            left = parts.without(compatibility.compare(saved, parts, accumulation, partial, allow))
            state = left.template(reading, allow)
            reading.plan(state, lambda part: part != "model" or "model" not in allow)
            if left.loader is not None:
                _go_on(left.loader, saved, allow)
            return left, state

        left, state = ranks.all("restore", check)

        def load() -> None:
            reading.fill()
            left.restore(state, allow)

        ranks.all("restore", load)
        return Restored(
            saved.step, saved.extra, saved.metrics, saved.world_size, path, ranks.rank, ranks.world_size
        )

    def _choice(self, step: int | str | None) -> tuple[Entry, Timeline] | None:
        if isinstance(step, str) and step != "best":
            raise ValueError(f"step must be a number, 'best', or None for the latest, found {step!r}")
        known = self.history.last_serial()  # what is saved from now on is unknown
        entries = self.history.usable()
        if step is None:
            found = entries[-1] if entries else None
        elif step == "best":
            found = best_of(entries)
        else:
            found = next((entry for entry in reversed(entries) if entry.step == step), None)
        if found is None and step is not None:
            steps = ", ".join(str(entry.step) for entry in entries) or "none"
            what = "best checkpoint" if step == "best" else f"checkpoint of step {step}"
            raise _core.StateError(f"there is no {what} in {self.history.directory}; steps that are: {steps}")
        return None if found is None else (found, Timeline(found.serial, known))


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
        present = Parts(None, (), None, loader, {}).cursor() or {}
        names = ("dataset", "selection")
        kind = "dataset" if any(present.get(name) != saved.cursor.get(name) for name in names) else "order"
        if kind in allow:
            return
        raise _core.StateError(
            f"the checkpoint of step {saved.step}: {error}; allow={{'{kind}'}} begins the data anew"
        ) from None
