"""`fastresume inspect` tells what files hold, and prints Python that reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import cli
from support.delta_tables import adds, append, delete_rows
from support.each_of import each_of
from support.ipc_writer import write_ipc
from support.tables import ids


@pytest.fixture
def drifted(tmp_path: Path) -> Path:
    """Two files that differ: in a type, and in a column that one lacks; with nulls."""
    one = {"a": [1, 2, None], "l": [[1], None, [2]], "s": ["x", "y", None], "ok": [1, 2, 3]}
    pq.write_table(pa.table(one), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"a": [1.5, 2, 3], "l": [[1], [3], [2]], "ok": [4, 5, 6]}), tmp_path / "b.parquet"
    )
    return tmp_path


def test_what_it_prints_to_paste_reads_the_files(drifted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(drifted), "--batch-size", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["row_groups"], found["rows"]) == (2, 2, 6)
    nulls = {message["name"]: message["nulls"] for message in found["columns"]}
    assert (nulls["ok"], nulls["s"]) == (0, 4)
    assert len(found["drift"]) == 2
    dataset: fr.ParquetDataset = eval(  # noqa: S307  (it is to paste)
        found["python"], {"fr": fr, "torch": torch}
    )
    batch = dataset.peek()
    assert batch["a"].tolist()[:2] == [1.0, 2.0]
    assert batch["a_valid"].tolist() == [True, True, False]
    assert sorted(batch["ok"].tolist()) == [1, 2, 3]


def test_signs_that_differ_are_pasted_as_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"x": pa.array([2**60 + 1], pa.uint64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [-1]}), tmp_path / "b.parquet")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "columns=['*', fr.col('x').cast(torch.int64)]" in capsys.readouterr().out


def test_files_that_need_nothing_are_read_with_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert f"fr.ParquetDataset('{tmp_path}', batch_size=3)" in output
    assert "1 file, 1 row group, 3 rows" in output


def test_files_without_rows_or_columns_have_nothing_to_paste(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert cli.main(["inspect", str(tmp_path / "a.parquet")]) == 0
    told = capsys.readouterr().out
    assert "there are no rows" in told
    assert "to paste" not in told
    pq.write_table(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "b.parquet")
    assert cli.main(["inspect", str(tmp_path / "b.parquet")]) == 2
    assert "two columns have this name" in capsys.readouterr().err


def test_what_footers_do_not_count_is_said_and_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"told": [1, 2], "untold": [1, 2], "lists": [[1, None], [2]]})
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=["told", "lists.list.element"])
    assert cli.main(["inspect", str(tmp_path), "--batch-size", "2"]) == 0
    output = capsys.readouterr().out
    lines = {line.split()[0]: line for line in output.splitlines() if line}
    assert lines["told"].endswith("  0")
    assert lines["lists"].endswith("  1")
    assert lines["untold"].endswith("  not counted in footers")
    assert "columns=['*', fr.col('untold').mask_null(), fr.col('lists').mask_null()]" in output


def test_a_table_is_inspected_by_its_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error of the table's directory says to write the address, which was refused."""
    append(tmp_path / "t", ids(0, 5, day=pa.array(["a"] * 5)), partition_by=["day"])
    delete_rows(tmp_path / "t", adds(tmp_path / "t", 0)[0], [1])
    address = f"delta://{tmp_path / 't'}"
    assert cli.main(["inspect", str(tmp_path / "t")]) == 2
    assert f"'{address}'" in capsys.readouterr().err
    assert cli.main(["inspect", address]) == 0
    output = capsys.readouterr().out
    assert "1 file, 1 row group, 4 rows" in output
    assert "\nday " in output
    assert f"fr.ParquetDataset('{address}', batch_size=4)" in output


def test_columns_that_stand_in_paths_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}/city=x").mkdir(parents=True)
        pq.write_table(pa.table({"x": [1], "city": [2]}), tmp_path / f"day={day}/city=x/a.parquet")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "which columns= may have: fr.col('day').from_path()\n" in capsys.readouterr().out
    pq.write_table(pa.table({"x": [1], "city": [2]}), tmp_path / "a.parquet")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "from_path" not in capsys.readouterr().out


