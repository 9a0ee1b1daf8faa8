"""Filters by columns that files have not, or hold in paths; and by nulls alone, whatever the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pad
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.conditions import kept_rows
from support.each_of import each_of
from support.jobs import parallel
from support.pages import damage_chunks

ROWS = 10
FILES = ("day=1/region=eu/a", "day=12/region=eu/b", "day=2/region=us%2Fwest/c", "day=3/region=é/d")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Four files of ten rows below directories of days and regions."""
    for place, name in enumerate(sorted(FILES, key=str.encode)):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        rows = range(place * ROWS, place * ROWS + ROWS)
        table = pa.table({"row": rows, "x": [row if row % 3 else None for row in rows]})
        pq.write_table(table, path, row_group_size=4)
    return tmp_path


day, region, x = fr.col("day"), fr.col("region"), fr.col("x")
BOTH: dict[str, Any] = {"columns": ["row", fr.col("day").from_path(), fr.col("region").from_path()]}


def rows_of(*files: int) -> list[int]:
    return [row for file in files for row in range(file * ROWS, file * ROWS + ROWS)]


@pytest.mark.parametrize(
    ("filter_", "of_arrow", "files"),
    [
        (day == 12, pc.field("day") == 12, [1]),
        (day >= 2, pc.field("day") >= 2, [1, 2, 3]),
        (~day.isin([1, 3]), ~pc.field("day").isin([1, 3]), [1, 2]),
        (day == 1.5, None, []),
        (region == "us/west", pc.field("region") == "us/west", [2]),
        (region > "eu", pc.field("region") > "eu", [2, 3]),
        (
            region.isin(["é", "eu"]) & (day < 12),
            pc.field("region").isin(["é", "eu"]) & (pc.field("day") < 12),
            [0, 3],
        ),
        ([("region", "=", "eu")], None, [0, 1]),
        (region.is_null(), pc.field("region").is_null(), []),
        (region.is_valid() & (day != 1), None, [1, 2, 3]),
    ],
    ids=str,
)
def test_paths_decide_files_that_are_not_opened(
    parts: Path, filter_: Any, of_arrow: Any, files: list[int]
) -> None:
    """By the values that would be delivered; an expression of pyarrow means the same."""
    assert kept_rows(parts, filter=filter_, **BOTH) == rows_of(*files)
    if of_arrow is not None:
        assert kept_rows(parts, filter=of_arrow, **BOTH) == rows_of(*files)
    for path in parts.rglob("*.parquet"):
        for column in ("x", "row"):
            damage_chunks(path, column, set())
    assert kept_rows(parts, filter=filter_, **BOTH) == rows_of(*files)


def test_paths_and_values_decide_together(parts: Path) -> None:
    """Of the files that their paths do not decide, rows are read; of the others none."""
    filter_ = (day == 12) & (x > 14) | (region == "é")
    expected = [row for row in range(10, 20) if row % 3 and row > 14] + rows_of(3)
    for name in (FILES[0], FILES[2], FILES[3]):
        damage_chunks(parts / f"{name}.parquet", "x", set())
    assert kept_rows(parts, filter=filter_, **BOTH) == expected


def test_an_expression_of_pyarrow_may_join_paths_and_values(parts: Path) -> None:
    asked = (pc.field("day") * 2 + pc.field("x") > 40) & (pc.field("region") == "eu")
    expected = [row for row in range(10, 20) if row % 3 and 24 + row > 40]
    assert kept_rows(parts, filter=asked, **BOTH) == expected


def test_a_column_of_paths_is_none_where_nobody_asks_for_it(parts: Path) -> None:
    with pytest.raises(fr.DataError, match="no column matches 'day'"):
        kept_rows(parts, filter=day == 1, columns=["*", fr.col("region").from_path()])
    with pytest.raises(fr.DataError, match=r"'day'; .* fr.col\('day'\).from_path\(\) is what"):
        kept_rows(parts, filter=pc.field("day") == 1, columns=["*", fr.col("region").from_path()])
    with pytest.raises(TypeError, match="column 'region' of the type string can't be compared with 1"):
        kept_rows(parts, filter=region == 1, **BOTH)


