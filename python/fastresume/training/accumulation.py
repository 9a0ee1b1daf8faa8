"""Gradient accumulation: several batches in one optimizer step, reduced over the ranks once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from torch import nn

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.options.attributes import METHODS_OF_ACCUMULATIONS
from fastresume.options.checks import at_least
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.state.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Window:
    """The place of a micro-batch among those whose gradients make one optimizer step.

    Args:
        size: the number of micro-batches in the window: `steps`, or fewer in the last window of a pass.
        index: the index of this micro-batch in the window, from 0.
    """

    size: int
    index: int

    @property
    def is_last(self) -> bool:
        """Whether the optimizer steps after this micro-batch."""
        return self.index + 1 == self.size


class Block(AbstractContextManager[Window]):
    """The context of a micro-batch, which gives its `Window`."""

    def __init__(self, context: AbstractContextManager[Window]) -> None:
        self._context = context

    def __enter__(self) -> Window:
        return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._context.__exit__(kind, error, trace)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says that a window is had within the block."""
            raise AttributeError(
                f"the context of a micro-batch has no attribute {name!r}: write "
                "with accumulation(batch) as window:",
                name=name,
                obj=self,
            )


@takes_no_other("fr.training.Accumulation", "accumulation")
class Accumulation:
    """Windows of micro-batches: all but the last of each run backward without a reduction over the ranks.

    Made by `accumulate`. Its state is that of the last optimizer step. A checkpoint within a window must hold
    that one, because no checkpoint has the gradients of an unfinished window.
    """

    def __init__(self, model: nn.Module, steps: int) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, found {type(model).__name__}")
        self.steps = at_least(1, "steps", steps)
        self._model = model
        self._size = 0
        self._done = 0
        self._last: tuple[int, int] | None = None  # (epoch, step): the batch itself is not kept
        self._reducing: list[Any] = []
        self._cursor: Cursor | None = None
        self._is_in_block = False

    def __call__(self, batch: Batch) -> AbstractContextManager[Window]:
        """The context of a micro-batch's forward and backward; it counts if the block ends without an error.

        The gradients are reduced over the ranks only in the backward of a window's last micro-batch. A window
        ends with the pass (epoch) at the latest, and each batch knows where that ends. So `window.size` is
        right from the first micro-batch on, also for a smaller window.

        Args:
            batch: the micro-batch; each one must follow the one before.

        Raises:
            TypeError: if it is not a `Batch`.
            FastresumeError: if it does not follow the one before it in the window: a state was loaded, or a
                micro-batch failed, and the gradients are not those of a window. Call `reset()`. Also inside
                the block of another micro-batch.
        """
        return Block(self._block(batch))

    @contextmanager
    def _block(self, batch: Batch) -> Iterator[Window]:
        if not isinstance(batch, Batch):
            raise TypeError(
                "a micro-batch must be a Batch, which knows its place in the pass, found "
                f"{type(batch).__name__}: pass the Batch itself"
            )
        if self._is_in_block:
            raise _core.FastresumeError(
                "a micro-batch begins within the block of another one: end that one first, with one "
                "`with accumulation(batch) as window:` for each batch"
            )
        if self._done:
            self._check_follows(batch)
        else:
            self._size = min(self.steps, batch.batches_left + 1)
            self._cursor = batch.cursor_before
            self._reducing = _reducing(self._model)
        window = Window(self._size, self._done)
        with ExitStack() as stack:
            if not window.is_last:
                for module in self._reducing:
                    stack.enter_context(_without_reduction(module))
            self._is_in_block = True
            try:
                yield window
            finally:
                self._is_in_block = False
        self._done, self._last = self._done + 1, (batch.epoch, batch.step)
        if window.is_last:
            self._done, self._cursor = 0, batch.cursor

    @property
    def cursor(self) -> Cursor:
        """The cursor of the last optimizer step: that after the last batch of the last complete window.

        Within a window, it is the cursor before the window's first micro-batch.

        Raises:
            FastresumeError: before the first micro-batch: use the loader's cursor.
        """
        if self._cursor is None:
            raise _core.FastresumeError(
                "no micro-batch was seen, so the last optimizer step is not known: save loader.state_dict()"
            )
        return self._cursor

    def state_dict(self) -> dict[str, str]:
        """The state of the data to save at any moment: that after the last optimizer step; see `cursor`."""
        return self.cursor.to_state()

    def reset(self) -> None:
        """Forgets the micro-batches of an unfinished window: the next one begins a window.

        Use it after `load_state_dict` or an exception, and also set the gradients to zero.
        """
        self._size = self._done = 0
        self._last = None

    def _check_follows(self, batch: Batch) -> None:
        epoch, step = self._last or (batch.epoch, batch.step - 1)
        if (batch.epoch, batch.step) != (epoch, step + 1):
            raise _core.FastresumeError(
                f"a window holds {self._done} of {self._size} micro-batches, the last of epoch {epoch}, "
                f"step {step}, which epoch {batch.epoch}, step {batch.step} does not follow: give "
                "each batch its `with accumulation(batch)`, without backward for one that you skip; after a "
                "state was loaded or a micro-batch failed, call reset(), and set the gradients to zero"
            )

    def __enter__(self) -> NoReturn:
        """Refused: each micro-batch has a context of its own.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError("an Accumulation is no context itself: write with accumulation(batch) as window:")

    def __exit__(self, *_error: object) -> None:
        """Is never called."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what a window, and others' classes, have."""
            refuse_attribute(self, name, "an Accumulation", METHODS_OF_ACCUMULATIONS)

    def __repr__(self) -> str:
        return f"Accumulation(steps={self.steps}, {self._done} of {self._size} in the window)"


