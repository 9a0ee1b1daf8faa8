"""Values that stand for nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.asked import asked
from support.columns import Kind
from support.each_of import each_of
from support.jobs import make
from support.strategies import TYPES, Dataset, DatasetSpec, plain_spec

Write = Callable[[DatasetSpec], Dataset]


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
