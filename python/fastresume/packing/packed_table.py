"""The tokens, and their rows, that each packed sequence is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer, of_mask, of_runs, of_words
from fastresume.messages import warn
from fastresume.options.units import Packed
from fastresume.packing.content import of_documents
from fastresume.packing.costs import list_lengths

Words = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]

_OF_MASKS = (torch.bool, torch.int8, torch.uint8)
_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32)
"""What `.cast(torch.int64)` makes larger."""

_MANY = 0.02
"""Of tokens that are dropped: a greater share is a warning."""

Packing = tuple[tuple[str, ...], int, list[bytes] | None]


@dataclass(frozen=True)
class PackedTable:
    """The sequences of all files.

    Args:
        packed: how they are made.
        core: which rows each is cut from.

    Attributes:
        starts: the first sequence of each file, then their number: int64 `[files + 1]`.
        cut: the tokens of each file that they are cut from: int64 `[files, 2]`.
    """

    packed: Packed
    core: _core.UnitTable
    starts: Words = field(init=False, compare=False, repr=False)
    cut: Intervals = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", of_words(self.core.arrays()[0]))
        object.__setattr__(self, "cut", of_buffer(self.core.cut()))

    def __reduce__(self) -> tuple[type[PackedTable], tuple[Packed, _core.UnitTable]]:
        return PackedTable, (self.packed, self.core)

    @property
    def dropped_tokens(self) -> int:
        """How many tokens are in no unit, over all files."""
        return self.core.dropped_tokens()

    @property
    def num_bytes(self) -> int:
        """The bytes of the table."""
        return self.core.num_bytes()

    def warn_of_drops(self) -> None:
        """Warns where the ends of files that fill no sequence are many tokens."""
        dropped, kept = self.dropped_tokens, int(self.starts[-1]) * self.packed.length
        if dropped > _MANY * (dropped + kept):
            warn(
                f"fr.Packed drops {dropped:,} of {dropped + kept:,} tokens, which fill no sequence at the "
                "ends of files: rest='pad' keeps them"
            )

    def packing(self, rows: Schema) -> Packing:
        """How rows of a schema are packed, as the core takes it."""
        packed, separators = self.packed, None
        if packed.separator is not None:
            separators = [
                separator_bytes(value, name, rows[name].dtype) for name, value in packed.separators.items()
            ]
        return packed.names, packed.length, separators

    def tokens_in(self, units: Intervals) -> list[Intervals]:
        """Of each file, the tokens that are in sorted sequences."""
        found = []
        for (start, end), (first, last) in zip(
            pairwise(self.starts.tolist()), self.cut.tolist(), strict=True
        ):
            own = np.clip(units, start, end) - start
            found.append((first + own[own[:, 0] < own[:, 1]] * self.packed.length).clip(max=last))
        return found

    def ordinals(self, units: Intervals, manifest: _core.Manifest, columns: list[str]) -> Intervals:
        """The selected rows that have tokens in these units: the levels of their files are read again.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        groups, first_ordinals = of_words(manifest.file_groups), of_words(self.core.arrays()[1])
        length, found = self.packed.length, [units[:0]]
        for file, (start, end) in enumerate(pairwise(self.starts.tolist())):
            # How many of the units before each one of the file are among these.
            own = np.clip(units, start, end) - start
            own = own[own[:, 0] < own[:, 1]]
            if not len(own):
                continue
            marks = np.zeros(end - start + 1, np.int64)
            marks[own] = [1, -1]
            among = np.concatenate([[0], np.cumsum(np.cumsum(marks[:-1]))])
            before, first = 0, int(first_ordinals[file])
            for costs in list_lengths(manifest, columns, range(*groups[file : file + 2].tolist())):
                tokens = tokens_of(self.packed, costs)
                ends = before + np.cumsum(tokens) - self.cut[file, 0]
                places = np.stack([(ends - tokens) // length, -(-ends // length)]).clip(0, end - start)
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
            before, (first_token, end_token) = 0, self.cut[file].tolist()
            for costs in islice(lengths, of_file):
                tokens = tokens_of(self.packed, costs)
                rows = of_runs(of_buffer(order.rows(np.array([[first, first + len(costs)]], np.int64))))
                begins = before + np.cumsum(tokens) - tokens
                # What is cut of each row, among all its tokens.
                own = np.clip([begins, begins + tokens], first_token, end_token) - begins
                places = own + begins - first_token
                units = np.column_stack([places[0] // length, -(-places[1] // length)])
                units[own[0] >= own[1]] = 0
                of = np.repeat(np.arange(len(units)), units[:, 1] - units[:, 0])
                whose = of_runs(units)
                shift = first_token - begins[of]
                parts = of_documents(
                    rows[of],
                    np.maximum(whose * length + shift, own[0][of]),
                    np.minimum((whose + 1) * length + shift, own[1][of]),
                )
                is_kept = starts[file] + whose < starts[file + 1]
                np.add.at(found, starts[file] + whose[is_kept], parts[is_kept])
                before += int(tokens.sum())
                first += len(costs)
        return found


def separator_bytes(separator: int, name: str, dtype: torch.dtype) -> bytes:
    """The separator as an element of a column.

    Raises:
        ValueError: if the column's type can't hold it.
    """
    try:
        element = torch.tensor([separator], dtype=dtype)
    except (RuntimeError, OverflowError, ValueError):
        element = torch.zeros(1, dtype=dtype)
    if element.item() != separator:
        way = f"name a number that it can hold, as separator={{..., {name!r}: 0}}"
        if dtype in _INTEGERS and -(2**63) <= separator < 2**63:
            way = f"write fr.col({name!r}).cast(torch.int64) in columns="
        if dtype in _OF_MASKS:
            way += "; a mask need not be packed, as it is batch['document'] >= 0"
        raise ValueError(f"separator={separator} does not fit {name!r}, which is {dtype}: {way}")
    return bytes(element.view(torch.uint8).tolist())


def tokens_of(packed: Packed, lengths: Words) -> Words:
    """How many tokens documents of these lengths have, with what follows them."""
    return lengths if packed.separator is None else lengths + (lengths > 0)
