"""Whatever a column holds, and however a file holds it: what is asked for comes, value for value.

A case is a column: its type, the lists around its values, which are null, its encoding, codec and pages, and
what is asked of it. Each pair of these comes in some case; before a release, each three.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.delivered import expression, found
from support.held import (
    ELEMENTS,
    ENCODINGS,
    GROUP_ROWS,
    LEAVES,
    NULLS,
    PAGES,
    ROWS,
    SHAPES,
    Leaf,
    array_of,
    drawn,
    type_of,
)
from support.oracle import expressions as oracle
from support.oracle.expressions import Made, Said
from support.pairs import Case, Rules, every_pair
from support.profile import one_in
from support.shapes import CASTS
from support.strategies import CODECS, FLOATS
from support.topologies import Shuffle

BATCH_SIZE, MOST_COLUMNS = 17, 400
SOME = [ROWS - 1, 0, GROUP_ROWS, 0]
"""Rows that are asked for by their numbers."""

# ---------------------------------------------------------------------------------------------- what is asked

OF_ROUNDING = ("bfloat16", *FLOATS)
AS_BYTES = ("raw", "bytes", "buckets of bytes")
"""What is asked of the bytes that a file holds of numbers."""


def changes_of(leaf: Leaf) -> dict[str, Said]:
    """What may be asked of values, by name: other types, buckets, codes."""
    casts: dict[str, Said] = {to: {"cast": (getattr(torch, to),)} for to in CASTS}
    rounded: dict[str, Said] = {f"rounded {to}": {"cast": (*casts[to]["cast"], True)} for to in OF_ROUNDING}
    hashed: dict[str, Said] = {"few buckets": {"hash": (3,)}, "buckets": {"hash": (2**63, 7)}}
    raw: dict[str, Said] = {"raw": {"raw": ()}}
    whole: Said = {"decimal": ("int64",)}
    changes: dict[str, Said] = {"as they are": {}}
    if leaf.is_text:
        parts = {part for value in leaf.values for part in value.split(b"::")}
        codes: dict[str, Said] = {
            "codes": {"codes": ()},
            "named codes": {"codes": (sorted(parts, reverse=True),)},
            "codes, and one of others": {"codes": ([b"a"], 9)},
        }
        changes |= {**hashed, **codes}
        if b"::" not in leaf.values:
            return changes
        of_parts: dict[str, Said] = {f"parts' {name}": said for name, said in changes.items()}
        return {name: {"split": (b"::",), **said} for name, said in of_parts.items()}
    if leaf.oracle.startswith("bytes"):
        return {**changes, **hashed, **raw}
    if leaf.oracle == "decimal":
        changes |= hashed if leaf.type.precision <= 18 else {}
        changes |= {"unscaled": whole, "unscaled int16": {**whole, **casts["int16"]}}
        changes |= {"unscaled buckets": {**whole, **hashed["buckets"]}}
        changes |= {"floats": {"decimal": ("float64",)}, "float32": casts["float32"]}
        if not leaf.option:
            in_bytes: Said = {"decimal": ("bytes",)}
            changes |= {**raw, "bytes": in_bytes, "buckets of bytes": {**in_bytes, **hashed["buckets"]}}
        if leaf.type.precision > 18:
            del changes["as they are"]
        return changes
    if leaf.oracle in FLOATS:
        changes |= {"buckets of integers": {**casts["int64"], "hash": (1000, 3)}}
        return {**changes, **casts, **(raw if leaf.oracle == "float16" else {})}
    return {**changes, **casts, **({**hashed, **rounded} if leaf.oracle != "bool" else {})}


FORMS: dict[str, Said] = {
    "as it is": {},
    "renamed": {"alias": ("y",)},
    "padded": {"pad": (4, 1, None, "right")},
    "head before padding": {"pad": (2, 1, "head", "right")},
    "tail behind padding": {"pad": (5, 1, "tail", "left")},
    "fixed": {"fixed": ()},
    "inner ones fixed": {"fixed": (None,)},
    "inner ones fixed, padded": {"fixed": (None,), "pad": (3, 1, "head", "left")},
    "of any length": {"fixed": (None,)},
}
RULES = ("error", "mask", "zero", "one", "least", "most")


@functools.cache
def values_of(leaf: str, change: str) -> list[Any]:
    """Those values of a type of which that can be made."""
    of, said = LEAVES[leaf], changes_of(LEAVES[leaf]).get(change)
    return [] if said is None else [value for value in of.values if is_made(of, said, value)]


def is_made(leaf: Leaf, said: Said, value: Any) -> bool:
    """Whether a value can become what is asked for."""
    if isinstance(value, float) and math.isnan(value) and "cast" in said and math.copysign(1, value) < 0:
        return False  # a cast may give any NaN for it
    try:
        return "bytes" in said.get("decimal", ()) or bool(oracle.made([value], leaf.oracle, 0, said))
    except oracle.RefusedError:
        return False


def levels_of(shape: str, change: str, leaf: str) -> int:
    """How many dimensions have lengths of their own."""
    is_text = LEAVES[leaf].is_text and change.endswith("as they are")
    return SHAPES[shape].depth + is_text + change.startswith("parts")


def is_formed(shape: str, change: str, leaf: str, form: str) -> bool:
    """Whether a form has a meaning."""
    lists, of = SHAPES[shape], LEAVES[leaf]
    if form in ("as it is", "renamed"):
        return True
    is_matrix = bool(lists.sizes) and of.is_number and change not in AS_BYTES
    if form == "of any length":
        return is_matrix and lists.is_said
    if form.startswith("inner"):
        return is_matrix and lists.depth > 1 and not lists.is_said
    if form == "fixed":
        return is_matrix
    is_long = of.is_text and lists.depth == 0
    return levels_of(shape, change, leaf) == 1 and not lists.sizes and not (form == "padded" and is_long)


AXES: dict[str, Sequence[str]] = {
    "leaf": tuple(LEAVES),
    "shape": tuple(SHAPES),
    "change": tuple(dict.fromkeys(name for leaf in LEAVES.values() for name in changes_of(leaf))),
    "form": tuple(FORMS),
    "rule": RULES,
    "nulls": tuple(NULLS),
    "elements": tuple(ELEMENTS),
    "encoding": ENCODINGS,
    "codec": CODECS,
    "pages": tuple(PAGES),
}
TOGETHER: Rules = {
    ("leaf", "encoding"): lambda leaf, encoding: encoding in LEAVES[leaf].encodings,
    ("leaf", "change"): lambda leaf, change: bool(values_of(leaf, change)),
    ("leaf", "shape"): lambda leaf, shape: leaf != "uuid" or shape == "scalar",  # pyarrow makes no others
    ("leaf", "pages"): lambda leaf, pages: "duration" not in leaf or "store_schema" not in PAGES[pages],
    ("shape", "pages"): lambda shape, pages: not SHAPES[shape].is_said or "store_schema" not in PAGES[pages],
    ("shape", "change"): lambda shape, change: SHAPES[shape].depth == 0 or not change.startswith("parts"),
    ("shape", "nulls"): lambda shape, nulls: shape != "struct" or nulls != "never",
    ("shape", "elements"): lambda shape, elements: (
        elements == "none" if SHAPES[shape].depth == 0 else elements != "empty" or not SHAPES[shape].sizes
    ),
    ("rule", "nulls"): lambda rule, nulls: rule != "error" or nulls in ("never", "none"),
    ("rule", "elements"): lambda rule, elements: rule != "error" or elements in ("never", "none", "empty"),
    ("shape", "change", "leaf", "form"): is_formed,
}


def said_of(case: Case, tensor: str) -> Said:
    """What is asked of a column, in an order that has a meaning."""
    leaf, lists = LEAVES[case["leaf"]], SHAPES[case["shape"]]
    said = dict(changes_of(leaf)[case["change"]])
    dtype = "uint8" if case["change"] in AS_BYTES[:2] else oracle.dtype_of(leaf.oracle, said)
    form = dict(FORMS[case["form"]])
    if case["rule"] == "mask":
        said["mask_null"] = ()
    elif case["rule"] != "error":
        said["fill_null"] = (fill_of(leaf, dtype, said, case["rule"]),)
    if case["form"].startswith("inner"):
        form["fixed"] = ((None, *lists.sizes[1:]),)
    elif case["form"] == "fixed":
        form["fixed"] = (lists.sizes if lists.depth > 1 else lists.sizes[0],)
    if "pad" in form and dtype == "bool":
        form["pad"] = (form["pad"][0], False, *form["pad"][2:])
    if "alias" in form:
        form["alias"] = (tensor,)
    return {**said, **form}


def fill_of(leaf: Leaf, dtype: str, said: Said, rule: str) -> Any:
    """A value for nulls: 0, another, the least and the greatest that there are; any is an empty text."""
    place = RULES[2:].index(rule)
    if leaf.is_text and dtype == "uint8":
        return ("", -1, 0.5, math.nan)[place]
    if dtype == "bool":
        return (False, 1, 0, True)[place]
    if "hash" in said:
        return (0, 1, 2, said["hash"][0] - 1)[place]
    if dtype in (*FLOATS, "bfloat16"):
        return (-0.0, 0.1, -math.inf, math.nan)[place]
    return (0, 1, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))[place]


# ------------------------------------------------------------------------------------- what must be delivered


def as_oracle_takes(case: Case, said: Said, rows: list[Any]) -> tuple[list[Any], str, Said]:
    """Rows, their type and what is asked: with a file's bytes, all codes, and the lengths of a type."""
    lists, leaf = SHAPES[case["shape"]], LEAVES[case["leaf"]]
    taken, of = dict(said), leaf.oracle
    if case["change"] in AS_BYTES and not of.startswith("bytes"):
        width = 2 if of == "float16" else bytes_of(leaf.type.precision)
        rows = [oracle.nested(row, lists.depth, lambda value: held(value, width)) for row in rows]
        taken.pop("decimal", None)
        of = f"bytes{width}"
    if taken.get("codes") == ():
        values = {value for value in oracle.flat(rows, lists.depth) if value is not None}
        if "split" in taken:
            values = {part for value in values for part in (value.split(b"::") if value else ())}
        taken["codes"] = (sorted(values),)
    if lists.is_said and "fixed" not in taken and leaf.is_number and case["change"] not in AS_BYTES:
        taken["fixed"] = (lists.sizes,)
    return rows, of, taken


