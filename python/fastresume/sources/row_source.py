"""What a source of rows says of itself, as its author writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fastresume.options.unknown import takes_no_other

METHODS = ("snapshot", "segments", "schema", "read")
"""The methods of a source."""


class Segment(NamedTuple):
    """A part of a source whose number of rows is known.

    Attributes:
        name: tells it from the others. Errors name it, and states know it by its name and rows.
        rows: how many it has, exactly.

    Examples:
        >>> Segment("day=1", 1000)
        Segment(name='day=1', rows=1000)
    """

    name: str
    rows: int


Segment.__new__ = takes_no_other("Segment")(Segment.__new__)  # type: ignore[method-assign]


class ArrowStream(Protocol):
    """Anything that gives Arrow batches: a `pyarrow.Table`, a `RecordBatchReader`, a polars DataFrame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """A capsule of the Arrow C stream interface."""


@runtime_checkable
class RowSource(Protocol):
    """Rows that can be read again by their numbers: `fr.ArrowDataset(source)` reads them.

    A source may also have `is_alive()`: when it returns False after a failed read, the error says that the
    session has ended.

    Where the order of rows is that of a session of the service, a source has two methods more. `session()`
    returns what names it, as JSON of ASCII texts: each state has it. `in_session(session)` returns a source
    of the same rows in the session that a state names, or raises `fr.SourceError` if it has ended.

    Threads and forks: `read` is called by several threads at once. A dataset in worker processes pickles its
    source, so open connections in `read`, not in `__init__`, or leave them out in `__getstate__`.

    Examples:
        >>> import pyarrow as pa
        >>> from fastresume.sources import Segment
        >>> class Squares:
        ...     def snapshot(self):
        ...         return "squares, first version"
        ...     def segments(self):
        ...         return [Segment("small", 100), Segment("large", 200)]
        ...     def schema(self):
        ...         return pa.schema([pa.field("x", pa.int64(), nullable=False)])
        ...     def read(self, segment, start, stop, columns):
        ...         first = (0, 100)[segment]
        ...         return pa.table({"x": [(first + row) ** 2 for row in range(start, stop)]})
        >>> isinstance(Squares(), RowSource)
        True
    """

    def snapshot(self) -> str:
        """What the rows are, in words that change when the rows do. It enters the dataset's fingerprint.

        With `on_change="append"`, leave out what changes when segments are only added.
        """

    def segments(self) -> Sequence[Segment]:
        """The segments, in the order in which their rows are numbered."""

    def schema(self) -> Any:
        """The columns: a `pyarrow.Schema`, or anything with `__arrow_c_schema__`."""

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> Any:
        """The rows `[start, stop)` of a segment, by its number: anything with `__arrow_c_stream__`.

        Raise `OSError` for a fault that may pass: it is asked again. Raise `fr.SourceError` where asking
        again is of no use; a file that is not there is asked for once. Fewer rows than asked for are taken,
        and the rest is asked for once more.
        """
