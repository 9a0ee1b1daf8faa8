"""For Lightning: a callback that saves and restores the place of the batch that was trained last."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, ValuesView
from functools import partial
from inspect import signature
from itertools import islice
from types import MethodType
from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.callbacks import GradientAccumulationScheduler
    from lightning.pytorch.plugins.precision import Precision
except ModuleNotFoundError:  # the same under its older name
    from pytorch_lightning import Callback, LightningModule, Trainer
    from pytorch_lightning.callbacks import GradientAccumulationScheduler
    from pytorch_lightning.plugins.precision import Precision
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fastresume.batch.batch import Batch
from fastresume.batch.jagged import Jagged
from fastresume.integrations.resume_state import (
    Reader,
    ResumeState,
    batches_of_passes,
    check_ranks,
    is_same_reading,
    require_state,
)
from fastresume.reading.resumable import dataset_behind
from fastresume.state.cursor import KEY, Cursor

_DONE = "fastresume_batches_of_epoch"
"""Under this key a checkpoint says how many batches of Lightning's epoch were trained, with a step."""


_COMPARED = 32
"""The lengths of this many passes are compared."""


class ResumeCallback(Callback):
    """Saves the cursor of the batch that was trained last in Lightning's checkpoints, and restores it.

    It does so whether or not Lightning reads ahead. Under gradient accumulation the cursor moves with the
    optimizer's step. Under manual optimization it moves with a step of any optimizer, and at the end of the
    pass. An epoch is a pass, also after a resume with other ranks or batch sizes: Lightning's count of
    batches is then set to what is left. Under `limit_train_batches` an epoch is a part of a pass: the next
    epoch continues that pass, and ends with it at the latest. An epoch of a `KafkaDataset` goes over rounds,
    and ends with the stream: pass `max_steps` to the Trainer, or a number to `limit_train_batches`.

    Args:
        loader: the `Loader` that the Trainer trains on; or a torch DataLoader over a `ParquetDataset`.
            Without it, the one that `fit` is given, or that `train_dataloader()` of the DataModule or the
            model returns: it is called once, after `setup()`, when the loader is first needed.
        check_same: when a state is loaded, ask all ranks whether they load the same.

    Raises:
        TypeError: if the loader is something else; in `fit`, if batches are no longer `Batch`es once they
            were trained on.
        ValueError: in `fit`, under `overfit_batches`; if it trains on another loader; or if a validation
            loader continues where it stopped (the sanity check's batches would then be missing) or shares the
            cursor; without a loader, if the Trainer trains on none of fastresume, or on several.
        StateError: if the checkpoint has no state, or one of another dataset, selection of rows or order.

    Warns:
        UserWarning: in `fit`, if an epoch has fewer batches than a pass, or begins in its middle; in
            `validate`, `test` and `predict`, if a loader begins in the middle of a pass, or leaves rows out
            (`tail="drop"`), as in the validations of `fit`.

    Examples:
        >>> trainer = Trainer(callbacks=[ResumeCallback(loader)])  # doctest: +SKIP
        >>> trainer.fit(model, loader, ckpt_path="last")  # doctest: +SKIP
    """

    def __init__(self, loader: Reader | None = None, *, check_same: bool = False) -> None:
        self._is_given = loader is not None
        self._check_same = check_same
        self._take(loader)
        self._begins = False
        self._is_manual = False
        self._has_stepped = False  # an optimizer, since the batch before
        self._batch: Batch | None = None  # that is trained on now
        self._is_noted = True  # the batch that was trained on last
        self._takes_iterator = False  # the model's step, and draws by itself
        self._is_warned = False
        self._done = 0  # batches of Lightning's epoch up to the one that was trained last
        self._listening: list[RemovableHandle] = []

    def state_dict(self) -> dict[str, str]:
        """What Lightning's checkpoints hold of this callback; empty before it has found its loader."""
        return {} if self._loader is None else self._state.state_dict()

    def trained(self, batch: Batch) -> None:
        """Records the batch that was trained on, for a `training_step` that draws from a `dataloader_iter`.

        Call it in `training_step`: the state that is saved is then that of this batch, as soon as the
        optimizer steps.
        """
        self._batch, self._is_warned = batch, True

    def stepping_batches(self, trainer: Trainer) -> int:
        """The optimizer's steps of all epochs, each as long as its pass: for a schedule of learning rates.

        `trainer.estimated_stepping_batches` takes the length of the first pass for all.

        Examples:
            >>> steps = resume.stepping_batches(self.trainer)  # doctest: +SKIP
            >>> OneCycleLR(optimizer, max_lr=1e-3, total_steps=steps)  # doctest: +SKIP
        """
        if trainer.max_epochs is None or trainer.max_epochs < 0:
            return int(trainer.max_steps)
        self.find_loader(trainer)
        added = trainer.accumulate_grad_batches
        steps: int = sum(-(-batches // added) for batches in self._lengths(max(trainer.max_epochs, 1)))
        return steps if trainer.max_steps == -1 else min(steps, int(trainer.max_steps))

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuses epochs that are no passes, or warns of them. `precision=` leaves batches their place."""
        plugin: Any = trainer.precision_plugin
        convert = type(plugin).convert_input
        if convert is not Precision.convert_input:
            plugin.convert_input = partial(_converted, MethodType(convert, plugin))
        if stage != "fit":
            return
        if self._is_given:
            self._check_epochs(trainer)
        else:  # the model's own setup comes later
            self._take(None)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Finds the loader, if none was given."""
        if not self._is_given:
            self.find_loader(trainer)
            self._check_epochs(trainer)

    def _take(self, loader: Reader | None) -> None:
        self._loader = loader
        if loader is not None:
            self._state = ResumeState(loader, check_same=self._check_same)

    def find_loader(self, trainer: Trainer) -> None:
        """Takes the loader that the Trainer trains on, if there is none yet.

        Raises:
            ValueError: if there is none of fastresume, or several.
        """
        if self._loader is not None:
            return
        source, asked = trainer.fit_loop._data_source, trainer.fit_loop._combined_loader
        if source.is_module():  # Lightning would ask once more, for a loader that has another cursor
            source.instance = source.dataloader() if asked is None else asked
        found: list[Any] = [one for one in _flat(source.instance) if dataset_behind(one) is not None]
        if len(found) != 1:
            raise ValueError(
                f"ResumeCallback() finds {len(found) or 'no'} loaders of fastresume among those that the "
                "Trainer trains on: write ResumeCallback(loader) with the one whose place is to be saved"
            )
        self._take(found[0])

    def _check_epochs(self, trainer: Trainer) -> None:
        if trainer.overfit_batches > 0:
            raise ValueError(
                f"overfit_batches={trainer.overfit_batches} is meant to train on the same batches in each "
                "epoch, but this loader continues its pass, so that a job can resume: leave ResumeCallback "
                'out, and pass on_iter="restart" to the dataset'
            )
        if self._state.dataset._is_stream:
            return
        batches, in_pass = self._batches_of_an_epoch(trainer), len(self._state.dataset)
        if batches < in_pass and not trainer.fast_dev_run and trainer.is_global_zero:
            warnings.warn(
                f"limit_train_batches={trainer.limit_train_batches}: an epoch has {batches} of the {in_pass} "
                "batches of a pass, and the next one continues where it ended; the last one of a pass may be "
                "shorter. For the same batches in each epoch leave ResumeCallback out, and pass "
                'on_iter="restart" to the dataset',
                stacklevel=2,
            )

        elif len(set(self._lengths(min(trainer.max_epochs or 1, _COMPARED)))) > 1 and trainer.is_global_zero:
            warnings.warn(
                f"the passes of this loader differ in length: {self._lengths(3)} batches in the first three. "
                "Each epoch has those of its own, but trainer.estimated_stepping_batches takes the first "
                "one's for all: write resume.stepping_batches(self.trainer) in configure_optimizers",
                stacklevel=2,
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Listens to optimizers whose steps Lightning does not take by itself."""
        self._takes_iterator = "dataloader_iter" in signature(pl_module.training_step).parameters
        self._is_manual = not pl_module.automatic_optimization
        if self._is_manual:
            self._listen(trainer)
        self._begins = True
        self._size_epoch(trainer)
        if self._state.dataset._is_stream:
            return
        left, in_pass = self._state.batches_left, len(self._state.dataset)
        loop = trainer.fit_loop
        begins = not loop.restarting or loop.epoch_loop.batch_progress.current.ready == 0
        if begins and left < in_pass == self._batches_of_an_epoch(trainer) and trainer.is_global_zero:
            warnings.warn(
                f"the Trainer begins an epoch, but the loader is in the middle of a pass: {left} of "
                f"{in_pass} batches are left, so the epoch is shorter, and ends without validation; call "
                "loader.reset() for the whole pass, or pass ckpt_path= to fit()",
                stacklevel=2,
            )

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Ends an epoch with the pass, if Lightning expects more batches."""
        if self._begins:
            self._begins = False
            for callback in trainer.callbacks:  # Lightning does not call it for an epoch that is resumed
                if isinstance(callback, GradientAccumulationScheduler):
                    callback.on_train_epoch_start(trainer)
        # What a step is about to draw by itself is not known yet: Lightning hands over what was drawn before.
        drawn = None if self._takes_iterator else next(self._batches_in(batch), None)
        self._batch, self._is_noted = drawn, False
        if drawn is None or drawn.batches_left or self._state.dataset._is_stream:
            return
        if len([*_flat(trainer.train_dataloader)]) == 1:
            trainer.fit_loop.epoch_loop.batch_progress.is_last_batch = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes note of a batch that the optimizer has stepped on."""
        if self._takes_iterator and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                "training_step takes a dataloader_iter, and what it draws ahead would count as trained: call "
                "trained(batch) of this ResumeCallback there",
                stacklevel=2,
            )
        if not self._is_noted:
            self._note(trainer, self._batch or next(self._batches_in(batch), batch))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Listens no more."""
        while self._listening:
            self._listening.pop().remove()

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Puts the state of the trained batch where Lightning itself saves that of the fetched one."""
        if trainer.state.fn == "fit" and not trainer.interrupted:
            self.find_loader(trainer)
        if self._loader is None:
            return
        progress = trainer.fit_loop.epoch_loop.batch_progress.current
        if not self._is_noted and self._batch is not None and progress.processed == progress.ready:
            # A callback that comes before this one saves after the step.
            self._note(trainer, self._batch)
        state = self._state.state_dict()
        if "callbacks" in checkpoint:
            checkpoint["callbacks"][self.state_key] = state
        loops = _loops_of(checkpoint)
        self._put_into(loops, state)
        checkpoint[_DONE] = self._done
        if not trainer.is_last_batch and 0 < progress.ready < trainer.num_training_batches:
            _reopen_epoch(loops)

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Makes the loader resume from the checkpoint's state, if the Trainer trains on it."""
        if trainer.state.fn != "fit":
            return
        self.find_loader(trainer)
        loops = _loops_of(checkpoint)
        own = checkpoint.get("callbacks", {}).get(self.state_key)
        self._state.load_state_dict(require_state(own, "under ResumeCallback"))
        self._count_batches(trainer, loops, checkpoint[_DONE])

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuses loaders that would lose the batches of the sanity check."""
        self._check_validation(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuses loaders that do not start over at each validation, or warns of them outside of `fit`."""
        if trainer.state.fn == "fit":
            self._check_validation(trainer)
        else:
            _tell_continued(trainer.val_dataloaders, "validate")
        self._tell_left_out(trainer, trainer.val_dataloaders, "validate", trainer.limit_val_batches)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Warns of loaders that continue where they stopped."""
        _tell_continued(trainer.test_dataloaders, "test")
        self._tell_left_out(trainer, trainer.test_dataloaders, "test", trainer.limit_test_batches)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Warns of loaders that continue where they stopped."""
        _tell_continued(trainer.predict_dataloaders, "predict")
        self._tell_left_out(trainer, trainer.predict_dataloaders, "predict", trainer.limit_predict_batches)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuses to train on another loader than this one, or on fewer ranks than it was made for."""
        self._done = 0
        check_ranks(self._state.dataset, trainer.world_size, "Lightning")
        if not any(
            is_same_reading(loader, self._state.dataset) for loader in _flat(trainer.train_dataloader)
        ):
            raise ValueError(
                "the Trainer trains on another loader than the one that ResumeCallback was given, whose "
                "place would be saved: make one loader, and give it to both"
            )
        loop = trainer.fit_loop
        if trainer.current_epoch > 0 and not (loop.is_resuming or loop.restarting):
            # Lightning calls iter() next, and workers of a DataLoader restart a pass that was broken off.
            self._state.go_back()
        self._size_epoch(trainer)

    def _check_validation(self, trainer: Trainer) -> None:
        for loader in _flat(trainer.val_dataloaders):
            if is_same_reading(loader, self._state.dataset):
                raise ValueError(
                    "validation draws from the dataset that is trained on, whose batches would be missing "
                    'in training: make another ParquetDataset with on_iter="restart"'
                )
            found = dataset_behind(loader)
            if found is not None and found.on_iter == "continue":
                raise ValueError(
                    "the dataset to validate with continues where it stopped, so that the batches of the "
                    'sanity check would be missing in the first validation: pass on_iter="restart" to it'
                )

    def _tell_left_out(self, trainer: Trainer, loaders: object, doing: str, limit: Any) -> None:
        """Warns once of rows that no evaluation sees, if Lightning takes all batches."""
        if trainer.sanity_checking or isinstance(limit, int) or not trainer.is_global_zero:
            return
        for dataset in map(dataset_behind, _flat(loaders)):
            if dataset is not None:
                dataset._tell_left_out(doing)

    def _batches_in(self, value: Any) -> Iterator[Batch]:
        """The batches of this dataset among those of several loaders."""
        if isinstance(value, Batch):
            if self._state.fits(value.cursor):
                yield value
        elif isinstance(value, Mapping | list | tuple):
            for part in value.values() if isinstance(value, Mapping) else value:
                yield from self._batches_in(part)

    def _put_into(self, loops: dict[str, Any], state: dict[str, str]) -> None:
        states = _loader_states(loops)
        for place, found in enumerate(states):
            if _is_state(found) and self._state.fits(found):
                states[place] = dict(state)

    def _note(self, trainer: Trainer, batch: Batch) -> None:
        """Takes note of a batch that was trained on, if the optimizer has stepped on it."""
        ready = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if self._is_manual:
            is_stepped = self._has_stepped or not self._listening
            self._has_stepped = False
        else:
            is_stepped = ready % trainer.accumulate_grad_batches == 0
        if is_stepped or trainer.is_last_batch:
            self._state.trained(batch)
            self._done = ready
        else:
            self._state.added_up()
        self._is_noted = True

    def _count_batches(self, trainer: Trainer, loops: dict[str, Any], kept: int) -> None:
        """Sets Lightning's count of the epoch's batches to what the state says, under the present ranks."""
        progress = loops.get("epoch_loop.batch_progress")
        if progress is None:
            return
        current, dataset = progress["current"], self._state.dataset
        done = batches = current["ready"]
        is_pass = is_anew = False
        if not dataset._is_stream:  # whose epoch is as long as Lightning counted
            batches, is_anew = self._batches_of_an_epoch(trainer), self._is_cut_anew()
            is_pass = batches == len(dataset)
        if progress["is_last_batch"] and is_pass and dataset.batches_left < len(dataset):
            # Files came to the pass that had ended.
            progress["is_last_batch"] = False
            done = len(dataset) - dataset.batches_left
            _reopen_epoch(loops)
        elif progress["is_last_batch"]:
            if done != batches or is_anew:  # it ended with its pass, and `batches` are those of the next one
                done = batches
        elif is_pass and is_anew:
            done = len(dataset) - dataset.batches_left
        else:
            done = kept
        self._done = done
        completed = done - (current["ready"] - current["completed"])
        current.update(ready=done, started=done, processed=done, completed=completed)
        if progress["is_last_batch"]:
            is_batch_end, epoch = completed < done, loops["epoch_progress"]["current"]
            if is_batch_end if trainer.max_steps == -1 else epoch["processed"] == epoch["ready"]:
                _end_epoch(loops, is_batch_end)

    def _size_epoch(self, trainer: Trainer) -> None:
        """Lets Lightning count on the batches of the present pass, and not on those of the first one."""
        if self._state.dataset._is_stream:
            return
        loop, batches = trainer.fit_loop, self._batches_of_an_epoch(trainer)
        combined = loop._combined_loader
        if combined is None or combined.limits is None or loop.max_batches == float("inf"):
            return  # it has no length to believe
        for place, loader in enumerate(combined.flattened):
            if is_same_reading(loader, self._state.dataset):
                combined.limits[place] = batches
        loop.max_batches = len(combined)
        if isinstance(trainer.val_check_interval, float) and trainer.val_check_batch is not None:
            trainer.val_check_batch = max(int(loop.max_batches * trainer.val_check_interval), 1)

    def _batches_of_an_epoch(self, trainer: Trainer) -> int:
        """How many batches Lightning counts on in an epoch: those of a pass, or fewer."""
        limit, in_pass = trainer.limit_train_batches, len(self._state.dataset)
        if limit is None:
            return in_pass
        return min(limit if isinstance(limit, int) else int(in_pass * limit), in_pass)

    def _lengths(self, epochs: int) -> list[int]:
        """The number of batches in each of the first passes of a job; none for a negative number."""
        dataset, workers = self._state.dataset, getattr(self._loader, "num_workers", 0)
        return [*islice(batches_of_passes(dataset, dataset._spec.start(), workers), max(epochs, 0))]

    def _listen(self, trainer: Trainer) -> None:
        def note(*_: Any) -> None:
            self._has_stepped = True

        for optimizer in trainer.optimizers:
            if hasattr(optimizer, "register_step_post_hook"):
                self._listening.append(optimizer.register_step_post_hook(note))

    def _is_cut_anew(self) -> bool:
        """Whether what is left is read by other ranks or workers, or in other batches, than what was."""
        dataset, workers = self._state.dataset, getattr(self._loader, "num_workers", 0)
        cuts = Cursor.from_state(self._state.state_dict())._core.cuts
        return not cuts or cuts[-1][:3] != dataset._spec.cut(max(workers, 1))


def _tell_continued(loaders: object, doing: str) -> None:
    """Warns of loaders that give other rows than the time before."""
    for loader in _flat(loaders):
        found = dataset_behind(loader)
        if found is None or found.on_iter == "restart" or found._is_stream:
            continue
        left, in_pass = found.batches_left, found._batches_of_pass()
        if left < in_pass:
            warnings.warn(
                f"the dataset to {doing} with continues where it stopped: {left} of the {in_pass} batches "
                'of its pass are left. For the same rows each time pass on_iter="restart" to it',
                stacklevel=2,
            )


def _converted(convert: Callable[[Any], Any], data: Any) -> Any:
    """What `precision=` makes of data; Lightning would make another batch of its tensors, without a place."""

    def one(value: Any) -> Any:
        if isinstance(value, Batch):
            return value._like({name: _converted(convert, part) for name, part in value.items()})
        return value._map(convert) if isinstance(value, Jagged) else convert(value)

    return apply_to_collection(data, (Batch, Jagged, Tensor), one)


def _reopen_epoch(loops: dict[str, Any]) -> None:
    """Reopens an epoch in which training stopped, or for which files were added.

    Under `max_steps`, or when it should stop, Lightning counts the epoch as done, no matter how far it is.
    The rest of the pass would then be an epoch of its own, and the job would end a pass too early.
    """
    for counts in loops.get("epoch_progress", {}).values():
        counts.update(processed=counts["ready"] - 1, completed=counts["ready"] - 1)


def _end_epoch(loops: dict[str, Any], is_batch_end: bool) -> None:
    """Lets an epoch whose last batch was trained be over.

    Lightning would count the next epoch as the same one: what is saved in it is taken for the end of an
    epoch, from which a job that was done would train one more. And under `max_steps` it would train one
    batch more in the epoch that has ended.
    """
    for counts in loops["epoch_progress"].values():
        counts.update(processed=counts["ready"], completed=counts["ready"])
    batches = loops["epoch_loop.batch_progress"]
    batches["total"]["completed"] = batches["total"]["processed"]
    batches["current"].update(dict.fromkeys(batches["current"], 0))
    batches["is_last_batch"] = False
    loops["epoch_loop.state_dict"]["_batches_that_stepped"] += is_batch_end


def _loops_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    loops: dict[str, Any] = checkpoint.get("loops", {}).get("fit_loop", {})
    return loops


def _loader_states(loops: dict[str, Any]) -> list[Any]:
    """The states of loaders that Lightning asked for by itself."""
    states: list[Any] = loops.get("state_dict", {}).get("combined_loader", [])
    return states


def _is_state(state: object) -> bool:
    return isinstance(state, Mapping) and KEY in state


def _flat(loaders: object) -> Iterator[object]:
    """The loaders in what a Trainer was given: one, or a list or mapping of them, or a CombinedLoader."""
    parts: Any = getattr(loaders, "flattened", loaders)
    if isinstance(parts, Mapping):
        parts = parts.values()
    if isinstance(parts, list | tuple | ValuesView):
        for part in parts:
            yield from _flat(part)
    elif parts is not None:
        yield parts
