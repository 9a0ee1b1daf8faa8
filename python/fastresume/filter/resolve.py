"""Resolves a filter into the rows that it keeps, by footers and by reading its columns."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from types import MethodType
from typing import Any

import numpy as np

import fastresume._core as _core
from fastresume.buffers import Intervals
from fastresume.filter.condition import (
    Both,
    Comparison,
    Condition,
    Membership,
    Named,
    Not,
    is_no_value,
    is_of_arrow,
    literal,
)
from fastresume.filter.damaged_rows import DamagedRows
from fastresume.filter.pruning import decide
from fastresume.filter.pyarrow_filter import ask_arrow, field_of
from fastresume.filter.scan import scan
from fastresume.messages import warn
from fastresume.options.attributes import MATCH
from fastresume.options.checks import quoted
from fastresume.options.rows import RowSet
from fastresume.options.unknown import takes_no_other

Terms = Sequence[tuple[str, str, Any]]

Filter = Condition | Terms | Sequence[Terms]
"""A condition, or terms as `pyarrow.parquet` takes them; or an expression of pyarrow, which has no type."""

OPS = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@takes_no_other("fr.FilterReport")
@dataclass(frozen=True)
class FilterReport:
    """How many rows a filter kept, and by what evidence the others were left out.

    `kept` and all `left_out_by_...` are `rows` together. Where `is_cached`, a file of `cache=` held what is
    kept, and nothing else is known: the other rows are in `left_out_by_cache`.

    Attributes:
        rows: that the filter reads.
        kept: that it kept.
        scanned: whose values were read to tell.
        left_out_by_paths: by the value in the path of their file.
        left_out_by_statistics: by the bounds and null counts of row groups in the files' footers.
        left_out_by_page_indexes: by the bounds and null counts of pages.
        left_out_by_bloom_filters: since a bloom filter lacks the values that are asked for.
        left_out_by_scan: since their values were read.
        left_out_by_damage: since their values can't be read, under `bad_rows="mask"`.
        left_out_by_cache: as the file of `cache=` says.
        is_cached: whether the file of `cache=` held it all.
    """

    rows: int
    kept: int
    scanned: int = 0
    left_out_by_paths: int = 0
    left_out_by_statistics: int = 0
    left_out_by_page_indexes: int = 0
    left_out_by_bloom_filters: int = 0
    left_out_by_scan: int = 0
    left_out_by_damage: int = 0
    left_out_by_cache: int = 0
    is_cached: bool = False


def select_filtered(
    manifest: _core.Manifest,
    given: object,
    beside: tuple[str, str] | None,
    optional: list[str],
    partitions: list[str],
    most_damaged: int | None = None,
) -> tuple[_core.Manifest, FilterReport]:
    """The manifest whose selection is, of the rows selected in it, those that a filter keeps; and a report.

    What it finds is kept for the next time in a file or object beside the manifest's: `beside` is that one,
    and what is asked of the rows besides, in words.

    Columns that a file may lack are null where it does. Hive partition columns are columns like others.

    At most `most_damaged` rows are left out since what the filter reads of them is damaged; None makes that
    an error. Then nothing is cached, since the files may be mended. Pyarrow refuses to read them.

    Raises:
        TypeError, ValueError: if it is no filter, a column can't be compared with its value, or the cache
            file is something else.
        DataError, SourceError: if a file can't be read.

    Warns:
        UserWarning: if the cache can't be written.
    """
    wanted = given if is_of_arrow(given) else _condition(given, manifest.has_files)
    if isinstance(wanted, Condition):
        optional = sorted({*optional, *(column.name for column in wanted.named if column.optional)})
        partitions = sorted({*partitions, *(column.name for column in wanted.named if column.from_path)})
    name = _name(wanted) + (repr((optional, partitions)).encode() if optional or partitions else b"")
    cache = _cache_of(beside, name)
    # What an expression of pyarrow names, only pyarrow knows.
    names = sorted(wanted.columns) if isinstance(wanted, Condition) else None
    cached = None if cache is None else manifest.cached_rows(cache, name, names, partitions)
    rows = manifest.num_selected
    if cached is not None and (known := manifest.select_cached(cached)) is not None:
        left_out = rows - known.num_selected
        return known, FilterReport(rows, known.num_selected, left_out_by_cache=left_out, is_cached=True)
    damaged = DamagedRows(most_damaged)
    if isinstance(wanted, Condition):
        kept, report = _resolve(manifest, wanted, optional, partitions, damaged)
    else:
        kept = ask_arrow(manifest, wanted, optional, partitions)
        report = FilterReport(rows, 0, scanned=rows)
    found = manifest.select(kept)
    if cached is not None and not damaged.count:
        try:
            found.keep_selected(cached)
        except _core.SourceError as cause:
            warn(str(cause))
    evidence = replace(report, kept=found.num_selected, left_out_by_damage=damaged.count)
    known = sum(
        getattr(evidence, field.name) for field in fields(evidence) if field.name.startswith("left_out")
    )
    return found, replace(evidence, left_out_by_scan=rows - evidence.kept - known)


# --------------------------------------------------------------------------------------- what a user may pass


def _condition(given: object, of_files: bool) -> Condition:
    """The condition; of terms, all of a list, and any of a list of lists."""
    if isinstance(given, Condition):
        return given
    if not isinstance(given, (list, tuple)) or not given:
        other = ", an expression of pyarrow," * of_files
        raise TypeError(
            f"filter must be a condition on fr.col(name){other} or a list of terms (name, op, value), found "
            f"{quoted(given)}{_hint(given)}"
        )
    if any(isinstance(entry, Condition) for entry in given):
        raise TypeError(
            "filter has a list of conditions, which says neither 'and' nor 'or': join them, as "
            "(fr.col('a') > 3) & (fr.col('b') < 9), or by |"
        )
    if isinstance(given[0], str):
        raise TypeError(f"filter takes a list of terms, found one: write [{tuple(given)!r}]")
    if all(isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], str) for entry in given):
        whole = _term(given[0], of_files)
        for term in given[1:]:
            whole &= _term(term, of_files)
        return whole
    whole = _condition(given[0], of_files)
    for terms in given[1:]:
        whole |= _condition(terms, of_files)
    return whole


def _hint(given: object) -> str:
    """What to write instead of what is no condition."""
    if isinstance(given, str):
        return ": write fr.col('a') > 3 instead of its text"
    if isinstance(given, bool | int | RowSet) or hasattr(given, "__array__"):
        return ": rows= takes a mask, numbers of rows or a Split"
    if isinstance(given, MethodType):
        return f": call it, as {given.__name__}()"
    if type(given).__module__.startswith("polars"):
        return ": write the same with fr.col instead of pl.col"
    return f": compare it, as {given!r} == True" if hasattr(given, "is_null") else ""


def _term(given: Sequence[Any], of_files: bool) -> Condition:
    op = given[1] if len(given) > 1 else None
    way = _other_way(given) if isinstance(op, str) else None
    if way is not None or len(given) != 3 or not isinstance(op, str):
        instead = "" if way is None else f": write {way}"
        raise ValueError(f"a term of a filter is (name, op, value), found {quoted(tuple(given))}{instead}")
    name, op, value = given
    column = Named(name)
    if op in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(
                f"a term with {op!r} takes a list of values, found {quoted(value)}: write "
                f"{quoted((name, op, [value]))}"
            )
        return Membership.of(column, value) if op == "in" else Membership.of_others(column, value)
    if op not in OPS:
        more = MATCH.replace("(name)", f"({name!r})")
        if not of_files:
            more = f"table.filter({more.removeprefix('filter=')})"
        raise ValueError(
            f"op of a term must be one of {[*OPS, 'in', 'not in']}, found {quoted(op)}; an expression of "
            f"pyarrow has more: {more}"
        )
    return Comparison(column, OPS[op], literal(value))


def _other_way(given: Sequence[Any]) -> str | None:
    """What to write instead of a term whose operator is another language's; None of those that there are."""
    name, spelled, *values = given
    words = " ".join(spelled.lower().replace("_", " ").split())
    value = values[0] if len(values) == 1 else None
    is_null = not values or (len(values) == 1 and is_no_value(value))
    if is_null and words in _OF_NULLS:
        of_nulls = "is_valid" if words in ("!=", "<>") or "not" in words else "is_null"
        return f"filter=fr.col({name!r}).{of_nulls}(), and join conditions by &"
    bounds = value if isinstance(value, list | tuple) else values
    if words in ("between", "not between") and len(bounds) == 2:
        low, high = (quoted(bound) for bound in bounds)
        if words == "between":
            return f"[({name!r}, '>=', {low}), ({name!r}, '<=', {high})]"
        return f"[[({name!r}, '<', {low})], [({name!r}, '>', {high})]]"
    known = _SPELLED.get(words, words)
    return quoted((name, known, *values)) if known != spelled and known in (*OPS, "in", "not in") else None


