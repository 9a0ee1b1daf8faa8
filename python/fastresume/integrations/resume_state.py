"""The position of the batch that was trained last, no matter what was fetched ahead of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from torch.utils.data import DataLoader

import fastresume._core as _core
from fastresume.agreement import same_state
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.loader import Loader
from fastresume.messages import warn
from fastresume.options.unknown import takes_no_other
from fastresume.reading.resumable import ResumableDataset, dataset_behind
from fastresume.reading.torch_dataloader.guards import refuse_stacking
from fastresume.state.cursor import Cursor

Reader = Loader | ResumableDataset | DataLoader[Any]
"""What batches are drawn from: a DataLoader is one over a `ParquetDataset`."""

_READ_AHEAD = 16
"""This many batches may be drawn before the first one is trained: frameworks read ahead, gradients add up."""


@takes_no_other("ResumeState", "state")
class ResumeState:
    """The state of the batch that was trained last: an object to put into a checkpoint.

    A wrapper that reads ahead has drawn more batches than were trained. Each batch carries its cursor, so
    `trained(batch)` after the optimizer's step says what belongs into the checkpoint, no matter how far the
    loader has read. `state_dict()` has one leaf, and the same keys and types at any moment. It is the same on
    every rank under lockstep training. It asks no worker and changes nothing.

    Args:
        loader: the `Loader`, the `ParquetDataset`, or a torch DataLoader over one, that training draws from.
        check_same: when a state is loaded, ask all ranks of the process group whether they load the same;
            then all ranks must load. See `fastresume.distributed.check_same`.

    Raises:
        TypeError: if the loader is something else, or a DataLoader that stacks batches.
        ValueError: if its dataset has `on_iter="restart"`: no state would be resumed.

    Examples:
        >>> state = ResumeState(loader)
        >>> for batch in loader:
        ...     train(batch)
        ...     state.trained(batch)
        ...     save({"data": state.state_dict()})
    """

    def __init__(self, loader: Reader, *, check_same: bool = False) -> None:
        self.dataset = dataset_of(loader)
        refuse_stacking(loader)
        if self.dataset.on_iter == "restart":
            raise ValueError(
                'the dataset has on_iter="restart": each iter() starts the pass over, so that no state is '
                "resumed; make the dataset that is trained on without it"
            )
        self.dataset._shared_cursor.is_kept = True
        self._loader = loader
        self._check_same = check_same
        self._begin(self.dataset._shared_cursor.cursor)

    def trained(self, batch: Batch) -> None:
        """Records that the optimizer has stepped on a batch, and on all before it.

        Raises:
            TypeError: if it is no `Batch`: what makes others of it loses the cursor.
            StateError: if it is a batch of another dataset, selection of rows or order.
        """
        if not isinstance(batch, Batch):
            raise TypeError(
                f"the batch that was trained is a {type(batch).__name__}, and no fastresume.Batch: the "
                "cursor rides on the batch, so hand that one over, and make others of it (a dict, a tuple) "
                "only where the model is called"
            )
        cursor = batch.cursor
        self.trained_to(Cursor(self.dataset._fitted(cursor._core)))

    def trained_to(self, cursor: Cursor) -> None:
        """The same of a batch whose cursor was kept."""
        self._follow()
        self._cursor, self._has_trained = cursor, True

    def added_up(self) -> None:
        """Records that gradients of a batch are added to others': the place moves with the step."""
        self._follow()
        self._has_trained = True

    def state_dict(self) -> dict[str, str]:
        """The state after the batch that was trained last: one leaf under the key "fastresume".

        Before the first one, that which was loaded, or where the loader was when this was made.

        Warns:
            UserWarning: if many batches were drawn, or more than at the state before, and none of them was
                reported by `trained`.
        """
        self._follow()
        drawn = self._drawn() - self._drawn_before
        self._drawn_at_save, before = drawn, self._drawn_at_save
        if not self._has_trained and (drawn > _READ_AHEAD or 0 < before < drawn):
            warn(
                f"a state is asked for after {plural(drawn, 'batch', 'batches')}, but no batch was reported "
                "as trained: call trained(batch) after each step of the optimizer"
            )
        return self._cursor.to_state()

    @property
    def batches_left(self) -> int:
        """Batches that this rank still gets in the pass of the batch that was trained last, after it."""
        self._follow()
        return self.dataset._spec.pass_from(self._cursor._core, 1).batches_left

    def load_state_dict(self, state: Mapping[str, Any] | Cursor) -> None:
        """Makes the next `iter()` of the loader resume from a state.

        Raises:
            StateError: if the state is empty, damaged, or of another version, dataset, selection or order;
                with `check_same`, if ranks load states that differ. The loader is then unchanged.
        """
        self.dataset.load_state_dict(same_state.check_same(state) if self._check_same else state)
        self._follow()

    def fits(self, state: Mapping[str, Any] | Cursor) -> bool:
        """Whether a state is one of what the loader reads."""
        try:
            self.dataset._fitted(Cursor.from_state(state)._core)
        except _core.StateError:
            return False
        return True

    def go_back(self) -> None:
        """Makes the loader's next `iter()` begin after the batch that was trained last."""
        self._follow()
        if Cursor(self.dataset._shared_cursor.cursor) != self._cursor:
            self.dataset.load_state_dict(self._cursor)
            self._given = self.dataset._shared_cursor.given

    def _begin(self, cursor: _core.Cursor) -> None:
        self._cursor = Cursor(cursor)
        self._given = self.dataset._shared_cursor.given
        self._has_trained = False
        self._drawn_before = self._drawn()
        self._drawn_at_save = 0

    def _follow(self) -> None:
        """Takes over a state that was loaded into the loader or the dataset directly."""
        if self._given != self.dataset._shared_cursor.given:
            self._begin(self.dataset._shared_cursor.loaded)

    def _drawn(self) -> int:
        return self._loader.stats().batches if isinstance(self._loader, Loader) else 0

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} can't be pickled: put it at the top of the mapping that "
            "torch.distributed.checkpoint saves, which sees no deeper, or save its state_dict()"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cursor!r})"


