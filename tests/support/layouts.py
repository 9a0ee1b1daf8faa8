"""What a dataset makes of columns: the arguments that shape batches, and what a batch must then hold.

A `Layout` has one `Treatment` for each column that is treated, the stacks, and a `Shape`: casts, buckets and
names. `Contents` is the oracle: cells as pyarrow reads them, and the layout; `contents.of_rows(rows)` are the
arrays of a batch of these rows, under the names that `jobs.arrays_of` gives them, in the order of the batch.
A new way to lay out a column is a field of `Treatment`, what it means in `Contents`, and a line in `layouts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.asked import with_nulls
from support.cells import Cell, Cells, filled, is_delivered, marks_of_elements
from support.shapes import CASTS, Shape, fits, shapes

# ------------------------------------------------------------------------------------------ what is asked for


@dataclass(frozen=True)
class Pad:
    """How rows of any length are filled up."""

    size: int
    value: int = 0
    side: Literal["right", "left"] = "right"


@dataclass(frozen=True)
class Treatment:
    """What is asked for of one column, or of one stack."""

    nulls: Any = "error"
    fixed: int | None = None
    pad: Pad | None = None
    truncate: Literal["head", "tail"] = "head"


@dataclass(frozen=True)
class Layout:
    """What is asked for of all columns; those that are not named are read as they are."""

    columns: Mapping[str, Treatment] = field(default_factory=dict)
    stacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a ParquetDataset."""
        if self == Layout():
            return {}
        made = [self._asked_of(name) for name in self.columns if name not in self.stacks]
        taken = [f"!{member}" for members in self.stacks.values() for member in members]
        matrices = [
            fr.stack(with_nulls(fr.col(*members), self.treatment_of(name).nulls), name=name)
            for name, members in self.stacks.items()
        ]
        # What is renamed takes no other's place: then all columns are named, in their order.
        others = [] if self.shape.names else ["*", *taken]
        return {"columns": [*others, *made, *matrices]}

    def _asked_of(self, name: str) -> fr.Column:
        """What is asked of one column."""
        treatment, column = self.columns[name], self.shape.asked_of(name)
        if treatment.fixed is not None:
            column = column.fixed(treatment.fixed)
        column = with_nulls(column, treatment.nulls)
        if treatment.pad is not None:
            pad = treatment.pad
            column = column.pad(pad.size, pad.value, treatment.truncate, side=pad.side)
        return self.shape.named(name, column)

    def treatment_of(self, name: str) -> Treatment:
        """What is asked for of a column or a stack."""
        return self.columns.get(name, Treatment())


# --------------------------------------------------------------------------------------------- what must come

Array = np.ndarray


@dataclass(frozen=True)
class Contents:
    """What a dataset holds under a layout."""

    cells: Mapping[str, Cells]
    layout: Layout = field(default_factory=Layout)

    @cached_property
    def shaped(self) -> dict[str, Cells]:
        """The cells after casts and hashes, under the names of the files."""
        return replace(self.layout.shape, names={}).of_cells(self.cells)

    def of_rows(self, rows: Sequence[int]) -> dict[str, Array]:
        """The arrays of a batch of these rows."""
        stacked = {member for members in self.layout.stacks.values() for member in members}
        found: dict[str, Array] = {}
        for name, cells in self.shaped.items():
            if name not in stacked and cells.kind != "mask":
                new = self.layout.shape.names.get(name, name)
                column = self._column(name, [cells.rows[row] for row in rows])
                found |= {f"{new}{key.removeprefix(name)}": array for key, array in column.items()}
        for name, members in self.layout.stacks.items():
            columns = [
                self._column(member, [self.shaped[member].rows[row] for row in rows], name)
                for member in members
            ]
            for key, suffix in ((name, ""), (f"{name}_valid", "_valid")):
                parts = [
                    column.get(f"{member}{suffix}") for column, member in zip(columns, members, strict=True)
                ]
                if parts[0] is not None:
                    found[key] = np.stack(parts, axis=1)
        # A struct is told apart from its members where it is named.
        for name, cells in self.shaped.items():
            if cells.kind == "mask" and self.layout.treatment_of(name).nulls == "mask":
                found[f"{name}_valid"] = np.array([cells.rows[row] is not None for row in rows], np.bool_)
        return found

    def _column(self, name: str, rows: Sequence[Cell], treated_as: str | None = None) -> dict[str, Array]:
        """The arrays of one column, treated as what stands under another name."""
        cells, treatment = self.shaped[name], self.layout.treatment_of(treated_as or name)
        if cells.kind.startswith("list<"):
            return rows_of_rows(name, cells, rows, treatment.nulls)
        fill = filled(replace(cells, size=None), treatment.nulls)
        there = np.array([row is not None for row in rows], np.bool_)
        masks = treatment.nulls == "mask"
        if treatment.pad is not None:
            matrix, lengths = padded(cells, rows, fill, treatment.pad, treatment.truncate)
            found = {name: matrix} | ({f"{name}_valid": there} if masks else {})
            marks = padded_marks(cells, rows, treatment.pad, treatment.truncate)
            marked = {f"{name}_values_valid": marks} if masks and cells.kind == "list" else {}
            return found | {f"{name}_length": lengths} | marked
        if cells.is_jagged and treatment.fixed is None:
            return jagged_of(name, cells, rows, treatment.nulls)
        size = cells.size if treatment.fixed is None else treatment.fixed
        shape = () if size is None else (size,)
        whole = None if fill is None else fill * (size or 1)
        texts = [
            b"".join(elements_of(row, fill)) if isinstance(row, tuple) else there_or(row, whole)
            for row in rows
        ]
        array = np.frombuffer(b"".join(texts), cells.dtype).reshape(len(rows), *shape)
        found = {name: array, f"{name}_valid": there} if masks else {name: array}
        if masks and (cells.are_lists or treatment.fixed is not None):
            found[f"{name}_values_valid"] = marks_of_elements(rows, size or 0)
        return found


