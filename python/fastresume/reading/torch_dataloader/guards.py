"""Checks of who iterates over a dataset, or takes its length: collating or resharding callers are refused."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from torch.utils.data import default_collate, get_worker_info

import fastresume._core as _core
from fastresume.batch.batch import refuse_to_collate
from fastresume.messages import warn
from fastresume.state.shared_cursor import SharedCursor


def check_caller(caller: FrameType) -> None:
    """Refuses to be iterated over by code that would spoil the batches, before any is drawn.

    Raises:
        TypeError: for a DataLoader that would collate whole batches; it says what to write.
        FastresumeError: for a wrapper that deals batches out among ranks, while each rank reads its own.
    """
    module, owner = caller.f_globals.get("__name__"), caller.f_locals.get("self")
    if module == "torch.utils.data._utils.fetch" and hasattr(owner, "auto_collation"):
        refuse_stacking(owner)
    elif type(owner).__name__ == "IterableDatasetShard":
        raise _core.FastresumeError(
            f"{module}.IterableDatasetShard would deal the batches out among the ranks, although each "
            "reads its own rows already, and most would be lost: prepare no DataLoader over this dataset "
            "with Accelerate, but give it a fastresume.Loader, which it leaves as it is"
        )


OF_TRANSFORMERS = (
    "Transformers' Trainer would stack whole batches into larger ones: to train, write a Trainer whose "
    "get_train_dataloader() returns fastresume.integrations.transformers.ResumeCallback(loader)"
    ".dataloader, and pass it that callback; to evaluate, let get_eval_dataloader(*_) return "
    "fastresume.integrations.transformers.DictBatches(loader): see docs/reference/frameworks.md"
)
"""What to write instead of a dataset that the Trainer is given."""


def refuse_items(caller: FrameType, text: str) -> NoReturn:
    """Refuses to give an item by its number to a DataLoader, or to other code.

    Raises:
        TypeError: always, with the text; for Transformers' Trainer it says what to write there.
    """
    if module := getattr(getattr(caller.f_locals.get("self"), "collate_fn", None), "__module__", None):
        text = OF_TRANSFORMERS if module.partition(".")[0] == "transformers" else text
    raise TypeError(text)


@contextmanager
def without_workers(iterator: Any) -> Iterator[None]:
    """A context that may fail before a DataLoader's iterator has workers: then it ends none."""
    try:
        yield
    except BaseException:
        iterator._shutdown = True
        raise


def iterator_that_begins(frame: FrameType | None) -> tuple[Any, Any] | None:
    """A DataLoader with workers, and the iterator that it makes over a dataset whose class is asked; or None.

    It asks in the main process, before it starts workers. `frame` is that of who asks.
    """
    if frame is not None and frame.f_globals.get("__name__") == "abc":
        frame = frame.f_back
    if frame is None or frame.f_code.co_qualname != "_BaseDataLoaderIter.__init__":
        return None  # torchdata's iterators call it, too
    loader = frame.f_locals.get("loader")
    return (loader, frame.f_locals["self"]) if getattr(loader, "num_workers", 0) else None


def check_counter(caller: FrameType) -> None:
    """Refuses to give its length to a sampler, which would have no effect.

    Torch would refuse some of them itself, but without advice.

    Raises:
        TypeError: always for a sampler; it says what to write.
    """
    if caller.f_globals.get("__name__") in ("torch.utils.data.distributed", "torch.utils.data.sampler"):
        raise TypeError(
            f"a {type(caller.f_locals.get('self')).__name__} was given a ParquetDataset, which has no items "
            "to draw from, and whose ranks read their own rows already: leave the sampler out, and pass "
            "shuffle=True to ParquetDataset for a shuffled order, or world= where there is no "
            "process group"
        )


