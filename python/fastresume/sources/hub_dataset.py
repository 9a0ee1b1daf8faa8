"""A `datasets.Dataset` of Hugging Face as a source of rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.options.checks import quoted
from fastresume.sources.part import GROUP_ROWS, Part, groups
from fastresume.sources.schema import arrow, footer_of, hash_of, schema_of
from fastresume.sources.tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS = 512
"""The first and the last rows of a file tell it from others of the same form."""


class _Segment(NamedTuple):
    name: str
    table: pa.Table
    files: tuple[str, ...]


def is_of_datasets(source: Any) -> bool:
    """Whether it is of the package `datasets`, which need not be imported for that."""
    return any(base.__module__.split(".")[0] == "datasets" for base in type(source).__mro__)


class HubDataset:
    """A `datasets.Dataset`: its tables, which it maps itself, or the rows that its indices name.

    Args:
        dataset: the dataset.

    Raises:
        TypeError: if it is a stream or a dict of splits, or has a transform of its own.
    """

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "_indices"):
            kind = type(dataset).__name__
            is_dict = isinstance(dataset, dict)
            ways = ["name one of its splits, as source['train']"] * is_dict
            if "Column" in kind:
                ways += [f"write dataset.select_columns({quoted(getattr(dataset, 'column_name', 'x'))})"]
            elif kind.startswith("Iterable") or not is_dict:
                ways += ["load it without streaming=True"]
            raise TypeError(
                f"source must be a datasets.Dataset, found a datasets.{kind}: {' and '.join(ways)}"
            )
        if dataset._format_type == "custom":
            raise TypeError(
                "source has a transform of its own, which is not called here: write fr.ArrowDataset("
                "source.with_format(None), batch_size=n).map(function), whose function gets whole batches"
            )
        self._dataset = dataset
        self._indices = None if dataset._indices is None else dataset._indices.table.column(0)
        self._segments = list(_segments(dataset))
        self._schema = schema_of(self._segments[0].table.schema)

    def rows(self) -> _core.Rows:
        """What the core reads the rows from."""
        made_of, footer = (rows_of, self), footer_of(self._schema)
        counts = [groups(rows) for rows in self._counts()]
        if self._indices is None:
            tables = [segment.table for segment in self._segments]
            return _core.Rows.held(self._schema, footer, tables, counts, made_of)
        return _core.Rows.called(self._schema, footer, counts, self.read, made_of)

    def parts(self, _: _core.Rows) -> list[Part]:
        """The parts, in the order in which their rows are numbered."""
        hashes = [_content(segment) for segment in self._segments]
        if self._indices is None:
            return [
                Part(segment.name, groups(segment.table.num_rows), hash_of(self._schema, content))
                for segment, content in zip(self._segments, hashes, strict=True)
            ]
        digest = hashlib.blake2b(digest_size=16)
        for content in (*hashes, *(chunk.cast("int64").to_numpy() for chunk in self._indices.chunks)):
            digest.update(content)
        return [Part("rows", groups(len(self._indices)), hash_of(self._schema, digest.digest()))]

    def read(self, _: int, group: int, columns: list[int], most: int) -> pa.RecordBatchReader:
        """The rows that indices name, of a row group; the first `most` of them if that is not 0."""
        pyarrow = arrow()
        start = group * GROUP_ROWS
        indices = self._indices.slice(start, min(most or GROUP_ROWS, GROUP_ROWS))  # type: ignore[union-attr]
        table = self._dataset.data.table.select(columns)
        schema = pyarrow.schema([self._schema.field(number) for number in columns])
        return pyarrow.RecordBatchReader.from_batches(schema, list(_taken(table, indices)))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Its package pickles the paths of files that it has mapped.
        return HubDataset, (self._dataset,)

    def _counts(self) -> list[int]:
        if self._indices is not None:
            return [len(self._indices)]
        return [segment.table.num_rows for segment in self._segments]


def rows_of(dataset: HubDataset) -> _core.Rows:
    """What the core reads the rows of a dataset from, made again from a pickle."""
    return dataset.rows()


def _segments(dataset: Any) -> Iterator[_Segment]:
    """The tables, one after another: each one is a file, mostly."""
    table, wanted = dataset.data.table, dataset._format_columns
    if wanted is not None:
        table = table.select([name for name in table.column_names if name in wanted])
    stacks = getattr(dataset.data, "blocks", [[dataset.data]])
    names: set[str] = set()
    start = 0
    for number, blocks in enumerate(stacks):
        rows = blocks[0].num_rows
        files = tuple(block.path for block in blocks if hasattr(block, "path"))
        are_all = len(files) == len(blocks)
        name = files[0] if are_all else f"table {number}"
        if name in names:
            name = f"{name} ({number})"
        names.add(name)
        yield _Segment(name, table.slice(start, rows), files if are_all else ())
        start += rows
    if not stacks:
        yield _Segment("table 0", table, ())


def _content(segment: _Segment) -> bytes:
    """What differs if the values do: of files their sizes and some rows tell it, of tables in memory all."""
    table, rows = segment.table, segment.table.num_rows
    if segment.files and rows > 2 * SAMPLED_ROWS:
        ends = [table.slice(0, SAMPLED_ROWS), table.slice(rows - SAMPLED_ROWS)]
        table = arrow().concat_tables(ends)
    sizes = [os.stat(path).st_size for path in segment.files]  # noqa: PTH116  (a path that is no Path)
    (digest,) = Tables([table]).rows().digests([len(groups(table.num_rows))])
    return digest + repr((rows, sizes)).encode()


def _taken(table: pa.Table, indices: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """The rows of a table by their numbers; runs of them are not copied."""
    import numpy as np

    numbers = indices.cast("int64").to_numpy()  # they have no sign, and are subtracted here
    if len(numbers) == 0:
        return
    if numbers[-1] - numbers[0] + 1 == len(numbers) and bool(np.all(np.diff(numbers) == 1)):
        yield from table.slice(int(numbers[0]), len(numbers)).to_batches()
        return
    # Batch by batch: to take from a whole table may copy all of it.
    batches = table.to_batches()
    ends = np.cumsum([batch.num_rows for batch in batches])
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    if ascending[0] < 0 or ascending[-1] >= table.num_rows:
        raise _core.DataError(f"an index is {quoted(int(ascending[-1]))}, of {plural(table.num_rows, 'row')}")
    bounds = np.searchsorted(ascending, ends)
    pyarrow = arrow()
    pieces, first = [], 0
    for number in np.unique(np.searchsorted(ends, ascending, side="right")):
        last = int(bounds[number])
        local = ascending[first:last] - (ends[number] - batches[number].num_rows)
        pieces.append(batches[number].take(pyarrow.array(local)))
        first = last
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    yield from pyarrow.Table.from_batches(pieces).combine_chunks().take(pyarrow.array(places)).to_batches()
