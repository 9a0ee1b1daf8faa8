"""Cells of files as pyarrow reads them, as plain bytes, and what a batch must hold of them, bit for bit.

`read_cells` is the oracle; `assert_holds` compares a batch with the cells of its rows.
"""

from __future__ import annotations

import decimal
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

import fastresume as fr
from support import oracle
from support.nesting import flattened
from support.strategies import DatasetSpec

# ----------------------------------------------------------------------------------------- what pyarrow reads

Cell = bytes | tuple["Cell", ...] | None
"""What a row of a column holds: the bytes of a value or string, those of each element, None of a null."""


@dataclass(frozen=True)
class Cells:
    """A column as pyarrow reads it."""

    dtype: np.dtype
    kind: str
    rows: list[Cell]
    size: int | None = None
    scale: int | None = None
    """Of decimals: they are integers in units of 10^-scale."""
    are_lists: bool = False
    """Of rows of one length: they are lists, and no bytes."""

    @property
    def is_jagged(self) -> bool:
        """Whether its rows have lengths of their own."""
        return self.kind not in ("scalar", "mask")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row, where all rows have one."""
        return () if self.size is None else (self.size,)


def read_cells(paths: str | Path | Sequence[Path]) -> dict[str, Cells]:
    """Every column of the files, in canonical order of the files."""
    return cells_of_tables([pq.ParquetFile(file).read() for file in oracle.canonical_files(paths)])


def cells_of_tables(tables: Sequence[pa.Table]) -> dict[str, Cells]:
    """Every column of tables, one after another."""
    # Files may say of one column in several ways that it is a list: a matrix, where all say of what length.
    # What files without rows say does not count.
    columns = [flattened(table) for table in [table for table in tables if table.num_rows] or tables]
    found = {name: [cells_of(each[name]) for each in columns] for name in columns[0]}
    return {
        name: replace(
            next((part for part in parts if part.kind == "list"), parts[0]),
            rows=[row for part in parts for row in part.rows],
        )
        for name, parts in found.items()
    }


def written_cells(spec: DatasetSpec) -> dict[str, Cells]:
    """Every column as it was given to the writer."""
    return {name: cells_of(column) for name, column in written_columns(spec).items()}


def written_columns(spec: DatasetSpec) -> dict[str, pa.ChunkedArray]:
    """Every column as it was given to the writer.

    pyarrow 26 reads no rows of a column that it wrote in small pages, and that holds empty lists alone.
    """
    groups = [
        rows for file in sorted(spec.files, key=lambda file: file.path.encode()) for rows in file.groups
    ]
    starts = [sum(groups[:place]) for place in range(len(groups))]
    found = {}
    for column in (spec.row_numbers, *spec.columns):
        chunks = [column.values(start, rows) for start, rows in zip(starts, groups, strict=True)]
        array = pa.chunked_array(chunks, column.field.type)
        for name, given_part in flattened(pa.table({column.name: array})).items():
            part = given_part
            # What the file holds of them is milliseconds, and days.
            for given, stored in ((pa.timestamp("s"), pa.timestamp("ms")), (pa.date64(), pa.date32())):
                part = cast_element(part, given, stored)
            # Parquet's own schema does not say that lists have one length.
            # What files without rows say does not count.
            lived = [file for file in spec.files if sum(file.groups)] or spec.files
            if pa.types.is_fixed_size_list(part.type) and not all(file.arrow_schema for file in lived):
                part = part.cast(pa.list_(part.type.value_field))
            found[name] = part
    return found


def cast_element(array: pa.ChunkedArray, given: pa.DataType, stored: pa.DataType) -> pa.ChunkedArray:
    """The array with another element type, if it has the given one."""
    type_ = with_element(array.type, given, stored)
    return array if type_ == array.type else array.cast(type_)


def with_element(type_: pa.DataType, given: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """The type, also of lists, with another one in the place of a given one."""
    if not is_any_list(type_):
        return stored if type_ == given else type_
    element = with_element(type_.value_type, given, stored)
    if element == type_.value_type:
        return type_
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(element, type_.list_size)
    return pa.large_list(element) if pa.types.is_large_list(type_) else pa.list_(element)


def is_any_list(type_: pa.DataType) -> bool:
    """Whether rows are lists, of any length or of one."""
    return bool(
        pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    )


def cells_of(column: pa.ChunkedArray) -> Cells:
    """The cells of one column."""
    type_ = column.type
    if is_any_list(type_):
        elements = cells_of(pa.chunked_array([chunk.flatten() for chunk in column.chunks], type_.value_type))
        left = iter(elements.rows)
        rows: list[Cell] = [
            None if row is None else tuple(next(left) for _ in range(row)) for row in lengths_of(column)
        ]
        if pa.types.is_fixed_size_list(type_) and elements.kind == "scalar" and elements.size is None:
            return Cells(elements.dtype, "scalar", rows, type_.list_size, are_lists=True)
        kind = f"list<{elements.kind}>" if elements.is_jagged else "list"
        return Cells(elements.dtype, kind, rows)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return Cells(np.dtype(np.uint8), "string", column.cast(pa.large_binary()).to_pylist())
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return Cells(np.dtype(np.uint8), "binary", column.to_pylist())
    if pa.types.is_struct(type_):
        return Cells(
            np.dtype(bool), "mask", [b"" if there else None for there in column.is_valid().to_pylist()]
        )
    if pa.types.is_dictionary(type_):
        return cells_of(column.cast(type_.value_type))
    if isinstance(type_, pa.BaseExtensionType):  # a UUID
        return cells_of(pa.chunked_array([chunk.storage for chunk in column.chunks], type_.storage_type))
    if pa.types.is_fixed_size_binary(type_):
        return Cells(np.dtype(np.uint8), "scalar", column.to_pylist(), type_.byte_width)
    if pa.types.is_decimal(type_):
        numbers = [None if cell is None else unscaled(cell, type_.scale) for cell in column.to_pylist()]
        return Cells(
            np.dtype(np.int64),
            "scalar",
            [None if n is None else np.int64(n).tobytes() for n in numbers],
            scale=type_.scale,
        )
    values = oracle.as_numpy(column.drop_null())
    found = iter(values)
    rows = [next(found).tobytes() if there else None for there in column.is_valid().to_pylist()]
    return Cells(values.dtype, "scalar", rows)


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """The integer that a decimal is in units of 10^-scale."""
    return int(value.scaleb(scale, decimal.Context(prec=80)))


def lengths_of(column: pa.ChunkedArray) -> list[int | None]:
    """How long each list is; None of a null."""
    lengths = pc.list_value_length(column).to_pylist()
    there = column.is_valid().to_pylist()
    return [length if is_there else None for length, is_there in zip(lengths, there, strict=True)]


# ------------------------------------------------------------------------------------- what a batch must hold


def rule_of(nulls: Any, name: str) -> Any:
    """What becomes of the nulls of a column."""
    if not isinstance(nulls, Mapping):
        return nulls
    if name in nulls:
        return nulls[name]
    structs = [rule for key, rule in nulls.items() if name.startswith(f"{key}.")]
    if structs:
        return structs[0]
    return next((rule for pattern, rule in nulls.items() if fnmatch.fnmatchcase(name, pattern)), "error")


def filled(cells: Cells, rule: Any) -> bytes | None:
    """The bytes that stand in the place of a null value; None where a null is an error."""
    if rule == "error":
        return None
    if cells.kind in ("string", "binary", "list<string>", "list<binary>"):
        return b""
    return np.full(cells.shape, 0 if rule == "mask" else rule).astype(cells.dtype).tobytes()


def assert_holds(
    batch: fr.Batch,
    table: Mapping[str, Cells],
    nulls: Any = "error",
    stack: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Assert that a batch holds the cells of its rows, every one, as `nulls=` and `stack=` say."""
    stacks, rows = {} if stack is None else stack, batch.rows()
    taken = {name for members in stacks.values() for name in members}
    expected: list[str] = []
    structs = [name for name, cells in table.items() if cells.kind == "mask"]
    for name in [name for name in table if name not in (*taken, *structs)] + list(stacks):
        rule = rule_of(nulls, name)
        expected.append(name)
        if name in stacks:
            members = stacks[name]
            matrix = tensor_of(batch, name)
            assert matrix.shape == (batch.num_rows, len(members))
            for place, member in enumerate(members):
                assert_column(matrix[:, place], table[member], rows, rule, member)
        elif table[name].is_jagged:
            assert_jagged(batch[name], table[name], rows, rule, name)
            continue
        else:
            assert_column(tensor_of(batch, name), table[name], rows, rule, name)
        if rule == "mask":
            expected.append(f"{name}_valid")
            masks = tensor_of(batch, f"{name}_valid")
            assert masks.dtype == torch.bool
            there = [
                [table[member].rows[row] is not None for row in rows] for member in stacks.get(name, [name])
            ]
            assert masks.tolist() == (
                list(map(list, zip(*there, strict=True))) if name in stacks else there[0]
            ), name
            if name not in stacks and table[name].are_lists:
                expected.append(f"{name}_values_valid")
                cells = [table[name].rows[row] for row in rows]
                marks = marks_of_elements(cells, table[name].size or 0)
                assert tensor_of(batch, f"{name}_values_valid").tolist() == marks.tolist(), name
    # A struct is told apart from its members where it is named.
    for name in [name for name in structs if isinstance(nulls, Mapping) and nulls.get(name) == "mask"]:
        expected.append(f"{name}_valid")
        there = [table[name].rows[row] is not None for row in rows]
        assert tensor_of(batch, f"{name}_valid").tolist() == there, name
    assert list(batch) == expected


