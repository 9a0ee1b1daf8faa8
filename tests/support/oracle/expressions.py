"""What `fr.col(...)` makes of a column, value by value: docs/reference/shaping.md and types.md.

What is said of a column is a mapping from methods to their arguments; rows are what pyarrow's `to_pylist`
gives. A number that is delivered is its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from support.oracle.values import FLOATS, bucket, cast, padded

Said = Mapping[str, tuple[Any, ...]]
Made = dict[str, list[Any]]


class RefusedError(Exception):
    """A row that can't be delivered."""


def dtype_of(leaf: str, said: Said) -> str:
    """Return the name of the dtype that a column's values become."""
    if "hash" in said or "codes" in said:
        return "int64"
    if "cast" in said:
        return str(said["cast"][0]).removeprefix("torch.")
    if "decimal" in said:
        return str(said["decimal"][0])
    if leaf.startswith("bytes"):
        return "uint8"
    return {"text": "uint8", "decimal": "int64", "time": "int64"}.get(leaf, leaf)


def made(rows: Sequence[Any], leaf: str, depth: int, said: Said) -> Made:
    """Return what becomes of rows of so many levels of lists; raise `RefusedError` if one can't be delivered.

    The keys are what is behind the tensor's name: "" its rows, or of a Jagged ".lengths" and ".values".
    """
    dtype = dtype_of(leaf, said)
    if "split" in said:
        (separator,) = said["split"]
        rows, depth = [None if row is None else row.split(separator) if row else [] for row in rows], 1
    of_leaf = converter(rows, leaf, depth, said, dtype)
    rows = [nested(row, depth, of_leaf) for row in rows]
    is_text = leaf == "text" and not said.keys() & {"hash", "codes"}
    if is_text:
        depth += 1
    rule = said["mask_null"] if "mask_null" in said else said.get("fill_null")
    width = int(leaf.removeprefix("bytes")) if dtype == "uint8" and leaf.startswith("bytes") else 1
    fill = None
    if "fill_null" in said and not is_text:  # of a text, any value means an empty one
        fill = number(said["fill_null"][0], dtype) * width
    elif "mask_null" in said:
        fill = number(0, dtype) * width
    is_masked = rule == ()
    sizes = said["fixed"][0] if "fixed" in said else ()
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    sizes = () if sizes == (None,) else sizes
    if sizes and sizes[0] is not None:
        return matrix(rows, sizes, fill, is_masked)
    inner = 1
    if sizes:
        inner, depth = math.prod(sizes[1:]), depth - len(sizes) + 1
        rows = [None if row is None else [of_lengths(one, sizes[1:]) for one in row] for row in rows]
    if "pad" in said:
        return padded_rows(rows, said["pad"], dtype, inner, width, fill, is_masked, is_text)
    if sizes:
        marks = [[number is not None for number in one] for row in rows for one in row or ()]
        rows = [None if row is None else [b"".join(filled(one, fill)) for one in row] for row in rows]
        found = jagged(rows, depth, "", rule, None, marks_values=False)
        return {**found, ".values_valid": marks} if is_masked else found
    if depth == 0:
        found = {"": filled(rows, fill)}
        return {**found, "_valid": [row is not None for row in rows]} if is_masked else found
    return jagged(rows, depth, "", rule, fill, marks_values=not is_text)


def converter(rows: Sequence[Any], leaf: str, depth: int, said: Said, dtype: str) -> Callable[[Any], Any]:
    """Return what becomes of one value."""
    if "hash" in said:
        return lambda value: number(bucket(hashed(value, said), *said["hash"]), dtype)
    if "codes" in said:
        named, unknown = (*said["codes"], None, None)[:2]
        if named is None:
            named = sorted({value for value in flat(rows, depth) if value is not None})
        codes = {value: code for code, value in enumerate(named)}
        return lambda value: number(codes.get(value, unknown), dtype)
    if leaf == "text":
        return lambda value: [value[place : place + 1] for place in range(len(value))]
    if leaf.startswith("bytes"):
        return bytes
    if leaf in FLOATS and "cast" not in said:
        return lambda value: np.array(value, leaf).tobytes()  # of a NaN, its own bits
    rounding = said.get("cast", ())[1:] == (True,)
    is_scaled = leaf == "decimal" and (said.get("decimal", ("int64",)) != ("int64",) or is_value(said))
    if is_scaled and dtype not in FLOATS:
        raise RefusedError  # a decimal is no integer
    if is_scaled:
        return lambda value: number(float(value), dtype)
    return lambda value: number(unscaled(value), dtype, rounding)


