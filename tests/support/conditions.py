"""Filters over columns of every kind, with the rows that they must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.cells import Cells
from support.jobs import parallel
from support.strategies import FLOATS, INTEGERS, DatasetSpec
from support.topologies import Chosen, selections

OPS = ("==", "!=", "<", "<=", ">", ">=")

COMPARED = ("bool", *INTEGERS, *FLOATS, "string", "binary")
"""Types that a filter may compare; lists can only be asked for nulls."""

Condition = tuple[Any, ...]
"""As `oracle.truth` takes it."""


def values_of(cells: Cells) -> list[Any]:
    """The values of a column, one for each row, as the oracle of filters compares them; a list is True."""
    if cells.kind in ("string", "binary"):
        return list(cells.rows)
    if cells.kind != "scalar" or cells.size is not None:
        return [None if row is None else True for row in cells.rows]
    return [None if row is None else np.frombuffer(row, cells.dtype)[0].item() for row in cells.rows]  # type: ignore[arg-type]


def conditions(spec: DatasetSpec, values: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Condition]:
    """Return a strategy for conditions on the columns of a dataset with these values."""
    columns = (spec.row_numbers, *spec.columns)
    plain = {column.name for column in columns if column.type in COMPARED and column.leaves == (column.name,)}

    def leaves(name: str) -> st.SearchStrategy[Condition]:
        is_null = st.just(("null", name))
        there = [value for value in values[name] if value is not None]
        if name not in plain or not there:
            return is_null
        value = st.sampled_from(there)
        compared = st.tuples(st.sampled_from(OPS), st.just(name), value)
        return st.one_of(
            compared, compared, st.tuples(st.just("in"), st.just(name), st.lists(value)), is_null
        )

    def joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        return st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(("and", "or")), inner, inner)
        )

    return st.recursive(st.sampled_from(sorted(values)).flatmap(leaves), joined, max_leaves=4)


@st.composite
def selections_of(
    draw: st.DrawFn, spec: DatasetSpec, cells: Mapping[str, Cells], least: int = 1
) -> Chosen | None:
    """Draw a selection of at least so many of the rows of a dataset, half of the time by a filter, too."""
    chosen = draw(selections(spec.num_rows, least=least))
    if draw(st.booleans()):
        return chosen
    values = {name: values_of(column) for name, column in cells.items() if column.kind != "mask"}
    condition = as_bytes(draw(conditions(spec, values)))
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    kept = frozenset(place for place, row in enumerate(rows) if oracle.truth(condition, row))
    found = replace(chosen or Chosen(), filter=as_filter(condition), kept=kept)
    return found if len(found.selected(spec.num_rows)) >= least else chosen


def as_filter(condition: tuple[Any, ...]) -> fr.Condition:
    """The condition as a user writes it."""
    op, *parts = condition
    if op == "not":
        return ~as_filter(parts[0])
    if op == "and":
        return as_filter(parts[0]) & as_filter(parts[1])
    if op == "or":
        return as_filter(parts[0]) | as_filter(parts[1])
    column = fr.col(parts[0])
    if op == "null":
        return column.is_null()
    if op == "in":
        return column.isin(parts[1])
    return {
        "==": lambda: column == parts[1],
        "!=": lambda: column != parts[1],
        "<": lambda: column < parts[1],
        "<=": lambda: column <= parts[1],
        ">": lambda: column > parts[1],
        ">=": lambda: column >= parts[1],
    }[op]()


def as_bytes(condition: Any) -> Any:
    """The condition with strings as their bytes."""
    op, *parts = condition
    if op in ("not", "and", "or"):
        return (op, *map(as_bytes, parts))
    return (op, parts[0], *map(encode, parts[1:]))


def encode(value: Any) -> Any:
    """Strings as bytes, in a list too."""
    if isinstance(value, list):
        return [encode(inner) for inner in value]
    return value.encode() if isinstance(value, str) else value


def kept_rows(path: Path, **arguments: Any) -> list[int]:
    """The rows that a dataset of a filter selects; none if it has none."""
    how = {"batch_size": 1, "nulls": "mask", **parallel(), **arguments}
    try:
        dataset = fr.ParquetDataset(path, **how)
    except ValueError as cause:
        if "no batch would come from 0 of" not in str(cause):
            raise
        return []
    if dataset.selection is None:
        return list(range(dataset.num_rows))
    return oracle.positions_of(dataset.selection.tolist())
