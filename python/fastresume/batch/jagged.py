"""`Jagged`: rows of different lengths, as list, string and binary columns have them in a batch."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import torch
from torch import Tensor

from fastresume import _core
from fastresume.amounts import plural
from fastresume.batch import arrow
from fastresume.batch.given_rows import check_handler, check_in_range, check_indices, check_rows, row_number
from fastresume.batch.keyed_jagged import KeyedRows, keyed_jagged_tensor, weights_of
from fastresume.batch.refusals import Refusals
from fastresume.messages import warn
from fastresume.options.attributes import METHODS_OF_JAGGED
from fastresume.options.checks import integer, number, quoted
from fastresume.options.device import check_move, on_device
from fastresume.options.unknown import refuse_attribute, takes_no_other

MAX_EXACT = 2.0**53
"""Floats that are whole are integers up to this."""

PLACES_AT_A_TIME = 1 << 18
"""Values are gathered this many at a time: the indices of all of them would take many times their bytes."""

_LONGEST_PAD = 4096
"""A wider matrix of much shorter rows is asked for by who means the value to fill up with."""

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""Torch moves no values of these unsigned types. It moves signed ones of the same width."""


@takes_no_other("fr.Jagged", "jagged")
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Jagged(Refusals):
    """Rows of different lengths, one after another: row i is `values[offsets[i]:offsets[i + 1]]`.

    It is a plain value, like a tensor: it may be copied, pickled, moved, and used in any thread. `len` is the
    number of rows. An integer index returns the values of a row, and a slice returns rows, both as views.

    Args:
        values: the values of all rows, `[n]`. Of a string or binary column, its bytes (uint8); of lists of
            lists or strings, a `Jagged` of all inner rows; of lists of bytes of one length k, uint8 `[n, k]`;
            of lists of lists of one length k, `[n, k]`.
        offsets: int64 `[B + 1]`, where each row begins and the last one ends, counted in values (or in inner
            rows); the first is 0.
        valid: bool `[B]`, False where a row is null (and has no values); None if nulls are not marked.
        kind: what the rows are: "list", or the bytes of "string" or "binary".
        values_valid: bool `[n]`, one for each value, False where an element of a list is null (its value is
            0); `[n, k]` of lists of one length k, one for each number in them. None if these are not marked:
            of what is no list of numbers, or unless nulls are masked. In a batch where none is null, one byte
            represents all (see `torch.Tensor.expand`): clone it to write.
        name: the key of these rows in a batch, for errors to name; None for rows of your own.

    Raises:
        TypeError, ValueError: if these are no rows. What offsets hold is looked at on the CPU alone.

    Examples:
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
        >>> tags = Jagged(words, torch.tensor([0, 1, 1, 3]))
        >>> tags
        Jagged(rows=3, values=Jagged(rows=3, values=uint8[6]))
        >>> tags[2]
        Jagged(rows=2, values=uint8[4])
        >>> tags.values.kind
        'list'
    """

    values: Any
    offsets: Tensor
    valid: Tensor | None = None
    kind: Literal["list", "string", "binary"] = "list"
    values_valid: Tensor | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_rows(
            self.values,
            self.offsets,
            self.valid,
            self.kind,
            self.values_valid,
            isinstance(self.values, Jagged),
        )

    @classmethod
    def _of(
        cls,
        values: Any,
        offsets: Tensor,
        valid: Tensor | None,
        kind: Any,
        values_valid: Tensor | None,
        name: str | None,
    ) -> Jagged:
        """Rows that are known to be right: a batch has many, and to look at each takes time."""
        made, set_part = object.__new__(cls), object.__setattr__
        set_part(made, "values", values)
        set_part(made, "offsets", offsets)
        set_part(made, "valid", valid)
        set_part(made, "kind", kind)
        set_part(made, "values_valid", values_valid)
        set_part(made, "name", name)
        return made

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values; for a `Jagged` of a `Jagged`, of the innermost ones."""
        found: torch.dtype = self.values.dtype
        return found

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.offsets.device

    @property
    def depth(self) -> int:
        """The number of dimensions with rows of different lengths: 1, 2 for a `Jagged` of a `Jagged`, ..."""
        return 1 + (self.values.depth if isinstance(self.values, Jagged) else 0)

    @property
    def lengths(self) -> Tensor:
        """The number of values (or inner rows) of each row: int64 `[B]`."""
        return self.offsets.diff()

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Jagged:
        """The same rows on a device; tensors that are there already are shared.

        Raises:
            TypeError, ValueError: if it is no device: a dtype, say.
            FastresumeError: if there is no such device.
        """
        check_move("jagged", "jagged.values", device, non_blocking)
        return on_device(
            device, lambda: self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))
        )

    def pin_memory(self) -> Jagged:
        """The same rows in pinned memory."""
        return self._map(torch.Tensor.pin_memory)

    def clone(self) -> Jagged:
        """The same rows in memory of their own; see `torch.Tensor.clone`."""
        return self._map(torch.Tensor.clone)

    def record_stream(self, stream: Any) -> None:
        """Tells the device's allocator that a stream uses the tensors; see `torch.Tensor.record_stream`."""
        for part in (self.values, self.offsets, self.valid, self.values_valid):
            if part is not None:
                part.record_stream(stream)

    def to_padded(
        self, length: int | None = None, value: float = 0, side: Literal["right", "left"] = "right"
    ) -> Tensor:
        """The rows as a matrix `[B, length]`, filled up; a null row is all padding.

        Args:
            length: elements of each row; that of the longest row if None.
            value: the value where a row has no element.
            side: where a row is filled up: after its elements ("right") or before them ("left").

        Raises:
            ValueError: if a row has more elements, `length` is below 0, or the type of the values can't hold
                `value`, as for `.pad()` of a column.
            TypeError: for a `Jagged` of a `Jagged`; if `length` is no integer, or `value` no number.

        Warns:
            UserWarning: if `length` is that of a vocabulary, and far above that of the rows: it may be meant
                as `value`.

        Examples:
            >>> import torch
            >>> Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3])).to_padded(value=-1)
            tensor([[ 7, -1],
                    [ 8,  9]])
        """
        if isinstance(self.values, Jagged):
            raise TypeError(f"rows of rows are no matrix: {self!r}; values.to_padded() pads the inner rows")
        if side not in ("right", "left"):
            raise ValueError(f"side must be 'right' or 'left', found {quoted(side)}")
        filling = number("value", value)
        if not _holds(self.values.dtype, filling):
            raise ValueError(
                f"the pad value {filling} does not fit, the values are {dtype_name(self.values.dtype)}"
            )
        lengths = self.lengths
        longest = int(lengths.max()) if len(lengths) else 0
        width = longest if length is None else integer("length", length)
        if width < 0:
            raise ValueError(
                f"length must be at least 0, found {width}: write to_padded(value={width}) to fill up"
            )
        if longest > width:
            row = int((lengths > width).nonzero()[0])
            way = "write to_padded(value=0) to fill up with 0"
            if width:
                pad = f"fr.col(name).pad({width}, truncate='head')"
                way = f"write {pad} in columns=, which keeps the first {width}"
            raise ValueError(
                f"row {row} has {plural(int(lengths[row]), 'element')}, to_padded has room for {width}: {way}"
            )
        if width > max(_LONGEST_PAD, 16 * longest) and value == 0:
            warn(
                f"to_padded({width}) makes rows of {width} elements, where the longest has {longest}: the "
                f"first argument is the length. To fill up with {width} write to_padded(value={width})"
            )
        places = torch.arange(width, device=lengths.device)
        own = places < lengths[:, None] if side == "right" else places >= width - lengths[:, None]
        sides = self.values.shape[1:]
        own = own.reshape(*own.shape, *(1 for _ in sides))
        shape = (len(lengths), width, *sides)
        dtype = self.values.dtype
        found = torch.full(shape, filling, dtype=dtype, device=self.values.device)
        values = self.values[int(self.offsets[0]) : int(self.offsets[-1])]
        if dtype in _SIGNED:
            found, values = found.view(_SIGNED[dtype]), values.view(_SIGNED[dtype])
        filled = found.masked_scatter(own, values)  # row after row, as the values are
        return filled.view(dtype) if dtype in _SIGNED else filled

    def to_nested(self) -> Tensor:
        """The rows as a nested tensor of layout `torch.jagged`, over the same memory; a null row is empty.

        Gradients flow back to `values`. It knows the length of its longest row, so that `to_padded_tensor`
        makes a matrix that wide. To look for it on a device waits for that.

        Raises:
            TypeError: for a `Jagged` of a `Jagged`: torch has one dimension of different lengths.

        Examples:
            >>> import torch
            >>> nested = Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3])).to_nested()
            >>> nested.to_padded_tensor(0)
            tensor([[7, 0],
                    [8, 9]])
        """
        if isinstance(self.values, Jagged):
            raise TypeError(
                f"a nested tensor has one dimension of rows of different lengths, {self!r} has {self.depth}; "
                "values.to_nested() gives the inner rows"
            )
        shortest, longest = torch.stack(self.lengths.aminmax()).tolist() if len(self) else (0, 0)
        nested: Tensor = torch.nested.nested_tensor_from_jagged(
            self.values, self.offsets, min_seqlen=shortest, max_seqlen=longest
        )
        return nested

    def to_keyed_jagged_tensor(self, key: str, weights: Jagged | None = None) -> Any:
        """The rows as torchrec's KeyedJaggedTensor of one key; a null row is empty.

        It is over the same memory, unless elements are marked as null: these are left out.

        Args:
            key: the name of the rows.
            weights: the weight of each value, in rows as the values are.

        Raises:
            ModuleNotFoundError: if torchrec is not installed.
            TypeError: for a `Jagged` of a `Jagged`.
            ValueError: if a row has another number of weights than of values.
        """
        return keyed_jagged_tensor({key: self._keyed_rows(key, weights)})

    def _keyed_rows(self, key: str, weights: Jagged | None) -> KeyedRows:
        """The rows, and the weights of their values, as a KeyedJaggedTensor takes them.

        Raises:
            TypeError: for a `Jagged` of a `Jagged`; names the key.
            ValueError: if a row has another number of weights than of values.
        """
        given = [one for one in (self, weights) if one is not None]
        deep = next((one for one in given if one.depth > 1 or one.values.dim() > 1), None)
        if deep is not None:
            raise TypeError(f"a KeyedJaggedTensor is made of lists of numbers: {key!r} is {deep}")
        own = None if weights is None else weights_of(key, self.offsets, weights.values, weights.offsets)
        return KeyedRows(self.values, self.offsets, own).without(self.values_valid)

    def to_arrow(self) -> Any:
        """The rows as a pyarrow array: large_list, large_string or large_binary, over the same memory.

        A `Jagged` of a `Jagged` becomes a large_list of these.

        Raises:
            ModuleNotFoundError: if pyarrow is not installed.
            ValueError: if a string is not UTF-8: a file may hold any bytes.

        Examples:
            >>> import torch
            >>> rows = Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3]))
            >>> rows.to_arrow().to_pylist()
            [[7], [8, 9]]
        """
        return arrow.of_rows(self.values, self.offsets, self.valid, self.kind, self.values_valid)

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """The rows for any reader of Arrow's C data interface, through pyarrow."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The rows' type for any reader of Arrow's C data interface, through pyarrow."""
        return self.to_arrow().type.__arrow_c_schema__()

    def to_list(self) -> list[list[Any] | None]:
        """The rows as lists of Python numbers; None for a row, or an element, that is marked as null.

        The rows of a `Jagged` of a `Jagged` are lists of such rows.

        Examples:
            >>> import torch
            >>> marks = torch.tensor([True, False, True])
            >>> Jagged(torch.tensor([7, 0, 9]), torch.tensor([0, 1, 3]), values_valid=marks).to_list()
            [[7], [None, 9]]
        """
        values = self.values.to_list() if isinstance(self.values, Jagged) else self.values.tolist()
        if self.values_valid is not None:
            values = _marked(values, self.values_valid.tolist())
        return self._sliced(values)

    def to_bytes(self) -> list[Any]:
        """The rows of a binary column as bytes; None for a row that `valid` marks as null.

        The rows of lists of strings or binary values are lists of bytes.

        Raises:
            TypeError: if the values are not bytes (uint8).
        """
        if isinstance(self.values, Jagged):
            return self._sliced(self.values.to_bytes())
        if self.values.dtype != torch.uint8:
            found = dtype_name(self.values.dtype)
            raise TypeError(f"the rows of strings and binary columns are uint8, found {found}")
        return self._sliced(self.values.cpu().numpy().tobytes())

    def to_strings(self, errors: str = "strict") -> list[Any]:
        """The rows of a string column as str; None for a row that `valid` marks as null.

        The rows of lists of strings are lists of str.

        Args:
            errors: what to do with a row that is not UTF-8, as for `bytes.decode`: a file may hold any bytes.

        Raises:
            TypeError: if the values are not bytes (uint8).
            ValueError: if Python has no such `errors`.
            DataError: if a row is not UTF-8 and `errors` is "strict"; names the column and the row of the
                batch; `dataset.locate(batch.rows())` finds the file.

        Examples:
            >>> import torch
            >>> words = Jagged(torch.tensor([99, 97, 102, 233], dtype=torch.uint8), torch.tensor([0, 4]))
            >>> words.to_strings(errors="replace")
            ['caf\ufffd']
        """
        check_handler(errors)
        return self._strings(errors, "row")

    def take(self, rows: Tensor) -> Jagged:
        """The rows with these indices (int64 `[n]`), in this order; an index may come more than once.

        Raises:
            TypeError: if they are no tensor of integers.
            IndexError: if there is no such row.

        Examples:
            >>> import torch
            >>> rows = Jagged(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3]))
            >>> rows.take(torch.tensor([1, 0, 1])).to_list()
            [[8, 9], [7], [8, 9]]
        """
        check_indices(rows)
        offsets = torch.zeros(len(rows) + 1, dtype=torch.int64, device=self.offsets.device)
        try:
            lengths = self.lengths.index_select(0, rows)
        except (IndexError, RuntimeError):
            check_in_range(rows, len(self))
            raise
        torch.cumsum(lengths, dim=0, out=offsets[1:])
        moves = self.offsets[:-1].index_select(0, rows) - offsets[:-1]
        valid = None if self.valid is None else self.valid.index_select(0, rows)
        if isinstance(self.values, Jagged):
            places = torch.cat([moves[:0], *_places(offsets, moves)])
            return Jagged._of(self.values.take(places), offsets, valid, self.kind, None, self.name)
        taken = _taken(self.values, offsets, moves)
        marks = None if self.values_valid is None else _taken(self.values_valid, offsets, moves)
        return Jagged._of(taken, offsets, valid, self.kind, marks, self.name)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Jagged:
        valid = None if self.valid is None else change(self.valid)
        values = self.values._map(change) if isinstance(self.values, Jagged) else change(self.values)
        marks = self.values_valid
        if marks is not None:
            # If one byte represents all marks, that byte is what is copied.
            marks = change(marks[:1]).expand(marks.shape) if is_one_byte(marks) else change(marks)
        return Jagged._of(values, change(self.offsets), valid, self.kind, marks, self.name)

    def _strings(self, errors: str, what: str) -> list[Any]:
        """The rows as str; `what` they are: rows of a batch, or elements of its lists."""
        if isinstance(self.values, Jagged):
            return self._sliced(self.values._strings(errors, "element"))
        column = "" if self.name is None else f"column '{self.name}', "
        named = enumerate(self.to_bytes())
        return [None if row is None else _text(row, errors, f"{column}{what} {n}") for n, row in named]

    def _sliced(self, values: Any) -> list[Any]:
        """The values of each row; None for a null row."""
        return [None if span is None else values[span] for span in self._spans()]

    def _spans(self) -> Iterator[slice | None]:
        """The slice of the values that each row is; None for a null row."""
        bounds = itertools.pairwise(self.offsets.tolist())
        marks = [True] * len(self) if self.valid is None else self.valid.tolist()
        for (begin, end), is_valid in zip(bounds, marks, strict=True):
            yield slice(begin, end) if is_valid else None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> Jagged: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            begin, end, step = row.indices(len(self))
            if step != 1:
                raise ValueError(f"a slice of rows must have the step 1, found {step}; see take()")
            bounds = self.offsets[begin : max(begin, end) + 1]
            valid = None if self.valid is None else self.valid[row]
            own = slice(int(bounds[0]), int(bounds[-1]))
            marks = None if self.values_valid is None else self.values_valid[own]
            return Jagged._of(self.values[own], bounds - bounds[0], valid, self.kind, marks, self.name)
        if type(row) is not int:
            row = row_number(row)
        count = len(self)
        if not -count <= row < count:
            raise IndexError(f"row {row} of {plural(count, 'row')}")
        row %= count
        return self.values[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def __iter__(self) -> Iterator[Any]:
        for begin, end in itertools.pairwise(self.offsets.tolist()):
            yield self.values[begin:end]

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what a tensor has."""
            hints = METHODS_OF_JAGGED
            if name not in hints and not name.startswith("_") and hasattr(Tensor, name):
                hints = {name: f".values.{name}, of the values of all rows"}
            refuse_attribute(self, name, "a Jagged", hints)

    def __repr__(self) -> str:
        marks = "" if self.valid is None else f", valid=bool[{len(self.valid)}]"
        if self.values_valid is not None:
            marks += f", values_valid=bool[{len(self.values_valid)}]"
        is_nested = isinstance(self.values, Jagged)
        values = repr(self.values) if is_nested else f"{dtype_name(self.dtype)}[{len(self.values)}]"
        return f"Jagged(rows={len(self)}, values={values}{marks})"


def _holds(dtype: torch.dtype, value: float) -> bool:
    """Whether a type has a number, as `.pad()` asks: a whole one exactly, others as the nearest float."""
    if isinstance(value, bool) and dtype != torch.bool:
        return False
    try:
        held = torch.tensor(value, dtype=dtype, device="cpu").item()
    except (RuntimeError, OverflowError, ValueError):  # torch's, of numbers beyond the type
        return False
    if held == value:
        return True
    is_whole = float(value).is_integer() and (isinstance(value, int) or abs(value) <= MAX_EXACT)
    return dtype.is_floating_point and not is_whole and math.isfinite(held) == math.isfinite(value)


def _marked(values: list[Any], marks: list[Any]) -> list[Any]:
    """The values, None where the mark is False; lists of values, where a mark is a list of these."""
    return [
        _marked(value, mark) if isinstance(mark, list) else value if mark else None
        for value, mark in zip(values, marks, strict=True)
    ]


def texts(values: list[bytes], what: str) -> list[str]:
    """The values as str.

    Raises:
        DataError: if one is not UTF-8; names it, and says what they are the values of.
    """
    return [_text(value, "strict", what) for value in values]


def _text(value: bytes, errors: str, what: str) -> str:
    try:
        return value.decode(errors=errors)
    except UnicodeDecodeError as cause:
        start = cause.start
    shown = value[max(start - 20, 0) : start + 20]
    raise _core.DataError(
        f"{what} holds text that is not UTF-8: {shown!r} around byte {start}; to_bytes() gives it as it is, "
        "to_strings(errors='replace') marks such bytes"
    )


def _places(offsets: Tensor, moves: Tensor) -> Iterator[Tensor]:
    """The source indices of rows' values, some at a time.

    int64 indices take eight times the bytes of a string.

    Args:
        offsets: the rows' offsets, int64 `[n + 1]`, from 0.
        moves: how far before its place the values of each row lie, int64 `[n]`.
    """
    total = int(offsets[-1])
    begins = torch.arange(0, total, PLACES_AT_A_TIME, device=offsets.device)
    ends = (begins + PLACES_AT_A_TIME).clamp_(max=total)
    first_rows = torch.searchsorted(offsets, begins, right=True) - 1
    end_rows = torch.searchsorted(offsets, ends)
    for begin, end, first, last in zip(
        begins.tolist(), ends.tolist(), first_rows.tolist(), end_rows.tolist(), strict=True
    ):
        counts = offsets[first : last + 1].clamp(begin, end).diff()
        places = torch.repeat_interleave(moves[first:last], counts)
        places += torch.arange(begin, end, device=offsets.device)
        yield places


def _refuse_change(rows: Jagged, name: str, *given: object) -> NoReturn:
    """Refuses to change rows; Lightning, which tries, would show an error of dataclasses by one of its own.

    Raises:
        AttributeError: it says what to write.
    """
    caller = str(sys._getframe(1).f_globals.get("__name__"))
    found, way = f"del .{name}", "write del batch['name'] for all of it"
    if given:
        found, way = f".{name} = {quoted(given[0])}", f"write dataclasses.replace(jagged, {name}=...)"
    if caller.startswith("lightning"):
        way = (
            "under this precision= pass ResumeCallback() to Lightning's Trainer; in Fabric give the model "
            "tensors, as jagged.values and jagged.offsets"
        )
    raise AttributeError(f"a Jagged can't be changed, found {found}: {way}", name=name, obj=rows)


# dataclass lets no class have these
Jagged.__setattr__ = Jagged.__delattr__ = _refuse_change  # type: ignore[method-assign,assignment]


def _taken(values: Tensor, offsets: Tensor, moves: Tensor) -> Tensor:
    """The values at the source indices of rows (see `_places`), one after another."""
    taken = values.new_empty((int(offsets[-1]), *values.shape[1:]))
    # As bytes, because torch can't index every dtype.
    width = values.shape[1:].numel()
    source, target = (tensor.reshape(-1, width).view(torch.uint8) for tensor in (values, taken))
    filled = 0
    for places in _places(offsets, moves):
        torch.index_select(source, 0, places, out=target[filled : filled + len(places)])
        filled += len(places)
    return taken


def is_one_byte(marks: Tensor) -> bool:
    """Whether one byte represents all marks."""
    return marks.numel() > 0 and not any(marks.stride())


def all_valid(*shape: int) -> Tensor:
    """Marks of valid values, which are one byte in memory."""
    return torch.ones((), dtype=torch.bool, device="cpu").expand(shape)


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype without its module, as numpy spells it."""
    return str(dtype).removeprefix("torch.")