def bytes_of(precision: int) -> int:
    """How many bytes a file has for a decimal."""
    return next(size for size in range(1, 33) if 10**precision <= 2 ** (8 * size - 1))


def held(value: Any, width: int) -> bytes:
    """The bytes that a file has of a float16, or of a decimal."""
    if isinstance(value, float):
        return np.float16(value).tobytes()
    whole: int = oracle.unscaled(value)
    return whole.to_bytes(width, "big", signed=True)


def shape_of(case: Case, of: str, said: Said, taken: Said) -> tuple[Any, ...]:
    """The shape of a tensor, "*" where rows have lengths of their own."""
    sizes = taken.get("fixed", ((),))[0]
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    dims: tuple[Any, ...] = ("*",) * levels_of(case["shape"], case["change"], case["leaf"])
    if sizes and sizes != (None,):
        dims = tuple("*" if size is None else size for size in sizes)
    if "pad" in taken:
        dims = (taken["pad"][0], *dims[1:])
    width = int(of.removeprefix("bytes")) if of.startswith("bytes") and "hash" not in said else None
    return ("B", *dims, *([] if width is None else [width]))


@functools.cache
def cases() -> list[Case]:
    """The columns of this run."""
    return every_pair(AXES, TOGETHER, 2 if one_in(2) > 1 else 3)