def test_a_path_without_a_value_is_a_null(parts: Path) -> None:
    pq.write_table(pa.table({"row": range(40, 45), "x": [1] * 5}), parts / "z.parquet")
    (parts / "day=__HIVE_DEFAULT_PARTITION__").mkdir()
    path = parts / "day=__HIVE_DEFAULT_PARTITION__/q.parquet"
    pq.write_table(pa.table({"row": range(45, 50), "x": [2] * 5}), path)
    columns = [fr.col("row", "x").fill_null(0), fr.col("day").from_path().optional().fill_null(0)]
    how: dict[str, Any] = {"columns": columns}
    of_null = [*range(40, 50)]
    for filter_ in (day.is_null(), pc.field("day").is_null()):
        assert kept_rows(parts, filter=filter_, **how) == of_null
    for filter_ in (day.is_valid(), pc.field("day").is_valid()):
        assert kept_rows(parts, filter=filter_, **how) == list(range(40))
    for filter_ in (day != 1, ~(day == 1), ~day.isin([1]), pc.field("day") != 1):
        assert kept_rows(parts, filter=filter_, **how) == rows_of(1, 2, 3)
    # The files' order: day=1, day=12, day=2, day=3, the null, and what has no directory.
    assert kept_rows(parts, filter=(day == 1) | (x == 2), **how) == [*range(10), *range(40, 45)]


# ---------------------------------------------------------------------------- names of what has no values


def test_lists_of_structs_and_maps_are_asked_for_nulls(tmp_path: Path) -> None:
    """Null lists are told from empty ones, from lists of null structs, and from nulls of their members."""
    structs = pa.list_(pa.struct([("a", pa.int64()), ("in", pa.struct([("b", pa.string())]))]))
    lists = [[{"a": 1, "in": {"b": "x"}}], None, [], [None], [{"a": None, "in": None}], None, [{"a": 2}] * 30]
    maps = [[("k", 1)], [], None, [("k", None)], None, [("a", 1)] * 9, [("z", 0)]]
    around = [None if number == 3 else {"l": value} for number, value in enumerate(lists)]
    columns = {
        "l": pa.array(lists * 9, structs),
        "m": pa.array(maps * 9, pa.map_(pa.string(), pa.int64())),
        "s": pa.array(around * 9, pa.struct([("l", structs)])),
        "row": pa.array(range(63)),
    }
    for number, how in enumerate(({}, {"data_page_version": "2.0", "write_page_index": True})):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=20, data_page_size=64, **how)
    held = {"l": lists, "m": maps, "s.l": [value and value["l"] for value in around]}
    for name, values in held.items():
        expected = [row for row in range(63) if values[row % 7] is None]
        for how in ({}, {"rows": [row % 5 != 0 for row in range(63)]}):
            for asked, rows in (
                (fr.col(name).is_null(), expected),
                (fr.col(name).is_valid(), [row for row in range(63) if row not in expected]),
            ):
                for path in tmp_path.iterdir():
                    found = kept_rows(path, columns="row", filter=asked, **how)
                    assert found == [row for row in rows if not how or row % 5 != 0], (name, asked)
    for name in ("l.in", "s.l.in"):
        with pytest.raises(fr.DataError, match=f"no column matches '{name}'"):
            kept_rows(path, columns="row", filter=fr.col(name).is_null())


