"""What the columns of a matrix of cases hold: types, lists around values, nulls; and how files hold them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from support.pairs import Case
from support.strategies import FLOATS, INTEGERS, extremes

ROWS, GROUP_ROWS = 72, 40

# ------------------------------------------------------------------------------------------ types, encodings


@dataclass(frozen=True)
class Leaf:
    """Values of one type, as the oracle takes them; the encodings and the option that write it."""

    type: pa.DataType
    oracle: str
    values: Sequence[Any]
    encodings: Sequence[str]
    unit: str | None = None
    option: str = ""

    @property
    def is_text(self) -> bool:
        """Whether values have lengths of their own."""
        return self.oracle == "text"

    @property
    def is_number(self) -> bool:
        """Whether lists of such values may be the rows of a matrix."""
        return not self.oracle.startswith(("text", "bytes"))


PLAIN = ("PLAIN", "RLE_DICTIONARY")
OF_NUMBERS = (*PLAIN, "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
OF_FLOATS = (*PLAIN, "BYTE_STREAM_SPLIT")
OF_BYTES = (*PLAIN, "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
OF_TEXTS = (*PLAIN, "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
ENCODINGS = (*OF_NUMBERS, *OF_TEXTS[2:], "RLE")
ANY = random.Random(5)
WORDS = ("", "a", "é", "日本語", "🦀🦀", "\0", "ab", "abc", "abd", "a text of ASCII, and forty bytes" * 2)
PIECES = ("", "a::b", "::", "a", "b::::é", "::日本", ":", "long" * 9)
INT96 = "use_deprecated_int96_timestamps"


def of_integers(type_: pa.DataType, dtype: str, **how: Any) -> Leaf:
    """Integers of a type, or times; the bounds, and any."""
    bounds = np.iinfo(dtype)
    some = [ANY.randint(int(bounds.min), int(bounds.max)) >> ANY.randrange(bounds.bits) for _ in range(8)]
    of = "time" if how else dtype
    return Leaf(type_, of, [*extremes(np.dtype(dtype)).tolist(), *some], **{"encodings": OF_NUMBERS, **how})


def of_decimals(precision: int, scale: int, is_integer: bool) -> Leaf:
    """Decimals, held as bytes or as integers."""
    most = 10**precision - 1
    numbers = [0, 1, -1, most, -most, *(ANY.randint(-most, most) for _ in range(8))]
    return Leaf(
        (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale),
        "decimal",
        [Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)) for number in numbers],
        OF_NUMBERS if is_integer else OF_BYTES,
        f"decimal({precision}, {scale})",
        "store_decimal_as_integer" if is_integer else "",
    )


def of_bytes(length: int, type_: pa.DataType | None = None, unit: str | None = None) -> Leaf:
    """Bytes of one length."""
    values = [bytes(length), b"\xff" * length, *(ANY.randbytes(length) for _ in range(4))]
    return Leaf(type_ or pa.binary(length), f"bytes{length}", values, OF_BYTES, unit)


TIMES = {
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("ms", "us", "ns")},
    **{f"timestamp[{unit}, UTC]": pa.timestamp(unit, "Europe/Berlin") for unit in ("ms", "us", "ns")},
    "date[day]": pa.date32(),
    "time[ms]": pa.time32("ms"),
    "time[us]": pa.time64("us"),
    "time[ns]": pa.time64("ns"),
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
}
LEAVES = {
    "bool": Leaf(pa.bool_(), "bool", (False, True), ("PLAIN", "RLE")),
    **{name: of_integers(pa.type_for_alias(name), name) for name in INTEGERS},
    **{
        name: Leaf(pa.type_for_alias(name), name, [*extremes(np.dtype(name)).tolist(), 2.5, -7.0], OF_FLOATS)
        for name in FLOATS
    },
    **{unit: of_integers(type_, f"int{type_.bit_width}", unit=unit) for unit, type_ in TIMES.items()},
    "int96": of_integers(pa.timestamp("ns"), "int64", unit="timestamp[ns]", encodings=PLAIN, option=INT96),
    **{
        f"decimal({precision}, {scale}){' as integer' if is_integer else ''}": of_decimals(
            precision, scale, is_integer
        )
        for precision, scale in ((1, 0), (5, 2), (9, 9), (10, 3), (18, 18), (19, 2), (38, 2), (76, 5))
        for is_integer in ((False, True) if precision <= 18 else (False,))
    },
    **{f"binary[{length}]": of_bytes(length) for length in (1, 2, 8, 16, 33)},
    "uuid": of_bytes(16, pa.uuid(), "uuid"),
    **{
        str(type_): Leaf(type_, "text", [word.encode() for word in WORDS], OF_TEXTS)
        for type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    },
    "pieces": Leaf(pa.string(), "text", [pieces.encode() for pieces in PIECES], OF_TEXTS),
}

# ------------------------------------------------------------------------------- lists, structs, nulls, pages


@dataclass(frozen=True)
class Lists:
    """Lists around values: how many levels, of which lengths if they have one, and if a type says it."""

    depth: int = 0
    sizes: tuple[int, ...] = ()
    is_said: bool = False
    make: Callable[[pa.Field], pa.DataType] = pa.list_
    path: str = ".list.element"
    member: str = ""


def struct_of(item: pa.Field) -> pa.DataType:
    """A struct of one member."""
    return pa.struct([item.with_name("x").with_nullable(True)])


SHAPES = {
    "scalar": Lists(),
    "struct": Lists(member=".x"),
    "list": Lists(1),
    "large_list": Lists(1, make=pa.large_list),
    "map": Lists(1, make=lambda item: pa.map_(pa.int32(), item), path=".key_value.value", member=".value"),
    "list of structs": Lists(1, (), False, lambda item: pa.list_(struct_of(item)), ".list.element.x", ".x"),
    "even list": Lists(1, (3,)),
    "fixed_size_list": Lists(1, (3,), is_said=True),
    "list of lists": Lists(2),
    "even list of lists": Lists(2, (2, 3)),
    "fixed_size_list of them": Lists(2, (2, 3), is_said=True),
    "even lists of three levels": Lists(3, (2, 1, 2)),
    "four levels": Lists(4),
}
NULLS: dict[str, Callable[[int], bool]] = {
    "never": lambda row: False,
    "none": lambda row: False,
    "some": lambda row: row % 7 in (0, 3, 4),
    "few": lambda row: row in (1, 63),
    "all": lambda row: True,
    "leading": lambda row: row < GROUP_ROWS + 5,
    "trailing": lambda row: row % GROUP_ROWS > 9,
}
ELEMENTS = {"never": 0.0, "none": 0.0, "some": 0.2, "all": 1.0, "empty": 0.0}
PAGES: dict[str, dict[str, Any]] = {
    "whole pages of version 1": {},
    "whole pages of version 2": {"data_page_version": "2.0", "write_page_checksum": True},
    "pages of a row": {"max_rows_per_page": 1, "write_batch_size": 1},
    "pages of seven rows with an index": {
        "data_page_version": "2.0",
        "max_rows_per_page": 7,
        "write_batch_size": 7,
        "write_page_index": True,
    },
    "pages of a byte": {"data_page_size": 1, "write_batch_size": 3, "store_schema": False},
    "pages and dictionaries of few bytes": {
        "data_page_version": "2.0",
        "data_page_size": 64,
        "write_batch_size": 5,
        "dictionary_pagesize_limit": 20,
        "write_statistics": False,
    },
}


def type_of(case: Case) -> pa.DataType:
    """Arrow's type of a column."""
    lists, made = SHAPES[case["shape"]], LEAVES[case["leaf"]].type
    if case["shape"] == "struct":
        return struct_of(pa.field("x", made))
    for size in lists.sizes[::-1] or (None,) * lists.depth:
        item = pa.field("element", made, nullable=case["elements"] != "never")
        made = pa.list_(item, size) if lists.is_said else lists.make(item)
    return made


