"""The whole job in one atomic checkpoint."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import compatibility, manifest
from fastresume.checkpoint.best import Best, numbers
from fastresume.checkpoint.directory import CheckpointDirectory, Entry, Survey, Timeline, best_of
from fastresume.checkpoint.event_time import EventTime
from fastresume.checkpoint.job import JobParts
from fastresume.checkpoint.ranks import Ranks
from fastresume.checkpoint.restore import Restored, Restoring
from fastresume.checkpoint.save import Saved, Saving
from fastresume.checkpoint.snapshot import JobSnapshot, Stage
from fastresume.messages import warn
from fastresume.options.attributes import METHODS_OF_CHECKPOINTERS
from fastresume.options.checks import at_least, one_path, positive
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.reading.resumable import ResumableDataset, dataset_behind

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.nn import Module

TIMEOUT_SECONDS = 600.0
"""How long a rank waits for the others by default."""


@takes_no_other("Checkpointer", "checkpointer")
class Checkpointer:
    """Saves and restores a whole training job, atomically: model, optimizer, scheduler, data, random state.

    A checkpoint exists as a whole or not at all. A save first makes the files durable, then writes a manifest
    with the size and SHA-256 of each, then renames the directory into place. Only then does it remove
    anything older. A kill, a power cut or a full disk at any moment leaves one complete checkpoint, the old
    one or the new one. See docs/reference/checkpoint.md.

    All ranks create a Checkpointer together, after the process group (one created before it is refused). They
    call `save`, `restore` and `is_best` together, in the same order. An error on one rank is raised on all.
    They share the directory.

    Args:
        directory: where the checkpoints are; created if it is missing. One job at a time saves into it: if
            another process or Checkpointer has saved there, the next save is refused.
        keep: how many of the latest are kept; None for all. The best and pinned ones are kept, too.
        best: the metric that makes a checkpoint the best: its name, "max" or "min", and by how much a value
            must be better than the best before it (0 if left out).
        accumulation: micro-batches of an optimizer step; a job that resumes must have the same number.
        save_by_event_time: how far the watermark of a stream moves between saves, for `is_due`.
        group: the ranks; None for all.
        timeout_seconds: how long a rank waits for the others.

    Raises:
        TypeError, ValueError: for an argument of another type, or a number out of range; for a directory that
            is an address, a file, or itself a checkpoint, or not the same on all ranks.
        CheckpointError: on all ranks, if the directory can't be made.

    Threads and forks: use it in one thread, and not in a forked child. `save(wait=False)` writes in a thread
    of its own.

    Examples:
        >>> import torch
        >>> model = torch.nn.Linear(3, 1)
        >>> job = {"model": model, "optimizer": torch.optim.AdamW(model.parameters()), "loader": loader}
        >>> with Checkpointer("checkpoints", keep=3, best=("eval/auc", "max", 0.001)) as checkpointer:
        ...     restored = checkpointer.restore(**job)
        ...     step = 0 if restored is None else restored.step
        ...     for batch in loader:
        ...         train(batch)
        ...         step += 1
        ...         if step % 2 == 0:
        ...             checkpointer.save(step, **job, wait=False)
        >>> checkpointer
        Checkpointer('...checkpoints', keep=3, best=Best(metric='eval/auc', mode='max', min_delta=0.001))
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int | None = 3,
        best: tuple[str, Literal["max", "min"], float] | tuple[str, Literal["max", "min"]] | None = None,
        *,
        accumulation: int = 1,
        save_by_event_time: timedelta | None = None,
        group: ProcessGroup | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.directory = _local(directory)
        self.keep = None if keep is None else at_least(1, "keep", keep)
        self.best = Best.of(best)
        self.accumulation = at_least(1, "accumulation", accumulation)
        seconds = positive("timeout_seconds", timeout_seconds)
        self._trained: weakref.ref[ResumableDataset] | None = None  # the dataset of the loader given last
        self._event_time = None if save_by_event_time is None else EventTime(save_by_event_time)
        self._after_saves: list[Callable[[], None]] = []
        self._ranks = Ranks(group, seconds, "Checkpointer(...)")
        self._history = CheckpointDirectory(self.directory)
        self._saving = Saving(self._ranks, self._history, self.keep, self.best)
        self._is_closed = False
        self._stage: Stage | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._pending: list[Future[Saved]] = []
        weakref.finalize(self, _hear, self._pending, self.directory, os.getpid())
        self._timeline: Timeline = self._ranks.together("open", lambda: self.directory, self._open)

    def save(
        self,
        step: int,
        *,
        model: Module | None = None,
        optimizer: Any = None,
        scheduler: Any = None,
        loader: Any = None,
        extra: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        pin: bool = False,
        wait: bool = True,
    ) -> None:
        """Saves the job at this moment; when it returns (with `wait`), it survives a power cut.

        A save of a step that exists already replaces that checkpoint and the later ones. So does the first
        save after `restore(step=...)` of a step before the latest. They are removed once the new one is
        durable.

        What is equal on all ranks is saved once, what differs is saved for each rank. To find out, each rank
        hashes what torch does not shard.

        Args:
            step: the optimizer's steps until now, the same on every rank.
            model: its parameters and buffers; sharded ones are saved as shards.
            optimizer: one or several, of the model's parameters; or anything with `state_dict` and
                `load_state_dict` that has a state of its own form, as a wrapper.
            scheduler: of the learning rate, say.
            loader: the `Loader` or `ParquetDataset`, whose cursor is that of the last delivered batch; or a
                `Batch`, a `Cursor` or a state, to save that of an earlier one.
            extra: by name, plain values (which come back in `Restored.extra`), tensors, or objects with
                `state_dict` and `load_state_dict`.
            metrics: numbers by name; rank 0's decide whether this is the best.
            pin: whether it stays until its user removes it.
            wait: if False, the state is copied, and written while the job continues. The next `save`,
                `restore`, `wait` or `close` raises an error if that failed.

        Raises:
            TypeError, ValueError: on all ranks, for what can't be saved, and if there is nothing to save; if
                the loader's dataset has `on_iter="restart"`, or there are metrics, and not that of `best`;
                without a loader, after a save or restore with one; if it is closed.
            StateError: on all ranks, if they are at different steps or places; if the directory has
                checkpoints (damaged ones too) and none was restored; if another Checkpointer, of this process
                or another, has saved there since this job began or restored; if the step is lower than the
                last one; if the loader is a `ParquetDataset` that workers of a torch DataLoader have read
                from since its state was set.
            CheckpointError: on all ranks, if it can't be written on one of them, or a rank is lost or late.
                What was there before is kept.

        Warns:
            RuntimeWarning: if an older checkpoint can't be removed, a link can't be set, or, once, the file
                system can't sync directories; later on, if a save that was not waited for failed, and the
                Checkpointer went without `close`.
        """
        if self._is_closed:
            raise ValueError(
                f"the Checkpointer of {self.directory} is closed, and saves nothing more: close it where the "
                "job ends; restore() works all the same"
            )
        self.wait()
        stage = None if wait else self._staged()

        def capture() -> JobSnapshot:
            parts = JobParts.of(model, optimizer, scheduler, loader, extra)
            parts.check_ranks(self._ranks.world_size)
            parts.check_place()
            self._note_data(parts)
            if loader is None and self._timeline.has_place:
                raise ValueError(
                    f"step {step} is saved without loader=, and those before have one: a job that resumes "
                    "from it would start its data over. Pass loader=, or save into another directory"
                )
            number, evaluation = at_least(0, "step", step), numbers(metrics)
            if self.best is not None and self._ranks.rank == 0:
                self.best.check(evaluation)
            moment = JobSnapshot.of(number, parts, self.accumulation, evaluation, pin, stage)
            self._after_saves = parts.after_save()
            if self._event_time is not None:
                self._event_time.saved(loader)
            return moment

        if wait:
            self._done(self._saving.save(capture, self._timeline))
            return
        # The thread tells the other ranks of an error here, at the point where they wait for this rank.
        moment: JobSnapshot | BaseException
        try:
            moment = capture()
        except Exception as error:  # noqa: BLE001  (raised below, once all ranks know)
            moment = error
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="fastresume-checkpoint")
        self._pending.append(self._thread.submit(self._saving.save, lambda: _given(moment), self._timeline))
        if isinstance(moment, BaseException):
            self.wait()

    def restore(
        self,
        *,
        model: Module | None = None,
        optimizer: Any = None,
        scheduler: Any = None,
        loader: Any = None,
        extra: Mapping[str, Any] | None = None,
        step: int | Literal["best"] | None = None,
        partial: bool = False,
        allow: Collection[str] = (),
        random: bool = True,
        required: bool | None = None,
    ) -> Restored | None:
        """Resumes from a checkpoint: the latest, the one of a step, or the best one; None if there is none.

        Call it when everything is constructed, before the first batch is drawn. As its last step it sets the
        random generators of Python, numpy, torch and the current accelerator to what they were at the save.
        On another number of ranks the model is resharded, and the rest of the pass is divided among these
        ranks. Random streams are then derived by the rule of `randomness.derive`.

        Every file is compared with the manifest before it is read, and the parts of the job are compared
        before any of them is changed.

        Args:
            model: as `save` was given it; its parameters are filled in place.
            optimizer: one or several, of the same parameters in the same groups.
            scheduler: of the same class.
            loader: a `Loader` or `ParquetDataset`; the next `iter()` continues from the saved cursor.
            extra: by name, tensors (filled in place) and objects with `load_state_dict`; plain values need
                not be named.
            step: the step to restore; None for the latest, which is the one that was saved last.
            partial: restore only the parts that are given, from a checkpoint that has more. The random
                generators are not changed. A job that has saved or restored before still counts as resumed
                from there, not from this checkpoint.
            allow: what may differ from the job that saved: "model" (what has the same name and shape is
                loaded), "optimizer" and "scheduler" (not loaded if they are of another class),
                "accumulation", "global_batch", "dataset" and "order" (the data start over), "ranks" (on
                another number of ranks, all take the lowest rank's value of what differed).
            random: if False, the random generators are not changed; `Restored.restore_random` sets them.
            required: raise an error instead of returning None if there is no checkpoint: for a job that must
                resume. None for what `partial` says, because a part is asked of a checkpoint that is there.

        Warns:
            RuntimeWarning: if something there has the name of a checkpoint but isn't one, and others are
                whole.
            UserWarning: if the model has narrower dtypes than it was saved with, so that values are rounded;
                if `allow={"model"}` restored a part of it, or nothing; if the dataset was asked for other
                things.

        Raises:
            TypeError, ValueError: on all ranks, for what can't be restored into; if the loader's dataset has
                `on_iter="restart"`.
            StateError: on all ranks, if the checkpoint is damaged, or of a job that differs: it names both
                values. If there is no checkpoint of the step. If there are checkpoints and all are damaged.
                If there were some and now there are none, or if directories below have some. If there is
                none, and one is `required`.
            CheckpointError: on all ranks, if it can't be read, or a rank is lost or late.
        """
        self.wait()
        allowed = compatibility.allowed(allow)

        def given() -> JobParts:
            parts = JobParts.of(model, optimizer, scheduler, loader, extra)
            parts.check_ranks(self._ranks.world_size)
            return parts

        parts = self._ranks.all("restore", given)
        self._note_data(parts)
        restoring = Restoring(self._ranks, self._history)
        surveys: list[Survey] = []  # on rank 0 alone
        self._ranks.lead("restore", lambda: surveys.append(self._history.survey()))
        for path in surveys[0].torn if surveys else []:
            warn(f"{path} is not whole, and is passed over", RuntimeWarning)
        chosen = restoring.choose(step, self._timeline.since, surveys[0] if surveys else None)
        if chosen is None:
            if partial if required is None else required:
                asked = "required" if required else "partial"
                raise _core.StateError(
                    f"{self.directory} has no checkpoint, and restore({asked}=True) asks for one: is it the "
                    "directory that the job saved into?"
                )
            return None
        entry, timeline = chosen
        restored = restoring.restore(entry, parts, self.accumulation, partial, allowed)
        if not partial or self._timeline.since is None:  # a part of it is no place to resume from
            self._timeline = timeline
        if self._event_time is not None and loader is not None:
            self._event_time.saved(loader)
        if random and not partial:
            self._ranks.all("restore", restored.restore_random)
        return restored

    def _note_data(self, parts: JobParts) -> None:
        """Takes note of what is trained on, and warns once of a place in other data, as an evaluation's."""
        if (dataset := dataset_behind(parts.loader)) is not None:
            self._trained = weakref.ref(dataset)
            return
        trained = None if self._trained is None else self._trained()
        if trained is not None and (text := parts.other_place(trained)) is not None:
            self._trained = None
            warn(f"{text}. Pass the batch of the training loop, and not one of an evaluation")

    def is_due(self, loader: Any) -> bool:
        """Whether the watermark moved by `save_by_event_time` since the last save, restore or first call.

        All ranks get the same answer at the same step, and it costs no collective.

        Args:
            loader: a `Loader` of a `KafkaDataset`, or the dataset.

        Raises:
            ValueError: if the Checkpointer has no `save_by_event_time`.
            TypeError: if it is no stream.

        Examples:
            >>> if checkpointer.is_due(loader):  # doctest: +SKIP
            ...     checkpointer.save(step, model=model, loader=loader)
        """
        if self._event_time is None:
            raise ValueError("is_due needs save_by_event_time=timedelta(...) of the Checkpointer")
        return self._event_time.is_due(loader)

    def is_best(self, metrics: Mapping[str, Any]) -> bool:
        """Whether an evaluation is better than all that were saved: rank 0's verdict, given to all ranks.

        One without metrics, or whose metric is not finite, is never better. It decides nothing by itself:
        save with these metrics if it is, also off the usual cadence.

        Raises:
            ValueError: if the Checkpointer has no `best`, or the metrics are others.

        Examples:
            >>> import torch
            >>> checkpointer = Checkpointer("evaluated", best=("eval/auc", "max"))
            >>> step, metrics = 700, {"eval/auc": 0.8}
            >>> if checkpointer.is_best(metrics) or step % 1000 == 0:
            ...     checkpointer.save(step, model=torch.nn.Linear(3, 1), metrics=metrics)
            >>> checkpointer.is_best(metrics)
            False
        """
        self.wait()

        def verdict() -> bool:
            if self.best is None:
                raise ValueError("is_best needs best=(metric, 'max' or 'min', min_delta) of the Checkpointer")
            evaluation = numbers(metrics)
            self.best.check(evaluation)
            entries = self._history.scan()
            return self.best.is_better(evaluation, self._timeline.record_among(entries))

        return self._ranks.lead("is_best", verdict)

    def entries(self) -> list[Entry]:
        """All whole checkpoints of the directory as they are now, the earliest save first.

        Raises:
            OSError: if one can't be read.
        """
        return self._history.scan()

    def latest(self) -> Entry | None:
        """The checkpoint that was saved last, which `restore` takes."""
        entries = self.entries()
        return entries[-1] if entries else None

    def best_entry(self) -> Entry | None:
        """The checkpoint with the best evaluation."""
        return best_of(self.entries())

    def wait(self) -> None:
        """Waits for the save that is on its way, if there is one.

        Raises:
            CheckpointError: what `save` would have raised.
        """
        if self._pending:
            self._done(self._pending.pop().result())

    def close(self) -> None:
        """Waits for the save that is on its way, and ends the thread.

        Nothing is saved after it. `restore`, `entries` and what else only reads works as before.

        Raises:
            CheckpointError: what that `save` would have raised.
        """
        self._is_closed = True
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
                self._thread = None
            if self._stage is not None:
                self._stage.close()
                self._stage = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method of others' checkpointers."""
            refuse_attribute(self, name, "a Checkpointer", METHODS_OF_CHECKPOINTERS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Checkpointer({str(self.directory)!r}, keep={self.keep}, best={self.best})"

    def _open(self, named: list[Path]) -> Timeline:
        """Creates the directory that all ranks named; returns where this job is in it.

        Raises:
            ValueError: if they have named others, or it is itself a checkpoint, or a file.
        """
        for rank, directory in enumerate(named):
            if directory != self.directory:
                raise ValueError(f"rank 0 saves into {self.directory}, and rank {rank} into {directory}")
        if files.is_there(self.directory / manifest.NAME):
            needed = manifest.name_it_needs(self.directory.resolve())
            renamed = "" if needed is None else f"rename it to {needed}, "
            raise ValueError(
                f"{self.directory} is itself a checkpoint: {renamed}name its parent, and restore(step=...)"
            )
        if self.directory.name == manifest.NAME or manifest.parse_name(self.directory.name) is not None:
            raise ValueError(
                f"{self.directory} has the name of a checkpoint or a file of one, and is none: name the "
                "directory that has the checkpoints, and restore(step=...)"
            )
        if self.directory.is_symlink() and not self.directory.exists():
            raise ValueError(
                f"{self.directory} is a link to {self.directory.readlink()}, which is not there: make that, "
                "or name another directory"
            )
        if self.directory.is_file():
            raise ValueError(f"{self.directory} is a file, not a directory: name one for the checkpoints")
        self._history.make()
        found = self._history.survey()
        return Timeline(None if found.entries or found.damaged() else 0, found.serial)

    def _done(self, saved: Saved) -> None:
        self._timeline = saved.timeline
        after, self._after_saves = self._after_saves, []
        for each in after:
            each()
        for complaint in saved.complaints:
            warn(complaint, RuntimeWarning)

    def _staged(self) -> Stage:
        if self._stage is None:
            self._stage = Stage()
        return self._stage


def _local(directory: str | os.PathLike[str]) -> Path:
    """The absolute path of a directory.

    Raises:
        TypeError: if it is no path.
        ValueError: if it is empty, or an address.
    """
    return Path(one_path("directory", directory)).absolute()


def _hear(pending: list[Future[Saved]], directory: Path, process: int) -> None:
    """Warns that a save is unfinished and its result will never be checked."""
    if process != os.getpid():  # a fork took no thread along
        return

    def tell(save: Future[Saved]) -> None:
        error = save.exception()
        if error is not None:
            message = f"the last save into {directory} failed, and its Checkpointer was not closed: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    for save in pending:
        save.add_done_callback(tell)


def _given(moment: JobSnapshot | BaseException) -> JobSnapshot:
    if isinstance(moment, BaseException):
        raise moment
    return moment
