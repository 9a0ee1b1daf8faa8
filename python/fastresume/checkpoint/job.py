"""What a job consists of: what is saved of it, what is compared, and how it comes back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.checkpoint import manifest, optimizer_state, tree
from fastresume.checkpoint.dcp_storage import Reading
from fastresume.checkpoint.fit import Fit
from fastresume.checkpoint.layout import listed
from fastresume.options.checks import kind_of
from fastresume.reading.resumable import BEHIND, ResumableDataset, dataset_behind
from fastresume.state.cursor import Cursor

EXTRA = "extra."
"""How the names of parts of the user's begin."""


@dataclass(frozen=True)
class Template:
    """What a checkpoint is to fill of a job.

    Attributes:
        state: what `JobParts.state` would give, with tensors to fill.
        warnings: what it does to the job that its user would not expect, in words.
        starting_over: the parameters whose state in the optimizer starts over, as their shape is another one.
        allow: what may differ.
    """

    state: dict[str, Any]
    warnings: list[str]
    starting_over: frozenset[str]
    allow: frozenset[str]


@dataclass(frozen=True)
class JobParts:
    """The objects of a training job.

    Attributes:
        model: a module, plain, under DistributedDataParallel, or sharded by `fully_shard`.
        optimizers: of the model's parameters, or with a state of a form of their own.
        scheduler: anything with `state_dict` and `load_state_dict`.
        loader: a `Loader`, a `ParquetDataset`, or, to save, a `Batch`, a `Cursor` or a state.
        extra: of the user's, by name: plain values, tensors, or with `state_dict` and `load_state_dict`.
    """

    model: Module | None
    optimizers: tuple[Any, ...]
    scheduler: Any
    loader: Any
    extra: dict[str, Any]

    @classmethod
    def of(
        cls,
        model: Any,
        optimizers: Any,
        scheduler: Any,
        loader: Any,
        extra: Mapping[str, Any] | None,
    ) -> JobParts:
        """The parts as users pass them.

        Raises:
            TypeError, ValueError: if one is something else.
        """
        if model is not None and not isinstance(model, Module):
            ways = {
                "list": "torch.nn.ModuleList",
                "tuple": "torch.nn.ModuleList",
                "dict": "torch.nn.ModuleDict",
            }
            holder = ways.get(type(model).__name__)
            way = f": write {holder}(models)" if holder else ""
            if isinstance(model, Mapping) and any(isinstance(one, Tensor) for one in model.values()):
                way = ": pass the model itself, and not its state"
            raise TypeError(f"model must be a torch.nn.Module, found {kind_of(model)}{way}")
        if model is not None and any(
            "FullyShardedDataParallel" in type(one).__name__ for one in model.modules()
        ):
            raise TypeError(
                "a model under FullyShardedDataParallel is not supported: shard it by fully_shard"
            )
        _check_has_values(model)
        if type(model).__module__.startswith("torchrec."):
            raise TypeError(
                f"a model under torchrec's {type(model).__name__} is not supported, as torch does not find "
                "its parameters by name: save model.state_dict(), the optimizer's and batch.state_dict() by "
                "torch.distributed.checkpoint"
            )
        found: tuple[Any, ...] = (
            ()
            if optimizers is None
            else tuple(optimizers)
            if isinstance(optimizers, list | tuple)
            else (optimizers,)
        )
        for one in found:
            if not _is_stateful(one):
                way = ": pass the optimizer itself, and not its state" if isinstance(one, Mapping) else ""
                raise TypeError(
                    "optimizer must be a torch.optim.Optimizer, or have state_dict and load_state_dict, "
                    f"found {kind_of(one)}{way}"
                )
        if scheduler is not None and not _is_stateful(scheduler):
            several = ": pass one as scheduler=, and others as extra={'name': scheduler}"
            raise TypeError(
                f"scheduler must have state_dict and load_state_dict, found {kind_of(scheduler)}"
                f"{several if isinstance(scheduler, list | tuple) else ''}"
            )
        _check_data(loader)
        if extra is not None and not isinstance(extra, Mapping):
            raise TypeError(f"extra must be a mapping from names to values, found {type(extra).__name__}")
        for name in extra or {}:
            if not isinstance(name, str):
                raise TypeError(f"extra has the key {name!r}: its names must be texts")
        return cls(model, found, scheduler, loader, dict(extra or {}))

    def check_ranks(self, ranks: int) -> None:
        """Refuses to act on fewer ranks than the environment told the dataset of.

        Raises:
            ValueError: if each of them would save alone, and all into one directory.
        """
        dataset = dataset_behind(self.loader)
        if dataset is not None and dataset._spec.world_was_detected and dataset.world.world_size > ranks:
            raise ValueError(
                f"the environment told the dataset of {dataset.world.world_size} ranks, but the Checkpointer "
                f"knows of {ranks}: each would save alone, and all into one directory; call "
                "init_process_group before it is made"
            )

    def check_place(self) -> None:
        """Refuses to save a place that the job has left.

        Raises:
            StateError: for a dataset that workers of a torch DataLoader have read from since.
        """
        if isinstance(self.loader, ResumableDataset) and self.loader._shared_cursor.is_behind:
            raise _core.StateError(f"loader is a ParquetDataset, whose state {BEHIND}")

    def other_place(self, dataset: ResumableDataset) -> str | None:
        """That the place is none of a dataset's, in words; None if it may be."""
        if dataset._is_stream:
            return None
        try:
            if (cursor := self._cursor()) is not None:
                dataset._fitted(cursor)
        except _core.StateError as error:
            return f"the place that is saved is none of the loader's that was given before: {error}"
        return None

    def after_save(self) -> list[Callable[[], None]]:
        """What is called once a save of this is durable."""
        dataset = dataset_behind(self.loader)
        after = None if dataset is None else dataset._after_save()
        return [] if after is None else [after]

    @property
    def names(self) -> tuple[str, ...]:
        """What there is."""
        found = [name for name in ("model", "scheduler", "loader") if getattr(self, name) is not None] + [
            "optimizer"
        ] * bool(self.optimizers)
        return tuple(sorted(found + [f"{EXTRA}{name}" for name in self.extra if not self._is_plain(name)]))

    @property
    def kinds(self) -> dict[str, Any]:
        """The classes of parts that a job that resumes must have, too."""
        return {
            "optimizer": [type(one).__name__ for one in self.optimizers] or None,
            "scheduler": None if self.scheduler is None else type(self.scheduler).__name__,
        }

    @property
    def global_batch(self) -> int | None:
        """Rows per step over all ranks, if the loader or the place in the data shows it."""
        dataset = dataset_behind(self.loader)
        if dataset is not None:
            return dataset.global_batch_size
        cursor = self._cursor()
        if cursor is None or not cursor.cuts:
            return None
        lanes, groups, rows, _ = cursor.cuts[-1]
        return rows * lanes // groups

    @property
    def config(self) -> dict[str, Any] | None:
        """What was asked of the dataset, if there is one."""
        dataset = dataset_behind(self.loader)
        return None if dataset is None else dataset.config()

    def cursor(self) -> dict[str, Any] | None:
        """The place in the data.

        Raises:
            StateError: if the loader's state is none.
        """
        cursor = self._cursor()
        return None if cursor is None else cursor.values()

    def _cursor(self) -> _core.Cursor | None:
        if self.loader is None:
            return None
        has_state = hasattr(self.loader, "state_dict")  # a batch is a mapping that has one
        return Cursor.from_state(self.loader.state_dict() if has_state else self.loader)._core

    def plain(self) -> dict[str, Any]:
        """The plain values of `extra`.

        Raises:
            TypeError, ValueError: if one is neither plain nor a tensor nor has a state.
        """
        return {
            name: manifest.plain(f"extra[{name!r}]", value)
            for name, value in self.extra.items()
            if self._is_plain(name)
        }

    def state(self) -> dict[str, Any]:
        """What goes into a distributed checkpoint: tensors that are the job's own, not copies."""
        found: dict[str, Any] = {}
        if self.model is not None:
            found["model"] = get_model_state_dict(self.model)
        if self.optimizers:
            found["optimizer"] = optimizer_state.capture(self.optimizers, self.model)
        if self.scheduler is not None:
            found["scheduler"] = tree.packed(self.scheduler.state_dict())
        for name, value in self.extra.items():
            if not self._is_plain(name):
                state = value.state_dict() if _is_stateful(value) else {"value": value}
                found[f"{EXTRA}{name}"] = tree.kept(state)
        return found

    def template(self, reading: Reading, allow: frozenset[str]) -> Template:
        """What is to be filled from a checkpoint; nothing of the job is changed yet.

        Raises:
            StateError: if the checkpoint has other keys or shapes, but those that are allowed to differ.
        """
        found: dict[str, Any] = {}
        warnings: list[str] = []
        starting_over: frozenset[str] = frozenset()
        if self.model is not None:
            fit = Fit.of("model", get_model_state_dict(self.model), reading)
            starting_over = frozenset(fit.other_shapes)
            if "model" in allow:
                warnings += fit.left()
            else:
                fit.check()
            warnings += fit.rounded()
            found["model"] = fit.common
        shapes = reading.shapes("optimizer") if self.optimizers else {}
        if shapes:
            found["optimizer"] = optimizer_state.template(
                self.optimizers,
                self.model,
                shapes,
                lambda path: reading.is_needed(("optimizer", *path)),
                starting_over,
            )
            if over := sorted(starting_over & {str(path[1]) for path in shapes if path[0] == "state"}):
                warnings[0] += f"; the optimizer starts over for {listed([*map(repr, over)])}"
        if self.scheduler is not None:
            found["scheduler"] = b""
        for name, value in self.extra.items():
            if self._is_plain(name):
                continue
            part = f"{EXTRA}{name}"
            state = value.state_dict() if _is_stateful(value) else {"value": value}
            shapes = reading.shapes(part)
            if (tree.SHAPE,) in shapes:
                likes = () if self.model is None else tuple(self.model.parameters())
                found[part] = tree.template(f"extra[{name!r}]", shapes, tree.apart(state), likes)
            else:
                fit = Fit.of(part, tree.opened(state, shapes), reading)
                fit.check()
                found[part] = fit.common
        return Template(found, warnings, starting_over, allow)

    def check_groups(self, planned: Template, groups: bytes) -> None:
        """Refuses optimizers of other groups than were saved, before anything is filled.

        Args:
            planned: what `template` gave.
            groups: those that were saved.

        Raises:
            StateError: naming both, and how to restore the rest.
        """
        state = {**planned.state["optimizer"], "groups": groups}
        optimizer_state.loads(self.optimizers, self.model, state, planned.starting_over, planned.allow)

    def restore(self, template: Template) -> None:
        """Gives the job what `template` was filled with."""
        filled, starting_over, allow = template.state, template.starting_over, template.allow
        if self.model is not None and "model" in filled:
            set_model_state_dict(
                self.model, filled["model"], options=StateDictOptions(strict="model" not in allow)
            )
        if "optimizer" in filled:
            for load in optimizer_state.loads(
                self.optimizers, self.model, filled["optimizer"], starting_over, allow
            ):
                load()
        if "scheduler" in filled:
            self.scheduler.load_state_dict(tree.unpacked(filled["scheduler"]))
        for name, value in self.extra.items():
            if not self._is_plain(name) and _is_stateful(value):
                value.load_state_dict(tree.together(filled[f"{EXTRA}{name}"]))

    def without(self, names: frozenset[str]) -> JobParts:
        """The same without some parts."""
        return JobParts(
            None if "model" in names else self.model,
            () if "optimizer" in names else self.optimizers,
            None if "scheduler" in names else self.scheduler,
            None if "loader" in names else self.loader,
            {name: value for name, value in self.extra.items() if f"{EXTRA}{name}" not in names},
        )

    def of_one(self) -> frozenset[str]:
        """The leaves that all ranks take from one rank, as buffers under DistributedDataParallel."""
        found = set()
        if self.model is None:
            return frozenset()
        for prefix, module in self.model.named_modules():
            if not isinstance(module, DistributedDataParallel) or not module.broadcast_buffers:
                continue
            if module.process_group.size() == torch.distributed.get_world_size():
                ignored = module.parameters_to_ignore
                own = (name for name, _ in module.module.named_buffers() if name not in ignored)
                names = (f"{prefix}.module.{name}".removeprefix(".") for name in own)
                found |= {f"model.{optimizer_state.canonical(self.model, name)}" for name in names}
        return frozenset(found)

    def _is_plain(self, name: str) -> bool:
        value = self.extra[name]
        return not isinstance(value, Tensor) and not _is_stateful(value)