_OF_NULLS = (
    *("=", "==", "!=", "<>", "in", "not in", "is", "is not"),
    *("null", "not null", "is null", "is not null", "isnull", "notnull", "isna", "notna"),
)
"""How others ask whether there is a value."""

_SPELLED = {
    **dict.fromkeys(("eq", "is"), "=="),
    **dict.fromkeys(("ne", "<>", "is not"), "!="),
    "lt": "<",
    "gt": ">",
    **dict.fromkeys(("le", "lte"), "<="),
    **dict.fromkeys(("ge", "gte"), ">="),
    **dict.fromkeys(("isin", "is in"), "in"),
    **dict.fromkeys(("notin", "nin", "is not in"), "not in"),
}
"""How others spell the operators of terms."""


def _name(wanted: Any) -> bytes:
    """What tells filters apart: the text of an expression of pyarrow is cut short, its bytes are not."""
    if isinstance(wanted, Condition):
        return repr(wanted).encode()
    version: str = importlib.import_module("pyarrow").__version__
    return b"pyarrow " + version.encode() + bytes(wanted.__reduce__()[1][0])


# -------------------------------------------------------------------------------------------- our own filters


def _refused_decimal(
    manifest: _core.Manifest, wanted: Condition, name: str, types: Mapping[str, str]
) -> _core.DataError:
    """The error for a comparison of decimals: a number in a filter is not meant in units of their scale."""
    decimals = {one for one in wanted.columns if _is_decimal(types.get(one, ""))}
    asked = _in_pyarrow(wanted, decimals, manifest)
    if len(asked) > _LONGEST:
        asked = f"{_field(name, manifest)} > decimal.Decimal('0.1'), and all else in such a form"
    way = f"an expression of pyarrow can filter: write filter={asked}"
    if not manifest.has_files:
        way = f"tables are filtered before: write table.filter({asked})"
    return _core.DataError(f"column '{name}' is {types[name]}, by which {way}")