def tensor_of(batch: fr.Batch, name: str) -> torch.Tensor:
    """A value of a batch that is a tensor."""
    tensor = batch[name]
    assert isinstance(tensor, torch.Tensor)
    return tensor


def marks_of_elements(rows: Sequence[Cell], size: int) -> np.ndarray:
    """Which elements of lists of one length are there; of a null list, none."""
    marks = [[e is not None for e in row] if isinstance(row, tuple) else [False] * size for row in rows]
    return np.array(marks, np.bool_).reshape(len(rows), size)


def assert_column(tensor: torch.Tensor, cells: Cells, rows: np.ndarray, rule: Any, name: str) -> None:
    """Assert that a tensor of one column holds the cells of these rows."""
    assert tensor.numpy().dtype == cells.dtype
    assert tensor.shape == (len(rows), *cells.shape)
    fill = filled(cells, rule)
    fill_element = filled(replace(cells, size=None), rule)
    expected = []
    for row in rows.tolist():
        cell = cells.rows[row]
        if isinstance(cell, tuple):
            elements = [fill_element if element is None else element for element in cell]
            assert None not in elements, f"{name}: row {row} has a null element, and is delivered"
            cell = b"".join(elements)  # type: ignore[arg-type]  # none is None
        elif cell is None:
            cell = fill
        assert cell is not None, f"{name}: row {row} is null, and delivered"
        expected.append(cell)
    assert_rows(tensor.numpy().tobytes(), expected, rows, name)


