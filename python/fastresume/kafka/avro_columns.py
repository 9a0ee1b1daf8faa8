"""The columns of an Avro record, as Arrow has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastresume.options.checks import quoted
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(parsed: Any) -> pa.Schema:
    """The columns of a schema that fastavro parsed.

    Raises:
        TypeError: if it is no record, or Arrow has no type for a field.
    """
    if not isinstance(parsed, Mapping) or parsed.get("type") != "record":
        raise TypeError(f"the schema of rows must be an Avro record, found {quoted(parsed)}")
    names = dict(parsed.get("__named_schemas", {}))
    return arrow().schema([_field(each, each["name"], names, ()) for each in parsed["fields"]])


def with_logical(schema: Any, others: Mapping[str, str | None]) -> Any:
    """A schema with other logical types: by their names, or None for the type that it is written as."""
    if isinstance(schema, list):
        return [with_logical(each, others) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value if key == "default" else with_logical(value, others) for key, value in schema.items()}
    logical = kept.pop("logicalType", None)
    other = others.get(logical, logical) if isinstance(logical, str) else logical
    return kept if other is None else {**kept, "logicalType": other}


def _field(field: Mapping[str, Any], path: str, names: Mapping[str, Any], above: tuple[str, ...]) -> pa.Field:
    return _nullable(field["name"], field["type"], path, names, above)


def _nullable(name: str, of: Any, path: str, names: Mapping[str, Any], above: tuple[str, ...]) -> pa.Field:
    """A field of a type, which may be null if the type is a union with null."""
    kinds = [each for each in of if each != "null"] if isinstance(of, list) else [of]
    if len(kinds) > 1:
        raise TypeError(
            f"column '{path}' is a union of {len(kinds)} types, which Arrow rows can't have: write "
            "schema= without it, or a function as value="
        )
    found = _type(kinds[0], path, names, above) if kinds else arrow().null()
    return arrow().field(name, found, nullable=isinstance(of, list) or of == "null")


def _type(of: Any, path: str, names: Mapping[str, Any], above: tuple[str, ...]) -> pa.DataType:
    pyarrow = arrow()
    if isinstance(of, str):
        if of in names:
            return _type(names[of], path, names, above)
        of = {"type": of}
    kind, logical = of["type"], of.get("logicalType")
    if not isinstance(kind, str):
        return _type(kind, path, names, above)
    if (kind, logical) in _LOGICAL:
        name, given = _LOGICAL[kind, logical]
        return getattr(pyarrow, name)(*given)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return pyarrow.decimal128(of["precision"], of.get("scale", 0))
    if kind in _PLAIN:
        return getattr(pyarrow, _PLAIN[kind])()
    if kind == "fixed":
        return pyarrow.binary(of["size"])
    if kind == "array":
        return pyarrow.list_(_nullable("item", of["items"], f"{path}.item", names, above))
    if kind == "map":
        return pyarrow.map_(pyarrow.string(), _nullable("value", of["values"], f"{path}.value", names, above))
    if kind == "record":
        if of["name"] in above:
            raise TypeError(
                f"column '{path}' is a record {quoted(of['name'])} in itself: write schema= without it"
            )
        inner = (*above, of["name"])
        return pyarrow.struct([_field(each, f"{path}.{each['name']}", names, inner) for each in of["fields"]])
    if kind in names:
        return _type(names[kind], path, names, above)
    raise TypeError(f"column '{path}' has the type {quoted(kind)}, which Arrow rows can't have")


_PLAIN = {
    "null": "null",
    "boolean": "bool_",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
}

_LOGICAL: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("int", "date"): ("date32", ()),
    ("int", "time-millis"): ("time32", ("ms",)),
    ("long", "time-micros"): ("time64", ("us",)),
    ("long", "timestamp-millis"): ("timestamp", ("ms", "UTC")),
    ("long", "timestamp-micros"): ("timestamp", ("us", "UTC")),
    ("long", "local-timestamp-millis"): ("timestamp", ("ms",)),
    ("long", "local-timestamp-micros"): ("timestamp", ("us",)),
}