def drawn(case: Case, values: Sequence[Any], chance: random.Random) -> list[Any]:
    """The rows of a column, as the oracle takes them."""
    lists, share, is_null = SHAPES[case["shape"]], ELEMENTS[case["elements"]], NULLS[case["nulls"]]

    def cell(level: int) -> Any:
        # Of lists of one length, none is null but the outermost.
        if level and (level == lists.depth or not lists.sizes) and chance.random() < share:
            return None
        if level == lists.depth:
            return chance.choice(values)
        length = chance.randrange(1 if case["elements"] == "empty" else 4)
        return [cell(level + 1) for _ in range(lists.sizes[level] if lists.sizes else length)]

    return [None if is_null(row) else cell(0) for row in range(ROWS)]


def array_of(case: Case, rows: list[Any]) -> pa.Array:
    """The rows as Arrow has them: of what is null in a struct, every other struct is null itself."""

    def struct(value: Any, place: int) -> Any:
        return None if value is None and place % 2 else {"x": value}

    shape, given = case["shape"], rows
    if shape == "struct":
        given = [struct(row, place) for place, row in enumerate(rows)]
    elif shape == "list of structs":
        of = struct if case["elements"] != "never" else lambda value, place: {"x": value}
        given = [row and [of(value, place) for place, value in enumerate(row)] for row in rows]
    elif shape == "map":
        given = [row and list(enumerate(row)) for row in rows]
    return pa.array(given, type_of(case))
