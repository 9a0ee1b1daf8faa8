"""`fastresume bench` measures files and streams of Arrow, by contenders that deliver the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pyarrow import ipc

from fastresume import cli
from fastresume.bench import child, turns
from fastresume.bench.checksum import difference
from fastresume.bench.contenders import CONTENDERS, missing
from fastresume.bench.reading import Contender
from fastresume.bench.survey import survey
from fastresume.bench.task import Task
from support.bench_columns import JAGGED, flat_columns, sums_of
from support.each_of import each_of

IN_PROCESS = [
    name
    for name, one in CONTENDERS.items()
    if one.reads_arrow and not missing(one) and name not in ("dataloader", "torchdata")  # they fork
]
IMPORTED_LONG = ("datasets", "polars")
FORMS = {
    "files": (ipc.new_file, None),
    "compressed files": (ipc.new_file, "zstd"),
    "streams": (ipc.new_stream, None),
    "compressed streams": (ipc.new_stream, "lz4"),
}


def written(directory: Path, table: pa.Table, form: str, most: int) -> Path:
    new, codec = FORMS[form]
    half = table.num_rows // 2
    for name, some in (("a", table.slice(0, half)), ("b", table.slice(half))):
        options = ipc.IpcWriteOptions(compression=codec)
        with new(str(directory / f"{name}.arrow"), table.schema, options=options) as writer:
            writer.write_table(some, max_chunksize=most)
    return directory


@each_of("form", ["files", "compressed streams"])
@each_of("name", [name for name in IN_PROCESS if name not in IMPORTED_LONG])
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_contenders_deliver_every_type_of_arrow_alike(tmp_path: Path, name: str, form: str) -> None:
    check_delivers_arrow(tmp_path, name, form)


@pytest.mark.slow  # to import some of them takes seconds
@each_of("form", list(FORMS))
@each_of("name", IN_PROCESS)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_all_contenders_deliver_all_forms_of_arrow_alike(tmp_path: Path, name: str, form: str) -> None:
    check_delivers_arrow(tmp_path, name, form)


def check_delivers_arrow(tmp_path: Path, name: str, form: str) -> None:
    columns = {**flat_columns(20), **JAGGED}
    table = pa.table({key: pa.array(column) for key, column in columns.items() if key != "word"})
    found = survey([str(written(tmp_path, table, form, most=7))], None)
    assert ([column.name for column in found.columns], found.left_out) == (table.column_names, {})
    assert (found.num_rows, found.row_groups, len(found.files)) == (20, 4, 2)
    assert found.stored_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    task = Task(found.files, found.columns, 6, 1, found.num_rows)
    assert difference(child.check(task, CONTENDERS[name]), sums_of(table)) is None


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_command_compares_and_resumes_those_that_read_arrow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(contender: Contender, **request: Any) -> Any:
        return json.loads(json.dumps(child.work({**request, "contender": contender.name})))

    monkeypatch.setattr(turns, "in_process", here)  # a process of each takes seconds
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(child, "WARM_SECONDS", 0.0)
    monkeypatch.setattr("fastresume.bench.command.TURN_SECONDS", 0.0)
    (tmp_path / "data").mkdir()
    data, message = (
        written(tmp_path / "data", pa.table(flat_columns()), "streams", 300),
        tmp_path / "out.json",
    )
    names = "fastresume,fastresume-shuffled,fastresume-threads,pyarrow,pyarrow-tensors,duckdb"
    arguments = ["bench", str(data), "--contenders", names, "--json", str(message), "--rounds", "1"]
    assert cli.main([*arguments, "--threads", "1", "--batch-size", "64"]) == 0
    said = capsys.readouterr().out
    assert "duckdb: reads no files of Arrow" in said
    assert "same rows: all 5 delivered what pyarrow reads, every value of all 1000 rows" in said
    found = json.loads(message.read_text())
    assert (found["same_rows"], found["rival"], found["row_groups"]) == (True, "pyarrow", 4)
    resumed = {name for name, one in found["contenders"].items() if one["resumes"]}
    assert resumed == set(names.split(",")) - {"pyarrow", "duckdb"}


@each_of(
    ("arguments", "reason"),
    [
        (["a.arrow", "b.parquet"], "a.arrow names files of Arrow, b.parquet files of Parquet"),
        (["DATA", "--pack", "id"], "--pack measures files of Parquet, found "),
        (["--mix", "DATA:1", "DATA:2"], "--mix measures files of Parquet, found "),
    ],
)
def test_what_is_not_measured_of_arrow_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    data = str(written(tmp_path, pa.table(flat_columns()), "files", 300) / "a.arrow")
    assert cli.main(["bench", *(part.replace("DATA", data) for part in arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
