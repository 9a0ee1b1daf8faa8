"""How columns become tensors: what users say of it, checked and in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

import fastresume._core as _core
from fastresume.messages import bounds_messages
from fastresume.options.checks import at_least, integer, names, number, one_of, text

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

    @bounds_messages
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

    @bounds_messages
    def __post_init__(self) -> None:
        buckets, seed = integer("buckets", self.buckets), integer("seed", self.seed)
        if not 1 <= buckets <= 2**63:
            raise ValueError(f"buckets must be in [1, 2**63], found {buckets}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must be in [0, 2**64), found {seed}")
        # Another kind of integer, as numpy's, is the same one.
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "seed", seed)


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


class ColumnOptions(NamedTuple):
    """How columns become tensors, in the form in which the core takes it.

    `known` are the dictionaries of the columns in `codes` that are known, so that no file is read for them.
    """

    columns: list[str] | None
    stacks: list[tuple[str, list[str]]]
    nulls: list[tuple[str | None, NullRule]]
    decimals: list[tuple[str | None, DecimalRule]]
    fixed: list[tuple[str, list[int] | None]]
    pads: list[tuple[str, tuple[int, bool | int | float, str]]]
    truncations: list[tuple[str, End]]
    optional: list[str]
    partitions: list[str]
    casts: list[tuple[str | None, str]]
    hashes: list[tuple[str, int, int]]
    names: list[tuple[str, str]]
    codes: list[str]
    known: list[tuple[str, bytes]]

    def layout(self, manifest: _core.Manifest) -> _core.Layout:
        """What they make of a dataset's files.

        Raises:
            DataError: if a column is missing, differs between files or has a type that can't be delivered.
            SourceError: if a file can't be read whose values a dictionary holds.
            ValueError: if they contradict each other.
        """
        return _core.Layout(manifest, **self._asdict())
