"""`.raw()`: values of one length as the bytes that the file holds, alone and in lists."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr

ANY_FLOAT16 = st.integers(0, 2**16 - 1).map(lambda bits: np.array([bits], np.uint16).view(np.float16)[0])
ANY_DECIMAL = st.integers(-(10**30) + 1, 10**30 - 1).map(lambda number: decimal.Decimal(number).scaleb(-3))

KINDS: dict[str, tuple[pa.DataType, int, st.SearchStrategy[Any]]] = {
    "bytes": (pa.binary(5), 5, st.binary(min_size=5, max_size=5)),
    "uuid": (pa.uuid(), 16, st.uuids().map(lambda one: one.bytes)),
    "float16": (pa.float16(), 2, ANY_FLOAT16),
    "decimal": (pa.decimal128(33, 3), 14, ANY_DECIMAL),
}


def bytes_of(value: Any, width: int) -> list[int]:
    """The bytes that a file holds of a value."""
    if isinstance(value, decimal.Decimal):
        return list(int(value.scaleb(3)).to_bytes(width, "big", signed=True))
    return list(value if isinstance(value, bytes) else value.tobytes())


def write(path: Path, kind: pa.DataType, rows: list[Any], **how: Any) -> None:
    """Write the rows as a column `x`, beside their numbers."""
    storage = kind
    while isinstance(storage, pa.ListType):
        storage = storage.value_type
    if isinstance(storage, pa.UuidType):
        # pyarrow makes no extension arrays of bytes: of their storage, it does.
        plain = pa.list_(pa.binary(16)) if isinstance(kind, pa.ListType) else pa.binary(16)
        array = (
            pa.array(rows, plain).cast(kind)
            if kind != storage
            else pa.ExtensionArray.from_storage(kind, pa.array(rows, plain))
        )
    else:
        array = pa.array(rows, kind)
    pq.write_table(pa.table({"row": np.arange(len(rows)), "x": array}), path, **how)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_they_are_the_bytes_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    kind, width, values = KINDS[name]
    of_lists = data.draw(st.booleans()) and name != "uuid"
    cells: st.SearchStrategy[Any] = st.none() | values
    if of_lists:
        kind, cells = pa.list_(kind), st.none() | st.lists(cells, max_size=4)
    rows = data.draw(st.lists(cells, min_size=1, max_size=30))
    path = tmp_path_factory.mktemp("raw") / "x.parquet"
    how = {
        "data_page_version": data.draw(st.sampled_from(["1.0", "2.0"])),
        "row_group_size": data.draw(st.integers(1, 30)),
        "use_dictionary": data.draw(st.booleans()),
    }
    write(path, kind, rows, **how)
    columns = ["row", fr.col("x").raw().mask_null()]
    order: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"shuffle": True, "block_rows": 3, "window_rows": 9}])
    )
    dataset = fr.ParquetDataset(path, batch_size=4, tail="short", columns=columns, world=(0, 1), **order)
    field = dataset.schema["x"]
    assert (field.dtype, field.shape) == (torch.uint8, ("B", "*", width) if of_lists else ("B", width))
    seen = 0
    for batch in dataset:
        for place, row in enumerate(batch["row"].tolist()):
            if of_lists:
                own = rows[row]
                told = None if own is None else [None if one is None else bytes_of(one, width) for one in own]
                assert batch["x"].to_list()[place] == told
            else:
                assert batch["x_valid"][place] == (rows[row] is not None)
                told = [0] * width if rows[row] is None else bytes_of(rows[row], width)
                assert batch["x"][place].tolist() == told
            seen += 1
    assert seen == len(rows)


def test_vectors_of_bfloat16_are_a_view(tmp_path: Path) -> None:
    vectors = torch.randn(9, 6).to(torch.bfloat16)
    write(tmp_path / "x.parquet", pa.binary(12), [bytes(row.view(torch.uint8).tolist()) for row in vectors])
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=9, columns=fr.col("x").raw())
    assert batch["x"].view(torch.bfloat16).equal(vectors)


def test_they_have_buckets(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", pa.decimal128(33, 3), [decimal.Decimal("1.5"), decimal.Decimal(-2)])
    columns = [fr.col("x").raw().hash(99).alias("raw"), fr.col("x").decimal("bytes").hash(99).alias("bytes")]
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
    assert batch["raw"].equal(batch["bytes"])


def test_what_has_no_such_bytes_is_refused_with_its_type(tmp_path: Path) -> None:
    table = pa.table(
        {"i": [1], "t": ["a"], "l": [[1.5]], "d": pa.array([decimal.Decimal(1)], pa.decimal128(5))}
    )
    pq.write_table(table, tmp_path / "x.parquet", store_decimal_as_integer=True)
    for name, told in [("i", "int64"), ("t", "string"), ("l", "list<float64>"), ("d", r"decimal\(5, 0\)")]:
        with pytest.raises(fr.DataError, match=rf"\.raw\(\) takes no column of type {told}: it takes values"):
            fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col(name).raw())


def test_an_order_without_a_meaning_is_refused_at_the_call() -> None:
    x = fr.col("x")
    assert repr(x.raw().mask_null()) == "fr.col('x').raw().mask_null()"
    for wrong in (
        lambda: x.raw().cast(torch.int32),
        lambda: x.raw().raw(),
        lambda: x.decimal("int64").raw(),
        lambda: x.raw().decimal("int64"),
        lambda: x.cast(torch.int32).raw(),
        lambda: x.raw().codes(),
        lambda: x.hash(9).raw(),
        lambda: x.raw().fixed(3),
    ):
        with pytest.raises(TypeError, match=r"^fr\.col\('x'\)"):
            wrong()
