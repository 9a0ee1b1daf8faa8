"""For the Trainer of Transformers: a callback, and the batches as the Trainer takes them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

import fastresume._core as _core
from fastresume.integrations.resume_state import Reader, ResumeState, check_ranks, dataset_of, require_state
from fastresume.reading.resumable import ResumableDataset
from fastresume.state.cursor import Cursor


class ResumeCallback(TrainerCallback, ExportableState):
    """Saves the cursor of the batch that was trained last in `trainer_state.json`, and restores it.

    The Trainer builds its inputs anew, so that nothing can ride on them: it draws from `dataloader`, which
    gives each batch as a dict and knows its cursor. It must not skip batches as well, hence
    `ignore_data_skip=True`. Name `global_batch_size=` in the dataset, so that a pass has as many steps on any
    number of ranks: the Trainer counts its epochs by them. In a pass that is resumed it is made to step after
    the last batch, however many gradients add up: `gradient_accumulation_steps` is another for that batch.

    Args:
        loader: the `Loader` to train on; or a torch DataLoader over a `ParquetDataset`.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Raises:
        TypeError: if the loader is something else.
        ValueError: in `train`, without `ignore_data_skip=True`, or with arguments under which no resume would
            be exact; under `static=True`, if gradients add up.
        StateError: if the checkpoint has no state, or one of another dataset, selection of rows or order.

    Examples:
        >>> resume = ResumeCallback(loader)  # doctest: +SKIP
        >>> trainer = Trainer(model, args, callbacks=[resume])  # doctest: +SKIP
        >>> trainer.get_train_dataloader = lambda: resume.dataloader  # doctest: +SKIP
    """

    def __init__(self, loader: Reader, *, check_same: bool = False) -> None:
        self._state = ResumeState(loader, check_same=check_same)
        self._dataloader = DrawnBatches(loader, self._state)
        self._done_before = 0.0  # the part of the Trainer's present epoch that was done before a resume

    @property
    def dataloader(self) -> DrawnBatches:
        """What the Trainer draws from: its `get_train_dataloader` returns this."""
        self._dataloader.restore()  # an exception may have come in between
        return self._dataloader

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
        if given.get("train_dataloader") is not self._dataloader:
            raise ValueError(
                "the Trainer draws from another dataloader than the one of ResumeCallback: let "
                "get_train_dataloader() return resume.dataloader"
            )
        dataset = self._state.dataset
        check_ranks(dataset, args.world_size, "the Trainer")
        self._dataloader.begin(args)
        self._done_before = 0.0
        if state.global_step == 0:
            if dataset.batches_left < len(dataset):
                warnings.warn(
                    f"the Trainer begins at step 0, and the loader in mid pass: {dataset.batches_left} of "
                    f"{len(dataset)} batches are left, so that it takes fewer steps than it counts on; call "
                    "loader.reset() for the whole pass, or pass resume_from_checkpoint= to train()",
                    stacklevel=2,
                )
            return
        found = (state.stateful_callbacks or {}).get(type(self).__name__, {})
        self._state.load_state_dict(
            require_state(found.get("attributes", {}).get("state"), "of ResumeCallback")
        )
        self._dataloader.forget()
        self._done_before = 1 - dataset.batches_left / len(dataset)
        self._check_steps(args, state)

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch whose gradients are to be added to others'."""
        self._dataloader.use(is_step=False)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch after which the optimizer has stepped."""
        self._dataloader.use(is_step=True)
        if self._done_before and state.epoch is not None:  # it counts from where it resumed
            state.epoch += self._done_before

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note that the next epoch is a whole one."""
        self._done_before = 0.0

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Puts the rows per second right, which the Trainer takes from `per_device_train_batch_size`."""
        name = "train_samples_per_second"
        if logs is None or name not in logs or not logs.get("train_runtime"):
            return
        rows = self._dataloader.trained_rows * self._state.dataset.world.world_size
        logs[name] = round(rows / logs["train_runtime"], 3)
        if state.log_history and name in state.log_history[-1]:
            state.log_history[-1][name] = logs[name]

    def _check_steps(self, args: TrainingArguments, state: TrainerState) -> None:
        dataset, added = self._state.dataset, args.gradient_accumulation_steps
        in_pass = -(-len(dataset) // added)
        passes, steps = divmod(state.global_step, in_pass)
        left = -(-dataset.batches_left // added)
        if passes != dataset.epoch or steps + left != in_pass:
            warnings.warn(
                f"the Trainer takes {state.global_step} steps for {passes} passes of {in_pass} and {steps} "
                f"steps, but {dataset.epoch} passes were done, and {left} steps are left of the present one: "
                "the number of ranks, the batch size or gradient_accumulation_steps has changed, and it will "
                "end after another number of passes or steps; leave the last as it was, and pass "
                "global_batch_size= to ParquetDataset",
                stacklevel=2,
            )


class DictBatches:
    """The batches of a loader as dicts, which the Trainer can build anew: for its `get_eval_dataloader`.

    Args:
        loader: the `Loader`, or a torch DataLoader over a `ParquetDataset`; for evaluation, of a dataset with
            `on_iter="restart"`.

    Attributes:
        dataset: its length is the number of rows in a pass, over all ranks: the Trainer takes its rows per
            second from it.
    """

    def __init__(self, loader: Reader) -> None:
        self._loader = loader
        self.dataset = _Rows(dataset_of(loader))

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from where the loader is to the end of the pass."""
        return map(dict, self._loader)


