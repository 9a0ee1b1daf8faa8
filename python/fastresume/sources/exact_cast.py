"""Rows in the types of a schema, with the values that they had."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import fastresume._core as _core
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

OtherType = Callable[[str, "pa.DataType", "pa.DataType", str], _core.DataError]
"""Makes the error for a column: of its name, its type, that of the schema, and why it is no such one."""


def exactly_cast(batch: pa.RecordBatch, schema: pa.Schema, other_type: OtherType) -> pa.RecordBatch:
    """Rows with the columns of a schema, in its types. Only what becomes a float may be rounded.

    Raises:
        DataError: as `other_type` makes it, for a column of another kind, or with a value that does not fit.
    """
    if batch.schema.equals(schema):
        return batch
    each = list(zip(schema.names, batch.columns, schema.types, strict=True))
    for name, column, stated in each:
        if not _are_alike(column.type, stated):
            raise other_type(name, column.type, stated, "")
    pyarrow = arrow()
    try:
        made = batch.cast(schema)
    except MemoryError:  # that of Arrow is an ArrowException, too
        raise
    except (pyarrow.ArrowException, ValueError) as error:
        for name, column, stated in each:
            try:
                column.cast(stated)
            except (pyarrow.ArrowException, ValueError) as fault:
                raise other_type(name, column.type, stated, f": {fault}") from None
        raise _core.DataError(f"rows have other types than the schema: {error}") from None
    for (name, column, stated), after in zip(each, made.columns, strict=True):
        if _is_lost(column, after):
            raise other_type(name, column.type, stated, ": a cast would change one")
    return made


def _are_alike(found: pa.DataType, stated: pa.DataType) -> bool:
    """Whether both have values of one kind, or lists and structs of them: others are never taken for them."""
    types = arrow().types
    if types.is_struct(found) and types.is_struct(stated):
        members = {field.name: field.type for field in stated}
        return all(_are_alike(field.type, members.get(field.name, field.type)) for field in found)
    if found.num_fields == stated.num_fields == 1:  # those of lists, and the pairs of maps
        return _are_alike(found.field(0).type, stated.field(0).type)
    return _kind(found) in ("null", _kind(stated))


def _kind(of_type: pa.DataType) -> str:
    """What kind of values a type has."""
    types = arrow().types
    if types.is_dictionary(of_type) or types.is_run_end_encoded(of_type):
        return _kind(of_type.value_type)
    if types.is_integer(of_type) or types.is_floating(of_type) or types.is_decimal(of_type):
        return "number"
    if types.is_string(of_type) or types.is_large_string(of_type) or types.is_string_view(of_type):
        return "text"
    if types.is_timestamp(of_type):
        return "time" if of_type.tz is None else "time of a zone"
    return "null" if types.is_null(of_type) else "other"  # Arrow casts few of these into each other


def _is_lost(before: pa.Array, after: pa.Array) -> bool:
    """Whether a cast changed values in ways that Arrow takes for safe."""
    if before.type == after.type:
        return False
    import pyarrow as pa
    from pyarrow import compute

    types = pa.types
    before, after = _decoded(before), _decoded(after)
    if types.is_floating(after.type):  # too large numbers are infinite then
        if types.is_integer(before.type):
            return types.is_float16(after.type) and not after.cast(before.type, safe=False).equals(before)
        infinite = compute.is_inf(before) if types.is_floating(before.type) else pa.scalar(False)
        return bool(compute.any(compute.not_equal(infinite, compute.is_inf(after))).as_py())
    if types.is_date(after.type):
        return not after.cast(before.type).equals(before)
    if types.is_decimal(after.type) and types.is_floating(before.type):  # Arrow makes no nearest float of it
        return not after.cast(pa.string()).cast(before.type).equals(before)
    own, its = _members(before), _members(after)
    return any(_is_lost(own[name], its[name]) for name in own.keys() & its.keys())


def _decoded(array: pa.Array) -> pa.Array:
    """The values of a dictionary; of anything else the same."""
    return array.dictionary_decode() if arrow().types.is_dictionary(array.type) else array


def _members(array: pa.Array) -> dict[str, pa.Array]:
    """The values in lists, maps and structs, by the names of members."""
    types = arrow().types
    if types.is_struct(array.type):
        return dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    if types.is_map(array.type):  # its items are those of the whole array that it is a slice of
        return {"": array.items[array.offsets[0].as_py() : array.offsets[-1].as_py()]}
    return {"": array.flatten()} if array.type.num_fields == 1 else {}
