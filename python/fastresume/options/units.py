"""What a dataset counts instead of rows: `Packed` sequences, or `Bins` by cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from fastresume.options.checks import at_least, integer, one_of, quoted
from fastresume.options.unknown import takes_no_other


class Unit(ABC):
    """What a dataset may count instead of rows, and all that others ask of it.

    Attributes:
        counted: what positions are, in messages and in logs.
        holds_whole_rows: whether each row is in one unit, as a whole; else units are cut from lists.
    """

    counted: ClassVar[str]
    holds_whole_rows: ClassVar[bool]

    @property
    @abstractmethod
    def costs(self) -> tuple[str, ...]:
        """What rows cost, by names: of columns of the files; of tensors, where units are cut from these."""

    @property
    @abstractmethod
    def rule(self) -> tuple[str, tuple[object, ...]]:
        """How rows become units, as the core takes it: the name of its rule, and what this says."""

    @property
    def most_rows(self) -> int | None:
        """How many rows a unit has at most; None for any number."""
        return None

    @property
    @abstractmethod
    def hashed(self) -> str:
        """How rows become units, as a state's hash has it: for ever."""


@takes_no_other("fr.Packed", "packed")
@dataclass(frozen=True, init=False)
class Packed(Unit):
    """Sequences of one length, cut from the lists of a file's rows, one after another.

    Args:
        names: the columns of lists that are packed alike: in each row their lists have the same lengths.
        length: the elements of each sequence.
        separator: the value after each list, in all columns, a mask among them, or one for each column:
            `{"tokens": 0, "labels": -100}`. None for no separator. An empty or null list gets none.
        rest: what happens to the elements after a file's last whole sequence. "drop": `plan()` shows how many
            they are. "pad": they are a sequence filled up with 0, whose `document` is -1 there.

    Raises:
        TypeError, ValueError: for other values.

    Examples:
        >>> Packed("tokens", "labels", length=2048, separator=0)
        fr.Packed('tokens', 'labels', length=2048, separator=0)
        >>> Packed("tokens", "labels", length=2048, separator={"tokens": 0, "labels": -100})
        fr.Packed('tokens', 'labels', length=2048, separator={'tokens': 0, 'labels': -100})
    """

    counted = "sequences"
    holds_whole_rows = False

    names: tuple[str, ...]
    length: int
    separator: int | tuple[int, ...] | None
    rest: Literal["drop", "pad"]

    def __init__(
        self,
        *names: str,
        length: int,
        separator: int | Mapping[str, int] | None = None,
        rest: Literal["drop", "pad"] = "drop",
    ) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise _unnamed("Packed", names, f"length={quoted(length)}")
        if len(set(names)) < len(names):
            raise ValueError(f"fr.Packed names a column twice: {quoted(names)}")
        if taken := {"document", "position"} & set(names):
            raise ValueError(f"a packed column can't be called {min(taken)!r}, as a tensor beside it is")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "length", at_least(1, "length", length))
        object.__setattr__(self, "separator", _separator(names, separator))
        object.__setattr__(self, "rest", one_of("rest", rest, ("drop", "pad")))

    @property
    def separators(self) -> dict[str, int]:
        """The separator of each column; of none without one."""
        if self.separator is None:
            return {}
        if isinstance(self.separator, int):
            return dict.fromkeys(self.names, self.separator)
        return dict(zip(self.names, self.separator, strict=True))

    @property
    def costs(self) -> tuple[str, ...]:
        """What rows cost: the lengths of their lists."""
        return self.names

    @property
    def rule(self) -> tuple[str, tuple[object, ...]]:
        """How rows become sequences, as the core takes it."""
        return "packed", (self.length, self.separator is not None, self.rest == "pad")

    @property
    def hashed(self) -> str:
        """How rows become sequences, as a state's hash has it."""
        return f"packed {self.names} {self.length} {self.separator is not None} {self.rest}"

    def __repr__(self) -> str:
        parts = [*map(repr, self.names), f"length={self.length}"]
        given = self.separators if isinstance(self.separator, tuple) else self.separator
        parts += [] if given is None else [f"separator={given}"]
        parts += [] if self.rest == "drop" else [f"rest={self.rest!r}"]
        return f"fr.Packed({', '.join(parts)})"