def jagged_of(name: str, cells: Cells, rows: Sequence[Cell], nulls: Any) -> dict[str, Array]:
    """The arrays of rows of any length."""
    texts = [b"".join(elements_of(row, filled(cells, nulls))) for row in rows]
    lengths = [len(text) // cells.dtype.itemsize for text in texts]
    found = {
        f"{name}.values": np.frombuffer(b"".join(texts), cells.dtype),
        f"{name}.offsets": np.cumsum([0, *lengths], dtype=np.int64),
    }
    found |= marks_of(name, rows, nulls)
    if cells.kind == "list" and nulls == "mask":
        elements = [element for row in rows if isinstance(row, tuple) for element in row]
        found[f"{name}.values_valid"] = np.array([each is not None for each in elements], np.bool_)
    return found


def padded(
    cells: Cells, rows: Sequence[Cell], fill: bytes | None, pad: Pad, truncate: str
) -> tuple[Array, Array]:
    """Rows filled up and cut off to one length, and how many elements of each are its own."""
    width = cells.dtype.itemsize
    empty = np.array(pad.value).astype(cells.dtype).tobytes()
    whole, lengths = [], []
    for row in rows:
        text = b"".join(elements_of(row, fill))
        own = [text[start : start + width] for start in range(0, len(text), width)]
        found = oracle.padded(own, pad.size, empty, pad.side, truncate)
        assert found is not None, "a row that is too long"
        whole.append(b"".join(found[0]))
        lengths.append(found[1])
    matrix = np.frombuffer(b"".join(whole), cells.dtype).reshape(len(rows), pad.size)
    return matrix, np.array(lengths, np.int64)


def padded_marks(cells: Cells, rows: Sequence[Cell], pad: Pad, truncate: str) -> Array:
    """Which elements of padded rows are there, and no padding."""
    marks = [tuple(bytes([e is not None]) for e in row) if isinstance(row, tuple) else row for row in rows]
    of_bytes = replace(cells, dtype=np.dtype(np.bool_))
    return padded(of_bytes, marks, None, replace(pad, value=0), truncate)[0]


def rows_of_rows(name: str, cells: Cells, rows: Sequence[Cell], nulls: Any) -> dict[str, Array]:
    """The arrays of rows which consist of rows: those of all inner ones, and where each row has its own."""
    inner = [row for cell in rows if isinstance(cell, tuple) for row in cell]
    kind = cells.kind.removeprefix("list<").removesuffix(">")
    ends = np.cumsum([0, *(len(cell or ()) for cell in rows)], dtype=np.int64)
    found = jagged_of(f"{name}.values", Cells(cells.dtype, kind, inner), inner, nulls)
    return found | {f"{name}.offsets": ends} | marks_of(name, rows, nulls)


def marks_of(name: str, rows: Sequence[Cell], nulls: Any) -> dict[str, Array]:
    """Which rows are there, where a mask is asked for."""
    return {f"{name}.valid": np.array([row is not None for row in rows], np.bool_)} if nulls == "mask" else {}


def there_or(cell: Cell, fill: bytes | None) -> bytes:
    """A value, or what stands in its place."""
    found = fill if cell is None else cell
    assert isinstance(found, bytes), "a null that is an error"
    return found


def elements_of(row: Cell, fill: bytes | None) -> Iterator[bytes]:
    """The elements of a list, or a value as the only one; none of a null."""
    if isinstance(row, tuple):
        for element in row:
            yield there_or(element, fill)
    elif row is not None:
        yield row


def numbers_of(cell: Cell) -> Iterator[bytes]:
    """All numbers of a row, however deep in lists; none of a null."""
    if isinstance(cell, tuple):
        for element in cell:
            yield from numbers_of(element)
    elif cell is not None:
        yield cell


# ---------------------------------------------------------------------------------------------- as strategies


def one_length(cells: Cells) -> int | None:
    """The length of all lists of a column, if they have one."""
    lengths = {len(row) for row in cells.rows if isinstance(row, tuple)}
    return lengths.pop() if cells.kind == "list" and len(lengths) == 1 else None


def null_rules(cells: Cells) -> list[Any]:
    """What may become of a column's nulls: not what makes one an error."""
    rows = range(len(cells.rows))
    return [rule for rule in ("mask", 0, 1, "error") if is_delivered(cells, rows, rule)]


@st.composite
def layouts(draw: st.DrawFn, cells: Mapping[str, Cells]) -> Layout:
    """Draw a layout under which all rows are delivered."""
    treatments, stacks = {}, {}
    shape = draw(fitting_shape(cells))
    shaped, becomes = {*shape.casts, *shape.hashes}, replace(shape, names={}).of_cells(cells)
    for name, column in cells.items():
        if column.kind == "mask":
            continue  # named after its members: the last name that means a column counts for it
        length = None if name in shaped else one_length(column)
        fixed = length if length and draw(st.booleans()) else None
        is_nested = column.kind.startswith("list<")
        can_be_padded = becomes[name].is_jagged and not is_nested and fixed is None
        pad = draw(pads()) if can_be_padded and draw(st.booleans()) else None
        # Where there is one bucket, 1 is none; and a text in a list may be masked, its bucket not.
        rules = [rule for rule in null_rules(becomes[name]) if rule != 1 or name not in shaped]
        truncate = draw(st.sampled_from(("head", "tail")))
        treatments[name] = Treatment(draw(st.sampled_from(rules)), fixed, pad, truncate)
    plain: dict[tuple[np.dtype, int | None], list[str]] = {}
    for name, column in cells.items():
        if column.kind == "scalar" and column.size is None and name not in {*shaped, *shape.names}:
            plain.setdefault((column.dtype, column.scale), []).append(name)
    for place, (_, names) in enumerate(sorted(plain.items(), key=lambda pair: str(pair[0]))):
        members = tuple(name for name in names if draw(st.booleans()))
        if members:
            stacks[f"stack{place}"] = members
            rules = set.intersection(*(set(null_rules(cells[name])) for name in members))
            rule = draw(st.sampled_from(sorted(rules, key=str)))
            for name in members:
                del treatments[name]
            treatments[f"stack{place}"] = Treatment(rule)
    return Layout(treatments, stacks, shape)


def pads() -> st.SearchStrategy[Pad]:
    """Return a strategy for how rows of any type are filled up."""
    sizes, values, sides = (st.sampled_from(some) for some in ((1, 3, 30), (0, 1), ("right", "left")))
    return st.builds(lambda size, value, side: Pad(size, value=value, side=side), sizes, values, sides)


@st.composite
def fitting_shape(draw: st.DrawFn, cells: Mapping[str, Cells]) -> Shape:
    """Draw casts (of columns all of whose numbers fit; to no bfloat16), buckets and names."""
    if draw(st.booleans()):
        return Shape()
    numbers = {name: column for name, column in cells.items() if not is_matrix(column)}
    shape = draw(shapes(numbers, casts=CASTS[:-1]))
    found = replace(shape, names={}).of_cells(cells)
    casts = {
        name: to
        for name, to in shape.casts.items()
        if all(fits(found[name], row) for row in range(len(found[name].rows))) and not holds_nan(cells[name])
    }
    return replace(shape, casts=casts)


def is_matrix(cells: Cells) -> bool:
    """Whether all lists have one length by the files' schema: those are drawn for no shape yet."""
    return cells.size is not None and not any(isinstance(row, bytes) for row in cells.rows)


def holds_nan(cells: Cells) -> bool:
    """Whether a number is none: of these, the bits that a cast gives are left to the machine."""
    values = b"".join(number for row in cells.rows for number in numbers_of(row))
    return cells.dtype.kind == "f" and bool(np.isnan(np.frombuffer(values, cells.dtype)).any())
