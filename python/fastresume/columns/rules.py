"""The rules for a column, in the form that the core takes; prints as the methods that give them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import cast

import numpy as np
import numpy.typing as npt

from fastresume.options.checks import quoted

Number = bool | int | float

CASTS = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
"""The names of torch's dtypes that a cast may make."""


def dtype_name(what: str, dtype: object) -> str:
    """The name of a dtype of numbers.

    Raises:
        TypeError: if it is none.
    """
    import torch  # takes seconds: `fastresume inspect` writes expressions without it

    if not isinstance(dtype, torch.dtype):
        known = _name(dtype)
        meant = f": write torch.{known}" if known in CASTS else ""
        raise TypeError(f"{what} takes a torch.dtype, found {quoted(dtype)}{meant}")
    name = str(dtype).removeprefix("torch.")
    if name not in CASTS:
        raise TypeError(f"{what} takes a dtype of integers, floats or bool, found {dtype}")
    return name


def _name(dtype: object) -> str:
    """What numpy, Arrow, polars and Python call a type, as numpy does; else its own text."""
    if (text := str(dtype).lower()) in CASTS:
        return text
    if isinstance(dtype, str) and not dtype.isidentifier():  # numpy reads a language of its own
        return dtype
    try:
        of_arrow = getattr(dtype, "to_pandas_dtype", None)
        return np.dtype(cast("npt.DTypeLike", dtype if of_arrow is None else of_arrow())).name
    except (TypeError, ValueError, NotImplementedError):
        return str(dtype)


@dataclass(frozen=True)
class Rules:
    """The rules for a column; None for a rule that was not given.

    Args:
        nulls: "error", "mask", or the number that replaces them ("" for an empty text).
        decimal: "int64", "float64" or "bytes".
        raw: whether values of one length are the bytes that the file holds.
        split: the separator between the values in texts.
        clip: the least and the greatest number, before a cast.
        cast: the name of a dtype.
        rounding: whether integers become the nearest float of that dtype.
        hash: how many buckets, and the seed.
        codes: the values that are named, and the code of others.
        pad: length, value, side, and which end is kept of a longer row.
        fixed: how many elements lists have at each level, None where they differ; none where all may differ.
        optional: whether files may lack the column.
        from_path: whether its values are in the files' paths.
    """

    nulls: str | Number | None = None
    decimal: str | None = None
    raw: bool | None = None
    split: str | bytes | None = None
    clip: tuple[Number | None, Number | None] | None = None
    cast: str | None = None
    rounding: bool = False
    hash: tuple[int, int] | None = None
    codes: tuple[tuple[str | bytes, ...] | None, int | None] | None = None
    pad: tuple[int, Number, str, str | None] | None = None
    fixed: tuple[int | None, ...] | None = None
    optional: bool = False
    from_path: bool = False

    @property
    def given(self) -> list[tuple[str, object]]:
        """The rules that were given, each by its name and what it says, as the core takes them."""
        said = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        return [(name, value) for name, value, default in said if value is not default]

    def __repr__(self) -> str:
        """The methods that say it, each with a dot before it."""
        calls = [".from_path()" * self.from_path, ".optional()" * self.optional]
        if self.decimal is not None:
            calls.append(f".decimal({self.decimal!r})")
        calls.append(".raw()" * bool(self.raw))
        if self.split is not None:
            calls.append(f".split({self.split!r})")
        if self.clip is not None:
            low, high = self.clip
            arguments = [] if low is None else [_number(low)]
            arguments += (
                [] if high is None else [_number(high) if low is not None else f"high={_number(high)}"]
            )
            calls.append(f".clip({', '.join(arguments)})")
        if self.cast is not None:
            calls.append(f".cast(torch.{self.cast}{', rounding=True' * self.rounding})")
        if self.hash is not None:
            buckets, seed = self.hash
            calls.append(f".hash({buckets}{f', seed={seed}' if seed else ''})")
        if self.codes is not None:
            values, unknown = self.codes
            arguments = [] if values is None else [repr(list(values))]
            calls.append(
                f".codes({', '.join(arguments + ([] if unknown is None else [f'unknown={unknown}']))})"
            )
        if self.fixed is not None:
            sizes = self.fixed if len(self.fixed) != 1 else self.fixed[0]
            calls.append(f".fixed({sizes or None!r})")
        if self.nulls is not None:
            calls.append(".mask_null()" if self.nulls == "mask" else f".fill_null({_number(self.nulls)})")
        if self.pad is not None:
            length, value, side, kept = self.pad
            arguments = [str(length)]
            arguments += [f"value={_number(value)}"] * (value is not False and repr(value) != "0")
            arguments += [f"side={side!r}"] * (side != "right")
            arguments += [f"truncate={kept!r}"] * (kept is not None)
            calls.append(f".pad({', '.join(arguments)})")
        return "".join(calls)


def _number(value: str | Number) -> str:
    """The value as Python's code says it."""
    text = repr(value)
    return f"float({text!r})" if text in ("nan", "inf", "-inf") else text
