"""A filter resolved into the rows that it keeps: by what footers tell, and by reading its columns."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fastresume import _core, draft
from fastresume.batch import Schema, tensors_of
from fastresume.expression import Expression, column
from fastresume.intervals import Intervals, of_buffer, of_runs, of_words
from fastresume.jagged import Jagged
from fastresume.truth import Facts, Text, Values
from fastresume.world import default_threads

Terms = Sequence[tuple[str, str, Any]]

Filter = Expression | Terms | Sequence[Terms]
"""A condition, or terms as `pyarrow.parquet` takes them; or an expression of pyarrow, which has no type."""

KIND = b"fastresume filter "
MAGIC = KIND + b"1\n"
SCANNED_ROWS = 1 << 16
SCANNED_BYTES = 16 << 20
PREFETCH_BYTES = 64 << 20
QUIET_SECONDS = 1.0
OPS = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def select_filtered(manifest: _core.Manifest, given: object, cache: str | None) -> _core.Manifest:
    """The manifest whose selection is, of the rows selected in it, those that a filter keeps.

    Raises:
        TypeError, ValueError: if it is no filter, a column can't be compared with its value, or the cache's
            file is something else.
        DataError, SourceError: if a file can't be read.

    Warns:
        UserWarning: if the cache can't be written.
    """
    wanted = given if _is_of_arrow(given) else _expression(given)
    name = _name(wanted)
    key = {
        "fingerprint": manifest.fingerprint,
        "selection": manifest.selection,
        "filter": hashlib.sha256(name).hexdigest(),
    }
    if cache is not None:
        _check_cache(Path(cache))
    known = None if cache is None else _read_cache(Path(cache), key, manifest)
    if known is not None:
        return known
    kept = _resolve(manifest, wanted) if isinstance(wanted, Expression) else _ask_arrow(manifest, wanted)
    found = manifest.select(kept)
    if cache is not None:
        _write_cache(Path(cache), key, found)
    return found


# --------------------------------------------------------------------------------------- what a user may pass


def _expression(given: object) -> Expression:
    """The condition; of terms, all of a list, and any of a list of lists."""
    if isinstance(given, Expression):
        return given
    if not isinstance(given, (list, tuple)) or not given:
        raise TypeError(
            f"filter must be a condition on column(name), an expression of pyarrow, or a list of terms "
            f"(name, op, value), found {given!r}"
        )
    if all(isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], str) for entry in given):
        whole = _term(given[0])
        for term in given[1:]:
            whole &= _term(term)
        return whole
    whole = _expression(given[0])
    for terms in given[1:]:
        whole |= _expression(terms)
    return whole


def _term(given: Sequence[Any]) -> Expression:
    if len(given) != 3:
        raise ValueError(f"a term of a filter is (name, op, value), found {given!r}")
    name, op, value = given
    if op == "in":
        return column(name).is_in(value)
    if op == "not in":
        return ~column(name).is_in(value)
    if op not in OPS:
        raise ValueError(f"op of a term must be one of {[*OPS, 'in', 'not in']}, found {op!r}")
    compared: dict[str, Expression] = {
        "==": column(name) == value,
        "!=": column(name) != value,
        "<": column(name) < value,
        "<=": column(name) <= value,
        ">": column(name) > value,
        ">=": column(name) >= value,
    }
    return compared[OPS[op]]


def _is_of_arrow(given: object) -> bool:
    kind = type(given)
    return kind.__module__.split(".")[0] == "pyarrow" and kind.__name__ == "Expression"


def _name(wanted: Any) -> bytes:
    """What tells filters apart: the text of an expression of pyarrow is cut short, its bytes are not."""
    if isinstance(wanted, Expression):
        return repr(wanted).encode()
    version: str = importlib.import_module("pyarrow").__version__
    return b"pyarrow " + version.encode() + bytes(wanted.__reduce__()[1][0])


# -------------------------------------------------------------------------------------------- our own filters


def _resolve(manifest: _core.Manifest, wanted: Expression) -> Intervals:
    """The rows that a condition keeps, of those selected."""
    names = sorted(wanted.columns)
    layout = _core.Layout(manifest, names, [], [(None, "mask")], [], [], [], [], [], [], [], [], [])
    types = {
        name: (dtype, "matrix" if shape else kind) for name, dtype, _, _, kind, _, shape, _ in layout.fields
    }
    for name in names:
        if name not in types:
            raise ValueError(f"no column '{name}': a filter names columns, and takes no patterns")
    for name, *_, unit in layout.fields:
        if unit is not None and unit.startswith("decimal"):
            # Its tensor has units of its scale, which nobody means who writes a number.
            raise _core.DataError(f"column '{name}' is {unit}, by which an expression of pyarrow can filter")
    wanted.check(types)
    starts = of_words(manifest.group_starts)
    bounds = np.column_stack([starts[:-1], starts[1:]])
    rows = (bounds[:, 1] - bounds[:, 0]).tolist()
    facts = {}
    for name, told in zip(names, manifest.statistics(names), strict=True):
        limits, nulls = [(low, high) for low, high, _ in told], [nulls for _, _, nulls in told]
        facts[name] = Facts(limits, nulls, rows, types[name][0].startswith("float"))
    truth = wanted.of_groups(facts)
    decided = truth.yes & ~truth.no & ~truth.null
    selected = _selected(manifest)
    kept = [of_buffer(_core.intersection(selected, np.ascontiguousarray(bounds[decided])))]
    open_ = of_buffer(_core.intersection(selected, np.ascontiguousarray(bounds[truth.yes & ~decided])))
    if len(open_):
        kept += _scan(manifest.select(open_), layout, wanted)
    return np.concatenate(kept)


def _scan(manifest: _core.Manifest, layout: _core.Layout, wanted: Expression) -> Iterator[Intervals]:
    """The rows that a condition keeps, by reading its columns of the selected rows."""
    fields = tuple(Schema(layout).values())
    cursor = _core.Cursor.start(manifest, None)
    rows = max(min(SCANNED_ROWS, manifest.num_selected, SCANNED_BYTES // max(layout.row_bytes, 1)), 1)
    planned = _core.Pass(cursor, (1, 1, rows), "short", 1)
    place = (0, 1, 0, 1)
    reader = _core.Reader(manifest, layout, cursor, planned, place, default_threads(), PREFETCH_BYTES)
    progress = Progress(manifest.num_selected)
    try:
        while (delivered := reader.front()) is not None:
            reader.advance()
            tensors = tensors_of(fields, delivered.memory)
            truth = wanted.of_rows({name: _values(tensors, name) for name in sorted(wanted.columns)})
            numbers = of_runs(of_buffer(delivered.runs))[truth.yes]
            progress.add(delivered.num_rows)
            yield _intervals_of(numbers)
    finally:
        reader.close()
        progress.end()


def _values(tensors: Any, name: str) -> Values:
    found = tensors[name]
    if isinstance(found, Jagged):
        marks = torch.ones(len(found), dtype=torch.bool) if found.valid is None else found.valid
        return Values(Text(found.values.numpy(), found.offsets.numpy()), marks.numpy())
    return Values(found.numpy(), tensors[f"{name}_valid"].numpy())


def _intervals_of(numbers: npt.NDArray[np.int64]) -> Intervals:
    """Ascending numbers as intervals."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    starts = numbers[np.r_[0, breaks]] if len(numbers) else numbers
    ends = numbers[np.r_[breaks - 1, len(numbers) - 1]] + 1 if len(numbers) else numbers
    return np.column_stack([starts, ends])


