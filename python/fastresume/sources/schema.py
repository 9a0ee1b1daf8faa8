"""The columns of a source: as Arrow names them, and as a Parquet file of the same rows would."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import fastresume._core as _core
from fastresume.packages import optional

if TYPE_CHECKING:
    import pyarrow as pa

_TAIL_BYTES = 8


def arrow() -> Any:
    """The package pyarrow.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    return optional("pyarrow", "fr.ArrowDataset", "'fastresume[arrow]'")


def schema_of(given: Any) -> pa.Schema:
    """The schema that a source states: one of pyarrow, or anything with `__arrow_c_schema__`.

    Raises:
        TypeError: if it is none.
        DataError: if it has no column, or two of one name.
    """
    pyarrow = arrow()
    if not isinstance(given, pyarrow.Schema):
        if not hasattr(given, "__arrow_c_schema__"):
            raise TypeError(f"schema() must return a pyarrow.Schema, found {type(given).__name__}")
        given = pyarrow.schema(given)
    schema: pa.Schema = given
    if len(schema) == 0:
        raise _core.DataError("the rows have no columns")
    if twice := sorted(name for name in set(schema.names) if schema.names.count(name) > 1):
        raise _core.DataError(f"two columns have the name '{twice[0]}': rename one of them")
    return schema


def check_names(fields: Iterable[pa.Field]) -> None:
    """Looks at the names of columns, and of what is in them.

    Raises:
        UnicodeDecodeError: if one is not UTF-8.
    """
    for field in fields:
        field.name.encode()  # it is decoded when it is asked for
        check_names(field.type.field(place) for place in range(field.type.num_fields))


def footer_of(schema: pa.Schema) -> bytes:
    """The footer of a Parquet file of these columns without a row.

    Raises:
        DataError: naming the first column that no such file can have.
    """
    arrow()
    import pyarrow as pa

    try:
        return _footer(schema)
    except (pa.ArrowException, NotImplementedError, OSError):
        for field in schema:
            try:
                _footer(pa.schema([field]))
            except (pa.ArrowException, NotImplementedError, OSError):
                out, cast = f"table.drop_columns([{field.name!r}])", "cast it"
                if b"pandas" in (schema.metadata or {}):
                    out = f"frame.drop(columns=[{field.name!r}])"
                    cast = f"make it a text, as frame.astype({{{field.name!r}: str}})"
                raise _core.DataError(
                    f"column '{field.name}' has the type {field.type}, which can't be delivered: leave it "
                    f"out, as {out}, or {cast}"
                ) from None
        raise


def _footer(schema: pa.Schema) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    stored = pa.schema([field.with_type(_stored(field.type)) for field in schema])
    # `empty_table()` makes the same of lists, and so imports pandas, which takes a quarter of a second.
    empty = pa.Table.from_arrays([pa.nulls(0, of) for of in stored.types], schema=stored)
    parquet.write_table(empty, file := io.BytesIO())
    content = file.getvalue()
    length = int.from_bytes(content[-_TAIL_BYTES : -_TAIL_BYTES + 4], "little")
    return content[-_TAIL_BYTES - length : -_TAIL_BYTES]


def _stored(of: pa.DataType) -> pa.DataType:
    """The type with the same values that a Parquet file can have."""
    import pyarrow as pa

    types = pa.types

    def field(below: pa.Field) -> pa.Field:
        return below.with_type(_stored(below.type))

    def is_kind(name: str) -> bool:
        asked = getattr(types, f"is_{name}", None)
        return asked is not None and bool(asked(of))

    if is_kind("run_end_encoded"):
        return _stored(of.value_type)
    if is_kind("string_view"):
        return pa.string()
    if is_kind("binary_view"):
        return pa.binary()
    if is_kind("decimal32") or is_kind("decimal64"):
        return pa.decimal128(of.precision, of.scale)
    if is_kind("dictionary"):
        return pa.dictionary(of.index_type, _stored(of.value_type), of.ordered)
    if is_kind("list_view") or is_kind("list"):
        return pa.list_(field(of.value_field))
    if is_kind("large_list_view") or is_kind("large_list"):
        return pa.large_list(field(of.value_field))
    if is_kind("fixed_size_list"):
        return pa.list_(field(of.value_field), of.list_size)
    if is_kind("struct"):
        return pa.struct([field(of.field(number)) for number in range(of.num_fields)])
    if is_kind("map"):
        return pa.map_(field(of.key_field), field(of.item_field), of.keys_sorted)
    return of


def hash_of(schema: pa.Schema, content: bytes) -> bytes:
    """16 bytes that differ if the columns do, or what `content` identifies."""
    described = [f"{field.name!r} {field.type} {field.nullable}" for field in schema]
    digest = hashlib.blake2b("\n".join(described).encode(), digest_size=16)
    digest.update(b"\0" + content)
    return digest.digest()