_LONGEST = 300
"""An error has a filter up to this many letters."""


def _is_decimal(of_type: str) -> bool:
    return of_type.startswith("decimal")


def _in_pyarrow(wanted: Condition, decimals: AbstractSet[str], manifest: _core.Manifest) -> str:
    """A condition as an expression of pyarrow, whose nulls decide as they do here."""
    if isinstance(wanted, Both):
        left, right = (_in_pyarrow(one, decimals, manifest) for one in (wanted.left, wanted.right))
        return f"({left}) {wanted.op} ({right})"
    if isinstance(wanted, Not):
        return f"~({_in_pyarrow(wanted.inner, decimals, manifest)})"
    (name,) = wanted.columns
    field = _field(name, manifest)
    if not isinstance(wanted, Comparison | Membership):
        return f"{field}.is_null()"
    op, values = ("==", wanted.values) if isinstance(wanted, Membership) else (wanted.op, (wanted.value,))
    each = [f"{field} {op} {_in_decimals(one) if name in decimals else repr(one)}" for one in values]
    # Not by its isin(), which is false of a null, and in some releases not there for decimals.
    return each[0] if len(each) == 1 else " | ".join(f"({one})" for one in each) or f"{field}.isin([])"


def _field(name: str, manifest: _core.Manifest) -> str:
    """How pyarrow names a column, or a member of a struct; it asks the first file which of both it is."""
    names = name.split(".")
    if len(names) > 1 and manifest.has_files:
        with contextlib.suppress(ImportError, OSError, ValueError):  # of an object, say
            names = names if field_of(manifest.files[0], name) is None else [name]
    return f"pyarrow.compute.field({', '.join(map(repr, names))})"


