"""For the Trainer of Transformers: a callback, and the batches as the Trainer takes them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

import fastresume._core as _core
from fastresume.integrations.resume_state import Reader, ResumeState, check_ranks, require_state
from fastresume.state.cursor import Cursor


class ResumeCallback(TrainerCallback, ExportableState):
    """Saves the cursor of the batch that was trained last in `trainer_state.json`, and restores it.

    The Trainer builds its inputs anew, so that nothing can ride on them: it draws from `dataloader`, which
    gives each batch as a dict and knows its cursor. It must not skip batches as well, hence
    `ignore_data_skip=True`. Name `global_batch_size=` in the dataset, so that a pass has as many steps on any
    number of ranks: the Trainer counts its epochs by them.

    Args:
        loader: the `Loader` to train on; or a torch DataLoader over a `ParquetDataset`.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Raises:
        TypeError: if the loader is something else.
        ValueError: in `train`, without `ignore_data_skip=True`.
        StateError: if the checkpoint has no state, or one of another dataset, selection of rows or order.

    Example:
        >>> resume = ResumeCallback(loader)  # doctest: +SKIP
        >>> trainer = Trainer(model, args, callbacks=[resume])  # doctest: +SKIP
        >>> trainer.get_train_dataloader = lambda: resume.dataloader  # doctest: +SKIP
    """

    def __init__(self, loader: Reader, *, check_same: bool = False) -> None:
        self._state = ResumeState(loader, check_same=check_same)
        self.dataloader = DrawnBatches(loader, self._state)

    def state(self) -> dict[str, Any]:
        """What `trainer_state.json` holds of this callback."""
        return {"args": {}, "attributes": {"state": self._state.state_dict()}}

    def on_init_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Refuses arguments under which no resume would be exact."""
        _check(args)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Lets the loader go on from the state in the checkpoint, if there is one."""
        _check(args)
        if given.get("train_dataloader") is not self.dataloader:
            raise ValueError(
                "the Trainer draws from another dataloader than the one of ResumeCallback: let "
                "get_train_dataloader() return resume.dataloader"
            )
        check_ranks(self._state.dataset, args.world_size, "the Trainer")
        if state.global_step == 0:
            return
        found = (state.stateful_callbacks or {}).get(type(self).__name__, {})
        self._state.load_state_dict(
            require_state(found.get("attributes", {}).get("state"), "of ResumeCallback")
        )
        self.dataloader.forget()
        self._check_steps(args, state)

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch whose gradients are to be added to others'."""
        self.dataloader.use(is_step=False)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch after which the optimizer has stepped."""
        self.dataloader.use(is_step=True)

    def _check_steps(self, args: TrainingArguments, state: TrainerState) -> None:
        dataset, added = self._state.dataset, args.gradient_accumulation_steps
        steps = -(-len(dataset) // added)
        if state.global_step // steps != dataset.epoch:
            warnings.warn(
                f"the Trainer takes {state.global_step} steps for {state.global_step // steps} passes of "
                f"{steps}, but {dataset.epoch} were done: the number of ranks or the batch size has changed, "
                "and it will end after another number of passes; pass global_batch_size= to ParquetDataset",
                stacklevel=2,
            )
        elif len(dataset) % added and dataset.batches_left < len(dataset):
            warnings.warn(
                f"a pass of {len(dataset)} batches ends amid {added} whose gradients add up, and the Trainer "
                "will not step on the last ones of a pass that it resumes: let the one divide the other",
                stacklevel=2,
            )


class DictBatches:
    """The batches of a loader as dicts, which the Trainer can build anew: for its `get_eval_dataloader`.

    Args:
        loader: the `Loader`, or a torch DataLoader over a `ParquetDataset`; for evaluation, of a dataset with
            `on_iter="restart"`.
    """

    def __init__(self, loader: Reader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from where the loader is to the end of the pass."""
        return map(dict, self._loader)


class DrawnBatches(DictBatches):
    """The same for training, which keeps the cursors of batches from when they are drawn until they are used.

    An iteration begins after the batch that was trained last: what was drawn beyond it, and never used, comes
    again.
    """

    def __init__(self, loader: Reader, state: ResumeState) -> None:
        super().__init__(loader)
        self._state = state
        self._drawn: deque[Cursor] = deque()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from the one after the last that was trained, to the end of the pass."""
        self._state.go_back()
        self.forget()
        for batch in self._loader:
            self._drawn.append(batch.cursor)
            yield dict(batch)

    def use(self, is_step: bool) -> None:
        """Takes note that the first batch that was not yet used is used now, and whether a step followed.

        Raises:
            FastresumeError: if none was drawn.
        """
        if not self._drawn:
            raise _core.FastresumeError("the Trainer trained on a batch that was not drawn from here")
        cursor = self._drawn.popleft()
        if is_step:
            self._state.trained_to(cursor)

    def forget(self) -> None:
        """Forgets what was drawn."""
        self._drawn.clear()


def _check(args: TrainingArguments) -> None:
    if not args.ignore_data_skip:
        raise ValueError(
            "the Trainer would skip batches by itself on resume, beside ResumeCallback, which goes on where "
            "the checkpoint ends: rows would be lost. Pass ignore_data_skip=True to TrainingArguments"
        )
    if args.restore_callback_states_from_checkpoint:
        raise ValueError(
            "restore_callback_states_from_checkpoint=True would replace ResumeCallback by one without a "
            "loader; it restores its state by itself: leave that argument out"
        )