def test_what_is_no_column_is_refused_and_what_it_is_is_said(tmp_path: Path) -> None:
    columns = {"x": [1, None], "l": [[1], [2]], "row": [0, 1], "s": [{"a": 1, "b": 2}] * 2, "y_valid": [1, 2]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    how: dict[str, Any] = {"columns": "row", "filter": fr.col("y_valid") == 2}
    assert kept_rows(tmp_path, **how) == [1]
    for name, message in (
        ("x_valid", r"'x_valid' is no column, but the mask of 'x' in batches: is_null\(\) asks where"),
        ("l_length", "'l_length' is no column, but the lengths of 'l' in batches: a filter asks of what"),
        ("z_valid", "no column matches 'z_valid'"),
    ):
        for asked in (fr.col(name) == 1, fr.col(name).is_null()):
            with pytest.raises(fr.DataError, match=message):
                kept_rows(tmp_path, columns="row", filter=asked)
    with pytest.raises(
        ValueError, match=r"column 's' has no value of its own: its members are s\.a, s\.b, and"
    ):
        kept_rows(tmp_path, columns="row", filter=fr.col("s") == 1)


def drifting(directory: Path) -> Path:
    """Two files, of which the second lacks a number, a text and a list."""
    directory.mkdir()
    table = {
        "row": range(6),
        "x": [1, None, 3, 4, -1, 6],
        "s": [*"abcde", None],
        "l": [[1], None, [], [2], [3], [4]],
    }
    pq.write_table(pa.table(table), directory / "0.parquet", row_group_size=3)
    pq.write_table(pa.table({"row": range(6, 12)}), directory / "1.parquet", row_group_size=3)
    return directory


def test_rows_of_files_that_lack_a_column_are_null(tmp_path: Path) -> None:
    """Also where a fill value is delivered for these: a filter asks what the files hold, as of any null."""
    parts = drifting(tmp_path / "parts")
    lacked, s, tags = list(range(6, 12)), fr.col("s"), fr.col("l")
    lacking = fr.col("x", "s", "l").optional()
    for columns in (["row", lacking.mask_null()], ["*", lacking.fill_null(-1)]):
        arguments: dict[str, Any] = {"columns": columns}
        assert kept_rows(parts, filter=x == -1, **arguments) == [4]
        assert kept_rows(parts, filter=x != -1, **arguments) == [0, 2, 3, 5]
        assert kept_rows(parts, filter=~(x > 3), **arguments) == [0, 2, 4]
        assert kept_rows(parts, filter=x.is_null(), **arguments) == [1, *lacked]
        assert kept_rows(parts, filter=tags.is_null(), **arguments) == [1, *lacked]
        assert kept_rows(parts, filter=tags.is_valid() & x.is_valid(), **arguments) == [0, 2, 3, 4, 5]
        assert kept_rows(parts, filter=s.is_null() | (s == "b"), **arguments) == [1, 5, *lacked]
        field = pc.field
        assert kept_rows(parts, filter=field("x") == -1, **arguments) == [4]
        assert kept_rows(parts, filter=field("x").is_null() | (field("row") == 3), **arguments) == [
            1,
            3,
            *lacked,
        ]
        assert kept_rows(parts, filter=field("s").is_null() & (field("row") > 8), **arguments) == [9, 10, 11]
    damage_chunks(parts / "1.parquet", "row", set())
    assert kept_rows(parts, filter=x == 4, columns=["row", fr.col("x").optional().fill_null(0)]) == [3]


def test_a_lacked_column_is_refused_where_it_is_not_optional(tmp_path: Path) -> None:
    parts = drifting(tmp_path / "parts")
    for filter_ in (x == 4, x.is_null(), fr.col("l").is_valid()):
        with pytest.raises(fr.DataError, match=r"the column is missing; file .*0\.parquet' has it"):
            kept_rows(parts, columns=["row", fr.col("s").optional().mask_null()], filter=filter_)
    with pytest.raises(fr.DataError, match="no column matches 'nowhere'"):
        kept_rows(parts, columns="row", filter=fr.col("nowhere").is_null())


# -------------------------------------------------------------------------------------- nulls of any column

LISTS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers with nulls": (pa.list_(pa.int64()), [[1, None], None, [], [None], None, [2, 3]]),
    "text": (pa.list_(pa.string()), [["a", None], None, [], [None], ["bc"] * 50, None]),
    "lists": (pa.list_(pa.list_(pa.int8())), [[[1], None], None, [], [None], [[]], None]),
    "structs": (
        pa.list_(pa.struct({"a": pa.int8()})),
        [[{"a": 1}, None], None, [], [None], [{"a": None}], None],
    ),
    "a struct": (
        pa.struct({"a": pa.int8(), "b": pa.string()}),
        [{"a": 1}, None, {"b": "x"}, {"a": None}, None, {}],
    ),
    "a struct of lists": (
        pa.struct({"a": pa.list_(pa.int8())}),
        [{"a": [1, None]}, None, {"a": None}, {"a": []}, None, {}],
    ),
    "decimals": (pa.decimal128(38, 2), [1, None, 2, None, 3, 4]),
    "nulls": (pa.null(), [None] * 6),
    "halves": (pa.float16(), [1, None, 2, None, 3, 4]),
    "uuids": (pa.binary(16), [b"x" * 16, None, b"y" * 16, None, b"z" * 16, b"x" * 16]),
}