@takes_no_other("fr.training.accumulate")
def accumulate(model: nn.Module, steps: int) -> Accumulation:
    """Windows of `steps` micro-batches, whose gradients are reduced over the ranks once, at their ends.

    The sum of the gradients is what a reduction after each micro-batch would give, apart from rounding: the
    mean over ranks of sums is the sum of means. It works with DistributedDataParallel and FSDP (`no_sync`),
    FSDP2 (`set_requires_gradient_sync`), modules that contain such, and plain ones. Under FSDP each rank
    keeps the whole gradients of a window until its end.

    Args:
        model: the module whose backward reduces gradients, itself or in submodules.
        steps: micro-batches per optimizer step, at least 1. The last window of a pass has what is left of the
            pass: a window never spans two passes.

    Raises:
        TypeError, ValueError: if `model` is not a module, or `steps` not an integer of at least 1.

    Examples:
        >>> import torch
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        >>> accumulation = accumulate(model, steps=2)
        >>> for batch in loader:  # three batches
        ...     with accumulation(batch) as window:
        ...         (model(batch["dense"]).sum() / window.size).backward()
        ...     if window.is_last:
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         print(f"after step {batch.step}, of {window.size}")
        after step 1, of 2
        after step 2, of 1
    """
    return Accumulation(model, steps)


def _reducing(model: nn.Module) -> list[Any]:
    """The modules that reduce gradients, none of them inside another."""
    found: list[Any] = []
    held: set[int] = set()
    for module in model.modules():  # from the outermost inwards
        if id(module) not in held and (_is_fsdp2(module) or callable(getattr(module, "no_sync", None))):
            found.append(module)
            held.update(map(id, module.modules()))
    return found


def _is_fsdp2(module: nn.Module) -> bool:
    return callable(getattr(module, "set_requires_gradient_sync", None))


@contextmanager
def _without_reduction(module: Any) -> Iterator[None]:
    if not _is_fsdp2(module):
        with module.no_sync():
            yield
        return
    marks_last = callable(getattr(module, "set_is_last_backward", None))
    module.set_requires_gradient_sync(False)
    if marks_last:
        module.set_is_last_backward(False)
    try:
        yield
    finally:
        module.set_requires_gradient_sync(True)
        if marks_last:
            module.set_is_last_backward(True)
