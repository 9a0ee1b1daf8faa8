"""A `RowSource` as the core calls it: rows are counted, and faults that pass are waited for."""

from __future__ import annotations

import multiprocessing.context
import pickle
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.messages import bounded
from fastresume.options.checks import at_least, quoted
from fastresume.sources.exact_cast import exactly_cast
from fastresume.sources.part import GROUP_ROWS, Part, groups
from fastresume.sources.patience import FINAL, Patience
from fastresume.sources.row_source import METHODS, RowSource, Segment
from fastresume.sources.schema import arrow, footer_of, hash_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN_COLUMNS = 64
"""The number of column selections whose schemas are kept."""


class CalledSource:
    """A source of rows, and what it said of itself when it was opened.

    Args:
        source: the source.

    Raises:
        TypeError: if it says something else than a source does.
        DataError: if its columns can't be delivered.
    """

    def __init__(self, source: RowSource) -> None:
        _check_methods(source)
        self._source = source
        self._segments = _checked_segments(source.segments())
        self._snapshot = source.snapshot()
        if not isinstance(self._snapshot, str):
            raise TypeError(f"snapshot() must return a string, found {quoted(self._snapshot)}")
        self._schema = schema_of(source.schema())
        self._known: dict[tuple[int, ...], tuple[pa.Schema, list[str]]] = {}

    def rows(self) -> _core.Rows:
        """What the core reads the rows from."""
        counts = [groups(segment.rows) for segment in self._segments]
        return _core.Rows.called(self._schema, footer_of(self._schema), counts, self.read, (rows_of, self))

    def __getstate__(self) -> dict[str, Any]:
        if multiprocessing.context.get_spawning_popen() is not None:  # of a worker process
            try:
                ForkingPickler.dumps(self._source)
            except Exception as error:
                raise pickle.PicklingError(
                    f"the source, a {type(self._source).__name__}, can't be sent to a worker process, which "
                    f"Python starts from scratch here: {bounded(str(error))}. Define its class at a module's "
                    "top level, leave what is open out in __getstate__, or take "
                    "multiprocessing_context='fork'"
                ) from error
        return self.__dict__.copy()

    def parts(self, _: _core.Rows) -> list[Part]:
        """The parts, in the order in which their rows are numbered."""
        found = hash_of(self._schema, self._snapshot.encode())
        return [Part(segment.name, groups(segment.rows), found) for segment in self._segments]

    def read(self, part: int, group: int, columns: list[int], most: int) -> pa.RecordBatchReader:
        """The rows of a row group of a part; the first `most` of them if that is not 0.

        Raises:
            SourceError: if they can't be had.
            DataError: if they are not what the source stated.
        """
        pyarrow = arrow()
        segment = self._segments[part]
        reached = group * GROUP_ROWS
        stop = min(reached + (most or GROUP_ROWS), reached + GROUP_ROWS, segment.rows)
        schema, names = self._asked(columns)
        batches: list[pa.RecordBatch] = []
        patience = Patience()
        while reached < stop:
            begun = reached
            try:
                for batch in _batches(self._source.read(part, reached, stop, [*names]), schema):
                    if reached + batch.num_rows > stop:
                        raise _core.DataError(
                            f"read() of segment '{segment.name}' returned more than the "
                            f"{plural(stop - begun, 'row')} of [{begun}, {stop})"
                        )
                    batches.append(batch)
                    reached += batch.num_rows
                fault: Exception | None = None
            except (_core.DataError, _core.SourceError):
                raise
            except FINAL as error:
                raise self._failed(segment, begun, stop, error) from error
            except Exception as error:  # noqa: BLE001  (a source may raise anything)
                fault = error
            if reached > begun:
                patience = Patience()
            elif not patience.waits(fault):
                raise self._failed(segment, begun, stop, fault) from fault
        return pyarrow.RecordBatchReader.from_batches(schema, batches)

    def _asked(self, columns: list[int]) -> tuple[pa.Schema, list[str]]:
        """The schema of columns by their numbers, and their names, made once: a read may be of few rows."""
        key = tuple(columns)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN_COLUMNS:
                self._known.clear()
            schema = arrow().schema([self._schema.field(number) for number in columns])
            known = self._known[key] = schema, schema.names
        return known

    def _failed(self, segment: Segment, start: int, stop: int, fault: Exception | None) -> Exception:
        where = f"rows [{start}, {stop}) of segment '{segment.name}'"
        if fault is None:
            return _core.SourceError(f"read() ended early, again and again: {where} did not come")
        is_alive = getattr(self._source, "is_alive", None)
        if is_alive is not None and not is_alive():
            return _core.SourceError(
                f"the session that has {where} has ended ({type(fault).__name__}: {fault}): open the source "
                "again, and resume from the last state"
            )
        return _core.SourceError(f"can't read {where}: {type(fault).__name__}: {fault}")


def rows_of(source: CalledSource) -> _core.Rows:
    """What the core reads the rows of a source from, made again from a pickle."""
    return source.rows()


def _batches(given: Any, schema: pa.Schema) -> Any:
    """The batches of what `read()` returned, with the columns that were asked for."""
    pyarrow = arrow()
    if isinstance(given, pyarrow.Table):  # to make a stream of it costs as much as a small read
        batches, found = given.to_batches(), given.schema
    elif hasattr(given, "__arrow_c_stream__"):
        batches = pyarrow.RecordBatchReader.from_stream(given)
        found = batches.schema
    elif hasattr(given, "__arrow_c_array__"):
        batches = [pyarrow.record_batch(given)]
        found = batches[0].schema
    else:
        way = "pyarrow.Table.from_pylist(rows, schema)" if isinstance(given, list) else "a pyarrow.Table"
        raise TypeError(
            f"read() must return what has __arrow_c_stream__, found {quoted(given)}: write return "
            f"{'pyarrow.table(columns)' if isinstance(given, Mapping) else way}"
        )
    are_others = not found.equals(schema) and found.names != schema.names
    if are_others and (missing := set(schema.names).difference(found.names)):
        first = next(name for name in schema.names if name in missing)
        raise _core.DataError(f"read() returned no column '{first}', which schema() names")
    for batch in batches:
        batch.validate()
        yield exactly_cast(batch.select(schema.names) if are_others else batch, schema, _other_type)


def _other_type(name: str, found: pa.DataType, stated: pa.DataType, why: str) -> _core.DataError:
    return _core.DataError(
        f"read() returned other types than schema() names: values of {quoted(name)} are {found}, and no "
        f"{stated}{why}. Cast them in read(), or name {found} in schema()"
    )


def _check_methods(source: RowSource) -> None:
    for name in METHODS:
        if not callable(found := getattr(source, name)):
            raise TypeError(
                f"{name} of a {type(source).__name__} must be a method, found {quoted(found)}: write "
                f"def {name}(self): return ..."
            )


def _checked_segments(given: Any) -> list[Segment]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise TypeError(f"segments() must return a list of Segment(name, rows), found {quoted(given)}")
    if not given:
        raise ValueError("segments() returned none: a source has one Segment(name, rows) at least")
    found = []
    for one in given:
        if not isinstance(one, tuple) or len(one) != 2:
            raise TypeError(f"segments() must return Segment(name, rows), found {quoted(one)}")
        name, rows = one
        if not isinstance(name, str):
            raise TypeError(f"the name of a Segment must be a string, found {quoted(one)}")
        found.append(Segment(name, at_least(0, f"rows of the Segment {quoted(name)}", rows)))
    return found