def test_the_index_of_a_frame_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"x": [1, 2], "__index_level_0__": [5, 6]}), tmp_path / "a.parquet")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "or columns='!__index_level_0__'" in capsys.readouterr().out


def test_what_can_not_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    assert cli.main(["inspect", str(tmp_path)]) == 2
    assert "a.parquet" in capsys.readouterr().err


def test_a_column_that_is_text_here_and_numbers_there_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cast that the first error names was written, refused, and written again: a traceback."""
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["a"], "y": [2]}), tmp_path / "b.parquet")
    assert cli.main(["inspect", str(tmp_path), "--batch-size", "2"]) == 0
    output = capsys.readouterr().out
    assert "columns=['y']" in output
    assert "expected int64" in output


def test_types_of_files_and_units_are_shown_and_decimals_pasted_as_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {
        "price": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
        "tax": pa.array([1, None]).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
        "at": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "tokens": [[1], [2, 3]],
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    assert cli.main(["inspect", str(tmp_path), "--batch-size", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    message = {each["name"]: (each["type"], each["dtype"], each["unit"]) for each in found["columns"]}
    assert message["price"] == ("decimal(21, 2)", "float64", None)
    assert message["tax"] == ("decimal(9, 2)", "float64", "decimal(9, 2)")
    assert message["at"] == ("timestamp[us, UTC]", "int64", "timestamp[us, UTC]")
    assert message["tokens"][0] == "list<int64>"
    assert "fr.col('price').decimal('float64')" in found["python"]
    assert "fr.col('tax').decimal('float64').mask_null()" in found["python"]
    dataset = eval(found["python"], {"fr": fr, "torch": torch})  # noqa: S307  (it is to paste)
    assert dataset.peek()["price"].tolist() == [1.0, 2.0]
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert "timestamp[us, UTC]  int64" in capsys.readouterr().out


def test_files_of_arrow_are_inspected_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ipc(pa.table({"x": [1, 2, None], "s": ["a", "b", "c"]}), tmp_path / "a.arrow", block=2)
    for path in (tmp_path, tmp_path / "a.arrow", tmp_path / "*.arrow"):
        assert cli.main(["inspect", str(path), "--batch-size", "3", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["files"], found["rows"]) == (1, 3)
        dataset: fr.ArrowDataset = eval(found["python"], {"fr": fr, "torch": torch})  # noqa: S307  (it is to paste)
        assert dataset.peek()["x_valid"].tolist() == [True, True, False]


def test_paths_that_a_shell_expanded_are_inspected_and_pasted_together(
    drifted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = sorted(map(str, drifted.glob("*.parquet")))
    assert cli.main(["inspect", *paths]) == 0
    output = capsys.readouterr().out
    assert "2 files, 2 row groups, 6 rows" in output
    assert f"fr.ParquetDataset({paths!r}, batch_size=6" in output  # 512 rows, which is no batch, were pasted


@each_of(
    ("arguments", "said"),
    [
        (["inspect", "a.parquet", "--batch-size", "0"], "at least 1, found '0'"),
        (["inspect", "a.parquet", "--batch-size", "-5"], "at least 1, found '-5'"),
        (["audit", "logs", "--passes", "-1"], "at least 0, found '-1'"),
        (["audit", "logs", "--passes", "x"], "at least 0, found 'x'"),
        (["inspect", "d.parquet", "--batch_size", "3"], "did you mean --batch-size?"),
        (["audit", "logs", "--pases=1"], "usage: fastresume audit"),
        (["audit", "logs", "--pases=1"], "did you mean --passes?"),
    ],
)
def test_an_argument_that_can_not_be_taken_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    output = capsys.readouterr()
    assert (output.out, said in output.err) == ("", True), output


def test_a_full_device_is_named_and_a_reader_that_has_gone_is_not(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(9)}), tmp_path / "rows.parquet")
    command = [sys.executable, "-m", "fastresume", "inspect", str(tmp_path / "rows.parquet")]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    text = "fastresume: standard output can't be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (2, text)
    reader, writer = os.pipe()
    os.close(reader)
    gone = subprocess.run(command, check=False, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (2, "")
