"""Columns that are null in all of a file: what they are, and one error for all that is wrong with columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr


def write(directory: Path, *tables: dict[str, Any], **how: Any) -> Path:
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), directory / f"{number}.parquet", **how)
    return directory


def refusal(path: Path, **how: Any) -> str:
    with pytest.raises(fr.DataError) as caught:
        fr.ParquetDataset(path, batch_size=1, **how)
    return str(caught.value)


def test_one_error_names_all_columns_that_are_null_in_a_file_and_the_line_that_masks_them(
    tmp_path: Path,
) -> None:
    whole = {"number": [1, 2], "text": ["a", ""], "list": [[1], []], "truth": [True, False]}
    names = list(whole)
    write(tmp_path, whole, {name: pa.nulls(2) for name in names}, whole)
    lines = refusal(tmp_path).splitlines()
    line = "columns=['*', fr.col('number', 'text', 'list', 'truth').mask_null()]"
    assert lines[0] == f"4 columns have nulls; {line} masks their nulls:"
    for name, told in zip(names, lines[1:], strict=True):
        assert told == (
            f"  '{name}': all of it is null, as its type says; .mask_null() or .fill_null(value) says what "
            f"becomes of it (column '{name}', file '{tmp_path / '1.parquet'}')"
        )
    columns = eval(line.removeprefix("columns="), {"fr": fr})  # noqa: S307  (what a user would paste)
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=6, columns=columns)
    assert batch["number_valid"].tolist() == [True, True, False, False, True, True]
    assert fr.ParquetDataset(tmp_path, batch_size=2, rows=[[0, 2], [4, 6]]).peek()["number"].tolist() == [
        1,
        2,
    ]


def test_one_table_tells_all_that_is_wrong_at_once(tmp_path: Path) -> None:
    for day, table in (
        ("day=1", {"ok": [1, 2], "nulls": [1, 2], "drift": [1, 2], "kind": [1, 2], "gone": [1, 2]}),
        ("day=__HIVE_DEFAULT_PARTITION__", {"ok": [3], "nulls": pa.nulls(1), "drift": [1.5], "kind": ["x"]}),
    ):
        (tmp_path / day).mkdir()
        write(tmp_path / day, table)
    told = refusal(tmp_path, columns=["*", fr.col("day").from_path()])
    line = "columns=[..., '!drift', '!kind', '!gone', fr.col('nulls').mask_null()]"
    assert told.startswith(
        f"5 columns can't be delivered; {line} leaves out what can't be delivered, and masks"
    )
    for words in (
        "'nulls': all of it is null, as its type says; .mask_null()",
        "fr.col('drift').cast(torch.float64) makes one of both",
        "'kind': the column is ",
        "'gone': the column is missing",
        ".optional() allows files without it",
        "'day': fr.col('day').from_path(): all of it is null, as of one that is null in the file's path",
    ):
        assert words in told, words
    assert "fr.col('kind').cast" not in told, "a text is cast to no number"


@pytest.mark.parametrize(
    ("column", "dtype", "value"),
    [
        (fr.col("x").mask_null(), torch.int32, 0),
        (fr.col("x").fill_null(7), torch.int32, 7),
        (fr.col("x").fill_null(0.5), torch.float64, 0.5),
        (fr.col("x").fill_null(True), torch.bool, True),
        (fr.col("x").cast(torch.bfloat16).fill_null(2), torch.bfloat16, 2),
        (fr.col("x").cast(torch.int64).mask_null(), torch.int64, 0),
        (fr.col("x").hash(10).fill_null(3), torch.int64, 3),
        (fr.col("x").codes(["a"], unknown=1).fill_null(1), torch.int64, 1),
    ],
    ids=str,
)
def test_a_column_that_is_null_in_all_files_is_of_the_type_that_is_asked_for(
    tmp_path: Path, column: fr.Column, dtype: torch.dtype, value: float
) -> None:
    write(tmp_path, {"x": pa.nulls(2), "y": [1, 2]}, {"x": pa.nulls(1), "y": [3]})
    batch = fr.ParquetDataset(tmp_path, batch_size=3, columns=["y", column], shuffle=True).peek()
    assert (batch["x"].dtype, batch["x"].tolist()) == (dtype, [value] * 3)
    assert not batch.get("x_valid", torch.zeros(3)).any()


def test_it_is_an_error_without_a_rule_and_a_text_under_that_of_one(tmp_path: Path) -> None:
    write(tmp_path, {"x": pa.nulls(2), "y": [1, 2]})
    assert refusal(tmp_path).startswith(
        "all of it is null, as its type says; .mask_null() or .fill_null(value) says what becomes of it; "
        "columns=['*', fr.col('x').mask_null()] masks its nulls (column 'x', file "
    )
    assert fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask").peek()["x_valid"].tolist() == [False] * 2
    texts = fr.ParquetDataset(tmp_path, batch_size=2, columns=fr.col("x").fill_null("")).peek()["x"]
    assert texts.to_strings() == ["", ""]