def _selected(manifest: _core.Manifest) -> Intervals:
    selected = manifest.selected
    return np.array([[0, manifest.num_rows]]) if selected is None else of_buffer(selected)


class Progress:
    """How far a scan is, for people: on a terminal, and only if it takes long.

    Args:
        total: the rows to read.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._said = time.monotonic() + QUIET_SECONDS
        self._has_spoken = False

    def add(self, rows: int) -> None:
        """Counts rows that were read."""
        self._done += rows
        if time.monotonic() >= self._said and sys.stderr.isatty():
            self._has_spoken, self._said = True, time.monotonic() + 0.2
            share = self._done / self._total
            sys.stderr.write(f"\rfilter: {self._done} of {self._total} rows read ({share:.0%})")

    def end(self) -> None:
        """Ends the line."""
        if self._has_spoken:
            sys.stderr.write("\n")


# ------------------------------------------------------------------------------------- expressions of pyarrow


def _ask_arrow(manifest: _core.Manifest, wanted: Any) -> Intervals:
    """The rows that an expression of pyarrow keeps: pyarrow reads the files itself, group by group."""
    selected, starts = _selected(manifest), of_words(manifest.group_starts)
    file_groups = of_words(manifest.file_groups)
    kept: list[Intervals] = [np.empty((0, 2), np.int64)]
    progress = Progress(manifest.num_rows)
    for path, first, end in zip(manifest.files, file_groups[:-1], file_groups[1:], strict=True):
        if not _overlap(selected, starts[first], starts[end]):
            continue
        try:
            kept += _ask_arrow_of(path, wanted, selected, starts[first : end + 1])
        except (ValueError, TypeError, NotImplementedError, OSError) as cause:
            raise _core.DataError(f"pyarrow can't apply the filter to the file '{path}': {cause}") from cause
        progress.add(int(starts[end] - starts[first]))
    progress.end()
    return of_buffer(_core.intersection(selected, np.concatenate(kept)))


def _ask_arrow_of(
    path: str, wanted: Any, selected: Intervals, starts: npt.NDArray[np.int64]
) -> Iterator[Intervals]:
    """The rows of one file, whose row groups begin at these rows."""
    local = importlib.import_module("pyarrow.fs").LocalFileSystem()
    fragment = importlib.import_module("pyarrow.dataset").ParquetFileFormat().make_fragment(path, local)
    if [group.num_rows for group in fragment.row_groups] != np.diff(starts).tolist():
        raise ValueError("the file was changed since the dataset was opened")
    for part in fragment.split_by_row_group(wanted, schema=fragment.physical_schema):
        (group,) = part.row_groups
        first, end = starts[group.id], starts[group.id + 1]
        if _overlap(selected, first, end):
            marks = part.to_table(columns={"kept": wanted}).column("kept").fill_null(False).to_numpy()
            yield of_buffer(_core.marked(np.ascontiguousarray(marks).view(np.uint8))) + first


def _overlap(selected: Intervals, first: int, end: int) -> bool:
    place = np.searchsorted(selected[:, 1], first, "right")
    return bool(place < len(selected) and selected[place, 0] < end)


# -------------------------------------------------------------------------------------------------- the cache


def _check_cache(path: Path) -> None:
    """Refuses a file that is something else: it would be replaced.

    Raises:
        ValueError: naming it.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(KIND))
    except OSError:
        return
    if not KIND.startswith(begin):
        raise ValueError(f"filter_cache names the file '{path}', which is no cache of a filter")


def _read_cache(path: Path, key: dict[str, Any], manifest: _core.Manifest) -> _core.Manifest | None:
    """The manifest with the selection kept under this key; None if there is none, or it is damaged."""
    try:
        magic, line, rest = path.read_bytes().split(b"\n", 2)
        told = json.loads(line)
        if magic + b"\n" != MAGIC or {name: told[name] for name in key} != key:
            return None
        found = manifest.select(np.frombuffer(rest, "<i8").astype(np.int64).reshape(-1, 2))
        return found if found.selection == told["kept"] else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write_cache(path: Path, key: dict[str, Any], found: _core.Manifest) -> None:
    """Keeps a selection."""
    told = json.dumps({**key, "kept": found.selection}).encode()
    try:
        draft.put(path, MAGIC + told + b"\n" + _selected(found).astype("<i8").tobytes())
    except OSError as cause:
        warnings.warn(f"the filter's cache '{path}' can't be written: {cause.strerror}", stacklevel=4)
