"""For Accelerate: what `save_state` saves and `load_state` restores."""

from __future__ import annotations

from accelerate import Accelerator
from accelerate.data_loader import DataLoaderDispatcher

from fastresume.integrations.resume_state import Reader, ResumeState, check_ranks


def register(accelerator: Accelerator, loader: Reader, *, check_same: bool = False) -> ResumeState:
    """Has an Accelerator save and restore the place of the batch that was trained last.

    The main process writes one file for all, which every rank loads: under lockstep training the state of
    any rank is the global one. Call `trained(batch)` of what is returned after each step of the optimizer.

    Args:
        accelerator: the Accelerator.
        loader: the `Loader`, which `accelerator.prepare` leaves as it is; in one process, under
            `DataLoaderConfiguration(dispatch_batches=False)`, also what it made of a torch DataLoader over a
            `ParquetDataset`.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Raises:
        TypeError: if the loader is something else.
        ValueError: if rank 0 would read for all ranks and deal batches out, or the environment tells the
            dataset of more ranks than the Accelerator has.

    Example:
        >>> state = register(accelerator, loader)  # doctest: +SKIP
        >>> for batch in loader:  # doctest: +SKIP
        ...     train(batch)
        ...     state.trained(batch)
        ...     accelerator.save_state("checkpoint")
    """
    # The adapters' __class__ is that of what they wrap.
    if issubclass(type(loader), DataLoaderDispatcher):
        raise ValueError(
            "Accelerate made a DataLoaderDispatcher of this DataLoader: rank 0 would read for all ranks, and "
            "the others' readers never be asked. Give accelerator.prepare the fastresume.Loader, which it "
            "leaves as it is, or pass DataLoaderConfiguration(dispatch_batches=False)"
        )
    state = ResumeState(loader, check_same=check_same)
    check_ranks(state.dataset, accelerator.num_processes, "Accelerate")
    accelerator.register_for_checkpointing(state)
    return state
