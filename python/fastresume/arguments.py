"""What users pass, checked and in one form."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import numpy as np

Path = str | os.PathLike[str]
Choice = TypeVar("Choice", bound=str)

NullRule = str | bool | int | float
"""What becomes of nulls: "error", "mask", or the value that stands in their place."""

Nulls = NullRule | Mapping[str, NullRule]
"""One rule for all columns, or rules by names and patterns of columns."""

DecimalRule = Literal["int64", "float64", "bytes"]
"""What becomes of decimals."""

Decimals = DecimalRule | Mapping[str, DecimalRule]
"""One rule for all decimals, or rules by names and patterns of columns."""


def integer(name: str, value: object) -> int:
    """The integer.

    Raises:
        TypeError: if it is not one; a bool is none.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, found {value!r}")
    try:
        return operator.index(value)
    except TypeError:  # an array has the method, but only one of a single integer gives one
        raise TypeError(f"{name} must be an integer, found {value!r}") from None


def at_least(least: int, name: str, value: object) -> int:
    """The integer, which is at least `least`.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is less than `least`, or does not fit 53 bits.
    """
    number = integer(name, value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, found {number}")
    if number >= 2**53:
        raise ValueError(f"{name} must be below 2**53, found {number}")
    return number


def one_of(name: str, value: Choice, choices: tuple[Choice, ...], *others: str) -> Choice:
    """The value, which is one of the choices; `others` are what else it might have been, in words.

    Raises:
        ValueError: if it is not.
    """
    if value not in choices:
        allowed = " or ".join([*map(repr, choices), *others])
        raise ValueError(f"{name} must be {allowed}, found {value!r}")
    return value


def global_share(global_batch_size: object, world_size: int) -> int:
    """The rows of each rank in a global batch.

    Raises:
        ValueError: if the ranks can't have equal shares; names the nearest sizes that can be shared.
    """
    number = at_least(1, "global_batch_size", global_batch_size)
    share, rest = divmod(number, world_size)
    if rest:
        raise ValueError(
            f"global_batch_size {number} can't be shared equally by {world_size} ranks; "
            + nearest(number, world_size)
        )
    return share


def nearest(number: int, divisor: int) -> str:
    """The nearest multiples, in words."""
    below = number // divisor * divisor
    return "the nearest: " + " and ".join(str(found) for found in (below, below + divisor) if found)


def path_list(paths: Path | Sequence[Path]) -> list[str]:
    """The paths as strings."""
    entries = [paths] if isinstance(paths, (str, os.PathLike)) else _sequence("paths", paths)
    return [
        _text("paths", os.fspath(entry) if isinstance(entry, os.PathLike) else entry) for entry in entries
    ]


def one_path(name: str, value: object) -> str:
    """The path as a string.

    Raises:
        TypeError: if it is not one.
        ValueError: if it is empty.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path, found {value!r}")
    if not path:
        raise ValueError(f"{name} is an empty path")
    return path


def names(argument: str, given: str | Sequence[str] | None) -> list[str] | None:
    """The names or patterns as a list; one string is one name."""
    if given is None:
        return None
    return [
        _text(argument, name) for name in ([given] if isinstance(given, str) else _sequence(argument, given))
    ]


def stack_list(stack: Mapping[str, str | Sequence[str]] | None) -> list[tuple[str, list[str]]]:
    """The stacks as pairs of name and patterns."""
    if stack is None:
        return []
    if not isinstance(stack, Mapping):
        raise TypeError(f"stack must be a mapping of names to columns, found {stack!r}")
    items = stack.items()
    return [(_text("stack", name), names(f"stack[{name!r}]", columns) or []) for name, columns in items]


def null_list(nulls: Nulls) -> list[tuple[str | None, NullRule]]:
    """What becomes of nulls, as pairs of a name or pattern (None: all columns) and a rule."""
    if not isinstance(nulls, Mapping):
        return [(None, _null_rule("nulls", nulls))]
    return [(_text("nulls", name), _null_rule(f"nulls[{name!r}]", rule)) for name, rule in nulls.items()]


def decimal_list(decimals: Decimals | None) -> list[tuple[str | None, DecimalRule]]:
    """What becomes of decimals, as pairs of a name or pattern (None: all columns) and a rule."""
    if decimals is None:
        return []
    if not isinstance(decimals, Mapping):
        return [(None, _decimal_rule("decimals", decimals))]
    items = decimals.items()
    return [(_text("decimals", name), _decimal_rule(f"decimals[{name!r}]", rule)) for name, rule in items]


def fixed_list(fixed: Mapping[str, int] | None) -> list[tuple[str, int]]:
    """How many elements lists have, as pairs of a name or pattern and a number."""
    if fixed is None:
        return []
    if not isinstance(fixed, Mapping):
        raise TypeError(f"fixed must be a mapping of names to lengths, found {fixed!r}")
    return [(_text("fixed", name), at_least(1, f"fixed[{name!r}]", size)) for name, size in fixed.items()]


def _decimal_rule(argument: str, rule: object) -> DecimalRule:
    if not isinstance(rule, str):
        raise TypeError(f"{argument} must be 'int64', 'float64' or 'bytes', found {rule!r}")
    return one_of(argument, rule, ("int64", "float64", "bytes"))  # type: ignore[arg-type]  # checked here


def _null_rule(argument: str, rule: object) -> NullRule:
    if isinstance(rule, str):
        return one_of(argument, rule, ("error", "mask"), "a fill value")
    if isinstance(rule, (bool, np.bool_)):
        return bool(rule)
    if isinstance(rule, (float, np.floating)):
        return float(rule)
    try:
        number = integer(argument, rule)
    except TypeError:
        raise TypeError(
            f"{argument} must be 'error', 'mask' or a fill value (int, float or bool), found {rule!r}"
        ) from None
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{argument} must fit 64 bits, found {number}")
    return number


def _sequence(argument: str, given: object) -> list[object]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a string or a list of them, found {given!r}")
    return list(given)


def _text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{argument} must hold strings, found {value!r}")
    return value
