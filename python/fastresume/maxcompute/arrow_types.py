"""The types of MaxCompute's columns, as Arrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fastresume._core as _core
from fastresume.maxcompute.package import odps
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_DIGITS = 38


def field_of(name: str, written: str) -> pa.Field:
    """The field of a column, by its type as the service writes it: `array<map<string,bigint>>`.

    Raises:
        DataError: if there is no such type, or it can't be delivered; the column is named.
    """
    try:
        found = odps("odps.types").validate_data_type(written)
        return arrow().field(name, _type(found))
    except (ValueError, TypeError, NotImplementedError) as error:
        raise _core.DataError(
            f"column '{name}' has the type {written}, which can't be delivered: name the other columns by "
            f"fr.maxcompute.open(..., columns=[...]) ({error})"
        ) from None


def _type(of: Any) -> pa.DataType:
    pyarrow, types = arrow(), odps("odps.types")
    plain = {
        types.tinyint: pyarrow.int8(),
        types.smallint: pyarrow.int16(),
        types.int_: pyarrow.int32(),
        types.bigint: pyarrow.int64(),
        types.float_: pyarrow.float32(),
        types.double: pyarrow.float64(),
        types.boolean: pyarrow.bool_(),
        types.string: pyarrow.string(),
        types.binary: pyarrow.binary(),
        types.date: pyarrow.date32(),
        types.datetime: pyarrow.timestamp("ms"),
        types.timestamp: pyarrow.timestamp("ns"),
        types.timestamp_ntz: pyarrow.timestamp("ns"),
        types.json: pyarrow.string(),
    }
    if of in plain:
        return plain[of]
    if isinstance(of, types.Char | types.Varchar):
        return pyarrow.string()
    if isinstance(of, types.Decimal):
        digits = of.precision or _MOST_DIGITS
        make = pyarrow.decimal128 if digits <= _MOST_DIGITS else pyarrow.decimal256
        return make(digits, 18 if of.scale is None else of.scale)
    if isinstance(of, types.Array):
        return pyarrow.list_(_type(of.value_type))
    if isinstance(of, types.Map):
        return pyarrow.map_(_type(of.key_type), _type(of.value_type))
    if isinstance(of, types.Struct):
        return pyarrow.struct([(name, _type(each)) for name, each in of.field_types.items()])
    raise TypeError(f"{of} is no type of numbers, texts, times, lists, maps or structs")