def _in_decimals(value: object) -> str:
    """A value for a column of decimals; some number for what is none."""
    text = str(value)
    try:
        is_number = not isinstance(value, bool) and Decimal(text).is_finite()
    except InvalidOperation:
        is_number = False
    return f"decimal.Decimal({text if is_number else '0.1'!r})"


def _resolve(
    manifest: _core.Manifest,
    wanted: Condition,
    optional: list[str],
    partitions: list[str],
    damaged: DamagedRows,
) -> tuple[Intervals, FilterReport]:
    """The rows that a condition keeps, of those selected; and what left out others without reading them."""
    there = set(manifest.column_names)
    for column in wanted.named:
        is_missing = column.name not in there and not (column.optional or column.from_path)
        if is_missing and any(sign in column.name for sign in "*?[!"):
            raise ValueError(f"no column '{column.name}': a filter names columns, and takes no patterns")
    compared = sorted(wanted.sought)
    # Columns that are only asked for nulls are not decoded. Hive partition columns count as compared: their
    # values are in the paths.
    asked = sorted(wanted.columns - {*compared, *partitions})
    compared = sorted({*compared, *(wanted.columns & set(partitions))})
    in_files = dict(zip(manifest.column_names, manifest.column_types, strict=True))
    for name in compared:
        if _is_decimal(in_files.get(name, "")):
            raise _refused_decimal(manifest, wanted, name, in_files)
    layout = _core.Layout.of_filter(manifest, compared, asked, optional, partitions)
    types = {
        field.name: (field.dtype, "matrix" if field.shape else field.kind, field.unit)
        for field in layout.fields
    }
    for name in compared:
        if name in types:
            continue
        members = [found for found in types if found.startswith(f"{name}.")]
        if members:
            raise ValueError(
                f"column '{name}' has no value of its own: its members are {', '.join(members)}, "
                f"and is_null() asks where it is null"
            )
        raise ValueError(f"no column '{name}' is compared by a filter")
    wanted = wanted.in_units(types)
    wanted.check(types)
    found = decide(manifest, layout, wanted, set(partitions), damaged.are_left_out)
    open_ = manifest.select(found.open_) if len(found.open_) else None
    report = FilterReport(
        manifest.num_selected,
        kept=0,
        scanned=0 if open_ is None else open_.num_selected,
        left_out_by_paths=found.by_paths,
        left_out_by_statistics=found.by_statistics,
        left_out_by_page_indexes=found.by_page_indexes,
        left_out_by_bloom_filters=found.by_bloom_filters,
    )
    if open_ is None:
        return found.kept, report
    return np.concatenate([found.kept, *scan(open_, layout, wanted, damaged)]), report


def _cache_of(beside: tuple[str, str] | None, name: bytes) -> str | None:
    """The file beside the manifest for what a filter selects: one for each filter, also of growing data."""
    if beside is None:
        return None
    return f"{beside[0]}.filter-{hashlib.sha256(name + beside[1].encode()).hexdigest()[:12]}"
