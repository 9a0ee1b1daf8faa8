"""The same rows as Arrow holds them in other ways: cut into chunks, lying behind others, under garbage."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import fastresume as fr
from fastresume.sources import Segment
from support import oracle
from support.cells import tensor_of
from support.columns import Kind, all_kinds
from support.jobs import arrays_of


def table_of(kinds: Sequence[Kind], rows: int) -> pa.Table:
    """A table of these columns, and the number of each row."""
    schema = pa.schema([pa.field("row", pa.int64(), nullable=False), *(kind.field for kind in kinds)])
    arrays = [pa.array(range(rows), pa.int64()), *(kind.values(0, rows) for kind in kinds)]
    return pa.Table.from_arrays(arrays, schema=schema)


def wide_table(rows: int, nulls: float | None) -> pa.Table:
    """A table with a column of each kind that Parquet files have."""
    return table_of(all_kinds(nulls=nulls, element_nulls=nulls), rows)


def scattered(table: pa.Table, seed: int) -> pa.Table:
    """The same rows in chunks of other lengths, some of them empty, that begin anywhere in their memory."""
    draw = random.Random(seed)
    batches: list[pa.RecordBatch] = []
    start = 0
    while start < table.num_rows:
        stop = min(start + draw.choice((0, 1, 3, 7, 8, 9, 64, 500)), table.num_rows)
        # What lies before and behind is other rows' memory.
        before, behind = draw.randrange(20), draw.randrange(5)
        around = table.slice(max(start - before, 0), stop + behind - max(start - before, 0))
        whole = around.combine_chunks().to_batches()
        piece = whole[0].slice(min(before, start), stop - start) if whole else table.schema.empty_table()
        batches += [piece] if isinstance(piece, pa.RecordBatch) else piece.to_batches()
        start = stop
    return pa.Table.from_batches(batches, table.schema)


def write_parquet(table: pa.Table, path: Path, rows_of_group: int = 1000) -> Path:
    """A Parquet file of the rows of a table."""
    pq.write_table(table, path, row_group_size=rows_of_group)
    return path


def numbers_in(batches: Iterable[fr.Batch], name: str = "x") -> list[Any]:
    """The values of a tensor of all batches, one behind another."""
    return [value for batch in batches for value in tensor_of(batch, name).tolist()]


def assert_same_rows(one: fr.Batch, other: fr.Batch) -> None:
    """Assert that two batches are the same rows with the same values, whichever dataset they are of."""
    found, expected = arrays_of(one), arrays_of(other)
    assert list(found) == list(expected)
    differ = [name for name in found if not oracle.same_values({"": found[name]}, {"": expected[name]})]
    assert not differ, {name: (found[name], expected[name]) for name in differ[:2]}
    assert np.array_equal(one.rows(), other.rows())
    assert one.valid.tolist() == other.valid.tolist()
    assert (one.num_rows, one.epoch, one.step) == (other.num_rows, other.epoch, other.step)


@dataclass
class TableSource:
    """A table as a source of rows, in segments; some reads fail, or end early."""

    table: pa.Table
    sizes: Sequence[int]
    fails: float = 0.0
    seed: int = 0
    asked: list[tuple[int, int, int, tuple[str, ...]]] = field(default_factory=list)

    def snapshot(self) -> str:
        return "a table"

    def segments(self) -> list[Segment]:
        return [Segment(f"part-{number}", size) for number, size in enumerate(self.sizes)]

    def schema(self) -> pa.Schema:
        return self.table.schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        self.asked.append((segment, start, stop, tuple(columns)))
        draw = random.Random(f"{self.seed} {len(self.asked)}")
        if draw.random() < self.fails:
            if draw.random() < 0.5:
                raise ConnectionResetError("the other side is gone")
            stop = start + (stop - start) // 2
        before = sum(self.sizes[:segment])
        return self.table.select(columns).slice(before + start, stop - start)


OTHER_FORMS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "views": lambda column: column.cast(
        pa.binary_view() if pa.types.is_binary(column.type) else pa.string_view()
    ),
    "codes": lambda column: column.dictionary_encode(),
    "runs": pc.run_end_encode,
    "list views": lambda column: column.cast(pa.list_view(column.type.value_field)),
}
"""How Arrow may hold the same values, by what files know nothing of."""


def forms_of(type_: pa.DataType) -> list[str]:
    """The other forms that columns of a type may have."""
    if pa.types.is_list(type_):
        return ["list views"]
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return ["views", "codes", "runs"]
    # Of a float's zeros, and of what is no number, codes and runs may keep another one.
    return ["codes", "runs"] if pa.types.is_integer(type_) else []


def in_other_forms(table: pa.Table, seed: int) -> pa.Table:
    """The same rows, some of whose columns are held in another form."""
    draw = random.Random(seed)
    for place, field_ in enumerate(table.schema):
        form = draw.choice(["", *forms_of(field_.type)])
        if not form:
            continue
        try:
            held = OTHER_FORMS[form](table.column(place).combine_chunks())
        except pa.ArrowNotImplementedError:  # of pyarrow: lists of structs as views, runs of small numbers
            continue
        table = table.set_column(place, field_.with_type(held.type), held)
    return table