def is_value(said: Said) -> bool:
    """Return whether a decimal is cast as the number that it stands for, not as its unscaled integer."""
    return "cast" in said and "decimal" not in said


def hashed(value: Any, said: Said) -> Any:
    """Return what a hash takes of a value: bytes, or an integer."""
    whole = unscaled(value)
    if "cast" in said or "decimal" in said:
        return int.from_bytes(number(whole, "int64"), "little", signed=True)
    return whole


def unscaled(value: Any) -> Any:
    """Return a decimal's integer, an instant's microseconds; of others, the value."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        return (-1) ** sign * int("".join(map(str, digits)))
    return value


def number(value: Any, dtype: str, rounding: bool = False) -> bytes:
    """Return the bytes of a number that must fit."""
    found = None if value is None else cast(value, dtype, rounding=rounding)
    if found is None:
        raise RefusedError
    return found


def nested(row: Any, depth: int, of_leaf: Callable[[Any], Any]) -> Any:
    """Return a row with all its values changed; nulls stay."""
    if row is None:
        return None
    return of_leaf(row) if depth == 0 else [nested(one, depth - 1, of_leaf) for one in row]


def flat(rows: Sequence[Any], depth: int) -> list[Any]:
    """Return all values in lists of so many levels."""
    for _ in range(depth):
        rows = [one for row in rows for one in row or ()]
    return list(rows)


def filled(values: Sequence[Any], fill: bytes | None) -> list[bytes]:
    """Return values with something in the place of nulls."""
    found = [fill if value is None else value for value in values]
    if None in found:
        raise RefusedError
    return found  # type: ignore[return-value]  # none is None


def jagged(
    rows: Sequence[Any], depth: int, name: str, rule: Any, fill: bytes | None, marks_values: bool
) -> Made:
    """Return rows of lists, level by level."""
    if rule is None and None in rows:
        raise RefusedError
    found: Made = {f"{name}.lengths": [len(row or ()) for row in rows]}
    if rule == ():
        found[f"{name}.valid"] = [row is not None for row in rows]
    values = flat(rows, 1)
    if depth > 1:
        return {**found, **jagged(values, depth - 1, f"{name}.values", rule, fill, marks_values)}
    if rule == () and marks_values:
        found[f"{name}.values_valid"] = [value is not None for value in values]
    return {**found, f"{name}.values": filled(values, fill)}


def of_one_length(row: Any, size: int) -> list[Any]:
    """Return a list that has so many elements."""
    if row is None or len(row) != size:
        raise RefusedError
    return list(row)


def of_lengths(row: Any, sizes: Sequence[int]) -> list[Any]:
    """Return the values of lists that have one length at each level."""
    values = [row]
    for size in sizes:
        values = [one for part in values for one in of_one_length(part, size)]
    return values


def matrix(rows: Sequence[Any], sizes: Sequence[int], fill: bytes | None, is_masked: bool) -> Made:
    """Return lists that all have one length at each level, as the rows of one tensor."""
    whole, valid = [], []
    for row in rows:
        if row is None:
            cells: list[Any] = [None] * math.prod(sizes)
        else:
            cells = of_lengths(row, sizes)
        whole.append(b"".join(filled(cells, fill)))
        valid.append([cell is not None for cell in cells])
    if not is_masked:
        return {"": whole}
    return {"": whole, "_valid": [row is not None for row in rows], "_values_valid": valid}


def padded_rows(
    rows: Sequence[Any],
    pad: tuple[Any, ...],
    dtype: str,
    inner: int,
    width: int,
    fill: bytes | None,
    is_masked: bool,
    is_text: bool,
) -> Made:
    """Return rows that are filled up to one length, their lengths, and what is valid of them."""
    length, value, keep, side = pad
    empty = number(value, dtype) * width
    whole, lengths, valid = [], [], []
    for row in rows:
        if row is None and fill is None and not is_text:
            raise RefusedError
        cells: Any = padded(row or (), length, None, side, keep)  # type: ignore[arg-type]  # any mark
        if cells is None:
            raise RefusedError
        elements, own = cells
        at = range(own) if side == "right" else range(length - own, length)
        places = [elements[place] if place in at else [empty] * inner for place in range(length)]
        numbers = [one for cell in places for one in (cell if isinstance(cell, list) else [cell])]
        own_places = [place in at for place in range(length) for _ in range(inner)]
        whole.append(b"".join(filled(numbers, fill)))
        valid.append([mine and one is not None for mine, one in zip(own_places, numbers, strict=True)])
        lengths.append(own)
    found: Made = {"": whole, "_length": lengths}
    if is_masked:
        found["_valid"] = [row is not None for row in rows]
        if not is_text:
            found["_values_valid"] = valid
    return found
