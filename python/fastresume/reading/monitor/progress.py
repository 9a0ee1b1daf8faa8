"""Progress bars (tqdm, rich and others) over a pass, which begin where the pass resumes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.options.checks import quoted
from fastresume.reading.spec import ReadSpec


def behind_a_bar(
    batches: Iterable[Batch],
    spec: ReadSpec,
    cursor: _core.Cursor,
    workers: int,
    bar: Any,
    options: dict[str, Any],
) -> Iterable[Batch]:
    """The rest of the pass, with a bar of the whole pass; see `Loader.progress`.

    Args:
        batches: the rest of the pass.
        spec: what is read.
        cursor: where the pass is.
        workers: how many workers read it.
        bar: the class or object that shows it; None for tqdm.
        options: further arguments of the bar.
    """
    if spec.world.rank != 0:
        return batches
    start = spec.bounds(cursor)[0]
    done = start.steps
    total = done + spec.pass_from(start, workers).batches_left
    bar = _tqdm() if bar is None else bar
    if hasattr(bar, "add_task"):
        defaults = {"description": f"pass {start.epoch}", "total": total, "completed": done}
        return _behind_rich(batches, bar, defaults, options)
    try:
        parameters = inspect.signature(bar).parameters
    except (TypeError, ValueError):  # not callable, or built in
        raise TypeError(
            "bar must be tqdm.tqdm, rich.progress.Progress, or what takes an iterable as tqdm does, "
            f"found {quoted(bar)}"
        ) from None
    if "completed" in parameters or not (
        "initial" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    ):
        raise TypeError(
            "bar must be tqdm, or take total= and initial= as tqdm does, or be a rich.progress.Progress "
            f"(whose track forgets where a bar began); {getattr(bar, '__qualname__', bar)} takes "
            f"{', '.join(parameters)}"
        )
    defaults = {"total": total, "initial": done, "desc": f"pass {start.epoch}", "unit": "batch"}
    found: Iterable[Batch] = bar(batches, **{**defaults, **options})
    return found


def _behind_rich(
    batches: Iterable[Batch], bar: Any, defaults: dict[str, Any], options: dict[str, Any]
) -> Iterator[Batch]:
    """The same with a `rich.progress.Progress`: the user's, or a new one that is shown meanwhile."""
    is_ours = isinstance(bar, type)
    progress = bar() if is_ours else bar
    with progress if is_ours else contextlib.nullcontext():
        task = progress.add_task(**{**defaults, **options})
        for batch in batches:
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
