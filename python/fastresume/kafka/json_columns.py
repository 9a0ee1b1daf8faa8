"""The columns of rows that are JSON: each value as it was written, or an error that names its field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_EXACT = {16: 2**11, 64: 2**53}
"""Up to these each integer has its own float, by the bits of the float."""

Row = dict[str, Any]
Kind = Literal["whole", "float", "object", "map", "list", "other"]


class _Constant(float):
    """NaN or Infinity, as they were written: a number that is too large is a plain float."""


_DECODER = json.JSONDecoder(parse_constant=_Constant)


def parsed(value: bytes) -> Any:
    """What `json.loads` makes of a value, with constants that differ from numbers.

    Raises:
        ValueError: if it is no JSON.
    """
    return _DECODER.decode(value.decode(json.detect_encoding(value), "surrogatepass"))


class _Field(NamedTuple):
    """A field, as its values are looked at.

    Attributes:
        path: how errors call it: "meta.city" in an object. Elements of lists have the name of the list.
        key: its name in an object.
        type: of its values.
        plain: the same without a dictionary around it.
        may_be_null: whether null is a value of it.
        may_be_absent: whether a row may lack it.
        kind: what may be wrong with its values.
        below: the fields in it, or the one of its elements.
    """

    path: str
    key: str
    type: pa.DataType
    plain: pa.DataType
    may_be_null: bool
    may_be_absent: bool
    kind: Kind
    below: tuple[_Field, ...]


class JsonColumns:
    """Makes columns of rows.

    Args:
        schema: the columns.
        optional: the fields that a row may lack, by names or patterns: "meta.city" in an object.

    Raises:
        TypeError, ValueError: if `optional` is something else, or means no field.
    """

    def __init__(self, schema: pa.Schema, optional: str | Sequence[str]) -> None:
        patterns = [optional] if isinstance(optional, str) else optional
        if not isinstance(patterns, list | tuple) or not all(isinstance(one, str) for one in patterns):
            raise TypeError(f"optional must be a list of names and patterns, found {quoted(optional)}")
        self._schema = schema
        self._fields = [_field(field, field.name, patterns) for field in schema]
        paths = [*_paths(self._fields)]
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in paths):
                raise ValueError(
                    f"optional names {quoted(pattern)}: there is no such field in {quoted(paths)}"
                )

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """The columns of rows.

        Raises:
            DataError: naming the first field that a row lacks, or whose value it can't have.
        """
        return arrow().Table.from_arrays([_column(rows, one) for one in self._fields], schema=self._schema)


def _field(field: pa.Field, path: str, optional: Sequence[str]) -> _Field:
    types, of = arrow().types, field.type
    while types.is_dictionary(of) or types.is_run_end_encoded(of) or hasattr(of, "storage_type"):
        of = of.storage_type if hasattr(of, "storage_type") else of.value_type
    kind: Kind
    below: list[_Field] = []
    if types.is_struct(of):
        kind = "object"
        below = [_field(one, f"{path}.{one.name}", optional) for one in of]
    elif types.is_map(of):
        kind, below = "map", [_field(of.item_field, path, optional)]
    elif types.is_nested(of) and of.num_fields == 1:
        kind, below = "list", [_field(of.field(0), path, optional)]
    elif types.is_floating(of):
        kind = "float"
    else:
        kind = "whole" if types.is_integer(of) or types.is_temporal(of) else "other"
    may_be_absent = any(fnmatchcase(path, pattern) for pattern in optional)
    return _Field(path, field.name, field.type, of, field.nullable, may_be_absent, kind, tuple(below))


def _paths(fields: Iterable[_Field]) -> Iterator[str]:
    for field in fields:
        yield field.path
        yield from _paths(field.below)


def _column(rows: Sequence[Row], field: _Field) -> Any:
    pyarrow, values = arrow(), _values(rows, field)
    try:
        column = pyarrow.array(values, field.type)
    except (pyarrow.ArrowException, ValueError, OverflowError, TypeError) as cause:
        raise _core.DataError(f"field {quoted(field.path)} is no {field.type}: {cause}") from cause
    _check(values, field, column)
    return column


def _values(rows: Sequence[Row], field: _Field) -> list[Any]:
    """The values of a field, null where it may be absent and is."""
    key = field.key
    try:
        return [row[key] for row in rows]
    except KeyError:
        if field.may_be_absent:
            return [row.get(key) for row in rows]
    found = next([*row] for row in rows if key not in row)
    raise _core.DataError(
        f"there is no field {quoted(field.path)}, found {quoted(found)}: write "
        f"fr.kafka.JSON(schema, optional=[{quoted(field.path)}]) if such a row has a null there"
    )


def _check(values: list[Any], field: _Field, column: Any = None) -> None:
    """Looks for values that Arrow takes, and changes. `column` is what it made of them, if that is known."""
    kinds = set(map(type, values))
    if NoneType in kinds and not field.may_be_null:
        raise _core.DataError(f"field {quoted(field.path)} is null, and the schema says that it never is")
    match field.kind:
        case "whole":
            if float in kinds:
                _refuse((one for one in values if type(one) is float and not _is_whole(one)), field)
        case "float":
            _check_floats(values, kinds, field, column)
        case "object" | "map":
            if not kinds <= {dict, NoneType}:
                _refuse((one for one in values if not isinstance(one, dict | None)), field)
            given = [one for one in values if one is not None]
            if field.kind == "map":
                _check([*chain.from_iterable(one.values() for one in given)], field.below[0])
            else:
                for below in field.below:
                    _check(_values(given, below), below)
        case "list":
            if not kinds <= {list, NoneType}:
                _refuse((one for one in values if not isinstance(one, list | None)), field)
            _check([*chain.from_iterable(filter(None, values))], field.below[0])


def _is_whole(number: float) -> bool:
    """Whether it is an integer, and no other one is written so."""
    return number.is_integer() and abs(number) < _MOST_EXACT[64]


def _check_floats(values: list[Any], kinds: set[type], field: _Field, column: Any) -> None:
    if bool in kinds:
        _refuse((one for one in values if type(one) is bool), field)
    if int in kinds and field.plain.bit_width == 16:  # Arrow looks at those of other floats
        _refuse((one for one in values if type(one) is int and abs(one) > _MOST_EXACT[16]), field)
    if float in kinds:
        made = arrow().array(values, field.plain) if column is None or column.type != field.plain else column
        is_inf = np.isinf(made.to_numpy(zero_copy_only=False))
        if is_inf.any():
            _refuse(
                (values[place] for place in np.flatnonzero(is_inf) if type(values[place]) is float), field
            )


def _refuse(changed: Iterable[Any], field: _Field) -> None:
    """Refuses the first of the values that Arrow would change."""
    for value in changed:
        raise _core.DataError(
            f"field {quoted(field.path)} is {quoted(value)}, which is no {field.type}: name another type in "
            "the schema"
        )
