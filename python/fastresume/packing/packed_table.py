"""Which tokens of which rows each packed sequence is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer, of_mask, of_runs, of_words
from fastresume.options.units import Packed
from fastresume.packing.content import of_documents
from fastresume.packing.costs import list_lengths
from fastresume.packing.unreadable import Unreadable

Words = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]

STRIDE = 256
"""So many selected rows lie between two entries of the index: 8 bytes for each."""

CHUNK_TOKENS = 1 << 21
"""About so many tokens are decoded in one go: fewer, and what a page says of rows is read again too often."""


@dataclass(frozen=True)
class PackedTable:
    """The units of all files.

    Args:
        packed: how they are made.
        starts: the first unit of each file, then the number of units: int64 `[files + 1]`.
        first_ordinals: the first selected row of each file, then their number: int64 `[files + 1]`.
        tokens: how many tokens each file has: int64 `[files]`.
        index: of each file, the tokens before every `STRIDE`-th selected row.
    """

    packed: Packed
    starts: Words
    first_ordinals: Words
    tokens: Words
    index: tuple[Words, ...]

    @classmethod
    def of(
        cls,
        manifest: _core.Manifest,
        packed: Packed,
        columns: list[str],
        unreadable: Unreadable | None = None,
    ) -> PackedTable:
        """The table of a dataset's selected rows, without those that are `unreadable`.

        Raises:
            DataError, SourceError: if a column can't be packed, or a file not be read.
        """
        groups = of_words(manifest.file_groups)
        lengths = list_lengths(manifest, columns, None, unreadable)
        first_ordinals, tokens, index = [0], [], []
        for first, last in zip(groups[:-1].tolist(), groups[1:].tolist(), strict=True):
            rows = total = 0
            entries: list[Words] = []
            for _ in range(first, last):
                costs = tokens_of(packed, next(lengths))
                before = total + np.cumsum(costs) - costs
                entries.append(before[-rows % STRIDE :: STRIDE])
                rows += len(costs)
                total += int(costs.sum())
            first_ordinals.append(first_ordinals[-1] + rows)
            tokens.append(total)
            index.append(np.concatenate([np.empty(0, np.int64), *entries]))
        counts = np.array(tokens, np.int64)
        units = counts // packed.length if packed.rest == "drop" else -(-counts // packed.length)
        starts = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
        return cls(packed, starts, np.array(first_ordinals, np.int64), counts, tuple(index))

    @classmethod
    def of_arrays(cls, packed: Packed, arrays: list[Words]) -> PackedTable:
        """The table of which these are the `arrays`."""
        starts, first_ordinals, tokens, index = arrays
        entries = -(-np.diff(first_ordinals) // STRIDE)
        return cls(packed, starts, first_ordinals, tokens, tuple(np.split(index, np.cumsum(entries)[:-1])))

    @property
    def arrays(self) -> list[Words]:
        """All of it but how units are made, to be kept."""
        index = np.concatenate([np.empty(0, np.int64), *self.index])
        return [self.starts, self.first_ordinals, self.tokens, index]

    def file_starts(self, _manifest: _core.Manifest) -> Words:
        """The first unit of each file, then the number of units."""
        return self.starts

    @property
    def dropped_tokens(self) -> int:
        """How many tokens are in no unit, over all files."""
        return int((self.tokens % self.packed.length).sum()) if self.packed.rest == "drop" else 0

    @property
    def num_bytes(self) -> int:
        """The bytes of the table."""
        return sum(entries.nbytes for entries in self.index) + 3 * self.starts.nbytes

    @property
    def told(self) -> str:
        """How units are made, as a state's hash has it."""
        packed = self.packed
        return f"packed {packed.names} {packed.length} {packed.separator is not None} {packed.rest}"

    @property
    def chunk_units(self) -> int:
        """How many units are decoded in one go."""
        return max(1, CHUNK_TOKENS // self.packed.length)

    def sequences(self, rows: Schema) -> _core.SequenceTable:
        """What makes the units of rows of a schema."""
        packed, separators = self.packed, None
        if packed.separator is not None:
            elements = [torch.full((1,), packed.separator, dtype=rows[name].dtype) for name in packed.names]
            separators = [bytes(element.view(torch.uint8).tolist()) for element in elements]
        files = (self.starts, self.first_ordinals, self.tokens)
        return _core.SequenceTable((packed.names, packed.length, separators), files, self.index, STRIDE)

    def ordinals(self, units: Intervals, manifest: _core.Manifest, columns: list[str]) -> Intervals:
        """The selected rows that have tokens in these units: the levels of their files are read again.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        groups, length, found = of_words(manifest.file_groups), self.packed.length, [units[:0]]
        for file, (start, end) in enumerate(pairwise(self.starts.tolist())):
            # How many of the units before each one of the file are among these.
            own = np.clip(units, start, end) - start
            own = own[own[:, 0] < own[:, 1]]
            if not len(own):
                continue
            marks = np.zeros(end - start + 1, np.int64)
            marks[own] = [1, -1]
            among = np.concatenate([[0], np.cumsum(np.cumsum(marks[:-1]))])
            before, first = 0, int(self.first_ordinals[file])
            for costs in list_lengths(manifest, columns, range(*groups[file : file + 2].tolist())):
                tokens = tokens_of(self.packed, costs)
                ends = before + np.cumsum(tokens)
                places = np.stack([(ends - tokens) // length, -(-ends // length)]).clip(max=end - start)
                is_left = (tokens > 0) & (among[places[1]] > among[places[0]])
                found.append(first + of_mask(is_left))
                before += int(tokens.sum())
                first += len(costs)
        return np.concatenate(found)

    def contents(self, manifest: _core.Manifest, columns: list[str]) -> Digests:
        """The digest of the tokens in each unit: the levels of the columns are read again.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        order = _core.Order.of_files(manifest)
        groups, lengths = of_words(manifest.file_groups), list_lengths(manifest, columns)
        length, starts = self.packed.length, self.starts
        found, first = np.zeros(int(starts[-1]), np.uint64), 0
        for file, of_file in enumerate(np.diff(groups).tolist()):
            before = 0
            for costs in islice(lengths, of_file):
                tokens = tokens_of(self.packed, costs)
                rows = of_runs(of_buffer(order.rows(np.array([[first, first + len(costs)]], np.int64))))
                begins = before + np.cumsum(tokens) - tokens
                units = np.column_stack([begins // length, -(-(begins + tokens) // length)])
                of = np.repeat(np.arange(len(units)), units[:, 1] - units[:, 0])
                whose = of_runs(units)
                parts = of_documents(
                    rows[of],
                    np.maximum(whose * length - begins[of], 0),
                    np.minimum((whose + 1) * length - begins[of], tokens[of]),
                )
                is_kept = (starts[file] + whose < starts[file + 1]) & (tokens[of] > 0)
                np.add.at(found, starts[file] + whose[is_kept], parts[is_kept])
                before += int(tokens.sum())
                first += len(costs)
        return found


def tokens_of(packed: Packed, lengths: Words) -> Words:
    """How many tokens documents of these lengths have, with what stands behind them."""
    return lengths if packed.separator is None else lengths + (lengths > 0)