@takes_no_other("fr.Bins", "bins")
@dataclass(frozen=True, init=False)
class Bins(Unit):
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

    counted = "bins"
    holds_whole_rows = True

    name: str
    cost: int
    rows: int | None
    oversized: Literal["alone", "error"]

    def __init__(
        self,
        name: str,
        *,
        cost: int,
        rows: int | None = None,
        oversized: Literal["alone", "error"] = "alone",
    ) -> None:
        if not isinstance(name, str):
            raise _unnamed("Bins", (name,), f"cost={quoted(cost)}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "cost", at_least(1, "cost", cost))
        object.__setattr__(self, "rows", None if rows is None else at_least(1, "rows", rows))
        object.__setattr__(self, "oversized", one_of("oversized", oversized, ("alone", "error")))

    @property
    def costs(self) -> tuple[str, ...]:
        """What rows cost: what one column says."""
        return (self.name,)

    @property
    def rule(self) -> tuple[str, tuple[object, ...]]:
        """How rows become bins, as the core takes it."""
        return "bins", (self.cost, self.rows, self.oversized == "error")

    @property
    def hashed(self) -> str:
        """How rows become bins, as a state's hash has it."""
        return f"bins {self.name} {self.cost} {self.rows}"

    @property
    def most_rows(self) -> int | None:
        """How many rows a bin has at most; None for any number."""
        return self.rows

    def __repr__(self) -> str:
        parts = [repr(self.name), f"cost={self.cost}"]
        parts += [] if self.rows is None else [f"rows={self.rows}"]
        parts += [] if self.oversized == "alone" else [f"oversized={self.oversized!r}"]
        return f"fr.Bins({', '.join(parts)})"


def _unnamed(unit: str, given: tuple[object, ...], size: str) -> TypeError:
    """The error for what names no columns, or does so in a list or in expressions; what to write."""
    flat: list[Any] = [one for each in given for one in (each if isinstance(each, list | tuple) else [each])]
    tensors = [getattr(one, "tensor_name", None) or getattr(one, "names", one) for one in flat]
    names = [name for one in tensors for name in (one if isinstance(one, tuple) else [one])]
    if not names or not all(isinstance(name, str) for name in names):
        names = ["tokens"]
    elif unit == "Bins":
        names = names[:1]
    have_rules = any("." in repr(one).removeprefix("fr.col(") for one in flat if hasattr(one, "rules"))
    beside = f" for unit=, and columns=[{', '.join(map(repr, flat))}]" if have_rules else ""
    found = quoted(given if unit == "Packed" else given[0])
    return TypeError(
        f"fr.{unit} takes names of columns, found {found}: write "
        f"fr.{unit}({', '.join(map(repr, names))}, {size}){beside}"
    )


def _separator(names: tuple[str, ...], given: object) -> int | tuple[int, ...] | None:
    """The value between lists, or one for each column, checked."""
    if isinstance(given, Mapping) and given.keys() == {*names}:
        return tuple(integer(f"the separator of {quoted(name)}", given[name]) for name in names)
    if isinstance(given, str):
        raise TypeError(
            f"separator must be an integer, found {quoted(given)}: write its number, as "
            "tokenizer.eos_token_id"
        )
    if isinstance(given, Mapping | list | tuple):
        values = [*given.values()] if isinstance(given, Mapping) else [*given]
        both = zip_longest(names, values[: len(names)], fillvalue=0)
        each = ", ".join(f"{name!r}: {quoted(value)}" for name, value in both)
        raise TypeError(
            f"separator is one integer, or one for each column, found {quoted(given)}: write "
            f"separator={{{each}}}"
        )
    return None if given is None else integer("separator", given)


def check_unit(unit: object) -> None:
    """Refuses what is no unit.

    Raises:
        TypeError: it says what to write.
    """
    if unit is not None and not isinstance(unit, Unit):
        raise TypeError(f"unit must be fr.Packed(...) or fr.Bins(...), found {quoted(unit)}")
