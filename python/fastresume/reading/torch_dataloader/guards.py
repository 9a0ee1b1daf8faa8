"""Checks of who iterates over a dataset, or takes its length: collating or resharding callers are refused."""

from __future__ import annotations

from types import FrameType

from torch.utils.data import default_collate

import fastresume._core as _core
from fastresume.batch.batch import refuse_to_collate


def check_caller(caller: FrameType) -> None:
    """Refuses to be iterated over by code that would spoil the batches, before any is drawn.

    Raises:
        TypeError: for a DataLoader that would collate whole batches; it says what to write.
        FastresumeError: for a wrapper that deals batches out among ranks, while each rank reads its own.
    """
    module, owner = caller.f_globals.get("__name__"), caller.f_locals.get("self")
    if module == "torch.utils.data._utils.fetch" and getattr(owner, "auto_collation", False):
        if _stacks(getattr(owner, "collate_fn", None)):
            refuse_to_collate()
    elif type(owner).__name__ == "IterableDatasetShard":
        raise _core.FastresumeError(
            f"{module}.IterableDatasetShard would deal the batches out among the ranks, each of which reads "
            "its own rows already, and most would be lost: prepare no DataLoader over this dataset with "
            "Accelerate, but give it a fastresume.Loader, which it leaves as it is"
        )


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
            "shuffle=True to ParquetDataset for a shuffled order, or rank= and world_size= where there is no "
            "process group"
        )


def _stacks(collate: object) -> bool:
    """Whether a collate function makes one batch of several, value by value; custom ones may do better."""
    if collate is default_collate:
        return True
    module: str = getattr(collate, "__module__", None) or ""
    return module.split(".", maxsplit=1)[0] == "transformers"
