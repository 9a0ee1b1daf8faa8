"""What a dataset counts instead of rows: `Packed` sequences, or `Bins` by cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastresume.messages import bounds_messages
from fastresume.options.checks import at_least, integer, one_of, quoted
from fastresume.options.hints import OF_UNITS
from fastresume.options.unknown import options


@options(OF_UNITS)
@dataclass(frozen=True, init=False)
class Packed:
    """Sequences of one length, cut from the lists of a file's rows, one after another.

    Args:
        names: the columns of lists that are packed alike: in each row their lists have the same lengths.
        length: the elements of each sequence.
        separator: the value after each list, in all columns; None for no separator. An empty or null list
            gets none.
        rest: what happens to the elements after a file's last whole sequence. "drop": `plan()` shows how many
            they are. "pad": they are a sequence filled up with 0, whose `document` is -1 there.

    Raises:
        TypeError, ValueError: for other values.

    Examples:
        >>> Packed("tokens", "labels", length=2048, separator=0)
        fr.Packed('tokens', 'labels', length=2048, separator=0)
    """

    names: tuple[str, ...]
    length: int
    separator: int | None
    rest: Literal["drop", "pad"]

    @bounds_messages
    def __init__(
        self,
        *names: str,
        length: int,
        separator: int | None = None,
        rest: Literal["drop", "pad"] = "drop",
    ) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError(f"write fr.Packed('tokens', length=2048), found the columns {quoted(names)}")
        if len(set(names)) < len(names):
            raise ValueError(f"fr.Packed names a column twice: {quoted(names)}")
        if taken := {"document", "position"} & set(names):
            raise ValueError(f"a packed column can't be called {min(taken)!r}, as a tensor beside it is")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "length", at_least(1, "length", length))
        object.__setattr__(self, "separator", None if separator is None else integer("separator", separator))
        object.__setattr__(self, "rest", one_of("rest", rest, ("drop", "pad")))

    def __repr__(self) -> str:
        parts = [*map(repr, self.names), f"length={self.length}"]
        parts += [] if self.separator is None else [f"separator={self.separator}"]
        parts += [] if self.rest == "drop" else [f"rest={self.rest!r}"]
        return f"fr.Packed({', '.join(parts)})"


@options(OF_UNITS)
@dataclass(frozen=True, init=False)
class Bins:
    """Consecutive rows of a row group, as many as together cost no more than a limit.

    Args:
        name: what a row costs: the length of its list in this column, or its number there, at least 0.
        cost: the most that the rows of a bin may cost together.
        rows: how many rows a bin has at most; None for any number.
        oversized: what happens to a row that costs more: "alone", it is a bin of its own; or "error".

    Raises:
        TypeError, ValueError: for other values.

    Examples:
        >>> Bins("tokens", cost=8192)
        fr.Bins('tokens', cost=8192)
    """

    name: str
    cost: int
    rows: int | None
    oversized: Literal["alone", "error"]

    @bounds_messages
    def __init__(
        self,
        name: str,
        *,
        cost: int,
        rows: int | None = None,
        oversized: Literal["alone", "error"] = "alone",
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"write fr.Bins('tokens', cost=8192), found the column {quoted(name)}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "cost", at_least(1, "cost", cost))
        object.__setattr__(self, "rows", None if rows is None else at_least(1, "rows", rows))
        object.__setattr__(self, "oversized", one_of("oversized", oversized, ("alone", "error")))

    def __repr__(self) -> str:
        parts = [repr(self.name), f"cost={self.cost}"]
        parts += [] if self.rows is None else [f"rows={self.rows}"]
        parts += [] if self.oversized == "alone" else [f"oversized={self.oversized!r}"]
        return f"fr.Bins({', '.join(parts)})"


def check_unit(unit: object) -> None:
    """Refuses what is no unit.

    Raises:
        TypeError: it says what to write.
    """
    if unit is not None and not isinstance(unit, Packed | Bins):
        raise TypeError(f"unit must be fr.Packed(...) or fr.Bins(...), found {quoted(unit)}")
