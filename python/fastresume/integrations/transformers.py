"""For the Trainer of Transformers: a callback, and the batches as the Trainer takes them."""

from __future__ import annotations

import math
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.integrations.resume_state import (
    Reader,
    ResumeState,
    batches_of_passes,
    check_ranks,
    dataset_of,
    require_state,
)
from fastresume.messages import warn
from fastresume.reading.resumable import ResumableDataset
from fastresume.reading.torch_dataloader.guards import refuse_items
from fastresume.state.cursor import Cursor

_ADDED = "gradient_accumulation_steps"

_OF_DATASETS = {
    "train_sampling_strategy": "shuffle=True, or unit=fr.Bins(name, cost=n) for rows by their lengths",
    "group_by_length": "unit=fr.Bins(name, cost=n)",  # its name in older releases
    "data_seed": "seed=n",
}
"""Arguments of the Trainer that say which rows come when, and what says it to a dataset."""

_EMPTY_PASSES = 1000
"""This many passes without a batch may follow each other."""


class ResumeCallback(TrainerCallback, ExportableState):
    """Saves the cursor of the batch that was trained last in `trainer_state.json`, and restores it.

    The Trainer makes new inputs from each batch, so these can't carry a cursor. It draws from `dataloader`,
    which gives each batch as a dict and knows its cursor. It must not skip batches itself: pass
    `ignore_data_skip=True`.

    An epoch is a pass, and ends with it, no matter how long it is: passes of a mixture differ, and files may
    be added. So `dataloader` has no length, and for `train`, `max_steps` is set to the steps of
    `num_train_epochs` passes. The Trainer always steps after the last batch of a pass: for that batch,
    `gradient_accumulation_steps` is changed. Both arguments are restored. A `KafkaDataset` is one epoch, and
    needs `max_steps`.

    Args:
        loader: the `Loader` to train on; or a torch DataLoader over a `ParquetDataset`.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Raises:
        TypeError: if the loader is something else.
        ValueError: in `train`, without `ignore_data_skip=True`, or with arguments under which no resume would
            be exact; if it was given to `add_callback`, or the Trainer draws from `dataloader` without it;
            under `static=True`, if gradients add up.
        StateError: if the checkpoint has no state, or one of another dataset, selection of rows or order.

    Warns:
        UserWarning: if training begins in the middle of a pass; if it takes another number of steps than its
            learning-rate schedule was made for; for `train_sampling_strategy` and `data_seed`, which the
            dataset decides.

    Examples:
        >>> resume = ResumeCallback(loader)  # doctest: +SKIP
        >>> trainer = Trainer(model, args, callbacks=[resume])  # doctest: +SKIP
        >>> trainer.get_train_dataloader = lambda: resume.dataloader  # doctest: +SKIP
    """

    def __init__(self, loader: Reader, *, check_same: bool = False) -> None:
        self._state = ResumeState(loader, check_same=check_same)
        self._dataloader = DrawnBatches(loader, self._state)
        self._first_epoch = 0  # how many passes the loader had done when the Trainer's first epoch began

    @property
    def dataloader(self) -> DrawnBatches:
        """What the Trainer draws from: its `get_train_dataloader` returns this."""
        self._dataloader.restore()  # an exception may have come in between
        self._dataloader.plan()
        return self._dataloader

    def state(self) -> dict[str, Any]:
        """What `trainer_state.json` holds of this callback."""
        attributes = {"state": self._state.state_dict(), "first_epoch": self._first_epoch}
        return {"args": {}, "attributes": attributes}

    def on_init_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Refuses arguments under which no resume would be exact."""
        _check(args)
        self._dataloader.prepare(args)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Makes the loader resume from the state in the checkpoint, if there is one."""
        _check(args)
        _tell_unused(args)
        if given.get("train_dataloader") is not self._dataloader:
            raise ValueError(
                "the Trainer draws from another dataloader than the one of ResumeCallback: let "
                "get_train_dataloader() return resume.dataloader"
            )
        dataset = self._state.dataset
        check_ranks(dataset, args.world_size, "the Trainer")
        self._dataloader.begin(args)
        if state.global_step == 0:
            self._first_epoch = dataset.epoch
            if not dataset._is_stream and dataset.batches_left < len(dataset):
                warnings.warn(
                    "the Trainer begins at step 0, but the loader is in the middle of a pass: "
                    f"{dataset.batches_left} of {len(dataset)} batches are left, so it takes fewer steps; "
                    "call loader.reset() for the whole pass, or pass resume_from_checkpoint= to train()",
                    stacklevel=2,
                )
        else:
            found = (state.stateful_callbacks or {}).get(type(self).__name__, {}).get("attributes", {})
            self._state.load_state_dict(require_state(found.get("state"), "of ResumeCallback"))
            self._first_epoch = found.get("first_epoch", 0)
            self._dataloader.forget()
        self._set_steps(args, state)

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch whose gradients are to be added to others'."""
        self._dataloader.use(is_step=False)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes note of a batch after which the optimizer has stepped; ends the epoch with the pass."""
        self._dataloader.use(is_step=True)
        state.epoch = self._dataloader.passes_done - self._first_epoch
        if self._dataloader.has_ended:
            control.should_epoch_stop = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Saves and evaluates nothing where nothing was left to train."""
        if self._dataloader.is_over:
            control.should_log = control.should_evaluate = control.should_save = False

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Gives the Trainer its arguments back."""
        self._dataloader.restore()
        self._dataloader.is_begun = False

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

    def _set_steps(self, args: TrainingArguments, state: TrainerState) -> None:
        """Lets training end with the last of its passes, by what is left of them."""
        planned = state.max_steps
        if self._dataloader.counts_passes:
            passes = args.num_train_epochs - (self._state.dataset.epoch - self._first_epoch)
            left = self._dataloader.steps_left(passes)
            state.max_steps = state.global_step + left
            state.num_train_epochs = math.ceil(args.num_train_epochs)
            if state.global_step and state.max_steps != planned:
                warnings.warn(
                    f"the Trainer made its schedule of learning rates for {plural(planned, 'step')}, and "
                    f"takes {state.max_steps}: {state.global_step} were done, and {left} are left of "
                    f"{args.num_train_epochs:g} passes. The data, the number of ranks, the batch size or "
                    "gradient_accumulation_steps has changed: leave them as they were, and pass "
                    "global_batch_size= to the dataset for other ranks; or say max_steps=",
                    stacklevel=3,
                )
        self._dataloader.is_over = state.global_step >= state.max_steps


class DictBatches:
    """The batches of a loader as dicts, which the Trainer can rebuild: for its `get_eval_dataloader`.

    Args:
        loader: the `Loader`, or a torch DataLoader over a `ParquetDataset`; for evaluation, of a dataset with
            `on_iter="restart"`.

    Raises:
        TypeError: if the loader is something else.
        ValueError: if its dataset continues where it stopped: each evaluation would see other rows.

    Warns:
        UserWarning: if rows are left out (`tail="drop"`); in `iter`, if rows of a batch are copies or masked,
            which the Trainer can't tell.

    Attributes:
        dataset: its length is the number of rows in a pass, over all ranks: the Trainer takes its rows per
            second from it.
    """

    _WAY = "call a fastresume.training.Evaluator in a callback of the Trainer"

    def __init__(self, loader: Reader) -> None:
        self._loader = loader
        dataset = dataset_of(loader)
        self.dataset = _Rows(dataset)
        self._check(dataset)

    def _check(self, dataset: ResumableDataset) -> None:
        """Refuses evaluations of other rows each time, and warns of rows that are in none."""
        if dataset.on_iter == "continue" and not dataset._is_stream:
            raise ValueError(
                "the dataset to evaluate with continues where it stopped, so that each evaluation would see "
                'other rows: pass on_iter="restart" to it; to train, give the Trainer '
                "ResumeCallback(loader).dataloader"
            )
        dataset._tell_left_out("evaluate")

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from where the loader is to the end of the pass."""
        return map(self._dict_of, self._loader)

    def __getitem__(self, _index: object) -> NoReturn:
        refuse_items(sys._getframe(1), "it has no items: iterate over it")

    def _dict_of(self, batch: Batch) -> dict[str, Any]:
        """The batch without its `valid`, unless a function given to `map` has put it in."""
        spoiled = batch.num_rows - int(batch._origin.valid.sum())
        if spoiled and "valid" not in batch:
            warn(
                f"{spoiled} of the {batch.num_rows} rows of a batch are copies to fill it, or masked, and "
                f"the Trainer counts them in its loss: choose a batch size that divides them, or {self._WAY}"
            )
        return dict(batch)


