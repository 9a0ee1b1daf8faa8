"""A pass behind a progress bar that resumes where the pass does: what tqdm, rich and their like are told."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastresume.batch import Batch

if TYPE_CHECKING:
    from fastresume.loader import Loader


def behind_a_bar(loader: Loader, bar: Any, options: dict[str, Any]) -> Iterable[Batch]:
    """What is left of the pass, behind a bar of the whole pass; see `Loader.progress`."""
    dataset = loader.dataset
    if dataset.world.rank != 0:
        return loader
    start = dataset._bounds(dataset._shared.cursor)[0]
    done = start.steps
    total = done + dataset._pass(start, loader.num_workers or 1).batches_left
    bar = _tqdm() if bar is None else bar
    if hasattr(bar, "add_task"):
        told = {"description": f"pass {start.epoch}", "total": total, "completed": done}
        return _behind_rich(loader, bar, told, options)
    try:
        parameters = inspect.signature(bar).parameters
    except (TypeError, ValueError):  # what can't be called, or is built in
        raise TypeError(
            "bar must be tqdm.tqdm, rich.progress.Progress, or what takes an iterable as tqdm does, "
            f"found {bar!r}"
        ) from None
    if "completed" in parameters or not (
        "initial" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    ):
        raise TypeError(
            "bar must be tqdm, or take total= and initial= as tqdm does, or be a rich.progress.Progress "
            f"(whose track forgets where a bar began); {getattr(bar, '__qualname__', bar)} takes "
            f"{', '.join(parameters)}"
        )
    told = {"total": total, "initial": done, "desc": f"pass {start.epoch}", "unit": "batch"}
    found: Iterable[Batch] = bar(loader, **{**told, **options})
    return found


def _behind_rich(loader: Loader, bar: Any, told: dict[str, Any], options: dict[str, Any]) -> Iterator[Batch]:
    """The same with a `rich.progress.Progress`, the user's or one of that class, which is shown meanwhile."""
    is_ours = isinstance(bar, type)
    progress = bar() if is_ours else bar
    with progress if is_ours else contextlib.nullcontext():
        task = progress.add_task(**{**told, **options})
        for batch in loader:
            yield batch
            progress.advance(task)


def _tqdm() -> Callable[..., Any]:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]  # its types are a package of their own
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "progress() shows tqdm's bar, and tqdm is not installed: pip install tqdm, or pass what you "
            "have, as in loader.progress(rich.progress.Progress)"
        ) from None
    found: Callable[..., Any] = tqdm
    return found
