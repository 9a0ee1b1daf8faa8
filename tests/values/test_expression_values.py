"""What an expression makes of a column is what plain Python makes of pyarrow's values, cell by cell."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.delivered import expression, found
from support.oracle import expressions as oracle
from support.oracle.expressions import Said

LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-2, 100)),
    "int64": (pa.int64(), st.sampled_from((0, 1, -1, 7, 2**24, 2**53 + 1, -(2**63)))),
    "uint64": (pa.uint64(), st.sampled_from((0, 1, 200, 2**64 - 1))),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.sampled_from((0.0, -0.0, 1.0, 2.5, 0.1, float("inf"), float("nan"), 1e39))),
    "time": (pa.timestamp("us"), st.integers(-5, 10**15)),
    "decimal": (pa.decimal128(9, 2), st.integers(-999, 99999).map(lambda cents: Decimal(cents).scaleb(-2))),
    "text": (pa.binary(), st.sampled_from((b"", b"a", b"b", b"a,b", b",", "é".encode(), b"long" * 9))),
    "bytes4": (pa.binary(4), st.binary(min_size=4, max_size=4)),
}
INTEGERS = ("int8", "int64", "uint64", "time", "decimal")


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, int, int | None, list[Any]]:
    """Draw a column: what its values are, how many levels of lists, their length if it is one, its rows."""
    leaf = draw(st.sampled_from(sorted(LEAVES)))
    depth = draw(st.integers(0, {"text": 1, "bytes4": 1}.get(leaf, 2)))
    even = draw(st.sampled_from((None, 1, 2))) if depth else None
    nulls = draw(st.sampled_from(((), (), (0,), tuple(range(depth + 1)))))
    values = LEAVES[leaf][1]
    for level in range(depth, -1, -1):
        if level < depth:
            values = st.lists(values, min_size=even or 0, max_size=3 if even is None else even)
        if level in nulls:
            values = st.none() | values
    return leaf, depth, even, draw(st.lists(values, min_size=1, max_size=6))


@st.composite
def said_of(draw: st.DrawFn, leaf: str, depth: int, even: int | None) -> Said:
    """Draw what has a meaning for such a column: in any order in which it has."""
    said: Said = {}
    maybe = st.booleans()
    if leaf == "text":
        if depth == 0 and draw(maybe):
            said["split"], depth = (b",",), 1
        named = ([b"a", b"b", "é".encode(), b""],)
        value = {"hash": (1000, 7), "codes": draw(st.sampled_from(((), named, (*named, 9))))}
        if (chosen := draw(st.sampled_from(("hash", "codes", None)))) is not None:
            said[chosen] = value[chosen]
    elif leaf == "bytes4":
        said["raw"] = ()
    else:
        choices = [None, "cast", *["hash"] * (leaf in INTEGERS), *["decimal"] * (leaf == "decimal")]
        dtypes = (torch.float32, torch.int64, torch.bfloat16, torch.int16, torch.float64, torch.bool)
        value = {
            "cast": (draw(st.sampled_from(dtypes)),),
            "hash": draw(st.sampled_from(((3,), (2**63, 7)))),
            "decimal": (draw(st.sampled_from(("int64", "float64"))),),
        }
        if (chosen := draw(st.sampled_from(choices))) is not None:
            said[chosen] = value[chosen]
    is_text = leaf == "text" and not said.keys() & {"hash", "codes"}
    is_bool = oracle.dtype_of(leaf, said) == "bool"
    behind: Said = {}
    rule = draw(st.sampled_from(("mask_null", "fill_null", None)))
    if rule is not None:
        behind[rule] = () if rule == "mask_null" else ("" if is_text else is_bool or 1,)
    if draw(maybe):
        behind["alias"] = ("y",)
    levels = depth + is_text
    if even is not None and leaf not in ("text", "bytes4") and draw(maybe):
        inner = depth == 2 and draw(maybe)
        behind["fixed"] = ((None, even) if inner else (even,) * depth,)
        levels = 1 if inner else 0
    if levels == 1 and draw(maybe):
        side, keep = draw(st.sampled_from(("right", "left"))), draw(st.sampled_from((None, "head", "tail")))
        behind["pad"] = (draw(st.integers(1, 4)), False if is_bool else 1, keep, side)
    return {**said, **{method: behind[method] for method in draw(st.permutations(sorted(behind)))}}


def written(directory: str, rows: list[Any], type_: pa.DataType, depth: int) -> str:
    """A file of one column "x", in row groups of two rows."""
    for _ in range(depth):
        type_ = pa.list_(type_)
    path = f"{directory}/0.parquet"
    pq.write_table(pa.table({"x": pa.array(rows, type_)}), path, row_group_size=2)
    return path


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
@given(st.data())
def test_an_expression_makes_what_plain_python_makes_of_the_values(data: st.DataObject) -> None:
    leaf, depth, even, rows = data.draw(columns())
    said = data.draw(said_of(leaf, depth, even))
    column = expression("x", said)
    is_optional = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as directory:
        path = written(directory, rows, LEAVES[leaf][0], depth)
        rows = pq.read_table(path).column("x").to_pylist()
        if is_optional:
            pq.write_table(pa.table({"other": [1, 2]}), Path(directory) / "1.parquet")
            rows, column = [*rows, None, None], column.optional()
        try:
            expected = oracle.made(rows, leaf, depth, said)
        except oracle.RefusedError:
            with pytest.raises((fr.DataError, ValueError)) as caught:
                whole(directory, column)
            assert "'x'" in str(caught.value)
            return
        batch = whole(directory, column)
        name = column.tensor_name or "x"
        tensor = batch[name]
        assert str(tensor.dtype) == f"torch.{oracle.dtype_of(leaf, said)}"
        assert found(batch, name) == expected


def whole(directory: str, column: fr.Column | fr.Stack) -> fr.Batch:
    """All rows of the files, as one batch."""
    return next(iter(fr.ParquetDataset(directory, batch_size=100, columns=column, tail="short")))