@dataclass(frozen=True)
class Column:
    """A column of a file, and what is asked of it."""

    number: int
    case: Case

    @functools.cached_property
    def rows(self) -> list[Any]:
        """Its rows."""
        return drawn(self.case, values_of(self.case["leaf"], self.case["change"]), random.Random(self.number))

    @property
    def name(self) -> str:
        """Its name in the file."""
        return f"c{self.number}"

    @functools.cached_property
    def said(self) -> Said:
        """What is asked of it."""
        return said_of(self.case, f"{self.name} anew")

    @functools.cached_property
    def asked(self) -> fr.Column:
        """The same as an expression."""
        return expression(self.name + SHAPES[self.case["shape"]].member, self.said)

    @property
    def tensor(self) -> str:
        """The name of its tensor."""
        return self.asked.tensor_name or self.name + SHAPES[self.case["shape"]].member

    @functools.cached_property
    def taken(self) -> tuple[list[Any], str, Said]:
        """Rows, type and what is asked, as the oracle takes them."""
        return as_oracle_takes(self.case, self.said, self.rows)

    def made(self, numbers: Sequence[int]) -> Made:
        """What must be delivered of some rows."""
        rows, leaf, said = self.taken
        return oracle.made([rows[number] for number in numbers], leaf, SHAPES[self.case["shape"]].depth, said)

    @property
    def is_stacked(self) -> bool:
        """Whether it may be a column of a matrix."""
        return self.case["form"] == "as it is" and self.shape == ("B",)

    @property
    def dtype(self) -> str:
        """The dtype of its tensor."""
        return oracle.dtype_of(self.taken[1], self.taken[2])

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of its tensor."""
        return shape_of(self.case, self.taken[1], self.said, self.taken[2])


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
@pytest.mark.parametrize("pages", PAGES)
def test_every_value_is_what_the_oracle_says(tmp_path: Path, pages: str) -> None:
    columns = [Column(number, case) for number, case in enumerate(cases()) if case["pages"] == pages]
    for option in sorted({leaf.option for leaf in LEAVES.values()}):
        own = [column for column in columns if LEAVES[column.case["leaf"]].option == option]
        for start in range(0, len(own), MOST_COLUMNS):
            path = tmp_path / f"{option}{start}.parquet"
            some = own[start : start + MOST_COLUMNS]
            write(path, some, {**PAGES[pages], **({option: True} if option else {})})
            check(path, some)


def write(path: Path, columns: Sequence[Column], how: dict[str, Any]) -> None:
    """Write a file of these columns."""
    fields, arrays, encodings, codecs = [], [], {}, {}
    for column in columns:
        case, lists = column.case, SHAPES[column.case["shape"]]
        leaf = column.name + (lists.path * lists.depth or lists.member)
        codecs[leaf], encodings[leaf] = case["codec"].upper(), case["encoding"]
        arrays.append(array_of(case, column.rows))
        fields.append(pa.field(column.name, type_of(case), nullable=case["nulls"] != "never"))
    coded = [leaf for leaf, encoding in encodings.items() if encoding == "RLE_DICTIONARY"]
    pq.write_table(
        pa.table(arrays, schema=pa.schema(fields)),
        path,
        row_group_size=GROUP_ROWS,
        compression=codecs,
        use_dictionary=coded,
        column_encoding={leaf: encoding for leaf, encoding in encodings.items() if leaf not in coded},
        **how,
    )


def check(path: Path, columns: Sequence[Column]) -> None:
    """Compare all that is delivered: each column, and matrices of those that fit into one."""
    stacks: dict[tuple[str, bool], list[Column]] = defaultdict(list)
    for column in columns:
        if column.is_stacked:
            stacks[column.dtype, "mask_null" in column.said].append(column)
    asked = [column.asked for column in columns]
    matrices = [fr.stack(*(column.asked for column in of), name=f"{key}") for key, of in stacks.items()]
    for order in ({}, Shuffle(17, 20, 45).arguments):
        how = {"batch_size": BATCH_SIZE, "tail": "short", **order}
        dataset = fr.ParquetDataset(path, columns=[*asked, *matrices], **how)
        for column in columns:
            field, leaf = dataset.schema[column.tensor], LEAVES[column.case["leaf"]]
            assert (str(field.dtype), field.shape) == (f"torch.{column.dtype}", column.shape), column
            if column.case["change"] == "as they are" and not leaf.is_text:
                assert field.unit == leaf.unit, column
        loader = fr.Loader(dataset, threads=2 if order else 0)
        for batches, wanted in ((list(loader), range(ROWS)), ([dataset.read_rows(SOME)], SOME)):
            numbers = np.concatenate([batch.rows() for batch in batches]).tolist()
            assert (sorted(numbers) if order and wanted != SOME else numbers) == list(wanted)
            made = {column.tensor: column.made(numbers) for column in columns}
            for column in columns:
                assert whole(batches, column.tensor) == made[column.tensor], f"{column.asked}: {column.case}"
            for key, of in stacks.items():
                each = [made[column.tensor] for column in of]
                beside = {"": [b"".join(cells) for cells in zip(*(one[""] for one in each), strict=True)]}
                if key[1]:
                    beside["_valid"] = list(map(list, zip(*(one["_valid"] for one in each), strict=True)))
                assert whole(batches, f"{key}") == beside, key


def whole(batches: Sequence[fr.Batch], tensor: str) -> Made:
    """What all batches have of a tensor, one after another."""
    made: Made = defaultdict(list)
    for batch in batches:
        for key, part in found(batch, tensor).items():
            made[key] += part
    return dict(made)


def test_each_pair_of_values_comes_but_for_those_that_a_rule_forbids() -> None:
    axes = {"shape": ["scalar", "list"], "form": ["plain", "padded"], "codec": ["none", "zstd", "gzip"]}

    def is_formed(shape: str, form: str) -> bool:
        return shape == "list" or form == "plain"

    found = every_pair(axes, {("shape", "form"): is_formed})
    pairs = {pair for case in found for pair in itertools.combinations(case.items(), 2)}
    whole = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    kept = [case for case in whole if is_formed(case["shape"], case["form"])]
    assert pairs == {pair for case in kept for pair in itertools.combinations(case.items(), 2)}
    assert all(case in kept for case in found)
    assert len(found) < len(kept)
