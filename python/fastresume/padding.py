"""How rows of any length become rows of one: what users say of it, checked and in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fastresume.arguments import at_least, number, one_of, text

End = Literal["head", "tail"]
"""The end of a row that is kept: its first elements, or its last ones."""


@dataclass(frozen=True)
class Pad:
    """To which length the rows of a column are filled up, and how.

    Args:
        size: elements of each row, k of the tensor `[B, k]`: at least 1.
        value: what stands where a row has no element; of the column's type.
        side: where that is: "right", behind the row's elements, or "left", before them.

    Raises:
        TypeError: if the size is no integer, or the value no number.
        ValueError: if the size is less than 1, the value has more than 64 bits, or there is no such side.

    Example:
        >>> Pad(50, value=-1, side="left")
        Pad(size=50, value=-1, side='left')
    """

    size: int
    value: bool | int | float = 0
    side: Literal["right", "left"] = "right"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", at_least(1, "the size of a pad", self.size))
        object.__setattr__(self, "value", number("the value of a pad", self.value))
        one_of("the side of a pad", self.side, ("right", "left"))


Pads = Mapping[str, int | Pad]
"""What columns are filled up to, by name or pattern: a size (with zeros behind), or a `Pad`."""


def pad_list(pads: Pads | None) -> list[tuple[str, tuple[int, bool | int | float, str]]]:
    """What columns are filled up to, as pairs of a name or pattern and the parts of a `Pad`."""
    if pads is None:
        return []
    if not isinstance(pads, Mapping):
        raise TypeError(f"pad must be a mapping of names to sizes or Pads, found {pads!r}")
    found: list[tuple[str, tuple[int, bool | int | float, str]]] = []
    for name, given in pads.items():
        pad = given if isinstance(given, Pad) else Pad(at_least(1, f"pad[{name!r}]", given))
        found.append((text("pad", name), (pad.size, pad.value, pad.side)))
    return found


def truncation_list(truncations: Mapping[str, End] | None) -> list[tuple[str, End]]:
    """Which end of rows is kept, as pairs of a name or pattern and "head" or "tail"."""
    if truncations is None:
        return []
    if not isinstance(truncations, Mapping):
        raise TypeError(f"truncate must be a mapping of names to 'head' or 'tail', found {truncations!r}")
    return [
        (text("truncate", name), one_of(f"truncate[{name!r}]", end, ("head", "tail")))
        for name, end in truncations.items()
    ]