def _check_has_values(model: Module | None) -> None:
    """Refuses a model whose parameters or buffers are on the meta device, or have no shape yet.

    Raises:
        ValueError: naming one of them.
    """
    if model is None:
        return
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(
                f"{name!r} of the model has no shape yet: a lazy layer gets it from a batch, as by "
                "model(loader.peek()), which draws none"
            )
        if tensor.is_meta:
            raise ValueError(
                f"{name!r} of the model is on the meta device, and has no values: write "
                "model.to_empty(device=device) before"
            )


def _check_data(loader: Any) -> None:
    """Refuses a loader whose place can't be saved, or can't be resumed.

    Raises:
        TypeError: for a torch DataLoader, or what is no loader.
        ValueError: for a dataset that restarts the pass at each `iter()`, or a batch of one.
    """
    if isinstance(loader, list | tuple):
        raise TypeError(
            f"loader must be one Loader or dataset, found {len(loader)} in a {type(loader).__name__}: pass "
            "one as loader=, and others as extra={'name': loader}"
        )
    if isinstance(loader, type):
        raise TypeError(f"loader must be a Loader or dataset, found {kind_of(loader)}")
    if isinstance(loader, Iterator):
        raise TypeError(
            f"loader must be the Loader or dataset itself, found {type(loader).__name__}, an iterator over "
            "it: write loader=loader"
        )
    if isinstance(loader, DataLoader):
        raise TypeError(
            "loader must be a fastresume.Loader, ParquetDataset or Mixture (under a DataLoader pass "
            f"batch.state_dict() to save, and the dataset to restore), found {type(loader).__name__}"
        )
    if isinstance(loader, Batch) and loader._origin.share is not None and loader._origin.share.restarts:
        raise ValueError(
            'the batch is of a dataset with on_iter="restart": no place in it is resumed; pass the batch of '
            "the training loop, and not one of an evaluation"
        )
    dataset = dataset_behind(loader)
    if dataset is not None and dataset.on_iter == "restart":
        raise ValueError(
            'the dataset has on_iter="restart": each iter() starts the pass over, so that no place in it is '
            "resumed; make the dataset that is trained on without it"
        )


def _is_stateful(value: object) -> bool:
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict")
    )