def assert_rows(found: bytes, expected: Sequence[bytes], rows: np.ndarray, name: str) -> None:
    """Assert that bytes are those of these rows, one after another, and name the first that has others."""
    if found == b"".join(expected):
        return
    begin = 0
    for row, cell in zip(rows.tolist(), expected, strict=True):
        end = begin + len(cell)
        assert found[begin:end] == cell, f"{name}: row {row}"
        begin = end
    raise AssertionError(f"{name}: {len(found) - begin} bytes behind those of the last row")


def assert_jagged(jagged: Any, cells: Cells, rows: np.ndarray, rule: Any, name: str) -> None:
    """Assert that a `Jagged` holds the cells of these rows."""
    assert isinstance(jagged, fr.Jagged)
    assert len(jagged) == len(rows)
    if cells.kind.startswith("list<"):
        assert_jagged_of_jagged(jagged, cells, rows, rule, name)
        return
    assert jagged.values.numpy().dtype == cells.dtype
    assert jagged.values.ndim == 1
    assert jagged.offsets.dtype == torch.int64
    bounds = jagged.offsets.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(jagged.values)
    # Null elements of lists of numbers are marked; of rows in rows, what stands in their place is named.
    marks = jagged.values_valid
    fill = filled(cells, rule) if rule != "mask" else None if marks is None else bytes(cells.dtype.itemsize)
    if marks is not None:
        assert rule == "mask"
        assert marks.dtype == torch.bool
        elements = [element for row in rows for element in cells.rows[row] or ()]
        assert marks.tolist() == [element is not None for element in elements], name
    width, expected = cells.dtype.itemsize, []
    for row, begin, end in zip(rows.tolist(), bounds[:-1], bounds[1:], strict=True):
        cell = cells.rows[row]
        assert cell is not None or rule != "error", f"{name}: row {row} is null, and delivered"
        if isinstance(cell, tuple):
            assert fill is not None or None not in cell, (
                f"{name}: row {row} has a null element, and is delivered"
            )
            cell = b"".join(fill if element is None else element for element in cell)  # type: ignore[misc]
        expected.append(cell or b"")
        assert (end - begin) * width == len(expected[-1]), f"{name}: row {row}"
    assert_rows(jagged.values.numpy().tobytes(), expected, rows, name)
    if rule == "mask":
        assert jagged.valid is not None
        assert jagged.valid.dtype == torch.bool
        assert jagged.valid.tolist() == [cells.rows[row] is not None for row in rows]
    else:
        assert jagged.valid is None


