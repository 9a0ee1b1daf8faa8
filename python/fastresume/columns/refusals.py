"""What people write of expressions by mistake, and what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from fastresume.filter.condition import refuse_operator
from fastresume.options.attributes import METHODS_OF_COLUMNS
from fastresume.options.checks import quoted
from fastresume.options.unknown import refuse_attribute


def _operator(of_arrow: str) -> Any:
    """The method of an operator that an expression of pyarrow has: how it is written there."""

    def compute(self: Refusals, *_others: object) -> NoReturn:
        self._compute(f"write one of pyarrow, as {of_arrow}")

    return compute


def _masked(sign: str) -> Any:
    """The method of an operator that pyarrow lacks, too: how a mask is made by it."""

    def compute(self: Refusals, *others: object) -> NoReturn:
        value = others[0] if isinstance(others[0], int) else 10
        self._compute(
            "write rows=mask, of values = dataset.read_rows(range(dataset.num_file_rows))[{name!r}] and "
            f"mask = values {sign} {value} == 0"
        )

    return compute


_OF_NUMPY = {
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "power": ("__pow__", "__rpow__"),
    "remainder": ("__mod__", "__rmod__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
}
"""By the names of numpy's functions that operators call: the methods of a column before and after them."""


class Refusals:
    """What an expression does not do, as an error that says what to write.

    It has no truth: `and` between conditions would drop one. It has no arithmetic: a function of batches has.
    """

    __slots__ = ()

    names: tuple[str, ...]

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

    def __and__(self, other: object) -> NoReturn:
        refuse_operator("&", other)

    def __or__(self, other: object) -> NoReturn:
        refuse_operator("|", other)

    def __getitem__(self, item: object) -> NoReturn:
        if isinstance(item, str):
            raise TypeError(
                f"{self.text} has no items: a member of a struct has its own name, so write "
                f"fr.col({f'{self._name}.{item}'!r})"
            )
        place = quoted(item)
        if isinstance(item, slice) and item.step is None:
            place = ":".join("" if end is None else quoted(end) for end in (item.start, item.stop))
        raise TypeError(
            f"{self.text} has no items: .fixed(length) and .pad(length) make a matrix of lists, so write "
            f"batch[name][:, {place}]; rows= chooses rows"
        )

    @property
    def _name(self) -> str:
        """The name of the column, for advice; `name` if several are named."""
        return self.names[0] if len(self.names) == 1 else "name"

    def _compute(self, way: str) -> NoReturn:
        raise TypeError(
            f"{self.text}: expressions have no arithmetic, dataset.map(function) computes with batches; to "
            f"filter, {way.format(field=self._field, name=self._name)}"
        )

    @property
    def _field(self) -> str:
        """The column as pyarrow names it."""
        return f"pyarrow.compute.field({', '.join(map(repr, self._name.split('.')))})"

    __rand__, __ror__ = __and__, __or__
    __add__ = __radd__ = _operator("{field} + 2 > 3")
    __sub__ = __rsub__ = _operator("{field} - 2 > 3")
    __mul__ = __rmul__ = __pos__ = __float__ = __int__ = __round__ = _operator("{field} * 2 > 3")
    __divmod__ = __rdivmod__ = __matmul__ = __rmatmul__ = __xor__ = __rxor__ = _operator("{field} * 2 > 3")
    __truediv__ = __rtruediv__ = _operator("{field} / 2.0 > 3")
    __neg__ = _operator("{field} * -1 > 3")
    __abs__ = _operator("pyarrow.compute.abs({field}) > 3")
    __pow__ = __rpow__ = _operator("pyarrow.compute.power({field}, 2) > 3")
    __mod__ = __rmod__ = _masked("%")
    __floordiv__ = __rfloordiv__ = _masked("//")

    def __array_ufunc__(self, function: Any, _method: str, *inputs: object, **_options: object) -> Any:
        """Numpy's functions: of those that operators are, what these do; of others what to write."""
        name = function.__name__
        if len(inputs) == 2 and name in _OF_NUMPY:
            other = inputs[0] if inputs[1] is self else inputs[1]
            other = other[()] if isinstance(other, np.ndarray) else other  # a number is an array here
            return getattr(self, _OF_NUMPY[name][inputs[1] is self])(other)
        return self._refuse_function(name)

    def __array_function__(self, function: Any, *_arguments: object) -> NoReturn:
        """Numpy's other functions: what to write."""
        self._refuse_function(function.__name__)

    @classmethod
    def __torch_function__(
        cls, function: Any, _types: object, arguments: tuple[object, ...] = (), _named: object = None
    ) -> NoReturn:
        """Torch's functions: what to write."""
        given = [one for each in arguments for one in (each if isinstance(each, list | tuple) else [each])]
        of = next((one for one in given if isinstance(one, cls)), None)
        name = str(getattr(function, "__name__", function)).strip("_")
        if of is None:
            raise TypeError(f"{name} of columns: write dataset.map(function), which computes with batches")
        of._refuse_function(name)

    def _refuse_function(self, name: str) -> NoReturn:
        """Refuses a function of another package, as the method of this name."""
        if name in dir(self):
            way = f"{self.text}.{name}(...)"
        else:
            computed = f"dataset.map(function), which computes with batches, as of batch[{self._name!r}]"
            way = METHODS_OF_COLUMNS.get(name, computed).replace("pyarrow.compute.field(name)", self._field)
        raise TypeError(f"{self.text} has no values yet, so {name} finds none: write {way}")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method that there is not."""
            refuse_attribute(self, name, "fr.col(...)", METHODS_OF_COLUMNS)


Called = TypeVar("Called", bound=Callable[..., object])


class _Named:
    """A function that takes a name; of names that are asked of it itself, it says how they are given.

    Args:
        function: the function.
        what: how it is called.
    """

    def __init__(self, function: Callable[..., object], what: str) -> None:
        functools.update_wrapper(self, function)
        self._function, self._what = function, what

    def __call__(self, *args: object, **options: object) -> object:
        return self._function(*args, **options)

    def __getattr__(self, name: str) -> NoReturn:
        way = "" if name.startswith("_") else f": write {self._what}({name!r})"
        raise AttributeError(f"{self._what} has no attribute {name!r}{way}", name=name, obj=self)

    def __getitem__(self, name: object) -> NoReturn:
        names = name if isinstance(name, tuple) else (name,)
        raise TypeError(f"{self._what} has no items: write {self._what}({', '.join(map(quoted, names))})")

    def __reduce__(self) -> str:
        return str(self.__name__)

    def __repr__(self) -> str:
        return f"<function {self._what}>"


def takes_names(what: str) -> Callable[[Called], Called]:
    """A decorator: the function, which says of a name asked of it how it is given to it."""

    def decorated(function: Called) -> Called:
        return cast("Called", _Named(function, what))

    return decorated


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
