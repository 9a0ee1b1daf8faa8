"""How many units the rows of partitions make, and how many rows and tokens these have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, cast

import numpy as np

import fastresume._core as _core
from fastresume.buffers import of_words
from fastresume.kafka.buffer import Index
from fastresume.kafka.decoder import Numbers
from fastresume.kafka.round import Stretch
from fastresume.kafka.source import RoundSource
from fastresume.options.units import Packed, Unit
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.costs import list_lengths
from fastresume.packing.index import table_of
from fastresume.packing.packed_table import PackedTable, tokens_of
from fastresume.sources.opened import opened

Table = PackedTable | BinsTable


class Taking(NamedTuple):
    """The first rows of a partition, and how many tokens of the last one; 0 for all of them."""

    rows: int
    tokens: int = 0


class MadeOf(Protocol):
    """What the first rows of a partition make."""

    @property
    def count(self) -> int:
        """How many."""

    def taking(self, count: int) -> Taking:
        """What the first `count` of them have."""


@dataclass(frozen=True)
class MadeOfRows:
    """Rows, which count by themselves."""

    count: int

    def taking(self, count: int) -> Taking:
        """As many rows."""
        return Taking(count)


@dataclass(frozen=True)
class BinsOf:
    """Bins.

    Args:
        firsts: the first row of each, and the number of rows.
        count: how many of them no later row can be in.
    """

    firsts: Numbers
    count: int

    def taking(self, count: int) -> Taking:
        """The rows of the first bins."""
        return Taking(int(self.firsts[count]))


@dataclass(frozen=True)
class SequencesOf:
    """Packed sequences.

    Args:
        ends: the tokens of the rows up to each one, with it.
        begin: how many of them were delivered before.
        length: the tokens of a sequence.
        count: how many there are.
    """

    ends: Numbers
    begin: int
    length: int
    count: int

    def taking(self, count: int) -> Taking:
        """The rows that have tokens of the first sequences, and rows without a token after them."""
        end = min(self.begin + count * self.length, int(self.ends[-1]) if len(self.ends) else 0)
        rows = int(np.searchsorted(self.ends, end, "right"))
        before = int(self.ends[rows - 1]) if rows else 0
        if end == before or count == 0:
            return Taking(rows if end == before else 0)
        return Taking(rows + 1, end - before)


class UnitCounter:
    """Counts units by what makes the index of them.

    Args:
        unit: how rows become units.
        columns: the names of the columns that tell what rows cost.
    """

    def __init__(self, unit: Unit, columns: list[str]) -> None:
        self._unit = unit
        self._columns = columns

    def made(self, source: RoundSource, are_last: Sequence[bool]) -> list[MadeOf]:
        """What the rows of each stretch make.

        Args:
            source: the rows.
            are_last: whether no more rows will come after those of a stretch: what they leave is a unit, too.

        Raises:
            DataError: if rows can't be put together so.
        """
        if isinstance(self._unit, Packed):
            return self._sequences(self._unit, source, are_last)
        manifest = opened(source)
        table = cast("BinsTable", table_of(manifest, self._unit, self._columns))
        firsts, starts = table.first_ordinals, table.starts
        found: list[MadeOf] = []
        groups = of_words(manifest.file_groups)
        for (first, end), is_last in zip(pairwise(starts[groups].tolist()), are_last, strict=True):
            own = firsts[first : end + 1] - firsts[first]
            is_full = end > first and own[-1] - own[-2] == self._unit.most_rows
            found.append(BinsOf(own, end - first - (not (is_last or is_full) and end > first)))
        return found

    def _sequences(self, packed: Packed, source: RoundSource, are_last: Sequence[bool]) -> list[MadeOf]:
        found: list[MadeOf] = []
        each = zip(source.stretches, self._tokens(packed, source, opened(source)), are_last, strict=True)
        for stretch, tokens, is_last in each:
            ends, begin = np.cumsum(tokens), stretch.begin.tokens
            own = int(ends[-1]) - begin
            is_filled_up = is_last and packed.rest == "pad"
            count = -(-own // packed.length) if is_filled_up else own // packed.length
            found.append(SequencesOf(ends, begin, packed.length, count))
        return found

    def table(self, source: RoundSource) -> tuple[Table, list[Index]]:
        """Which rows each unit of a round is made of, and its messages, with their tokens if they are packed.

        Raises:
            DataError: if rows can't be put together so.
        """
        manifest = opened(source)
        if not isinstance(self._unit, Packed):
            return table_of(manifest, self._unit, self._columns), source.indices
        cut, indices = [], []
        all_tokens = self._tokens(self._unit, source, manifest)
        for stretch, index, tokens in zip(source.stretches, source.indices, all_tokens, strict=True):
            cut.append(_cut(stretch, tokens))
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens)])
            indices.append(Index(index.offsets, index.starts, index.times, starts[index.starts]))
        return table_of(manifest, self._unit, self._columns, cut), indices

    def _tokens(self, packed: Packed, source: RoundSource, manifest: _core.Manifest) -> list[Numbers]:
        """Of each stretch, how many tokens each row has."""
        found = np.concatenate([np.zeros(0, np.int64), *list_lengths(manifest, self._columns)])
        return np.split(tokens_of(packed, found), np.cumsum([one.rows for one in source.stretches])[:-1])


def _cut(stretch: Stretch, tokens: Numbers) -> tuple[int, int]:
    """Which of the tokens of its rows a stretch has."""
    total = int(tokens.sum())
    end = total - int(tokens[-1]) + stretch.end.tokens if stretch.end.tokens else total
    return stretch.begin.tokens, end
