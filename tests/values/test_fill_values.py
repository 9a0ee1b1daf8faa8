"""Values that stand for nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.asked import asked
from support.cells import assert_holds, read_cells
from support.columns import Kind
from support.each_of import each_of
from support.jobs import make
from support.strategies import FLOATS, INTEGERS, TYPES, Dataset, DatasetSpec, plain_spec

Write = Callable[[DatasetSpec], Dataset]

FITTING: list[tuple[str, Any]] = [
    *[(type_, value) for type_ in (*INTEGERS, *FLOATS, "bool") for value in (0, 1)],
    *[(type_, value) for type_ in INTEGERS for value in (np.iinfo(type_).min, np.iinfo(type_).max)],
    *[(type_, value) for type_ in FLOATS for value in (math.nan, math.inf, -math.inf, -0.0, 0.5, -1)],
    ("bool", True),
    ("bool", False),
    ("date32", -1),
    ("timestamp[us]", 2**62),
    *[(type_, value) for type_ in ("string", "binary") for value in (0, -1, 0.5, math.nan)],
]


@each_of(("type_", "fill"), FITTING)
def test_a_fill_value_stands_in_the_place_of_nulls(write_dataset: Write, type_: str, fill: Any) -> None:
    shapes = ["scalar"] if type_ in ("string", "binary") else ["scalar", "list"]
    columns = [Kind(shape, type_, shape, nulls=0.3, element_nulls=0.3) for shape in shapes]
    dataset = write_dataset(plain_spec([30, 11], columns=columns))  # type: ignore[arg-type]
    cells = read_cells(dataset.directory)
    for batch in make(dataset, 10, columns=["*", fr.col(*shapes).fill_null(fill)]):
        assert_holds(batch, cells, {"*": fill, "row": "error"})
        assert batch["scalar"].dtype == make(dataset, 1, nulls="mask").schema["scalar"].dtype


@each_of(
    ("type_", "fill"),
    [
        ("int64", 1.5),
        ("int64", math.nan),
        ("int64", math.inf),
        ("int64", 2**63),
        ("int64", 1e30),
        ("uint64", -1),
        ("uint8", -1),
        ("uint8", 256),
        ("int8", 128),
        ("int8", -129),
        ("int32", 2**31),
        ("uint32", 2**32),
        ("bool", 2),
        ("bool", -1),
        ("bool", 0.5),
        ("float32", 1e300),
        ("float16", 1e5),
        ("timestamp[us]", 0.5),
        ("date32", 2**63),
    ],
)
@each_of("shape", ["scalar", "list", "stack"])
def test_a_fill_value_that_does_not_fit_is_refused_by_name(
    path: Path, type_: str, fill: Any, shape: str
) -> None:
    element = pa.timestamp("us") if type_ == "timestamp[us]" else pa.type_for_alias(type_)
    array = pa.array([None], pa.list_(element) if shape == "list" else element)
    pq.write_table(pa.table({"odd": array}), path)
    for name in ("odd", "o*"):
        column = fr.col(name).fill_null(fill)
        columns = fr.stack(column, name="m") if shape == "stack" else column
        with pytest.raises(ValueError, match=r"fr.col\('o") as caught:
            fr.ParquetDataset(path, batch_size=1, columns=columns)
        dtype = "int64" if type_ in ("timestamp[us]", "date32") else type_
        assert dtype in str(caught.value)
        assert str(fill).replace("e+", "e") in str(caught.value).replace("NaN", "nan"), str(caught.value)
        assert not isinstance(caught.value, fr.FastresumeError), "the argument is wrong, not the data"


def test_a_type_never_changes_with_what_becomes_of_nulls(write_dataset: Write) -> None:
    dataset = write_dataset(plain_spec([5], columns=[Kind(f"c_{type_}", type_) for type_ in TYPES]))  # type: ignore[arg-type]
    found = []
    for nulls in ("error", "mask", 1, {"*": 0}):
        schema = make(dataset, 1, **asked(nulls)).schema
        found.append({name: field.dtype for name, field in schema.items() if field.kind != "mask"})
    assert found[0] == found[1] == found[2] == found[3]
