"""What a user may ask for of rows that can't be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastresume.options.checks import number, one_of, scalar
from fastresume.options.unknown import takes_no_other


@takes_no_other("fr.MaskBadRows", "maskbadrows")
@dataclass(frozen=True)
class MaskBadRows:
    """Masks rows that can't be read, up to a limit: `bad_rows=` of a `ParquetDataset` or a `Mixture`.

    Args:
        at_most: how many rows of a pass may be masked in this process; a float is a share of the rows that
            this rank gets. None for a thousandth of these. The limit counts damaged rows, rows that functions
            given to `map` mask or fail on, and rows that `filter` could not read (of all rows). Each row
            counts once in a pass, even if it is read more often. One row more is a DataError before its
            batch.
        damaged: whether damaged rows are masked. With False, one is an error as under `bad_rows="error"`, and
            `at_most` limits what functions mask.

    Raises:
        ValueError: if the number is out of range.
        TypeError: if it is no number.

    Threads and forks: a frozen value.

    Examples:
        >>> MaskBadRows(at_most=0.01)
        MaskBadRows(at_most=0.01, damaged=True)
    """

    at_most: int | float | None = None
    damaged: bool = True

    def __post_init__(self) -> None:
        if self.at_most is not None:
            object.__setattr__(self, "at_most", _checked_limit(self.at_most))


BadRows = Literal["error", "mask"] | MaskBadRows


def checked_bad_rows(given: BadRows) -> MaskBadRows:
    """What to do with damaged rows, and how many may be masked.

    Raises:
        ValueError: if it is none of the choices.
    """
    if isinstance(given, MaskBadRows):
        return given
    choice = one_of("bad_rows", given, ("error", "mask"), "fr.MaskBadRows(at_most=n)")
    return MaskBadRows(damaged=choice == "mask")


def _checked_limit(at_most: object) -> int | float:
    limit, name = scalar(at_most), "at_most of fr.MaskBadRows"
    if isinstance(limit, bool):
        raise TypeError(f"{name} must be a number of rows (int) or a share (float), found {limit}")
    most = number(name, limit, "a number of rows (int) or a share of them (float)")
    if isinstance(most, float) and not 0 <= most <= 1:
        raise ValueError(f"{name} as a share must be from 0.0 to 1.0, found {most}; write an int for rows")
    if most < 0:
        raise ValueError(f"{name} must be at least 0, found {most}")
    return most
