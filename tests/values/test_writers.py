"""Files by five writers, every option that they have: cell for cell what pyarrow and other readers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.cells import Cells, assert_holds, cells_of, read_cells, written_cells
from support.columns import Kind
from support.each_of import each_of
from support.jobs import FEW, assert_batch_values, make
from support.layouts import Contents, layouts
from support.strategies import DatasetSpec, written
from support.topologies import orders
from support.writers import OTHER_FILES, READERS, DuckdbFile, cells_by, tables_of

pytestmark = pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")  # fastparquet's own code


def assert_same_cells(found: dict[str, Cells], expected: dict[str, Cells], reader: str) -> None:
    """Assert that another reader read the same, of all columns that it can tell."""
    for name, cells in found.items():
        assert cells.rows == expected[name].rows, f"{reader} reads other cells of {name!r}"


@pytest.mark.parametrize("writer", ["pyarrow", *OTHER_FILES, "any"])
@FEW
@given(data=st.data())
def test_every_cell_is_what_pyarrow_and_another_reader_read(writer: str, data: st.DataObject) -> None:
    spec: DatasetSpec = data.draw(tables_of(writer))
    with written(spec) as dataset:
        # pyarrow does not read all that it writes in small pages: see `written_columns`.
        cells = written_cells(spec) if writer == "pyarrow" else read_cells(dataset.directory)
        # polars panics on some files of pyarrow's that have pages of a byte.
        for reader in READERS if writer in OTHER_FILES else ["duckdb"]:
            assert_same_cells(cells_by(reader, dataset.files), cells, reader)
        layout = data.draw(layouts(cells))
        contents = Contents(cells, layout)
        order = data.draw(orders(dataset.num_rows))
        how: dict[str, Any] = {**layout.arguments, **({} if order is None else order.arguments)}
        made = make(dataset, data.draw(st.sampled_from((1, 7, 64))), tail="short", **how)
        seen: list[int] = []
        for batch in made:
            assert_batch_values(batch, contents.of_rows(batch.rows().tolist()))
            seen += batch.rows().tolist()
        assert sorted(seen) == list(range(dataset.num_rows))
        numbers = data.draw(st.lists(st.integers(0, dataset.num_rows - 1), max_size=8))
        assert_batch_values(made.read_rows(numbers), contents.of_rows(numbers))


@each_of("rows", [2, 20, 33, 129, 1000])
@each_of("type_", ["int32", "uint32", "date32"])
@each_of("fill", ["bits", "extremes"])
def test_deltas_of_33_bits_are_read(tmp_path: Path, rows: int, type_: str, fill: str) -> None:
    """DuckDB takes differences of 32-bit numbers as they are, and pyarrow does not read all of these."""
    column = Kind("x", type_, fill=fill, distinct=300)
    file = DuckdbFile("x.parquet", (rows,), version="V2", dictionary_values=1)
    path = file.write(tmp_path, [column], 0)
    assert "DELTA_BINARY_PACKED" in pq.read_metadata(path).row_group(0).column(0).encodings
    given_ = cells_of(pa.chunked_array([column.values(0, rows)]))
    for reader in READERS.values():
        assert cells_of(reader(path)["x"]).rows == given_.rows
    (batch,) = fr.ParquetDataset(path, batch_size=rows)
    assert_holds(batch, {"x": given_})
