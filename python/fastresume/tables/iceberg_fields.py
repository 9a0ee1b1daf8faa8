"""The fields of an Iceberg table's schemas, what they are, and what files without ids call them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import fastresume._core as _core
from fastresume.tables.snapshot import FileValue, TableColumn, file_value

TYPES = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "date": "date[day]",
    "time": "time[us]",
    "timestamp": "timestamp[us]",
    "timestamptz": "timestamp[us, UTC]",
    "timestamp_ns": "timestamp[ns]",
    "timestamptz_ns": "timestamp[ns, UTC]",
    "unknown": "null",
}
"""What plain values are called here; others by their own names."""


def type_of(kind: object) -> str:
    """What a plain type is called here.

    Examples:
        >>> type_of("long"), type_of("fixed[4]"), type_of("decimal(9, 2)")
        ('int64', 'fixed_size_binary[4]', 'decimal(9, 2)')
    """
    name = str(kind)
    return TYPES.get(name, re.sub(r"^fixed\[", "fixed_size_binary[", name))


@dataclass(frozen=True)
class IcebergField:
    """A leaf or a struct of one schema, under the id that it has in all of them.

    Args:
        number: its id.
        column: what the table says about it.
        parts: the ids of the fields that it is in and its own; "key" and "value" in maps.
        default: its value in files that are older than it.
    """

    number: int
    column: TableColumn
    parts: tuple[int | str, ...]
    default: FileValue = None

    @property
    def path(self) -> str:
        """What the schema calls it; inside of structs and maps with dots."""
        return self.column.name


def fields_of(schema: Any) -> Iterator[IcebergField]:
    """The fields of a schema, structs before their members.

    Raises:
        DataError: if a list or map has a default that is no null.
    """
    for field in schema.fields:
        top = IcebergField(
            field.field_id, TableColumn(field.name, field_id=field.field_id), (field.field_id,)
        )
        yield from _below(top, field.field_type, getattr(field, "initial_default", None))


def _below(of: IcebergField, kind: Any, default: Any) -> Iterator[IcebergField]:
    """The columns of what has a type, and this value in files that lack it."""
    column = of.column
    if kind.is_primitive:
        type_name = type_of(kind)
        value = file_value(default, type_name)
        yield replace(of, column=replace(column, type_name=type_name), default=value)
        return
    if kind.is_struct:
        is_there = default is not None
        yield replace(of, column=replace(column, is_struct=True, is_there=is_there))
        for member in kind.fields:
            name, number = f"{column.name}.{member.name}", member.field_id
            inner = replace(column, name=name, field_id=number, structs=(*column.structs, column.name))
            yield from _below(
                IcebergField(number, inner, (*of.parts, number)),
                member.field_type,
                getattr(member, "initial_default", None),
            )
        return
    if default is not None:
        raise _core.DataError(
            f"column '{column.name}' has {default!r} by default, and only the default null is supported of "
            "lists and maps yet"
        )
    if hasattr(kind, "element_id"):
        inner = replace(column, field_id=kind.element_id, lists=column.lists + 1)
        yield from _below(IcebergField(kind.element_id, inner, of.parts), kind.element_type, None)
        return
    parts = ("key", kind.key_id, kind.key_type), ("value", kind.value_id, kind.value_type)
    for part, number, of_part in parts:
        inner = replace(column, name=f"{column.name}.{part}", field_id=number, lists=column.lists + 1)
        yield from _below(IcebergField(number, inner, (*of.parts, part)), of_part, None)


class FieldNames:
    """What files without ids call the fields of a table: as its name mapping says, else as its schemas do.

    Args:
        table: the table.

    Attributes:
        shared: of each name that two columns have had, the ids of these: such names tell nothing.
    """

    def __init__(self, table: Any) -> None:
        mapping = table.name_mapping()
        self._mapped = None if mapping is None else dict(_mapped(mapping.root))
        self._of_schemas: dict[int, dict[str, None]] = defaultdict(dict)
        self.shared: dict[str, tuple[int, int]] = {}
        if mapping is not None:
            return
        owners: dict[tuple[str, bool], int] = {}
        for schema in (table.schema(), *table.schemas().values()):
            for field in fields_of(schema):
                self._of_schemas[field.number].setdefault(field.path)
                owner = owners.setdefault((field.path, field.column.is_struct), field.number)
                if owner != field.number:
                    self.shared.setdefault(field.path, (owner, field.number))

    def of(self, field: IcebergField) -> tuple[str, ...]:
        """What files without ids may call a field."""
        if self._mapped is None:
            return tuple(self._of_schemas[field.number])
        named = [[part] if isinstance(part, str) else self._mapped.get(part, []) for part in field.parts]
        return tuple(map(".".join, product(*named)))


def _mapped(fields: Iterable[Any]) -> Iterator[tuple[int, list[str]]]:
    """The names that a table's own mapping tells, by the ids."""
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, field.names
        yield from _mapped(field.fields)


def values_of(
    specs: Mapping[int, Any], fields: Sequence[IcebergField], files: Iterable[Any]
) -> list[dict[str, FileValue]]:
    """Of each file, what columns that it may lack are there: as its partition says, or by default."""
    of_old = ((field.path, field.default) for field in fields)
    defaults: dict[str, FileValue] = {path: value for path, value in of_old if value is not None}
    defaults |= {field.path: 1 for field in fields if field.column.is_there}
    plain = {field.number: field for field in fields if field.column.type_name and not field.column.lists}
    parts = {
        number: [
            (place, plain[part.source_id])
            for place, part in enumerate(spec.fields)
            if str(part.transform) == "identity" and part.source_id in plain
        ]
        for number, spec in specs.items()
    }
    return [
        defaults
        | {
            field.path: file_value(file.partition[place], field.column.type_name)
            for place, field in parts.get(file.spec_id, ())
        }
        for file in files
    ]
