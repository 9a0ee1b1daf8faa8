"""A test of exact resume for users: on their data, with their loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.batch.jagged import Jagged
from fastresume.options.unknown import takes_no_other

__all__ = ["assert_exact_resume"]


def __dir__() -> list[str]:
    return __all__


@takes_no_other("fr.testing.assert_exact_resume")
def assert_exact_resume(make_loader: Callable[[], Iterable[Batch]], every: int = 1) -> int:
    """Asserts that resuming after any batch of a pass equals no interruption, bit for bit.

    Runs two passes without a break. Then, for each chosen batch of the first pass, it makes a fresh loader
    and loads the state of that batch. It compares the next batches with the original ones: the rest of the
    pass, or, after the last batch, the next pass.

    Args:
        make_loader: makes a fresh `Loader`, `ParquetDataset` or `Mixture`, of rows or units, or a torch
            `DataLoader` over one of these, with the same arguments and transforms each time.
        every: resume after every such batch only, and after the last; at least 1.

    Returns:
        The number of resumes that were compared.

    Raises:
        TypeError: if `make_loader` is no function, or returns no loader.
        AssertionError: if a batch differs in order, tensors or state; the message names the first one. If the
            dataset has `on_iter="restart"`.

    Examples:
        >>> import fastresume as fr
        >>> assert_exact_resume(lambda: fr.Loader(fr.ParquetDataset("data", batch_size=32)))
        3
    """
    if every < 1:
        raise ValueError(f"every must be at least 1, found {every}")
    if not callable(make_loader):
        raise TypeError(
            f"make_loader must be a function that makes a fresh loader, found {type(make_loader).__name__}: "
            "write lambda: fr.ParquetDataset(...)"
        )
    loader = make_loader()
    if not isinstance(loader, Iterable):
        raise TypeError(
            f"make_loader must return a loader, found {type(loader).__name__}: is its `return` missing?"
        )
    if getattr(getattr(loader, "dataset", loader), "on_iter", None) == "restart":
        raise AssertionError(
            'the dataset has on_iter="restart": each iter() starts the pass over, so that it never resumes'
        )
    first, second = list(loader), list(loader)
    if not first:
        raise AssertionError("the loader gives no batch")
    _loads_states(loader)
    chosen = [*range(every - 1, len(first) - 1, every), len(first) - 1]
    for index in chosen:
        resumed = make_loader()
        _loads_states(resumed).load_state_dict(first[index].state_dict())
        found = list(resumed)
        expected = first[index + 1 :] or second
        _assert_equal(expected, found, f"after batch {index}")
    return len(chosen)


def _loads_states(loader: Any) -> Any:
    """The loader, or its dataset: whichever loads states.

    Raises:
        TypeError: if neither does.
    """
    for one in (loader, getattr(loader, "dataset", None)):
        if hasattr(one, "load_state_dict"):
            return one
    raise TypeError(
        f"make_loader must return a loader that loads states, found {type(loader).__name__}: write "
        "lambda: fr.Loader(dataset), without iter(), or a DataLoader over a dataset of fastresume"
    )


def _assert_equal(expected: list[Batch], found: list[Batch], where: str) -> None:
    if len(expected) != len(found):
        raise AssertionError(
            f"resumed {where}: {plural(len(found), 'batch', 'batches')} came, expected {len(expected)}"
        )
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        place = f"resumed {where}: batch {number} differs in"
        if (one.epoch, one.step) != (other.epoch, other.step):
            found_at, expected_at = (other.epoch, other.step), (one.epoch, one.step)
            raise AssertionError(f"{place} epoch and step: {found_at}, expected {expected_at}")
        if list(one) != list(other):
            raise AssertionError(f"{place} names: {list(other)}, expected {list(one)}")
        for name, tensor in one.items():
            if not _same_bits(tensor, other[name]):
                raise AssertionError(f"{place} the tensor {name!r}")
        if not torch.equal(one.valid, other.valid):
            raise AssertionError(f"{place} which rows are valid: {other.valid}, expected {one.valid}")
        for what, own, its in _origins(one, other):
            if not _same_bits(own, its):
                raise AssertionError(f"{place} {what}: {its}, expected {own}")
        if one.state_dict() != other.state_dict():
            raise AssertionError(f"{place} its state: {other.state_dict()}, expected {one.state_dict()}")


def _origins(one: Batch, other: Batch) -> Iterator[tuple[str, Any, Any]]:
    """What the batches say of where their rows are from: numbers, sources of a mixture, offsets of bins."""
    yield "its row numbers", one.rows(), other.rows()
    if one._origin.sources is not None:
        yield "its sources", one.source, other.source
    if one._origin.units is not None:
        yield "the offsets of its units", one._origin.units.offsets, other._origin.units.offsets  # type: ignore[union-attr]  # both have them


def _same_bits(one: Any, other: Any) -> bool:
    """Whether two values are equal; tensors and arrays by their bytes, so that NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Jagged):
        pairs = [(one.values, other.values), (one.offsets, other.offsets), (one.valid, other.valid)]
        pairs.append((one.values_valid, other.values_valid))
        return one.kind == other.kind and all(_same_bits(left, right) for left, right in pairs)
    if isinstance(one, torch.Tensor) and one.is_nested:
        return len(one) == len(other) and all(map(_same_bits, one.unbind(), other.unbind()))
    if isinstance(one, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        left, right = (tensor.detach().contiguous().view(-1).view(torch.uint8) for tensor in (one, other))
        return torch.equal(left, right)
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(_same_bits(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same_bits, one, other))
    return one is other or bool(one == other)
