"""Structs, maps and lists of structs, as pyarrow reads them, as the columns that they are delivered as."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def flattened(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns of a table by name: members of structs, also in lists, are `a.x`, of a map `a.key`.

    A struct that is in no list stands before its members.
    """
    return {name: part for column in table.column_names for name, part in parts(column, table.column(column))}


def parts(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns that one is delivered as."""
    type_ = column.type
    if pa.types.is_struct(type_):
        yield name, column
        # A member of a struct that is null is null.
        for place, member in enumerate(type_):
            arrays = [chunk.flatten()[place] for chunk in column.chunks]
            yield from parts(f"{name}.{member.name}", pa.chunked_array(arrays, member.type))
    elif pa.types.is_map(type_) or (is_list(type_) and pa.types.is_struct(type_.value_type)):
        members = ("key", "value") if pa.types.is_map(type_) else type_.value_type.names
        for place, member in enumerate(members):
            chunks = [lists_of_member(chunk, place) for chunk in column.chunks]
            yield f"{name}.{member}", pa.chunked_array(chunks)
    else:
        yield name, column


def is_list(type_: pa.DataType) -> bool:
    """Whether rows are lists of any length."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def lists_of_member(column: pa.ListArray | pa.MapArray, place: int) -> pa.ListArray:
    """Of each list of structs, the list of one member; that of a struct that is null is null."""
    if pa.types.is_map(column.type):
        entry = pa.struct([pa.field("key", column.type.key_type, nullable=False), column.type.item_field])
        column = column.cast(pa.list_(pa.field("entries", entry, nullable=False)))
    member = column.flatten().flatten()[place]
    lengths = pc.list_value_length(column).to_pylist()
    ends = np.cumsum([0, *(length or 0 for length in lengths)])
    mask = pa.array([length is None for length in lengths], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), member, mask=mask)
