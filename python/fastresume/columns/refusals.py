"""What people write of expressions by mistake, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from fastresume.filter.condition import refuse_operator
from fastresume.options.attributes import METHODS_OF_COLUMNS
from fastresume.options.checks import quoted
from fastresume.options.unknown import refuse_attribute


class Refusals:
    """What an expression does not do, as an error that says what to write.

    It has no truth: `and` between conditions would drop one. It has no arithmetic: a function of batches has.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        """The code that makes it, cut short for errors."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self.text} has no truth of its own: compare it, as {self.text} == True, and join conditions "
            "by &, | and ~, in parentheses"
        )

    def __invert__(self) -> NoReturn:
        raise TypeError(f"~ negates conditions: write {self.text} == False of a column of bools")

    def __and__(self, _other: object) -> NoReturn:
        refuse_operator("&")

    def __or__(self, _other: object) -> NoReturn:
        refuse_operator("|")

    def __getitem__(self, item: object) -> NoReturn:
        raise TypeError(
            f"{self.text} has no items: .fixed(length) and .pad(length) make a matrix of lists, so write "
            f"batch[name][:, {quoted(item)}]; rows= chooses rows"
        )

    def _compute(self, _other: object = None) -> NoReturn:
        raise TypeError(
            f"{self.text}: expressions have no arithmetic, dataset.map(function) computes with batches; to "
            "filter, write one of pyarrow, as pyarrow.compute.field(name) * 2 > 3"
        )

    __rand__, __ror__ = __and__, __or__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _compute
    __floordiv__ = __mod__ = __pow__ = __matmul__ = __xor__ = __neg__ = __pos__ = __abs__ = _compute

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method that there is not."""
            refuse_attribute(self, name, "fr.col(...)", METHODS_OF_COLUMNS)


def checked_name(what: str, name: object) -> str:
    """The name of a tensor.

    Raises:
        TypeError: if it is no string.
        ValueError: if it is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} takes a name, found {quoted(name)}")
    if not name:
        raise ValueError(f"{what} takes a name, found ''")
    return name


def checked_names(
    what: str, names: tuple[object, ...], kinds: str = "names or patterns of columns"
) -> tuple[str, ...]:
    """Names and patterns of columns, each an argument of its own.

    Raises:
        TypeError: if there are none, or one is no string.
    """
    if not names:
        raise TypeError(f"{what} takes {kinds}, found none")
    found = tuple(name for name in names if isinstance(name, str))
    if len(found) < len(names):
        other = next(name for name in names if not isinstance(name, str))
        raise TypeError(f"{what} takes {kinds}, found {quoted(other)}")
    return found


def listed(parts: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments, or what is in the list or tuple that is the only one."""
    return tuple(parts[0]) if len(parts) == 1 and isinstance(parts[0], (list, tuple)) else parts
