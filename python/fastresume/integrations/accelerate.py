"""For Accelerate: what `save_state` saves and `load_state` restores."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from accelerate import Accelerator
from accelerate.data_loader import DataLoaderDispatcher
from torch.utils.data import DataLoader

from fastresume.batch.batch import Batch
from fastresume.integrations.resume_state import Reader, ResumeState, check_ranks
from fastresume.messages import warn
from fastresume.options.checks import kind_of
from fastresume.options.unknown import takes_no_other
from fastresume.state.cursor import Cursor


@takes_no_other("fastresume.integrations.accelerate.register")
def register(accelerator: Accelerator, loader: Reader, *, check_same: bool = False) -> ResumeState:
    """Makes an Accelerator save and restore the position of the batch that was trained last.

    Call `trained(batch)` on the returned object after each batch. The main process writes one file for all,
    which every rank loads: under lockstep training the state of any rank is the global one. Under
    `accelerator.accumulate` the state moves only with the steps of the optimizer. A pass (epoch) ends with a
    step, also if its last one has fewer batches. After a state was loaded, `accumulate` counts from 0.

    Args:
        accelerator: the Accelerator.
        loader: the `Loader`, which `accelerator.prepare` leaves as it is; in one process, under
            `DataLoaderConfiguration(dispatch_batches=False)`, also what it made of a torch DataLoader over a
            `ParquetDataset`.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Returns:
        The state that is registered: for a loader that is registered already, the one that is there.

    Raises:
        TypeError: if the loader is something else.
        ValueError: if rank 0 would read for all ranks and hand batches out, or the environment names more
            ranks to the dataset than the Accelerator has.

    Warns:
        UserWarning: if another loader of the same files is registered: the states of both are saved.

    Examples:
        >>> state = register(accelerator, loader)  # doctest: +SKIP
        >>> for batch in loader:  # doctest: +SKIP
        ...     train(batch)
        ...     state.trained(batch)
        ...     accelerator.save_state("checkpoint")
    """
    if not isinstance(accelerator, Accelerator):
        raise TypeError(
            f"accelerator must be an accelerate.Accelerator, found {kind_of(accelerator)}: write "
            "register(accelerator, loader)"
        )
    # The adapters' __class__ is that of what they wrap.
    if issubclass(type(loader), DataLoaderDispatcher):
        raise ValueError(
            "Accelerate made a DataLoaderDispatcher of this DataLoader: rank 0 would read for all ranks, and "
            "the others' readers never be asked. Give accelerator.prepare the fastresume.Loader, which it "
            "leaves as it is, or pass DataLoaderConfiguration(dispatch_batches=False)"
        )
    there = [one for one in _registered if one._accelerator is accelerator]
    for one in there:
        if one._loader is loader:
            one._check_same = check_same
            return one
    state = _SteppedState(accelerator, loader, check_same=check_same)
    check_ranks(state.dataset, accelerator.num_processes, "Accelerate")
    if any(one.dataset.fingerprint == state.dataset.fingerprint for one in there):
        warn(
            "another loader of the same files is registered with this Accelerator: save_state saves both, "
            "and load_state fails where one is registered. In a notebook, make the Accelerator in the cell "
            "that calls register"
        )
    accelerator.register_for_checkpointing(state)
    _registered.add(state)
    return state


@takes_no_other("ResumeState", "state")
class _SteppedState(ResumeState):
    """The same under `accelerator.accumulate`: it moves with the optimizer's steps.

    A DataLoader that Accelerate has prepared tells `accumulate` where it ends. A `Loader` is left as it is,
    so this object does that instead, among the data loaders that Accelerate's GradientState asks.
    """

    remainder = -1
    """The rows that Accelerate has added to the last batch: it knows of none."""

    def __init__(self, accelerator: Accelerator, loader: Reader, *, check_same: bool = False) -> None:
        super().__init__(loader, check_same=check_same)
        self._accelerator = accelerator
        if not isinstance(loader, DataLoader):
            accelerator.gradient_state.dataloader_references += [self]

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the batch that was drawn last was the last one of its pass."""
        return self.dataset._shared_cursor.cursor.steps == 0

    def trained(self, batch: Batch) -> None:
        """Records a batch, and all before it, as trained, if the optimizer has stepped on them."""
        if self._accelerator.sync_gradients:
            super().trained(batch)
        else:
            self.added_up()

    def load_state_dict(self, state: Mapping[str, Any] | Cursor) -> None:
        """Makes the next `iter()` of the loader resume from a state; a step of the optimizer begins there."""
        super().load_state_dict(state)
        self._accelerator.step = 0


_registered: weakref.WeakSet[_SteppedState] = weakref.WeakSet()
"""The states that Accelerators of this process save."""