def assert_jagged_of_jagged(jagged: Any, cells: Cells, rows: np.ndarray, rule: Any, name: str) -> None:
    """Assert that a `Jagged` of a `Jagged` holds the cells of these rows."""
    assert jagged.kind == "list"
    assert jagged.offsets.dtype == torch.int64
    found = [cells.rows[row] for row in rows]
    assert rule != "error" or None not in found, f"{name}: a row is null, and delivered"
    ends = np.cumsum([0, *(len(cell or ()) for cell in found)])
    assert jagged.offsets.tolist() == ends.tolist(), name
    if rule == "mask":
        assert jagged.valid is not None
        assert jagged.valid.dtype == torch.bool
        assert jagged.valid.tolist() == [cell is not None for cell in found]
    else:
        assert jagged.valid is None
    inner = [row for cell in found if isinstance(cell, tuple) for row in cell]
    kind = cells.kind.removeprefix("list<").removesuffix(">")
    assert jagged.values.kind == kind
    assert_jagged(jagged.values, Cells(cells.dtype, kind, inner), np.arange(len(inner)), rule, name)


def is_delivered(cells: Cells, rows: Sequence[int], rule: Any) -> bool:
    """Whether these rows can be delivered under a rule: no null is an error."""
    if rule not in ("error", "mask") or cells.kind == "mask":
        return True
    found = [cells.rows[row] for row in rows]
    if rule == "error" and None in found:
        return False
    if cells.kind.startswith("list<"):
        inner = [row for cell in found if isinstance(cell, tuple) for row in cell]
        kind = cells.kind.removeprefix("list<").removesuffix(">")
        return is_delivered(Cells(cells.dtype, kind, inner), range(len(inner)), rule)
    if rule == "mask" and (cells.kind == "list" or cells.are_lists):
        return True
    return not any(isinstance(cell, tuple) and None in cell for cell in found)
