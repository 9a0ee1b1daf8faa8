"""The fields of an Iceberg table's schemas, and what its files call them."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import fastresume._core as _core
from fastresume.tables.snapshot import FileValue, file_value

TYPES = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "date": "date[day]",
    "timestamp": "timestamp[us]",
    "timestamptz": "timestamp[us, UTC]",
    "string": "string",
    "binary": "binary",
}
"""What plain values are called here; others by their own names."""


READERS = 16
"""So many files are asked at once."""


@dataclass(frozen=True)
class Field:
    """A leaf or a struct of one schema, under the id that it has in all of them.

    Args:
        number: its id.
        paths: what files may call it; the first is what the schema does.
        type_name: its type, of a plain value.
        is_struct: whether it is a struct.
        default: its value in files that are older than it.
    """

    number: int
    paths: Sequence[str]
    type_name: str | None
    is_struct: bool
    default: FileValue = None

    @property
    def path(self) -> str:
        """What the schema calls it; inside of structs and maps with dots."""
        return self.paths[0]


class FieldNames:
    """What files may call the fields of a table: whatever the same id has been called in any schema of it.

    Args:
        table: the table.
        name: what it is called.
        files: the addresses of its files. They are asked only if the table has forgotten schemas.

    Raises:
        DataError: if a name has been that of two columns, so that files do not tell which one they hold.
    """

    def __init__(self, table: Any, name: str, files: Sequence[str]) -> None:
        self._mapped = dict(_mapped(getattr(table.name_mapping(), "root", ())))
        self._paths_of: dict[int, dict[str, None]] = defaultdict(dict)
        owners: dict[tuple[str, bool], int] = {}
        for field in chain.from_iterable(
            map(self.fields, [table.schema(), *table.schemas().values(), *_held(table, files)])
        ):
            for path in field.paths:
                self._paths_of[field.number].setdefault(path)
                owner = owners.setdefault((path, field.is_struct), field.number)
                if owner != field.number:
                    raise _core.DataError(
                        f"the Iceberg table '{name}' has called two columns '{path}' (ids {owner} and "
                        f"{field.number}), so names do not tell them apart: write the table anew, or give "
                        "its files as paths"
                    )

    def of(self, field: Field) -> tuple[str, ...]:
        """What files may call a field."""
        return tuple(self._paths_of[field.number])

    def fields(self, schema: Any) -> Iterator[Field]:
        """The fields of a schema, structs before their members."""
        for field in schema.fields:
            yield from self._below(field.field_id, self._paths(field), field.field_type, field, in_list=False)

    def _paths(self, field: Any, above: Sequence[str] = ()) -> list[str]:
        """The paths of a field below others: as the schema, writers and the table's own mapping have it."""
        parts = dict.fromkeys([*_written(field.name), *self._mapped.get(field.field_id, ())])
        return [f"{path}.{part}" for part in parts for path in above] if above else list(parts)

    def _below(
        self, number: int, paths: Sequence[str], kind: Any, field: Any, *, in_list: bool
    ) -> Iterator[Field]:
        """The columns of a type: `number` is the id of what has this type, `paths` what it is called."""
        if kind.is_primitive:
            type_name = None if in_list else TYPES.get(str(kind), str(kind))
            default = file_value(getattr(field, "initial_default", None))
            yield Field(number, paths, type_name, is_struct=False, default=default)
        elif kind.is_struct:
            yield Field(number, paths, None, is_struct=True)
            for member in kind.fields:
                inner = self._paths(member, paths)
                yield from self._below(member.field_id, inner, member.field_type, member, in_list=in_list)
        elif hasattr(kind, "element_id"):
            yield from self._below(kind.element_id, paths, kind.element_type, None, in_list=True)
        else:
            keys, values = ([f"{path}.{part}" for path in paths] for part in ("key", "value"))
            yield from self._below(kind.key_id, keys, kind.key_type, None, in_list=True)
            yield from self._below(kind.value_id, values, kind.value_type, None, in_list=True)


def _held(table: Any, files: Sequence[str]) -> list[Any]:
    """The schemas of files, which tell names that only forgotten schemas of the table had; else none."""
    known = table.schemas().keys()
    if len(known) > max(known):
        return []
    parquet = importlib.import_module("pyarrow.parquet")
    arrow = importlib.import_module("pyiceberg.io.pyarrow")

    def schema_of(path: str) -> Any:
        with table.io.new_input(path).open() as opened:
            return parquet.read_schema(opened).remove_metadata()

    with ThreadPoolExecutor(READERS) as readers:
        found = {str(schema): schema for schema in readers.map(schema_of, files)}
    # Files without ids, as of Hive, are named by the table's own mapping.
    return [arrow.pyarrow_to_schema(schema) for told, schema in found.items() if "PARQUET:field_id" in told]


def _mapped(fields: Iterable[Any]) -> Iterator[tuple[int, list[str]]]:
    """The names that a table's own mapping tells, by the ids."""
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, field.names
        yield from _mapped(field.fields)


def _written(name: str) -> tuple[str, str, str]:
    """A name as it is, and as pyiceberg and Java write one that Avro would not take into files.

    Examples:
        >>> _written("a b"), _written("1x")
        (('a b', 'a_x20b', 'a_x20b'), ('1x', '_1x', '_1x'))
    """
    units = name.encode("utf-16-be", "surrogatepass")
    java = [chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2)]
    own = _of_avro(name, str.isalnum, str.isdigit)
    return name, own, _of_avro(java, lambda one: one.isalpha() or one.isdecimal(), str.isdecimal)


def _of_avro(
    characters: Iterable[str], is_kept: Callable[[str], bool], is_digit: Callable[[str], bool]
) -> str:
    written = []
    for place, one in enumerate(characters):
        if one == "_" or (is_kept(one) if place else one.isalpha()):
            written.append(one)
        else:
            written.append(f"_{one}" if is_digit(one) else f"_x{ord(one):X}")
    return "".join(written)
