"""Who iterates over a dataset: those who would join its batches, or deal them out again, are refused."""

from __future__ import annotations

from types import FrameType

from torch.utils.data import default_collate

from fastresume import _core
from fastresume.batch import refuse_to_collate


def check_caller(caller: FrameType) -> None:
    """Refuses to be iterated over by what would spoil the batches, before any is drawn.

    Raises:
        TypeError: for a DataLoader that would collate whole batches; it says what to write.
        FastresumeError: for a wrapper that deals out among ranks what each of them reads for itself.
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


def _stacks(collate: object) -> bool:
    """Whether a collate function makes one batch of several, value by value; others may know better."""
    if collate is default_collate:
        return True
    module: str = getattr(collate, "__module__", None) or ""
    return module.split(".", maxsplit=1)[0] == "transformers"