class _Rows:
    """What has so many rows as a pass of a dataset delivers."""

    def __init__(self, dataset: ResumableDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        dataset = self._dataset
        return min(len(dataset) * dataset.global_batch_size, dataset.num_rows)


class _Drawn(NamedTuple):
    """What is kept of a batch that was drawn: never its tensors."""

    cursor: Cursor
    rows: int
    ends_pass: bool


class DrawnBatches(DictBatches):
    """The same for training, which keeps the cursors of batches from when they are drawn until they are used.

    An iteration begins after the batch that was trained last: what was drawn beyond it, and never used, comes
    again. Only what broke off is put back so: after the last batch of a pass the next pass begins.

    Attributes:
        trained_rows: rows of this rank that were used since training began.
    """

    def __init__(self, loader: Reader, state: ResumeState) -> None:
        super().__init__(loader)
        self._state = state
        self._drawn: deque[_Drawn] = deque()
        self._used = 0  # in this iteration
        self._has_ended = False  # whether the batch that was used last ended its pass
        self._args: TrainingArguments | None = None
        self._added = 1
        self.trained_rows = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from the one after the last that was trained, to the end of the pass."""
        if self._drawn or not self._has_ended:
            self._state.go_back()
        self.forget()
        for batch in self._loader:
            self._drawn.append(_Drawn(batch.cursor, batch._origin.valid_rows, batch.batches_left == 0))
            self._step_after_the_last()
            yield dict(batch)

    def begin(self, args: TrainingArguments) -> None:
        """Takes the arguments of the training that begins, and counts from 0.

        Raises:
            ValueError: if the batches of a step would be drawn into the same tensors.
        """
        device = getattr(self._loader, "_device", None)
        if device is not None and device.is_static and args.gradient_accumulation_steps > 1:
            raise ValueError(
                "the Trainer draws all batches of a step before it trains on the first, and under "
                "static=True they come in the same tensors: leave static out, or add no gradients up"
            )
        self._args, self._added = args, args.gradient_accumulation_steps
        self.trained_rows = 0

    def use(self, is_step: bool) -> None:
        """Takes note that the first batch that was not yet used is used now, and whether a step followed.

        Raises:
            FastresumeError: if none was drawn.
        """
        if not self._drawn:
            raise _core.FastresumeError("the Trainer trained on a batch that was not drawn from here")
        cursor, rows, self._has_ended = self._drawn.popleft()
        self._used += 1
        self.trained_rows += rows
        if is_step:
            self.restore()
            self._state.trained_to(cursor)
        self._step_after_the_last()

    def forget(self) -> None:
        """Forgets what was drawn."""
        self._drawn.clear()
        self._used = 0
        self._has_ended = False

    def restore(self) -> None:
        """Gives the Trainer its arguments back as they were."""
        if self._args is not None:
            self._args.gradient_accumulation_steps = self._added

    def _step_after_the_last(self) -> None:
        """Lets the Trainer step after the last batch of the pass, if that is the next one.

        It steps after every so many batches of an epoch, and after as many as a whole pass has: in a pass
        that was resumed the last ones are neither, and would be left without a step.
        """
        if self._args is None or not self._drawn or not self._drawn[0].ends_pass:
            return
        number = self._used + 1
        if number % self._added and number != len(self):
            # A divisor of this number alone, unless the batch begins a step of its own.
            self._args.gradient_accumulation_steps = 1 if self._used % self._added == 0 else number


def _check(args: TrainingArguments) -> None:
    if not args.ignore_data_skip:
        raise ValueError(
            "the Trainer would skip batches by itself on resume, beside ResumeCallback, which goes on where "
            "the checkpoint ends: rows would be lost. Pass ignore_data_skip=True to TrainingArguments"
        )
    if args.auto_find_batch_size:
        raise ValueError(
            "auto_find_batch_size=True would begin anew with smaller batches when memory runs out, but the "
            "dataset says how large they are: leave it out, and pass a smaller batch_size= to ParquetDataset "
            "(with gradient_accumulation_steps= for as many rows in a step)"
        )
    if args.restore_callback_states_from_checkpoint:
        raise ValueError(
            "restore_callback_states_from_checkpoint=True would replace ResumeCallback by one without a "
            "loader; it restores its state by itself: leave that argument out"
        )