def check_trainer(caller: FrameType, cursor: SharedCursor | None) -> None:
    """Refuses to be drawn from, or counted, by Lightning's training where no one keeps the place.

    A ResumeCallback that has no loader yet looks for it now.

    Lightning asks a loader for its state by itself, but does not always give it back: not after
    `estimated_stepping_batches`, nor from a checkpoint at the end of an epoch. It also knows no batch that
    was drawn to try something (`lr_find`).

    Args:
        caller: the frame that draws, or counts.
        cursor: whose place is to be kept; None if it is kept, or each iteration starts the pass over.

    Raises:
        FastresumeError: it says what to write; for a DataLoader that stacks batches, too, as Lightning shows
            an error of its own instead of a later one.
        ValueError: if a ResumeCallback keeps the place of another loader.
    """
    if sys.modules.keys().isdisjoint(_LIGHTNING) or get_worker_info() is not None:
        return
    loop = _training_loop(caller)
    if loop is None:
        return
    try:
        refuse_stacking(caller.f_locals.get("self"))
    except TypeError as error:
        raise _core.FastresumeError(str(error)) from None
    if cursor is None:
        return
    keepers = [callback for callback in loop.trainer.callbacks if hasattr(callback, "find_loader")]
    for keeper in keepers:
        keeper.find_loader(loop.trainer)
    if keepers and not cursor.is_kept:
        raise ValueError(
            "the Trainer trains on another loader than the one that ResumeCallback was given, and nothing "
            "keeps its place: make one loader, and give it to both; a fastresume.Mixture makes one of several"
        )
    if not keepers:
        raise _core.FastresumeError(
            "Lightning trains on this dataset, and nothing keeps its place: a checkpoint would hold another "
            "batch than the one that was trained last, or could not be resumed. Pass "
            "callbacks=[fastresume.integrations.lightning.ResumeCallback(loader)] to the Trainer; or, where "
            'nothing is ever resumed, on_iter="restart" to the dataset. Where your own code saves '
            "batch.state_dict(), make a fastresume.integrations.resume_state.ResumeState(loader), and tell "
            "that one"
        )


def added_up_by_accelerate() -> int:
    """How many batches make a step of `accelerator.accumulate`, which asks its DataLoaders where they end."""
    state = sys.modules.get("accelerate.state")
    if state is None or not getattr(state.GradientState, "_shared_state", None):
        return 1
    gradients = state.GradientState()
    return int(gradients.num_steps) if gradients.sync_with_dataloader else 1


def warn_at_saves_of_accelerate(cursor: SharedCursor) -> None:
    """Lets each Accelerator of this process warn if it saves without a place: its `prepare` tells us nothing.

    Args:
        cursor: whose place nothing keeps yet.
    """
    module = sys.modules.get("accelerate.accelerator")
    if module is None or cursor.is_kept or cursor.is_watched or not module.GradientState._shared_state:
        return
    cursor.is_watched = True
    for found in gc.get_objects():  # Accelerate has no list of them
        if issubclass(type(found), module.Accelerator):
            saves = _SavesOfAccelerate(weakref.ref(found), weakref.ref(cursor))
            saves.handle = found.register_save_state_pre_hook(saves)


@dataclass
class _SavesOfAccelerate:
    """What an Accelerator calls at `save_state`: it warns once if nothing of ours is saved."""

    accelerator: weakref.ref[Any]
    cursor: weakref.ref[SharedCursor]
    handle: Any = None

    def __call__(self, *_: object) -> None:
        accelerator, cursor = self.accelerator(), self.cursor()
        if accelerator is None or cursor is None or cursor.is_kept:
            return
        if any(type(each).__module__.startswith("fastresume.") for each in _saved_by(accelerator)):
            return
        self.handle.remove()
        warn(
            "accelerator.save_state saves no place of the data: a job that resumes would start at row 0. "
            "Before training call resume = fastresume.integrations.accelerate.register(accelerator, loader), "
            "and resume.trained(batch) after each batch. Where your own code saves batch.state_dict(), make "
            "a fastresume.integrations.resume_state.ResumeState(loader), and tell that one"
        )


def _saved_by(accelerator: Any) -> list[object]:
    """What an Accelerator saves the states of, as far as data may be among it."""
    stateful = [each for each in accelerator._dataloaders if getattr(each, "use_stateful_dataloader", False)]
    return [*accelerator._custom_objects, *(each.dataset for each in stateful)]


_LIGHTNING = {"lightning", "pytorch_lightning", "lightning_fabric"}


def _training_loop(caller: FrameType) -> Any | None:
    """Lightning's loop of training, if the nearest of Lightning's frames draws batches or counts them for it.

    Any other is a hook: what the user's own code does in it is the user's.
    """
    frame: FrameType | None = caller
    is_drawn = False
    while frame is not None:
        package, _, module = frame.f_globals.get("__name__", "").partition(".")
        if package in _LIGHTNING:
            part = module.rpartition(".")[2]
            is_drawn = is_drawn or module.endswith(("utilities.combined_loader", "utilities.data"))
            if not is_drawn:
                return None
            if ".loops." in f".{module}" and part != "fetchers":
                is_training = part in ("fit_loop", "training_epoch_loop")
                return frame.f_locals["self"] if is_training else None
        frame = frame.f_back
    return None


def refuse_stacking(loader: object) -> None:
    """Refuses a DataLoader that makes one batch of several, value by value; custom functions may do better.

    Raises:
        TypeError: it says what to write.
    """
    collate = getattr(loader, "collate_fn", None)
    module: str = getattr(collate, "__module__", None) or ""
    if module.split(".", maxsplit=1)[0] == "transformers":
        raise TypeError(OF_TRANSFORMERS)
    if collate is default_collate:
        refuse_to_collate()
