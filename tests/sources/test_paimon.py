"""Paimon tables: files are segments, and rows of one key are merged."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import numbers_in

pypaimon = pytest.importorskip("pypaimon", reason="made with Paimon: pip install pypaimon")

# What pypaimon asks of pyarrow to sort rows by their keys.
pytestmark = pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")

ONE: dict[str, Any] = {"batch_size": 10, "tail": "short", "world": (0, 1)}
SCHEMA = pa.schema([pa.field("x", pa.int64(), nullable=False), ("s", pa.string()), ("day", pa.string())])


def write(table: Any, rows: range) -> None:
    """Write rows as one commit."""
    days = [f"{row % 2}" for row in rows]
    values = {"x": [*rows], "s": [f"row {row}" for row in rows], "day": days}
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.table(values, schema=SCHEMA))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def made(folder: Path, **how: Any) -> Any:
    """A new table."""
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(folder)})
    catalog.create_database("d", True)
    catalog.create_table("d.t", pypaimon.Schema.from_pyarrow_schema(SCHEMA, **how), False)
    return catalog.get_table("d.t")


def test_files_are_segments_and_later_ones_are_read_in_the_pass(tmp_path: Path) -> None:
    table = made(tmp_path, partition_keys=["day"])
    write(table, range(100))
    source = fr.sources.paimon(table)
    assert isinstance(source, fr.sources.RowSource)
    dataset = fr.ArrowDataset(source, columns=["x", "s"], on_change="append", **ONE)
    expected = [*range(0, 100, 2), *range(1, 100, 2)]
    assert sorted(numbers_in(dataset)) == sorted(expected)
    first = fr.ArrowDataset(source, columns=["x", "s"], on_change="append", **ONE)
    state = next(iter(first)).state_dict()
    rest = numbers_in(first)
    write(table, range(100, 120))
    grown = fr.ArrowDataset(fr.sources.paimon(table), columns=["x", "s"], on_change="append", **ONE)
    grown.load_state_dict(state)
    found = numbers_in(grown)
    assert found[:90] == rest
    assert sorted(found[90:]) == list(range(100, 120))
    again = pickle.loads(pickle.dumps(grown))
    assert numbers_in(again)[:90] == numbers_in(grown)[:90]


def test_rows_of_one_key_are_merged_and_counted(tmp_path: Path) -> None:
    table = made(tmp_path, primary_keys=["x"], options={"bucket": "1"})
    write(table, range(50))
    write(table, range(40, 60))
    dataset = fr.ArrowDataset(fr.sources.paimon(table), columns=["x"], **ONE)
    assert numbers_in(dataset) == list(range(60))
    with pytest.raises(TypeError, match="a table of pypaimon's catalog"):
        fr.sources.paimon("d.t")
