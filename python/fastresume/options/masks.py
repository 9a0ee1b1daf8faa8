"""Masks of rows as users have them: of pandas, with an index, or of numbers that are no masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume.options.checks import quoted


def is_series(given: Any) -> bool:
    """Whether it is a Series of pandas, whose index says what each value is of."""
    return hasattr(getattr(given, "index", None), "to_numpy") and getattr(given, "ndim", None) == 1


def in_order(given: Any, as_array: str) -> Any:
    """A mask of pandas in the order of the rows that its index numbers; anything else as it is.

    Args:
        given: what the user passes.
        as_array: how it is passed without its index, for an error.

    Raises:
        ValueError: if the index does not number the rows.
    """
    if not is_series(given):
        return given
    index: Any = given.index
    mask: npt.NDArray[Any] = given.to_numpy()
    if mask.dtype != np.bool_ or (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1):
        return mask
    numbers = index.to_numpy()
    if numbers.dtype.kind in "iu":
        places = np.argsort(numbers)
        if np.array_equal(numbers[places], np.arange(len(mask))):
            return mask[places]
    raise ValueError(
        f"the index of a mask must number its rows, 0 to {len(mask) - 1}, each once, found "
        f"{quoted(numbers[:5].tolist())}: write {as_array} if the mask has the order of the rows, "
        "else pandas.concat(frames, ignore_index=True) before it"
    )


def refuse_ones(name: str, numbers: npt.NDArray[np.integer], total: int, as_mask: str) -> None:
    """Refuses numbers of rows that are a mask of zeros and ones.

    Args:
        name: what errors call them.
        numbers: of rows.
        total: how many rows there are.
        as_mask: what to write instead.

    Raises:
        ValueError: if they are one.
    """
    if len(numbers) == total > 2 and not numbers.min() < 0 and numbers.max() <= 1:
        raise ValueError(
            f"{name} has {total} numbers, all of them 0 or 1, for {total} rows: a mask has the type bool, so "
            f"write {as_mask}"
        )