def dataset_of(loader: object) -> ResumableDataset:
    """The dataset that batches are drawn from.

    Raises:
        TypeError: if there is none.
    """
    found = dataset_behind(loader)
    if found is None:
        raise TypeError(
            "loader must be a fastresume.Loader, a ParquetDataset, or a torch DataLoader over one, found "
            f"{type(loader).__name__}"
        )
    return found


def batches_of_passes(dataset: ResumableDataset, cursor: _core.Cursor, workers: int) -> Iterator[int]:
    """The number of batches that are left of a cursor's pass, then that of each pass after it, without end.

    Passes differ in length: those of a mixture, and one to which files have come.

    Raises:
        TypeError: for a stream, whose rounds are not known ahead.
    """
    if dataset._is_stream:
        len(dataset)  # which refuses
    while True:
        planned = dataset._spec.pass_from(cursor, max(workers, 1))
        yield planned.batches_left
        cursor = planned.next_pass()


def is_same_reading(loader: object, dataset: ResumableDataset) -> bool:
    """Whether a loader draws from a dataset, or from what `map` made of it: they share one cursor."""
    found = dataset_behind(loader)
    return found is not None and found._shared_cursor is dataset._shared_cursor


def check_ranks(dataset: ResumableDataset, ranks: int, framework: str) -> None:
    """Refuses to train on fewer ranks than the environment told the dataset of.

    Raises:
        ValueError: if the rows of some ranks would not be trained together with those of the others.
    """
    if dataset._spec.world_was_detected and dataset.world.world_size > ranks:
        raise ValueError(
            f"the environment told the dataset of {dataset.world.world_size} ranks, but {framework} knows of "
            f"{ranks}: each would train alone, on its share of the rows; let {framework} know of the others "
            "(without a GPU, tell it that it runs on the CPU), or pass world= to the dataset"
        )


def require_state(state: object, where: str) -> Mapping[str, Any]:
    """A state that was found in a checkpoint.

    Raises:
        StateError: if there is none: to start at row 0 without a word would train rows twice.
    """
    if not isinstance(state, Mapping):
        raise _core.StateError(
            f"the checkpoint has no state of the data {where}: it was saved without it. To start the data "
            "over with this model, load the model alone; to resume elsewhere, call loader.load_state_dict"
        )
    return state
