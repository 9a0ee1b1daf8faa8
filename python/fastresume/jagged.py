"""Rows of different lengths: what a list, string or binary column is in a batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Jagged:
    """Rows of different lengths, one after another: row i is `values[offsets[i]:offsets[i + 1]]`.

    A plain value, like a tensor: it may be copied, pickled, moved, and used in any thread. `len` is the
    number of rows, an integer index gives the values of a row and a slice gives rows, both as views.

    Args:
        values: the values of all rows, 1-d; the bytes (uint8) of a string or binary column.
        offsets: int64 `[B + 1]`, where each row begins and the last one ends; the first is 0.
        valid: bool `[B]`, False where a row is null (it has no values then); None if nulls are not marked.

    Example:
        >>> import torch
        >>> words = Jagged(torch.tensor([104, 105, 240, 159, 166, 128], dtype=torch.uint8),
        ...                torch.tensor([0, 2, 2, 6]))
        >>> words
        Jagged(rows=3, values=uint8[6])
        >>> words.to_strings()
        ['hi', '', '🦀']
        >>> words[0]
        tensor([104, 105], dtype=torch.uint8)
        >>> words[1:].to_list()
        [[], [240, 159, 166, 128]]
    """

    values: Tensor
    offsets: Tensor
    valid: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.values.device

    @property
    def lengths(self) -> Tensor:
        """How many values each row has: int64 `[B]`."""
        return self.offsets.diff()

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Jagged:
        """The same rows on a device; tensors that are there already are shared."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Jagged:
        """The same rows in pinned memory."""
        return self._map(torch.Tensor.pin_memory)

    def to_nested(self) -> Tensor:
        """The rows as a nested tensor of layout `torch.jagged`, over the same memory; a null row is empty."""
        nested: Tensor = torch.nested.nested_tensor_from_jagged(self.values, self.offsets)
        return nested

    def to_list(self) -> list[list[Any] | None]:
        """The rows as lists of Python numbers; None for a row that `valid` marks as null."""
        values = self.values.tolist()
        return [None if span is None else values[span] for span in self._spans()]

    def to_bytes(self) -> list[bytes | None]:
        """The rows of a binary column; None for a row that `valid` marks as null.

        Raises:
            TypeError: if the values are not bytes (uint8).
        """
        if self.values.dtype != torch.uint8:
            found = dtype_name(self.values.dtype)
            raise TypeError(f"the rows of strings and binary columns are uint8, found {found}")
        values = self.values.cpu().numpy().tobytes()
        return [None if span is None else values[span] for span in self._spans()]

    def to_strings(self) -> list[str | None]:
        """The rows of a string column; None for a row that `valid` marks as null.

        Raises:
            TypeError: if the values are not bytes (uint8).
            UnicodeDecodeError: if a row is not UTF-8: a file may hold any bytes.
        """
        return [None if row is None else row.decode() for row in self.to_bytes()]

    def take(self, rows: Tensor) -> Jagged:
        """The rows with these indices (int64 `[n]`), in this order; one may come more than once.

        Example:
            >>> import torch
            >>> rows = Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3]))
            >>> rows.take(torch.tensor([1, 0, 1])).to_list()
            [[8, 9], [7], [8, 9]]
        """
        starts = self.offsets[:-1].index_select(0, rows)
        lengths = self.lengths.index_select(0, rows)
        offsets = torch.zeros(len(rows) + 1, dtype=torch.int64, device=self.offsets.device)
        torch.cumsum(lengths, dim=0, out=offsets[1:])
        moves = torch.repeat_interleave(starts - offsets[:-1], lengths)
        places = torch.arange(len(moves), device=moves.device) + moves
        valid = None if self.valid is None else self.valid.index_select(0, rows)
        return Jagged(take_rows(self.values, places), offsets, valid)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Jagged:
        valid = None if self.valid is None else change(self.valid)
        return Jagged(change(self.values), change(self.offsets), valid)

    def _spans(self) -> Iterator[slice | None]:
        """Where each row is in the values; None of a null row."""
        bounds = itertools.pairwise(self.offsets.tolist())
        marks = [True] * len(self) if self.valid is None else self.valid.tolist()
        for (begin, end), is_valid in zip(bounds, marks, strict=True):
            yield slice(begin, end) if is_valid else None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> Tensor: ...
    @overload
    def __getitem__(self, row: slice) -> Jagged: ...
    def __getitem__(self, row: int | slice) -> Tensor | Jagged:
        if isinstance(row, slice):
            begin, end, step = row.indices(len(self))
            if step != 1:
                raise ValueError(f"a slice of rows must have the step 1, found {step}; see take()")
            bounds = self.offsets[begin : max(begin, end) + 1]
            valid = None if self.valid is None else self.valid[row]
            return Jagged(self.values[int(bounds[0]) : int(bounds[-1])], bounds - bounds[0], valid)
        count = len(self)
        if not -count <= row < count:
            raise IndexError(f"row {row} of {count} rows")
        row %= count
        return self.values[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def __iter__(self) -> Iterator[Tensor]:
        for begin, end in itertools.pairwise(self.offsets.tolist()):
            yield self.values[begin:end]

    def __repr__(self) -> str:
        marks = "" if self.valid is None else f", valid=bool[{len(self.valid)}]"
        return f"Jagged(rows={len(self)}, values={dtype_name(self.dtype)}[{len(self.values)}]{marks})"


def take_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """The rows of a tensor with these indices (int64 `[n]`), in this order, whatever its type."""
    if tensor.numel() == 0:
        return tensor.new_empty((len(rows), *tensor.shape[1:]))
    # Bytes, as torch can't index every type.
    flat = tensor.reshape(len(tensor), -1).view(torch.uint8)
    return flat.index_select(0, rows).view(tensor.dtype).reshape(len(rows), *tensor.shape[1:])


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a type without its module, as numpy spells it."""
    return str(dtype).removeprefix("torch.")
