"""Nulls that footers, types and paths tell of: one error for all of them, or what the column is then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support import thrift_writer as tw
from support.each_of import each_of
from support.thrift_writer import NULL_COUNT, statistics_of

NULLS: dict[str, Any] = {
    "integer": [1, None],
    "text": ["a", None],
    "truth": [None, True],
    "list": [[1], None],
    "element": [[1, None], [2]],
    "texts": [["a", None], []],
    "deep": [[[1], [None]], []],
}
WHOLE: dict[str, Any] = {
    "integer": [1, 2],
    "text": ["a", ""],
    "truth": [False, True],
    "list": [[1], []],
    "element": [[], [2]],
    "texts": [["a"], []],
    "deep": [[[1], []], []],
}


def write(directory: Path, *tables: dict[str, Any], **how: Any) -> Path:
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), directory / f"{number}.parquet", **how)
    return directory


def refusal(path: Path, **how: Any) -> str:
    with pytest.raises(fr.DataError) as caught:
        fr.ParquetDataset(path, batch_size=1, **how)
    return str(caught.value)


def test_one_error_names_all_columns_with_nulls_and_the_line_that_masks_them(tmp_path: Path) -> None:
    write(tmp_path, WHOLE, NULLS, NULLS)
    lines = refusal(tmp_path).splitlines()
    names = ", ".join(f"'{name}'" for name in NULLS)
    line = f"columns=['*', fr.col({names}).mask_null()]"
    assert lines[0] == f"7 columns have nulls; {line} masks their nulls:"
    for name, found in zip(NULLS, lines[1:], strict=True):
        assert found.startswith(f"  '{name}': ")
        assert f"(column '{name}', file '{tmp_path / '1.parquet'}')" in found, "the first that has some"
    assert "footers count 2 nulls among 6 values" in lines[1]
    columns = eval(line.removeprefix("columns="), {"fr": fr})  # noqa: S307  (what a user would paste)
    assert len(list(fr.ParquetDataset(tmp_path, batch_size=6, columns=columns))) == 1
    assert len(list(fr.ParquetDataset(write(tmp_path, WHOLE, WHOLE, WHOLE), batch_size=6))) == 1


def test_a_column_that_is_named_is_told_with_what_is_said_of_it(tmp_path: Path) -> None:
    write(tmp_path, {"x": [1, None, None], "y": [1, 2, 3]})
    assert refusal(tmp_path, columns=["x", "y"]).startswith(
        "footers count 2 nulls among 3 values; .mask_null() or .fill_null(value) says what happens to it; "
        "columns=[..., fr.col('x').mask_null()] masks its nulls (column 'x', file "
    )
    cast = refusal(tmp_path, columns=fr.col("x").cast(torch.float32))
    assert cast.startswith(
        "fr.col('x').cast(torch.float32): footers count 2 nulls among 3 values; .mask_null() or"
    )
    stacked = refusal(tmp_path, columns=fr.stack("x", "y", name="m"))
    assert "footers count 2 nulls among 3 values" in stacked
    assert "column 'x'" in stacked
    for columns in ("y", fr.col("x").fill_null(0), fr.col("x").mask_null()):
        assert fr.ParquetDataset(tmp_path, batch_size=3, columns=columns).peek()


def test_rows_that_are_not_selected_may_be_null(tmp_path: Path) -> None:
    """A count tells that some are selected only where more are null than are left out."""
    write(tmp_path, {"x": [1, None, 3, None], "l": [[1], None, [], None]}, row_group_size=2)
    for rows in ([[0, 1], [2, 3]], [[0, 1]]):
        assert len(list(fr.ParquetDataset(tmp_path, batch_size=1, rows=rows))) == len(rows)
    valid = fr.col("x").is_valid()
    assert [batch["x"].item() for batch in fr.ParquetDataset(tmp_path, batch_size=1, filter=valid)] == [1, 3]
    assert "footers count 2 nulls among 4 values" in refusal(tmp_path, rows=[[0, 3]], columns="x")
    late = fr.ParquetDataset(tmp_path, batch_size=1, rows=[[0, 2]], columns="x")
    with pytest.raises(fr.DataError, match="row 1 of the row group is null"):
        list(late)


def test_footers_without_statistics_tell_nothing_and_the_first_null_is_an_error_then(tmp_path: Path) -> None:
    write(tmp_path, {"x": [1, None]}, write_statistics=False)
    dataset = fr.ParquetDataset(tmp_path, batch_size=2)
    assert dataset.schema["x"].null_count is None
    assert repr(dataset.schema) == "x: int64 [B] nulls not counted"
    with pytest.raises(fr.DataError, match="row 1 of the row group is null"):
        list(dataset)
    masked = fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask")
    assert masked.schema["x"].null_count is None
    assert repr(masked.schema) == "x: int64 [B]\nx_valid: bool [B]", "they are no errors"


def test_what_is_wrong_is_told_with_the_columns_whose_nulls_footers_do_not_count(tmp_path: Path) -> None:
    table: dict[str, Any] = {"a": [1, None], "b": ["x", "y"], "c": [[1], [2]], "d": [1, 2], "e": [1, None]}
    write(tmp_path, table, write_statistics=["a", "d"])
    found = refusal(tmp_path)
    assert found.startswith("footers count 1 null among 2 values; ")
    assert (
        "masks its nulls; footers don't count the nulls of 'b', 'e': one is an error when it is read" in found
    )
    for columns in (["a", "d"], ["a", fr.col("b", "e").mask_null()]):
        assert "don't count" not in refusal(tmp_path, columns=columns)
    last = refusal(tmp_path, columns=["*", fr.col("b").cast(torch.int64)]).splitlines()[-1]
    assert last == "  footers don't count the nulls of 'e': one is an error when it is read"


def test_the_schema_tells_how_many_nulls_there_are(tmp_path: Path) -> None:
    for region in ("region=eu", "region=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / region).mkdir()
    write(tmp_path / "region=eu", NULLS)
    write(tmp_path / "region=__HIVE_DEFAULT_PARTITION__", WHOLE, {**NULLS, "text": pa.nulls(2)})
    pq.write_table(pa.table({"only": [1, None]}), tmp_path / "region=eu" / "other.parquet")
    columns = [
        fr.col("*").optional().mask_null(),
        fr.stack(fr.col("integer", "only").optional().fill_null(0), name="both"),
        fr.col("region").from_path().fill_null(0),
        fr.col("list").optional().pad(3).fill_null(0).alias("padded"),
    ]
    schema = fr.ParquetDataset(tmp_path, batch_size=1, columns=columns, rows=[[0, 1]]).schema
    counts = {name: field.null_count for name, field in schema.items()}
    lacking = 2  # rows of the file that has none of these
    found = {"integer": 2, "text": 3, "truth": 2, "list": 2, "element": 2, "texts": 2}
    assert {name: counts[name] for name in found} == {name: count + lacking for name, count in found.items()}
    assert counts["deep"] is None, "what is null in lists of lists may be an empty list"
    assert counts["only"] == 1 + 6
    assert counts["both"] == counts["integer"] + counts["only"]
    assert counts["region"] == 4
    assert counts["padded"] == counts["list"]
    assert counts["integer_valid"] == counts["padded_length"] == 0


def test_a_manifest_cache_knows_of_nulls(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write(data, {"x": [1, None]})
    for _ in range(2):
        assert "footers count 1 null among 2 values" in refusal(data, manifest_cache=tmp_path / "cache")


def test_a_count_that_bounds_contradict_refuses_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"x": [1, 2]})

    def edit(footer: Any) -> None:
        statistics_of(footer, 0)[NULL_COUNT] = tw.i64(2)

    tw.edit_footer(tmp_path / "0.parquet", edit)
    assert fr.ParquetDataset(tmp_path, batch_size=2).peek()["x"].tolist() == [1, 2]


def test_one_error_names_all_columns_that_are_null_in_a_file_and_the_line_that_masks_them(
    tmp_path: Path,
) -> None:
    whole = {"number": [1, 2], "text": ["a", ""], "list": [[1], []], "truth": [True, False]}
    names = list(whole)
    write(tmp_path, whole, {name: pa.nulls(2) for name in names}, whole)
    lines = refusal(tmp_path).splitlines()
    line = "columns=['*', fr.col('number', 'text', 'list', 'truth').mask_null()]"
    assert lines[0] == f"4 columns have nulls; {line} masks their nulls:"
    for name, found in zip(names, lines[1:], strict=True):
        assert found == (
            f"  '{name}': all of it is null, as the file has no value of it; .mask_null() or "
            f".fill_null(value) says what happens to it (column '{name}', file '{tmp_path / '1.parquet'}')"
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
    found = refusal(tmp_path, columns=["*", fr.col("day").from_path()])
    line = "columns=[..., '!drift', '!kind', '!gone', fr.col('nulls').mask_null()]"
    assert found.startswith(
        f"5 columns can't be delivered; {line} leaves out what can't be delivered, and masks"
    )
    for words in (
        "'nulls': all of it is null, as the file has no value of it; .mask_null()",
        "fr.col('drift').cast(torch.float64) makes one type of both",
        "'kind': the column is ",
        "'gone': the column is missing",
        "fr.col('gone').optional().mask_null() allows files without it",
        "'day': fr.col('day').from_path(): all of it is null, as of one that is null in the file's path",
    ):
        assert words in found, words
    assert "fr.col('kind').cast" not in found, "a text is cast to no number"


@each_of(
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
        "all of it is null, as the file has no value of it; .mask_null() or .fill_null(value) says what "
        "happens to it; columns=['*', fr.col('x').mask_null()] masks its nulls (column 'x', file "
    )
    assert fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask").peek()["x_valid"].tolist() == [False] * 2
    texts = fr.ParquetDataset(tmp_path, batch_size=2, columns=fr.col("x").fill_null("")).peek()["x"]
    assert texts.to_strings() == ["", ""]
