"""What a user may ask for of rows that can't be read: checked."""

from __future__ import annotations

from typing import Literal

from fastresume.options.checks import number, one_of, scalar


def checked_bad_rows(
    bad_rows: Literal["error", "mask"], max_bad_rows: object
) -> tuple[bool, int | float | None]:
    """Whether damaged rows are masked, and how many rows of a pass may be, or which share of them.

    Raises:
        ValueError: if `bad_rows` is no choice, or the number is out of range.
        TypeError: if it is no number.
    """
    return one_of("bad_rows", bad_rows, ("error", "mask")) == "mask", checked_bound(max_bad_rows)


def checked_bound(max_bad_rows: object) -> int | float | None:
    """How many rows of a pass may be masked, or which share of them; None if it is not named.

    Raises:
        ValueError: if it is out of range.
        TypeError: if it is no number.
    """
    if max_bad_rows is None:
        return None
    max_bad_rows = scalar(max_bad_rows)
    if isinstance(max_bad_rows, bool):
        raise TypeError(
            f"max_bad_rows must be a number of rows (int) or a share (float), found {max_bad_rows}"
        )
    most = number("max_bad_rows", max_bad_rows, "a number of rows (int) or a share of them (float)")
    if isinstance(most, float) and not 0 <= most <= 1:
        raise ValueError(
            f"max_bad_rows as a share must be from 0.0 to 1.0, found {most}; write an int for rows"
        )
    if most < 0:
        raise ValueError(f"max_bad_rows must be at least 0, found {most}")
    return most
