"""Casts, buckets and new names, as users ask for them: drawn, and what becomes of the cells of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.cells import Cell, Cells
from support.strategies import FLOATS, INTEGERS
from support.topologies import seeds

CASTS = ("bool", *INTEGERS, *FLOATS, "bfloat16")

MISFIT = b"a cell that does not fit"
"""Stands in the place of one; no number has so many bytes."""


@dataclass(frozen=True)
class Shape:
    """What is asked of tensors: dtypes, (buckets, seed) and new names, by columns."""

    casts: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def asked_of(self, name: str) -> fr.Column:
        """What is asked of a column, but for its new name."""
        column = fr.col(name)
        if name in self.casts:
            column = column.cast(getattr(torch, self.casts[name]))
        return column.hash(*self.hashes[name]) if name in self.hashes else column

    def named(self, name: str, column: fr.Column) -> fr.Column:
        """The expression under the new name of a column, if it has one."""
        return column.alias(self.names[name]) if name in self.names else column

    def of_cells(self, table: Mapping[str, Cells]) -> dict[str, Cells]:
        """The columns as they must be delivered; numbers of bfloat16 as their bits."""
        return {self.names.get(name, name): self._of_column(name, cells) for name, cells in table.items()}

    def _of_column(self, name: str, cells: Cells) -> Cells:
        if name in self.hashes:
            buckets, seed = self.hashes[name]
            is_number = can_be_cast(cells)

            def put(cell: bytes) -> bytes:
                value = number(cell, cells.dtype) if is_number else cell
                return oracle.bucket(value, buckets, seed).to_bytes(8, "little")

            kind = cells.kind if cells.kind in ("list", "list<list>") else "scalar"
            kind = "list" if cells.kind in ("list<string>", "list<binary>") else kind
            size = cells.size if is_number else None
            return Cells(
                np.dtype(np.int64),
                kind,
                [each(cell, put) for cell in cells.rows],
                size,
                are_lists=cells.are_lists,
            )
        if name in self.casts:
            to = self.casts[name]

            def cast(cell: bytes) -> bytes:
                value = number(cell, cells.dtype)
                value = value if cells.scale is None else float(Fraction(value, 10**cells.scale))
                found = oracle.cast(value, to)
                return MISFIT if found is None else found

            dtype = np.dtype("uint16" if to == "bfloat16" else to)
            return replace(cells, dtype=dtype, rows=[each(cell, cast) for cell in cells.rows])
        return cells


def number(cell: bytes, dtype: np.dtype) -> Any:
    """The number that bytes are, as Python's, which is exact."""
    return np.frombuffer(cell, dtype)[0].item()


def each(cell: Cell, change: Any) -> Cell:
    """A cell with its value, or each of its elements, changed; nulls stay."""
    if isinstance(cell, tuple):
        return tuple(each(element, change) for element in cell)
    return None if cell is None else change(cell)


def fits(cells: Cells, row: int) -> bool:
    """Whether a row holds no misfit."""
    return not has_misfit(cells.rows[row])


def has_misfit(cell: Cell) -> bool:
    """Whether a cell, or an element of it, does not fit."""
    return any(map(has_misfit, cell)) if isinstance(cell, tuple) else cell == MISFIT


def with_plain_bits(batch: fr.Batch) -> fr.Batch:
    """The batch with numbers of bfloat16 as their bits, and each NaN as the one without a sign."""
    for value in batch.values():
        values: Any = value
        while isinstance(values, fr.Jagged):
            values = values.values
        if values.is_floating_point():
            values[values.isnan()] = torch.nan
    for name, value in batch.items():
        if value.dtype == torch.bfloat16:
            batch[name] = bits_of(value)
    return batch


def with_plain_nans(table: Mapping[str, Cells]) -> dict[str, Cells]:
    """The columns with each NaN as the one without a sign, as `with_plain_bits` leaves them in batches."""

    def plain(cells: Cells) -> Cells:
        def change(cell: bytes) -> bytes:
            is_nan = cell != MISFIT and bool(np.isnan(np.frombuffer(cell, cells.dtype)[0]))
            return np.full(1, np.nan, cells.dtype).tobytes() if is_nan else cell

        return replace(cells, rows=[each(cell, change) for cell in cells.rows])

    return {
        name: plain(cells) if cells.dtype.kind == "f" and cells.size is None else cells
        for name, cells in table.items()
    }


def bits_of(value: torch.Tensor | fr.Jagged) -> torch.Tensor | fr.Jagged:
    """Numbers of 16 bits as integers."""
    if isinstance(value, fr.Jagged):
        return fr.Jagged(bits_of(value.values), value.offsets, value.valid, value.kind, value.values_valid)
    return value.view(torch.uint16)


# ---------------------------------------------------------------------------------------------- as strategies


def can_be_cast(cells: Cells) -> bool:
    """Whether a column holds numbers, or lists of such, or lists of lists."""
    is_lists = cells.size is not None and any(isinstance(row, tuple) for row in cells.rows)
    return cells.kind in ("scalar", "list", "list<list>") and (cells.size is None or is_lists)


def can_be_hashed(cells: Cells) -> bool:
    """Whether a column holds text, bytes or integers, or lists of these."""
    is_bytes = cells.size is not None and any(isinstance(row, bytes) for row in cells.rows)
    if cells.kind.removeprefix("list<").removesuffix(">") in ("string", "binary") or is_bytes:
        return True
    return can_be_cast(cells) and cells.dtype.kind in "iu"


@st.composite
def shapes(draw: st.DrawFn, table: Mapping[str, Cells], *, casts: Sequence[str] = CASTS) -> Shape:
    """Draw casts, buckets and names for some columns of a table."""
    cast: dict[str, str] = {}
    hashed: dict[str, tuple[int, int]] = {}
    for name, cells in table.items():
        ways = ["none"] + ["cast"] * 2 * can_be_cast(cells) + ["hash"] * can_be_hashed(cells)
        way = draw(st.sampled_from(ways))
        if way == "cast":
            # A decimal is no integer: those are asked for by `.decimal("int64")`.
            able = casts if cells.scale is None else [to for to in casts if "float" in to]
            cast[name] = draw(st.sampled_from(able))
        elif way == "hash":
            buckets = draw(st.sampled_from((1, 2, 1000, 1_000_003, 2**63)))
            hashed[name] = (buckets, draw(st.one_of(st.just(0), seeds(), st.just(2**64 - 1))))
    structs = {name for name, cells in table.items() if cells.kind == "mask"}
    renamed = draw(st.sets(st.sampled_from(sorted(set(table) - structs)), max_size=2))
    return Shape(cast, hashed, {name: f"{name} anew" for name in sorted(renamed)})
