"""What a user calls rows of a `Jagged`, or indices of them, looked at before it is used."""

from __future__ import annotations

import codecs
import operator
from typing import Any

import torch
from torch import Tensor

from fastresume.amounts import plural
from fastresume.options.checks import one_of, quoted
from fastresume.options.hints import OF_ENCODING


def check_rows(
    values: Any, offsets: object, valid: object, kind: Any, values_valid: object, is_nested: bool
) -> None:
    """Looks at the parts of a `Jagged`; `is_nested` says that its values are one.

    Raises:
        TypeError, ValueError: naming what is none, and what to write.
    """
    if not is_nested and not isinstance(values, Tensor):
        raise TypeError(
            f"values of a Jagged must be a tensor or a Jagged, found {quoted(values)}: write "
            "torch.as_tensor(values)"
        )
    if not is_nested and not values.dim():
        raise ValueError("values of a Jagged must be [n], found a tensor []: write values.reshape(1)")
    if not isinstance(offsets, Tensor):
        raise TypeError(
            f"offsets of a Jagged must be a tensor, found {quoted(offsets)}: write torch.as_tensor(offsets)"
        )
    if offsets.dtype != torch.int64:
        raise TypeError(f"offsets of a Jagged must be int64, found {offsets.dtype}: write offsets.long()")
    if offsets.dim() != 1 or not len(offsets):
        raise ValueError(f"offsets of a Jagged must be [B + 1], found {list(offsets.shape)}: {_FORM}")
    one_of("kind", kind, ("list", "string", "binary"))
    if kind != "list" and (is_nested or values.dtype != torch.uint8):
        found = "a Jagged" if is_nested else values.dtype
        raise TypeError(f"a Jagged of the kind {kind!r} has bytes (uint8), found {found}: write kind='list'")
    _check_marks("valid", valid, len(offsets) - 1)
    _check_marks("values_valid", values_valid, len(values))
    # To look at what is on a device would wait for it, and a compiler has nothing to look at.
    if type(offsets) is Tensor and offsets.is_cpu and not torch.compiler.is_compiling():
        _check_offsets(offsets, len(values))


_FORM = "write offsets=torch.tensor([0, *lengths]).cumsum(0)"


def _check_offsets(offsets: Tensor, count: int) -> None:
    first, last = int(offsets[0]), int(offsets[-1])
    if first:
        raise ValueError(f"offsets of a Jagged must begin at 0, found {first}: {_FORM}")
    if last != count:
        raise ValueError(
            f"offsets of a Jagged must end at the number of its values, {count}, found {last}: {_FORM}"
        )
    if len(back := (offsets.diff() < 0).nonzero()):
        row = int(back[0])
        raise ValueError(
            f"offsets of a Jagged must not go back, found {int(offsets[row + 1])} after {int(offsets[row])} "
            f"at row {row}: {_FORM}"
        )


def _check_marks(what: str, marks: object, count: int) -> None:
    if marks is None:
        return
    if not isinstance(marks, Tensor) or (marks.dtype != torch.bool and marks.numel()):
        raise TypeError(f"{what} of a Jagged must be a tensor of bool, found {quoted(marks)}")
    if marks.shape[:1] != (count,):
        raise ValueError(f"{what} of a Jagged must be bool [{count}], found {list(marks.shape)}")


def row_number(row: Any) -> int:
    """The number of a row.

    Raises:
        TypeError: if it is none; it says what to write.
    """
    if isinstance(row, tuple):
        places = ", ".join(map(_as_index, row))
        way = f"jagged.to_padded()[{places}], or fr.col(name).pad(length) for a matrix"
        if all(isinstance(place, int) for place in row):
            way = f"jagged{''.join(f'[{place}]' for place in row)}"
        raise TypeError(f"a Jagged is indexed by its rows, found {quoted(row)}: write {way}")
    if isinstance(row, bool) or getattr(row, "ndim", None) or not hasattr(row, "__index__"):
        raise TypeError(
            f"a Jagged is indexed by a row or a slice, found {quoted(row)}: write jagged.take(indices) for "
            "some rows, or jagged.take(mask.nonzero().squeeze(1)) for those of a mask"
        )
    return operator.index(row)


def _as_index(place: object) -> str:
    """An index as it is written between brackets."""
    if place is Ellipsis:
        return "..."
    if not isinstance(place, slice):
        return quoted(place)
    ends = ["" if end is None else quoted(end) for end in (place.start, place.stop)]
    return ":".join([*ends, *([] if place.step is None else [quoted(place.step)])])


def check_indices(rows: object) -> None:
    """Looks at the indices of rows.

    Raises:
        TypeError: if they are none; it says what to write.
    """
    if not isinstance(rows, Tensor):
        raise TypeError(f"take() needs indices as a tensor, found {quoted(rows)}: write torch.tensor([0, 1])")
    if rows.dtype in (torch.int64, torch.int32) and rows.dim() == 1:
        return
    way = "mask.nonzero().squeeze(1)" if rows.dtype == torch.bool else "indices.long().reshape(-1)"
    found = f"{rows.dtype} {list(rows.shape)}"
    raise TypeError(f"take() needs indices as int64 [n], found {found}: write jagged.take({way})")


def check_handler(errors: object) -> None:
    """Looks at what to do with text that is not UTF-8, whether there is such text or not.

    Raises:
        TypeError, ValueError: if it is no error handler of Python's; it says what to write.
    """
    if not isinstance(errors, str):
        raise TypeError(f"errors of to_strings() must be 'strict' or 'replace', found {quoted(errors)}")
    try:
        codecs.lookup_error(errors)
        return
    except LookupError:
        way = "errors='replace'"
    try:
        codecs.lookup(errors)
        way = OF_ENCODING.replace("encoding", repr(errors))
    except (LookupError, ValueError):
        pass
    raise ValueError(
        f"errors of to_strings() must be 'strict' or 'replace', found {quoted(errors)}: write {way}"
    )


def check_in_range(rows: Tensor, count: int) -> None:
    """Looks for indices of rows that are not there.

    Raises:
        IndexError: naming the first one.
    """
    outside = rows[(rows < 0) | (rows >= count)]
    if len(outside):
        raise IndexError(
            f"take() asks for row {int(outside[0])} of {plural(count, 'row')}: indices are in [0, {count})"
        )
