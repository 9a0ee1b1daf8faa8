"""What users pass, checked and in one form."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch

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

Fixed = int | tuple[int, ...] | None
"""How many elements lists have, and the lists in them; None where they may differ."""

Casts = torch.dtype | Mapping[str, torch.dtype]
"""One type for all numbers, or types by names and patterns of columns."""

CASTS = (
    torch.bool,
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)


@dataclass(frozen=True)
class Hash:
    """How the values of a column are put into buckets: see docs/SHAPING.md.

    Args:
        buckets: how many there are, at least 1 and at most 2**63.
        seed: which of the hashes, in [0, 2**64): columns with one number of buckets and one seed put the same
            value into the same bucket.

    Raises:
        ValueError: for numbers out of range.
        TypeError: if one is not an integer.

    Example:
        >>> import fastresume as fr
        >>> hashing = {"c_0": fr.Hash(buckets=1000, seed=7)}
        >>> fr.ParquetDataset("data/*.parquet", batch_size=32, columns="c_0", hash=hashing).schema
        c_0: int64 [B] hash1[1000, seed 7]
    """

    buckets: int
    seed: int = 0

    def __post_init__(self) -> None:
        buckets, seed = integer("buckets", self.buckets), integer("seed", self.seed)
        if not 1 <= buckets <= 2**63:
            raise ValueError(f"buckets must be in [1, 2**63], found {buckets}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must be in [0, 2**64), found {seed}")
        # Another kind of integer, as numpy's, is the same one.
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "seed", seed)


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


def number(name: str, value: object, expected: str = "a number (int, float or bool)") -> bool | int | float:
    """The number, as Python's own; `expected` is what it might have been, in words.

    Raises:
        TypeError: if it is none.
        ValueError: if it is an integer of more than 64 bits.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    try:
        found = integer(name, value)
    except TypeError:
        raise TypeError(f"{name} must be {expected}, found {value!r}") from None
    if not -(2**63) <= found < 2**64:
        raise ValueError(f"{name} must fit 64 bits, found {found}")
    return found


def positive(name: str, value: object) -> float:
    """The number, which is above 0 and finite.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not above 0, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, found {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above 0 and finite, found {value}")
    return float(value)


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


def truth(name: str, value: object) -> bool:
    """The bool.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, found {value!r}")
    return value


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
    return [text("paths", os.fspath(entry) if isinstance(entry, os.PathLike) else entry) for entry in entries]


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
        text(argument, name) for name in ([given] if isinstance(given, str) else _sequence(argument, given))
    ]


def stack_list(stack: Mapping[str, str | Sequence[str]] | None) -> list[tuple[str, list[str]]]:
    """The stacks as pairs of name and patterns."""
    if stack is None:
        return []
    if not isinstance(stack, Mapping):
        raise TypeError(f"stack must be a mapping of names to columns, found {stack!r}")
    items = stack.items()
    return [(text("stack", name), names(f"stack[{name!r}]", columns) or []) for name, columns in items]


def null_list(nulls: Nulls) -> list[tuple[str | None, NullRule]]:
    """What becomes of nulls, as pairs of a name or pattern (None: all columns) and a rule."""
    if not isinstance(nulls, Mapping):
        return [(None, _null_rule("nulls", nulls))]
    return [(text("nulls", name), _null_rule(f"nulls[{name!r}]", rule)) for name, rule in nulls.items()]


def decimal_list(decimals: Decimals | None) -> list[tuple[str | None, DecimalRule]]:
    """What becomes of decimals, as pairs of a name or pattern (None: all columns) and a rule."""
    if decimals is None:
        return []
    if not isinstance(decimals, Mapping):
        return [(None, _decimal_rule("decimals", decimals))]
    items = decimals.items()
    return [(text("decimals", name), _decimal_rule(f"decimals[{name!r}]", rule)) for name, rule in items]


def fixed_list(fixed: Mapping[str, Fixed] | None) -> list[tuple[str, list[int] | None]]:
    """How many elements lists have, as pairs of a name or pattern and a number for each level of lists."""
    if fixed is None:
        return []
    if not isinstance(fixed, Mapping):
        raise TypeError(f"fixed must be a mapping of names to lengths, found {fixed!r}")
    return [(text("fixed", name), _lengths(f"fixed[{name!r}]", given)) for name, given in fixed.items()]


def _lengths(argument: str, given: object) -> list[int] | None:
    if given is None:
        return None
    lengths = given if isinstance(given, tuple) else (given,)
    if not lengths:
        raise ValueError(f"{argument} must hold a length, found ()")
    return [at_least(1, argument, length) for length in lengths]


def cast_list(casts: Casts | None) -> list[tuple[str | None, str]]:
    """The types that numbers are cast to, as pairs of a name or pattern (None: all) and a type's name."""
    if casts is None:
        return []
    if not isinstance(casts, Mapping):
        return [(None, _dtype_name("cast", casts))]
    return [(text("cast", name), _dtype_name(f"cast[{name!r}]", dtype)) for name, dtype in casts.items()]


def hash_list(hashes: Mapping[str, int | Hash] | None) -> list[tuple[str, int, int]]:
    """Into how many buckets columns are put, as a name or pattern, the number of buckets and a seed each."""
    if hashes is None:
        return []
    if not isinstance(hashes, Mapping):
        raise TypeError(f"hash must be a mapping of names to numbers of buckets, found {hashes!r}")
    found = []
    for name, given in hashes.items():
        try:
            hashed = given if isinstance(given, Hash) else Hash(given)
        except (TypeError, ValueError) as cause:
            raise type(cause)(f"hash[{name!r}]: {cause}") from None
        found.append((text("hash", name), hashed.buckets, hashed.seed))
    return found


def rename_list(renamed: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """The new names of tensors, as pairs of the old and the new one."""
    if renamed is None:
        return []
    if not isinstance(renamed, Mapping):
        raise TypeError(f"rename must be a mapping of names to names, found {renamed!r}")
    pairs = [(text("rename", old), text("rename", new)) for old, new in renamed.items()]
    for old, new in pairs:
        if not new:
            raise ValueError(f"rename gives '{old}' an empty name")
    return pairs


def _dtype_name(argument: str, dtype: object) -> str:
    if not isinstance(dtype, torch.dtype):
        meant = next(
            (f": write {known}" for known in CASTS if dtype == str(known).removeprefix("torch.")), ""
        )
        raise TypeError(f"{argument} must be a torch.dtype, found {dtype!r}{meant}")
    name = str(dtype).removeprefix("torch.")
    if dtype not in CASTS:
        raise ValueError(f"{argument} must be a type of integers, floats or bool, found {name}")
    return name


def _decimal_rule(argument: str, rule: object) -> DecimalRule:
    if not isinstance(rule, str):
        raise TypeError(f"{argument} must be 'int64', 'float64' or 'bytes', found {rule!r}")
    return one_of(argument, rule, ("int64", "float64", "bytes"))  # type: ignore[arg-type]  # checked here


def _null_rule(argument: str, rule: object) -> NullRule:
    if isinstance(rule, str):
        return one_of(argument, rule, ("error", "mask"), "a fill value")
    return number(argument, rule, "'error', 'mask' or a fill value (int, float or bool)")


def _sequence(argument: str, given: object) -> list[object]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a string or a list of them, found {given!r}")
    return list(given)


def text(argument: str, value: object) -> str:
    """The string, one of those that an argument holds.

    Raises:
        TypeError: if it is not one.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must hold strings, found {value!r}")
    return value