class _Rows:
    """Its length is the number of rows that a pass of a dataset delivers."""

    def __init__(self, dataset: ResumableDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        dataset = self._dataset
        return min(len(dataset) * dataset.global_batch_size, dataset.num_rows)


class _Drawn(NamedTuple):
    """What is kept of a batch that was drawn: never its tensors."""

    cursor: Cursor
    rows: int
    left: int  # batches of the pass after it


class DrawnBatches(DictBatches):
    """The same for training: it keeps the cursor of each batch from when it is drawn until it is used.

    An iteration begins after the batch that was trained last: batches that were drawn after it, and never
    used, are delivered again. That applies only to an iteration that was broken off: after the last batch of
    a pass the next pass begins.

    Attributes:
        trained_rows: rows of this rank that were used since training began.
        passes_done: passes that were done up to the batch that was used last, and the part of its own.
        has_ended: whether the batch that was used last ended its pass.
        counts_passes: whether training ends after a number of passes, and not of steps.
        is_over: whether nothing is left to train.
        is_begun: whether a training runs that has the callback.
    """

    _WAY = 'give the model the mask, by dataset.map(lambda batch: {**batch, "valid": batch.valid})'

    def __init__(self, loader: Reader, state: ResumeState) -> None:
        super().__init__(loader)
        self._state = state
        self._drawn: deque[_Drawn] = deque()
        self._used = 0  # in this iteration
        self._pass = (0, 1)  # its number among the passes done, and its batches
        self._args: TrainingArguments | None = None
        self._put: dict[
            str, tuple[int, int]
        ] = {}  # arguments that are ours for now: as they were, as they are
        self._added = 1
        self.trained_rows = 0
        self.passes_done = 0.0
        self.has_ended = self.counts_passes = self.is_over = self.is_begun = False

    def _check(self, dataset: ResumableDataset) -> None:
        """What is trained on continues."""

    def __len__(self) -> int:
        """Batches of a pass, where no Trainer asks.

        Raises:
            TypeError: if one does: it would take the length of one pass for that of all.
        """
        if self._args is not None:
            raise TypeError("passes differ in length")
        return super().__len__()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from the one after the last that was trained, to the end of the pass.

        Raises:
            ValueError: if no training runs that has the callback.
        """
        if not self.is_begun:
            raise ValueError(
                "a Trainer without ResumeCallback draws from resume.dataloader, so that nothing would keep "
                "the place: write Trainer(..., callbacks=[resume]); to look at a batch, call loader.peek()"
            )
        self.go_back()
        # The Trainer would end at a pass without a batch: less was left of it than a batch has.
        for _ in range(0 if self.is_over else _EMPTY_PASSES):
            is_stream = self._state.dataset._is_stream  # which has no last batch
            self._pass = (0, 1) if is_stream else (self._state.dataset.epoch, len(self._loader))
            batch = None
            for batch in self._loader:
                left = 1 if is_stream else batch.batches_left
                self._drawn.append(_Drawn(batch.cursor, batch._origin.valid_rows, left))
                self._step_after_the_last()
                yield self._dict_of(batch)
            if batch is not None:
                return

    def go_back(self) -> None:
        """Makes the next iteration begin after the batch that was trained last."""
        if self._drawn or not self.has_ended:
            self._state.go_back()
        self.forget()

    def prepare(self, args: TrainingArguments) -> None:
        """Takes the arguments of a Trainer."""
        self._args, self._added = args, args.gradient_accumulation_steps

    def plan(self) -> None:
        """Tells the Trainer, by `max_steps`, how many steps its passes have: of a job from its start.

        If the loader is between two passes, of a job that begins there.
        """
        if self._args is None:
            return
        self.go_back()
        self.prepare(self._args)
        self.counts_passes = self._args.max_steps <= 0
        if self.counts_passes and self._state.dataset._is_stream:
            raise ValueError("a stream has no passes to count: pass max_steps= to TrainingArguments")
        if self.counts_passes:
            dataset = self._state.dataset
            here = dataset._shared_cursor.cursor
            start = dataset._spec.start() if here.steps or not dataset.epoch else here
            lengths = self._lengths(start)
            self._let("max_steps", max(_steps(lengths, self._args.num_train_epochs, self._added), 1))

    def steps_left(self, passes: float) -> int:
        """The steps of this many passes from where the loader is; the pass that it is in counts as whole."""
        lengths = self._lengths(self._state.dataset._shared_cursor.cursor)
        if passes >= 1:
            return _steps(lengths, passes, self._added)
        of_pass, left = (-(-batches // self._added) for batches in (len(self._loader), next(lengths)))
        return max(math.ceil(passes * of_pass) - (of_pass - left), 0)

    def _lengths(self, cursor: _core.Cursor) -> Iterator[int]:
        return batches_of_passes(self._state.dataset, cursor, getattr(self._loader, "num_workers", 0))

    def begin(self, args: TrainingArguments) -> None:
        """Begins a training, and counts from 0.

        Raises:
            ValueError: if the arguments are not those of `plan`; if the batches of a step would be drawn into
                the same tensors.
        """
        if args is not self._args:
            raise ValueError(
                "ResumeCallback does not know the Trainer's arguments, which tell how many passes are "
                "trained: pass it when the Trainer is made, Trainer(..., callbacks=[resume]), and leave "
                "trainer.args as they are"
            )
        device = getattr(self._loader, "_device", None)
        if device is not None and device.is_static and self._added > 1:
            raise ValueError(
                "the Trainer draws all batches of a step before it trains on the first, and under "
                "static=True they come in the same tensors: leave static out, or add no gradients up"
            )
        self.trained_rows = 0
        self.is_over, self.is_begun = False, True

    def use(self, is_step: bool) -> None:
        """Takes note that the first batch that was not yet used is used now, and whether a step followed.

        Raises:
            FastresumeError: if none was drawn.
        """
        if not self._drawn:
            raise _core.FastresumeError("the Trainer trained on a batch that was not drawn from here")
        cursor, rows, left = self._drawn.popleft()
        self.has_ended = left == 0
        self._used += 1
        self.trained_rows += rows
        number, length = self._pass
        self.passes_done = number + max(length - left, 0) / length
        if is_step:
            self._put_back(_ADDED)
            self._state.trained_to(cursor)
        else:
            self._state.added_up()
        self._step_after_the_last()

    def forget(self) -> None:
        """Forgets what was drawn."""
        self._drawn.clear()
        self._used = 0
        self.has_ended = False

    def restore(self) -> None:
        """Restores the Trainer's arguments as they were."""
        for name in tuple(self._put):
            self._put_back(name)

    def _let(self, name: str, value: int) -> None:
        """Changes an argument of the Trainer for now."""
        self._put_back(name)
        self._put[name] = getattr(self._args, name), value
        setattr(self._args, name, value)

    def _put_back(self, name: str) -> None:
        before, ours = self._put.pop(name, (0, 0))
        if before != ours and getattr(self._args, name) == ours:  # and no other that the user has set since
            setattr(self._args, name, before)

    def _step_after_the_last(self) -> None:
        """Makes the Trainer step after the last batch of the pass, if that is the next one.

        It steps after a fixed number of batches of an epoch: the last ones might be left without a step.
        """
        if self._args is None or not self._drawn or self._drawn[0].left:
            return
        number = self._used + 1
        if number % self._added:
            # A divisor of this number alone, unless the batch begins a step of its own.
            self._let(_ADDED, 1 if self._used % self._added == 0 else number)


def _steps(lengths: Iterator[int], passes: float, added: int) -> int:
    """The steps of this many passes of these lengths; each pass ends with a step."""
    of_each = (-(-batches // added) for batches in lengths)
    whole = sum(islice(of_each, int(passes)))
    return whole + math.ceil(passes % 1 * next(of_each))


def _check(args: TrainingArguments) -> None:
    if not args.ignore_data_skip:
        raise ValueError(
            "the Trainer would skip batches by itself on resume, but ResumeCallback already continues where "
            "the checkpoint ends: rows would be lost. Pass ignore_data_skip=True to TrainingArguments"
        )
    if args.auto_find_batch_size:
        raise ValueError(
            "auto_find_batch_size=True would start over with smaller batches when memory runs out, but the "
            "dataset says how large they are: leave it out, and pass a smaller batch_size= to ParquetDataset "
            "(with gradient_accumulation_steps= for as many rows in a step)"
        )
    if args.restore_callback_states_from_checkpoint:
        raise ValueError(
            "restore_callback_states_from_checkpoint=True would replace ResumeCallback by one without a "
            "loader; it restores its state by itself: leave that argument out"
        )


def _tell_unused(args: TrainingArguments) -> None:
    """Warns of arguments that have no effect, since the dataset decides which rows come when."""
    defaults = {each.name: each.default for each in fields(args) if each.name in _OF_DATASETS}
    for name, default in defaults.items():
        if (found := getattr(args, name)) != default:
            warn(
                f"{name}={found!r} has no effect, as the dataset says which rows come when: leave it out, "
                f"and pass {_OF_DATASETS[name]} to the dataset"
            )