@each_of("version", ["1.0", "2.0"])
@each_of("kind", LISTS)
def test_any_column_may_be_asked_for_nulls(tmp_path: Path, kind: str, version: str) -> None:
    """Lists, whatever is in them, structs, and columns that can't be delivered at all."""
    type_, some = LISTS[kind]
    values = [some[row * row % 6] for row in range(300)]
    path = tmp_path / "x.parquet"
    table = pa.table({"c": pa.array(values, type_), "row": range(300)})
    name = fr.col("c.a" if kind == "structs" else "c")
    expected = [row for row, value in enumerate(values) if value is None]
    for how in ({"write_page_index": True, "max_rows_per_page": 7}, {"data_page_size": 50}):
        options = {"write_batch_size": 1, "row_group_size": 200, "data_page_version": version, **how}
        pq.write_table(table, path, **options)
        assert kept_rows(path, columns="row", filter=name.is_null()) == expected
        assert kept_rows(path, columns="row", filter=name.is_valid()) == sorted({*range(300)} - {*expected})
        some_rows = [[0, 50], [130, 131], [199, 230], [299, 300]]
        chosen = [row for first, end in some_rows for row in range(first, end)]
        found = kept_rows(path, columns="row", filter=name.is_null(), rows=some_rows)
        assert found == [row for row in chosen if row in expected]


def test_values_are_not_decoded_where_nulls_alone_are_asked_for(tmp_path: Path) -> None:
    """What comes behind the levels is damaged, and so is the dictionary."""
    path = tmp_path / "x.parquet"
    lists = [[row, row + 1] if row % 3 else None for row in range(50)]
    numbers = [row * 1000 if row % 4 else None for row in range(50)]
    table = pa.table({"l": lists, "n": numbers, "row": range(50)})
    how = {"compression": "none", "write_statistics": False}
    pq.write_table(table, path, **how)
    data = bytearray(path.read_bytes())
    chunks = pq.read_metadata(path).row_group(0)
    for place in range(2):
        chunk = chunks.column(place)
        # The dictionary's values stand before the first data page, and the numbers of values end the last.
        data[chunk.data_page_offset - 8 : chunk.data_page_offset] = b"\xff" * 8
        end = (chunk.dictionary_page_offset or 0) + chunk.total_compressed_size
        data[end - 8 : end] = b"\xff" * 8
    path.write_bytes(data)
    assert kept_rows(path, columns="row", filter=fr.col("l").is_null()) == list(range(0, 50, 3))
    assert kept_rows(path, columns="row", filter=fr.col("n").is_null()) == list(range(0, 50, 4))
    with pytest.raises(fr.DataError):
        kept_rows(path, columns="row", filter=(fr.col("n") >= 0) & fr.col("n").is_null())


def test_a_filter_over_partitions_is_what_pyarrow_makes_of_it(parts: Path) -> None:
    """The same rows as a dataset of pyarrow over the same directories."""
    found = kept_rows(parts, columns=["row", fr.col("day").from_path()], filter=(day > 1) & (x > 13))
    dataset = pad.dataset(parts, format="parquet", partitioning="hive")
    table = dataset.to_table(filter=(pc.field("day") > 1) & (pc.field("x") > 13))
    assert found == sorted(table["row"].to_pylist())


def test_a_filter_s_cache_knows_what_is_optional(tmp_path: Path) -> None:
    """The same filter over the same files, but of other columns in paths."""
    parts = drifting(tmp_path / "parts")
    cache = tmp_path / "kept"
    how: dict[str, Any] = {"columns": "row", "cache": fr.Cache(manifest=cache)}
    lacking = fr.col("x").optional()
    assert kept_rows(parts, filter=lacking.is_null(), **how) == [1, *range(6, 12)]
    [file] = cache.parent.glob("kept.filter-*")
    written = file.read_bytes()
    dataset = fr.ParquetDataset(parts, batch_size=1, filter=lacking.is_null(), **how, **parallel())
    assert dataset.num_rows == 7
    assert file.read_bytes() == written
    with pytest.raises(fr.DataError, match="the column is missing"):
        kept_rows(parts, filter=x.is_null(), **how)


# -------------------------------------------------------------------------------------------- what people see


def test_a_long_scan_says_on_a_terminal_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"x": [row % 7 for row in range(300)]}), tmp_path / "x.parquet")
    monkeypatch.setattr("fastresume.filter.scan.SCANNED_ROWS", 100)
    for is_terminal, quiet, said in ((False, -9.0, []), (True, 99.0, []), (True, -9.0, [100, 200, 300])):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr("fastresume.filter.scan.QUIET_SECONDS", quiet)
        monkeypatch.setattr("fastresume.filter.scan.AGAIN_SECONDS", 0.0)
        fr.ParquetDataset(tmp_path, batch_size=1, filter=fr.col("x") == 3)
        lines = [f"\rfilter: {rows} of 300 rows read ({rows / 300:.0%})" for rows in said]
        assert capsys.readouterr().err == "".join(lines) + "\n" * bool(said)
