"""Columns of every kind, with nulls: how they are written, what pyarrow reads, what a batch must hold of it.

A `Kind` stands where a `ColumnSpec` may stand in a `DatasetSpec`: a column of numbers, strings, lists,
structs or maps of any type, with nulls among rows and elements. `read_cells` is the oracle: every cell of
the files as pyarrow reads it, as plain bytes; `assert_holds` compares a batch with the cells of its rows, bit
for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from support.strategies import FILE_NAMES, TYPES, ColumnSpec, DatasetSpec, FileSpec, arrow_type, file_specs

# -------------------------------------------------------------------------------------------- what is written

TEXTS = ("string", "large_string", "binary", "large_binary")
LISTS = ("list", "large_list", "fixed_size_list")
LISTS_OF_LISTS = ("list_of_list", "large_list_of_large_list", "fixed_size_list_of_list")
NESTED = ("struct", "struct_of_list", "map", "list_of_struct", "map_of_list", "list_of_struct_of_list")
"""Columns that are delivered as others: `a.x`, `a.key`, `a.value`."""
OF_LISTS = (*LISTS_OF_LISTS, "map_of_list", "list_of_struct_of_list")
"""Columns of lists of lists."""

EVEN = {
    "binary[1]": pa.binary(1),
    "binary[7]": pa.binary(7),
    "binary[16]": pa.binary(16),
    "decimal(5, 2)": pa.decimal128(5, 2),
    "decimal(9, 0)": pa.decimal128(9, 0),
    "decimal(18, 3)": pa.decimal128(18, 3),
    "decimal(18, 18)": pa.decimal128(18, 18),
}
"""Values of so many bytes, in a file or in memory; scalar, or in structs."""

WORDS = [
    "",
    "a",
    "é",
    "日本語",
    "🦀🦀",
    "a longer one, of forty bytes and of ASCII",
    "\0",
    "a",
    "ab",
    "abc",
    "abd",
]


@dataclass(frozen=True)
class Kind:
    """One column: its type, how often a row or an element is null, and how many different values it has.

    `shape` is "scalar" or one of `LISTS`, `LISTS_OF_LISTS` or `NESTED`, `type` one of `TYPES`, or of `TEXTS`
    (in no list of lists) or `EVEN` (in no list). A share of None makes the schema say that there are no
    nulls.
    """

    name: str
    type: str = "int64"
    shape: str = "scalar"
    nulls: float | None = 0.0
    element_nulls: float | None = 0.0
    longest: int = 4
    distinct: int = 30
    fill: str = "bits"
    seed: int = 0

    @property
    def field(self) -> pa.Field:
        """The Arrow field."""
        return pa.field(self.name, self._type, nullable=self.nulls is not None)

    @property
    def _element_type(self) -> pa.DataType:
        if self.type in EVEN:
            return EVEN[self.type]
        return pa.type_for_alias(self.type) if self.type in TEXTS else arrow_type(self.type)

    @property
    def _type(self) -> pa.DataType:
        element = pa.field("element", self._element_type, nullable=self.element_nulls is not None)
        match self.shape:
            case "list":
                return pa.list_(element)
            case "large_list":
                return pa.large_list(element)
            case "fixed_size_list":
                return pa.list_(element, self.longest)
            case "struct":
                return pa.struct([element.with_name("x")])
            case "struct_of_list":
                return pa.struct([pa.field("x", pa.list_(element))])
            case "map":
                return pa.map_(pa.int32(), element)
            case "list_of_struct":
                return pa.list_(pa.field("element", pa.struct([element.with_name("x")])))
            case "list_of_list":
                return pa.list_(pa.field("element", pa.list_(element)))
            case "large_list_of_large_list":
                return pa.large_list(pa.field("element", pa.large_list(element)))
            case "fixed_size_list_of_list":
                return pa.list_(pa.field("element", pa.list_(element)), self.longest)
            case "map_of_list":
                return pa.map_(pa.string(), pa.list_(element))
            case "list_of_struct_of_list":
                return pa.list_(pa.field("element", pa.struct([pa.field("x", pa.list_(element))])))
            case _:
                return self._element_type

    @property
    def leaves(self) -> tuple[str, ...]:
        """The paths at which the file's schema may have its values."""
        match self.shape:
            case "scalar":
                return (self.name,)
            case "struct":
                return (f"{self.name}.x",)
            case "struct_of_list":
                return (f"{self.name}.x.list.element", f"{self.name}.x.list.item")
            case "map":
                return (f"{self.name}.key_value.value",)
            case "list_of_struct":
                return (f"{self.name}.list.element.x", f"{self.name}.list.item.x")
        if self.shape == "map_of_list":
            return (f"{self.name}.key_value.value.list.element", f"{self.name}.key_value.value.list.item")
        paths = (f"{self.name}.list.element", f"{self.name}.list.item")
        if self.shape == "list_of_struct_of_list":
            paths = tuple(f"{path}.x" for path in paths)
        if self.shape in OF_LISTS:
            return tuple(f"{path}.list.{name}" for path in paths for name in ("element", "item"))
        return paths

    @property
    def encodings(self) -> dict[str, str]:
        """Besides plain values and dictionaries, the encodings that pyarrow writes for the type."""
        if self.type in TEXTS:
            return {"packed": "DELTA_LENGTH_BYTE_ARRAY", "split": "DELTA_BYTE_ARRAY"}
        if self.type in EVEN:
            is_bytes = pa.types.is_fixed_size_binary(EVEN[self.type])
            return {
                "packed": "DELTA_BYTE_ARRAY" if is_bytes else "BYTE_STREAM_SPLIT",
                "split": "BYTE_STREAM_SPLIT",
            }
        return ColumnSpec(self.name, self.type).encodings

    def values(self, start: int, rows: int) -> pa.Array:
        """The values of the rows [start, start + rows) of the dataset."""
        random = np.random.default_rng([self.seed, start])
        missing = random.random(rows) < (self.nulls or 0.0)
        if self.shape == "scalar":
            return self._drawn(random, rows, missing)
        if self.shape == "struct":
            members = self._drawn(random, rows, random.random(rows) < (self.element_nulls or 0.0))
            return pa.StructArray.from_arrays([members], fields=list(self._type), mask=pa.array(missing))
        if self.shape.startswith("fixed_size_list"):
            lengths = np.full(rows, self.longest)
        else:
            # Empty lists are as frequent as any other length, and null ones leave values behind.
            lengths = random.integers(0, self.longest + 1, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        count = int(offsets[-1])
        element_mask = random.random(count) < (self.element_nulls or 0.0)
        if self.shape in OF_LISTS:
            elements = self._inner_lists(random, count, element_mask)
        else:
            elements = self._drawn(random, count, element_mask)
        mask = pa.array(missing) if self.nulls is not None else None
        if self.shape in ("map", "map_of_list"):
            numbers = np.arange(count, dtype=np.int32)
            keys = pa.array(numbers).cast(pa.string()) if self.shape == "map_of_list" else pa.array(numbers)
            bounds = pa.array(offsets, pa.int32(), mask=np.append(missing, False))
            return pa.MapArray.from_arrays(bounds, keys, elements, type=self._type)
        if self.shape == "struct_of_list":
            lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=self._type[0].type)
            return pa.StructArray.from_arrays([lists], fields=list(self._type), mask=mask)
        if self.shape in ("list_of_struct", "list_of_struct_of_list"):
            gone = pa.array(random.random(count) < (self.element_nulls or 0.0))
            elements = pa.StructArray.from_arrays([elements], fields=list(self._type.value_type), mask=gone)
        if self.shape.startswith("fixed_size_list"):
            return pa.FixedSizeListArray.from_arrays(elements, type=self._type, mask=mask)
        if self.shape.startswith("large_list"):
            made, bounds = pa.LargeListArray, pa.array(offsets, pa.int64())
        else:
            made, bounds = pa.ListArray, pa.array(offsets, pa.int32())
        return made.from_arrays(bounds, elements, type=self._type, mask=mask)

    def _inner_lists(self, random: np.random.Generator, count: int, missing: np.ndarray) -> pa.Array:
        """So many lists of values, nulls where they are missing."""
        lengths = random.integers(0, self.longest + 1, count)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        gone = random.random(int(bounds[-1])) < (self.element_nulls or 0.0)
        values = self._drawn(random, int(bounds[-1]), gone)
        element = pa.field("element", self._element_type, nullable=self.element_nulls is not None)
        if self.shape.startswith("large_list"):
            type_ = pa.large_list(element)
            return pa.LargeListArray.from_arrays(bounds, values, type=type_, mask=pa.array(missing))
        bounds = bounds.astype(np.int32)
        return pa.ListArray.from_arrays(bounds, values, type=pa.list_(element), mask=pa.array(missing))

    def _drawn(self, random: np.random.Generator, count: int, missing: np.ndarray) -> pa.Array:
        """So many of the column's different values, nulls where they are missing."""
        places = random.integers(0, self.distinct, count)
        if self.type in TEXTS:
            own = [word * (1 + index // len(WORDS)) for index, word in zip(range(self.distinct), WORDS * 99)]  # noqa: B905
            pool = pa.array(own, pa.string()).cast(self._element_type)
        elif self.type in EVEN:
            pool = self._even_pool()
        else:
            pool = ColumnSpec(self.name, self.type, fill=self.fill, seed=self.seed).values(0, self.distinct)
        return pool.take(pa.array(places, pa.int64(), mask=missing))

    def _even_pool(self) -> pa.Array:
        """The column's different values, where all have as many bytes."""
        type_, random = self._element_type, np.random.default_rng(self.seed)
        if pa.types.is_fixed_size_binary(type_):
            return pa.array([random.bytes(type_.byte_width) for _ in range(self.distinct)], type_)
        largest = 10**type_.precision - 1
        unscaled = random.integers(-largest, largest + 1, self.distinct)
        unscaled[:2] = [largest, -largest][: self.distinct]
        words = np.stack([unscaled, unscaled >> 63], axis=1)
        return pa.Array.from_buffers(type_, self.distinct, [None, pa.py_buffer(words.tobytes())])


def all_kinds(*, nulls: float | None = 0.0, element_nulls: float | None = 0.0) -> list[Kind]:
    """A column of each type, a list of each type, and lists of lists."""
    shares = {"nulls": nulls, "element_nulls": element_nulls}
    scalars = [Kind(f"s_{type_}", type_, seed=i, **shares) for i, type_ in enumerate((*TYPES, *TEXTS))]
    lists = [
        Kind(f"l_{type_}", type_, LISTS[i % 3], seed=i, **shares, longest=1 + 3 * (i % 4))
        for i, type_ in enumerate((*TYPES, *TEXTS))
    ]
    lists += [
        Kind(f"ll_{type_}", type_, LISTS_OF_LISTS[i % 3], seed=i, **shares, longest=1 + 2 * (i % 3))
        for i, type_ in enumerate(("int32", "float64", "int64", "bool"))
    ]
    even = [Kind(f"e_{i}", type_, seed=i, **shares) for i, type_ in enumerate(EVEN)]
    nested = [
        Kind(
            f"n_{shape}",
            ("int16", "string", "float32", "int64", "date32", "int8")[i],
            shape,
            seed=i,
            **shares,
        )
        for i, shape in enumerate(NESTED)
    ]
    return [*scalars, *lists, *even, *nested]


# ---------------------------------------------------------------------------------------------- as strategies

SHARES = st.sampled_from((None, 0.0, 0.0, 0.03, 0.1, 0.5, 0.97, 1.0))


@st.composite
def kinds(draw: st.DrawFn, name: str) -> Kind:
    """Draw a column of that name."""
    shape = draw(st.sampled_from(("scalar", "scalar", *LISTS, *LISTS_OF_LISTS, *NESTED)))
    types = (*TYPES, *TEXTS * 3, *EVEN)
    if shape not in ("scalar", "struct"):
        types = TYPES if shape in OF_LISTS else (*TYPES, *TEXTS * 3)
    return Kind(
        name,
        draw(st.sampled_from(types)),
        shape,
        nulls=draw(SHARES),
        element_nulls=draw(SHARES),
        longest=draw(st.sampled_from((4, 1, 20))),
        distinct=draw(st.sampled_from((30, 1, 2, 300))),
        fill=draw(st.sampled_from(("bits", "count", "extremes"))),
        seed=draw(st.integers(0, 9)),
    )


@st.composite
def tables(draw: st.DrawFn, *, min_rows: int = 1, max_files: int = 3, max_columns: int = 5) -> DatasetSpec:
    """Draw a dataset of columns of every kind, in files written in every way."""
    columns = [draw(kinds(f"c{i}")) for i in range(draw(st.integers(1, max_columns)))]
    paths = draw(st.lists(st.sampled_from(FILE_NAMES), min_size=1, max_size=max_files, unique=True))
    files = [draw(file_specs(path)) for path in paths]
    missing = min_rows - sum(sum(file.groups) for file in files)
    if missing > 0:
        files[0] = FileSpec(**{**vars(files[0]), "groups": (*files[0].groups, missing)})
    return DatasetSpec(tuple(files), tuple(columns))  # type: ignore[arg-type]
