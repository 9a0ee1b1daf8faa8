"""Lists that all have one length, as the Arrow schema in a file or `fixed=` says: `[B, k]`, `[B, k1, k2]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import testing
from support.asked import asked
from support.cells import tensor_of
from support.each_of import each_of
from support.topologies import Shuffle

ROWS = 20
ORDERS: list[dict[str, Any]] = [{}, Shuffle(3, 4, 8).arguments]
WAYS: list[dict[str, Any]] = [
    {},
    {"data_page_size": 64, "data_page_version": "2.0", "write_page_index": True},
    {"data_page_size": 64, "use_dictionary": False, "write_batch_size": 3},
]


def nested(values: Any, sizes: Sequence[int], mask: Sequence[bool] | None = None) -> pa.Array:
    """Values as lists of lists of so many, the outermost first; rows are null where the mask says so."""
    array = pa.array(values)
    for level, size in reversed(list(enumerate(sizes))):
        given = {} if level or mask is None else {"mask": pa.array(mask)}
        array = pa.FixedSizeListArray.from_arrays(array, size, **given)
    return array


def write(path: Path, columns: dict[str, Any], **how: Any) -> None:
    """A file of these columns, in row groups of seven."""
    pq.write_table(pa.table(columns), path, row_group_size=7, **how)


def whole(path: Path, nulls: Any = "error", **arguments: Any) -> fr.Batch:
    """All rows as one batch, in the order of the files."""
    arguments = arguments if "columns" in arguments else {**asked(nulls), **arguments}
    default = {"nulls": nulls} if "columns" in arguments and nulls in ("error", "mask") else {}
    (batch,) = fr.ParquetDataset(path, batch_size=10**6, tail="short", **{**default, **arguments})
    assert isinstance(batch, fr.Batch)
    order = np.argsort(batch.rows())
    assert order.tolist() == list(range(batch.num_rows)) or arguments.get("shuffle")
    return batch


# -------------------------------------------------------------------------------- what the files say of lists


def test_shapes_are_known_and_printed_before_the_first_batch(path: Path) -> None:
    write(path, {"x": nested(range(12), (3, 2)), "y": nested(range(4), (2,))})
    schema = fr.ParquetDataset(path, batch_size=1).schema
    assert repr(schema).splitlines() == ["x: int64 [B, 3, 2]", "y: int64 [B, 2]"]
    assert (schema["x"].size, schema["x"].sizes, schema["y"].size, schema["y"].sizes) == (6, (3, 2), 2, ())


def test_lists_are_found_in_structs_lists_and_maps(path: Path) -> None:
    even = nested(range(ROWS * 2), (2,))
    structs = pa.StructArray.from_arrays([even, pa.array(range(ROWS))], ["a", "b"])
    of_structs = pa.FixedSizeListArray.from_arrays(
        pa.StructArray.from_arrays([pa.array(range(ROWS * 2))], ["c"]), 2
    )
    keys = pa.array(np.arange(ROWS, dtype=np.int32))
    maps = pa.MapArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), keys, pa.array(range(ROWS)))
    write(path, {"s": structs, "l": of_structs, "m": maps})
    batch = whole(path, 0)
    expected = torch.arange(ROWS * 2).view(-1, 2)
    assert tensor_of(batch, "s.a").equal(expected)
    assert tensor_of(batch, "l.c").equal(expected)
    assert isinstance(batch["m.key"], fr.Jagged)


def test_lists_of_which_not_all_files_say_one_length_are_jagged(tmp_path: Path) -> None:
    rows = [[1, 2], [3, 4]]
    even = pa.array(rows, pa.list_(pa.int64(), 2))
    for name, array in (("a", even), ("b", pa.array(rows))):
        write(tmp_path / f"{name}.parquet", {"x": array})
    batch = whole(tmp_path)
    assert isinstance(batch["x"], fr.Jagged)
    assert batch["x"].to_list() == rows * 2
    assert tensor_of(whole(tmp_path, columns=["*", fr.col("x").fixed(2)]), "x").tolist() == rows * 2
    write(tmp_path / "b.parquet", {"x": pa.array([[1, 2, 3]], pa.list_(pa.int64(), 3))})
    assert isinstance(whole(tmp_path)["x"], fr.Jagged)
    write(tmp_path / "b.parquet", {"x": even})
    assert tensor_of(whole(tmp_path), "x").shape == (4, 2)
    write(tmp_path / "b.parquet", {"y": even})
    for lacking in ("x", "y"):
        batch = whole(tmp_path, columns=fr.col("*").optional().fill_null(7))
        assert tensor_of(batch, lacking).shape == (4, 2)


def test_none_makes_lists_of_any_length_of_them(path: Path) -> None:
    rows = [[1, 2], None, [3, 4]]
    write(path, {"x": pa.array(rows, pa.list_(pa.int64(), 2))})
    jagged = whole(path, "mask", columns=["*", fr.col("x").fixed(None)])["x"]
    assert isinstance(jagged, fr.Jagged)
    assert jagged.to_list() == rows
    padded = whole(path, "mask", columns=["*", fr.col("x").fixed(None).pad(3)])
    assert tensor_of(padded, "x").tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 0]]


def test_a_file_without_an_arrow_schema_is_read_as_before(path: Path) -> None:
    write(path, {"x": nested(range(8), (2,))}, store_schema=False)
    assert fr.ParquetDataset(path, batch_size=1).schema["x"].shape == ("B", "*")
    assert tensor_of(whole(path, columns=["*", fr.col("x").fixed(2)]), "x").tolist() == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]


def test_null_elements_are_filled_or_marked(path: Path) -> None:
    for type_, row, filled in (
        (pa.list_(pa.int32(), 2), [1, None], [1, 9]),
        (pa.list_(pa.list_(pa.int32(), 2), 1), [[None, 1]], [[9, 1]]),
    ):
        write(path, {"x": pa.array([row, None], type_)})
        batch = whole(path, 9)
        assert tensor_of(batch, "x")[0].tolist() == filled
        assert tensor_of(batch, "x")[1].flatten().tolist() == [9, 9]
        # A list that is null is left out, so that footers do not tell whether elements are null.
        with pytest.raises(fr.DataError, match="an element of the list in row 0 of the row group is null"):
            whole(path, "error", filter=fr.col("x").is_valid())
        batch = whole(path, "mask")
        assert list(batch) == ["x", "x_valid", "x_values_valid"]
        marks = tensor_of(batch, "x_values_valid")
        assert marks.shape == tensor_of(batch, "x").shape
        assert marks[0].flatten().tolist() == [one == 1 for one in np.array(row).flatten()]
        assert not marks[1].any()
        assert not tensor_of(batch, "x")[~marks].any()
        assert batch.to_arrow().column("x").to_pylist() == [row, None]


def test_a_pass_over_them_resumes(path: Path) -> None:
    write(path, {"x": nested(range(ROWS * 6), (3, 2)), "y": nested(range(ROWS * 2), (2,))})
    for order in ORDERS:
        testing.assert_exact_resume(lambda order=order: fr.ParquetDataset(path, batch_size=3, **order))  # type: ignore[misc]
    dataset = fr.ParquetDataset(path, batch_size=3)
    assert tensor_of(dataset.read_rows([7, 0, 19]), "x")[:, 2, 1].tolist() == [47, 5, 119]


# --------------------------------------------------------------------------------- what does not fit a tensor


@each_of("how", WAYS)
@each_of(
    "row",
    [
        [[1, 2], [3]],
        [[1], [2, 3]],
        [[1, 2, 3], [4]],
        [[1, 2, 3, 4]],
        [[1], [2], [3], [4]],
        [[1, 2], [3, 4], [5, 6]],
        [[1, 2]],
        [[1, 2], None],
        [None, [1, 2]],
        [[1, 2], []],
        [[], [1, 2], [3, 4]],
        [[], []],
        [None],
        [],
    ],
)
def test_a_row_of_lists_of_other_lengths_is_named(path: Path, row: Any, how: dict[str, Any]) -> None:
    rows = [row if number == 12 else [[1, 2], [3, 4]] for number in range(ROWS)]
    write(path, {"x": pa.array(rows), "row": range(ROWS)}, **how)
    for order in ORDERS:
        with pytest.raises(fr.DataError, match=r"row 5 of the row group .*column 'x', row group 1") as caught:
            whole(path, columns=["*", fr.col("x").fixed((2, 2))], **order)
        assert str(path) in str(caught.value)
    batch = whole(path, filter=fr.col("row") != 12, columns=["*", fr.col("x").fixed((2, 2))])
    assert tensor_of(batch, "x").tolist() == [[[1, 2], [3, 4]]] * (ROWS - 1)


@each_of(
    ("fixed", "error", "message"),
    [
        ((2, 2), ValueError, r"lengths of 2 levels .* list<int64>: .fixed\(k\) gives all"),
        ((), ValueError, "takes a length"),
        ((2, 0), ValueError, "at least 1"),
        (2.5, TypeError, "must be an integer"),
        ((2**52,), ValueError, "no memory"),
    ],
)
def test_what_can_not_be_the_length_of_lists_is_refused(
    path: Path, fixed: Any, error: type[Exception], message: str
) -> None:
    write(path, {"x": [[1, 2]] * 3})
    with pytest.raises(error, match=message):
        whole(path, columns=["*", fr.col("x").fixed(fixed)])


def test_lists_too_long_to_be_believed_are_jagged(path: Path) -> None:
    write(path, {"x": pa.array([None] * 3, pa.list_(pa.list_(pa.int8(), 2**12), 2**13))})
    (batch,) = fr.ParquetDataset(path, batch_size=3, nulls="mask")
    assert batch["x"].to_list() == [None] * 3
    assert isinstance(batch["x"].values, fr.Jagged)
    write(path, {"x": pa.array([None] * 3, pa.list_(pa.int8(), 2**25))})
    assert fr.ParquetDataset(path, batch_size=1, columns=fr.col("*").fill_null(0)).schema["x"].shape == (
        "B",
        "*",
    )


@each_of("order", ORDERS)
@each_of("codec", ["uncompressed", "zstd"])
def test_arrays_of_polars_are_tensors(path: Path, codec: Any, order: dict[str, Any]) -> None:
    """Of numbers, of arrays, with nulls among the rows and in them; lists of polars stay jagged."""
    vectors = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)
    grids = np.arange(ROWS * 6, dtype=np.int16).reshape(ROWS, 3, 2)
    with_nulls = [None if row % 7 == 3 else [row, None if row % 5 == 1 else -row] for row in range(ROWS)]
    frame = pl.DataFrame(
        {
            "vector": pl.Series(vectors, dtype=pl.Array(pl.Float32, 4)),
            "grid": pl.Series(grids, dtype=pl.Array(pl.Int16, (3, 2))),
            "nulls": pl.Series(with_nulls, dtype=pl.Array(pl.Int64, 2)),
            "list": pl.Series([[row] * 2 for row in range(ROWS)]),
            "row": range(ROWS),
        }
    )
    frame.write_parquet(path, compression=codec, row_group_size=7)
    how = {"batch_size": 6, "tail": "short", "columns": ["*", fr.col("nulls").fill_null(-1)], **order}
    dataset = fr.ParquetDataset(path, **how)
    shapes = {name: field.shape for name, field in dataset.schema.items()}
    assert shapes == {
        "vector": ("B", 4),
        "grid": ("B", 3, 2),
        "nulls": ("B", 2),
        "list": ("B", "*"),
        "row": ("B",),
    }
    for batch in dataset:
        rows = batch.rows()
        assert np.array_equal(tensor_of(batch, "vector").numpy(), vectors[rows])
        assert np.array_equal(tensor_of(batch, "grid").numpy(), grids[rows])
        filled = [with_nulls[at] or [None, None] for at in rows]
        expected = [[-1 if number is None else number for number in row] for row in filled]
        assert tensor_of(batch, "nulls").tolist() == expected
        assert batch["list"].to_list() == [[at, at] for at in rows]
    testing.assert_exact_resume(lambda: fr.ParquetDataset(path, **how))


# ------------------------------------------------------------------------ lists of lists that have one length


def test_a_matrix_of_bytes_is_padded_list_by_list(path: Path) -> None:
    write(path, {"x": pa.array([[b"ab", b"cd"], [], [b"ef"]], pa.list_(pa.binary(2)))})
    batch = whole(path, columns=fr.col("x").pad(2))
    assert batch["x"].tolist() == [[[97, 98], [99, 100]], [[0, 0], [0, 0]], [[101, 102], [0, 0]]]
    assert batch["x_length"].tolist() == [2, 0, 1]


def test_an_inner_list_of_another_length_is_an_error(path: Path) -> None:
    for rows in ([[[1, 2]], [[3, 4], [5]]], [[[1, 2], None]], [[[1, 2], []]]):
        write(path, {"x": pa.array(rows, pa.list_(pa.list_(pa.int32())))})
        with pytest.raises(
            fr.DataError, match=r"lists in row \d of the row group are null, or have not the len"
        ):
            whole(path, columns=fr.col("x").fixed((None, 2)).mask_null())
    write(path, {"x": pa.array([[[1, 2]], [[3, 4], [5, 6], [7, 8]]], pa.list_(pa.list_(pa.int32())))})
    with pytest.raises(fr.DataError, match="row 1 of the row group has 3 elements, pad has room for 2"):
        whole(path, columns=fr.col("x").fixed((None, 2)).pad(2))
    with pytest.raises(fr.DataError, match=r"\.fixed\(\(None, k\)\) before it"):
        whole(path, columns=fr.col("x").pad(2))
    with pytest.raises(ValueError, match="lengths of 3 levels of lists are given"):
        whole(path, columns=fr.col("x").fixed((None, None, 2)))


def test_none_stands_before_lengths_alone() -> None:
    for wrong in ((None,), (2, None), (None, 2, None), ()):
        with pytest.raises(ValueError, match="takes a length, or a tuple of them after None"):
            fr.col("x").fixed(wrong)
    made = fr.col("x").fixed((None, 4096)).pad(8)
    assert repr(made) == "fr.col('x').fixed((None, 4096)).pad(8)"
    assert repr(fr.col("x").pad(8).fixed((None, 2))) == "fr.col('x').fixed((None, 2)).pad(8)"
    with pytest.raises(TypeError, match="all rows have one length already"):
        fr.col("x").fixed((2, 2)).pad(8)
