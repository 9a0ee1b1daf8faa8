"""Files that are measured, and readers of a user's own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastresume.bench.survey import survey
from fastresume.bench.task import Task
from support.bench_columns import flat_columns

READERS = """
import pyarrow as pa
import pyarrow.parquet as pq

def table(task):
    return pa.concat_tables([pq.read_table(path, columns=task.names) for path in task.files])

def backwards(task):
    whole = table(task)
    yield whole.take(list(range(whole.num_rows))[::-1])

def loses_a_row(task):
    yield table(task).slice(1)

def changes_a_value(task):
    whole = table(task)
    place = whole.schema.get_field_index("small")
    values = whole["small"].to_pylist()
    values[77] += 1
    yield whole.set_column(place, whole.schema.field(place), pa.array(values, whole.schema.field(place).type))

def mixes_up_rows(task):
    whole = table(task)
    place = whole.schema.get_field_index("small")
    other = whole["small"].take(list(range(whole.num_rows))[::-1])
    yield whole.set_column(place, whole.schema.field(place), other)

def forgets_a_column(task):
    yield table(task).drop_columns(["small"])

def breaks(task):
    raise OSError("the disk is on fire")

def breaks_in_lines(task):
    raise ValueError("\\n".join(["first", *map(str, range(9)), "last"]))

def says_nothing(task):
    import os

    os._exit(0)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bench") / "data"
    directory.mkdir()
    table = pa.table(flat_columns())
    pq.write_table(table.slice(0, 600), directory / "a.parquet", row_group_size=250)
    pq.write_table(table.slice(600), directory / "b.parquet", row_group_size=250)
    return directory


@pytest.fixture(scope="module")
def task(files: Path) -> Task:
    found = survey([str(files)], None)
    return Task(found.files, found.columns, 64, 1, found.num_rows)


@pytest.fixture
def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of a user's own, which a process finds by their module's name."""
    (tmp_path / "their_readers.py").write_text(READERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in benches can be imported."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benches")
