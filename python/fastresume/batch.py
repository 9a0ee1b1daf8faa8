"""One batch: tensors by name, and the cursor that rides on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from fastresume import _core, arrow
from fastresume.arguments import at_least
from fastresume.cursor import Cursor
from fastresume.intervals import of_runs
from fastresume.jagged import Jagged, dtype_name, keyed_jagged_tensor
from fastresume.origin import Origin, Share, of_a_pass
from fastresume.seeds import batch_seed, row_seeds

Tensors = dict[str, Tensor | Jagged]
"""What a batch holds: tensors by name, and of lists, strings and binary columns a `Jagged`."""

FieldKind = Literal[
    "scalar", "list", "string", "binary", "list<list>", "list<string>", "list<binary>", "mask", "length"
]
"""What the rows of a field are."""


@dataclass(frozen=True)
class Field:
    """One key of a batch, known before the first batch.

    Args:
        name: the key.
        dtype: its element type; uint8 for the bytes of strings and binary columns.
        columns: the columns of the files that it holds.
        is_stacked: whether it is a matrix `[B, k]` of k columns, rather than `[B]`.
        kind: "scalar"; "list", "string" or "binary", which are a `Jagged`; "list<list>", "list<string>" or
            "list<binary>", which are a `Jagged` of a `Jagged`; "mask" for the tensor that says where the one
            before it, of the same columns, is null; "length" for the one that says how many elements of a
            padded row are its own.
        is_masked: whether nulls are marked: by the mask that follows, or by the `valid` of a `Jagged`.
        size: how many elements a row has, of a matrix `[B, n]` of one column: bytes of one length, lists that
            all have as many, or what `pad=` names; else None.
        unit: what its numbers count or stand for, where their type alone does not say it:
            "timestamp[us, UTC]" (ms, us or ns; without UTC, in no time zone), "date[day]", "time[us]",
            "duration[us]", "decimal(9, 2)" (units of 0.01), "uuid", "interval",
            "hash1[1000, seed 7]" (buckets); else None.
        sizes: where a row is lists in a list, how many elements these have at each level: (k1, k2) of a
            tensor `[B, k1, k2]`, whose `size` is k1 * k2; else empty.
    """

    name: str
    dtype: torch.dtype
    columns: tuple[str, ...]
    is_stacked: bool
    kind: FieldKind = "scalar"
    is_masked: bool = False
    size: int | None = None
    unit: str | None = None
    sizes: tuple[int, ...] = ()

    @cached_property
    def width(self) -> int | None:
        """Of a matrix `[B, k]`, k: its columns, or what a row of its only one has; else None."""
        return len(self.columns) if self.is_stacked else self.size

    @property
    def is_jagged(self) -> bool:
        """Whether it is a `Jagged` rather than a tensor."""
        return self.kind not in ("scalar", "mask", "length")

    @property
    def is_nested(self) -> bool:
        """Whether it is a `Jagged` whose values are a `Jagged`: lists of lists, and of strings."""
        return self.kind.startswith("list<")

    @property
    def shape(self) -> tuple[str | int, ...]:
        """`("B",)`, `("B", k)`, `("B", k1, k2)`, or `("B", "*")` of a `Jagged`; B is the number of rows.

        `("B", "*", "*")` of a `Jagged` of a `Jagged`.
        """
        if self.is_nested:
            return ("B", "*", "*")
        return ("B", "*") if self.is_jagged else ("B", *self._sides)

    @property
    def _sides(self) -> tuple[int, ...]:
        """What a row of a tensor has, side by side."""
        return self.sizes or (() if self.width is None else (self.width,))

    def _types(self) -> list[tuple[str, torch.dtype, tuple[int, ...]]]:
        """The types of the tensors that it is made of, and their sides behind the first one."""
        types = [(self.dtype, self._sides)]
        if self.is_jagged:
            ends = [torch.int64, torch.bool] if self.is_masked else [torch.int64]
            types += [(dtype, ()) for dtype in ends * len(self.kind.split("<"))]
        return [(dtype_name(dtype), dtype, sides) for dtype, sides in types]

    def _of_tensors(self, tensors: Iterator[Tensor]) -> Tensor | Jagged:
        """What the next tensors are, as the core filled them."""
        tensor = next(tensors)
        if not self.is_jagged:
            return tensor
        kinds = self.kind.removesuffix(">").split("<")
        values: Any = tensor
        # The innermost rows are the first ones.
        kind: Any
        for kind in reversed(kinds):
            offsets = next(tensors)
            valid = next(tensors) if self.is_masked else None
            values = Jagged(values, offsets, valid, kind)
        rows: Jagged = values
        return rows


def _over(buffer: _core.Buffer, dtype: torch.dtype) -> Tensor:
    """A tensor over memory, where torch is too old to have a quicker way."""
    return torch.frombuffer(buffer, dtype=dtype) if len(buffer) else torch.empty(0, dtype=dtype)


class Schema(Mapping[str, Field]):
    """The keys of a batch in their order, and what each is; prints as a table.

    Where nulls are masked, a tensor is followed by its mask, a field of its own.

    Example:
        >>> dataset.schema["dense"].shape
        ('B', 3)
        >>> dataset.schema
        label: float32 [B]
        c_0: int64 [B]
        dense: float32 [B, 3] i_0, i_1, i_2
    """

    def __init__(self, layout: _core.Layout) -> None:
        self._fields: dict[str, Field] = {}
        for told in layout.fields:
            shape = told.shape
            field = Field(
                name=told.name,
                dtype=getattr(torch, told.dtype),
                columns=tuple(told.columns),
                is_stacked=told.is_stacked,
                kind=told.kind,
                is_masked=told.is_masked,
                size=prod(shape) if shape else None,
                unit=told.unit,
                sizes=tuple(shape) if len(shape) > 1 else (),
            )
            self._fields[field.name] = field
            if field.is_masked and not field.is_jagged:
                mask = f"{field.name}_valid"
                self._fields[mask] = Field(mask, torch.bool, field.columns, field.is_stacked, "mask")
        # What each batch needs, at hand.
        self.fields = tuple(self._fields.values())
        self.masked = frozenset(
            field.name for field in self.fields if field.is_masked and not field.is_jagged
        )
        self._has_jagged = any(field.is_jagged for field in self.fields)
        types = [of_tensor for field in self.fields for of_tensor in field._types()]
        exchange = getattr(Tensor, "__dlpack_c_exchange_api__", None)
        self._maker = _core.TensorMaker(types, _over, exchange)

    def tensors(self, memory: _core.Memory) -> Tensors:
        """The tensors of a batch over the memory that the core filled; they own it, nothing is copied."""
        made = self._maker.tensors(memory)
        if not self._has_jagged:  # at once: a batch may have hundreds of these
            return dict(zip(self._fields, made, strict=True))
        tensors = iter(made)
        return {field.name: field._of_tensors(tensors) for field in self.fields}

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        lines = []
        for field in self.values():
            shape = "[" + ", ".join(map(str, field.shape)) + "]"
            notes = ", ".join(field.columns) if field.is_stacked else ""
            if field.is_jagged:
                innermost = field.kind.removeprefix("list<").removesuffix(">")
                kind = "" if innermost == "list" else innermost
                notes = ", ".join(filter(None, (kind, "valid" if field.is_masked else "")))
            lines.append(
                " ".join(
                    filter(None, (f"{field.name}: {dtype_name(field.dtype)} {shape}", field.unit, notes))
                )
            )
        return "\n".join(lines)


class Batch(MutableMapping[str, Tensor | Jagged]):
    """The rows of one step on one rank: a mapping of names to tensors, with its cursor.

    Tensors are `[B]`, or `[B, k]` for stacked columns, on the CPU, and own their memory; lists, strings and
    binary columns are a `Jagged` of such tensors. The cursor stays with the batch through `copy.copy`,
    pickle, `pin_memory()`, `to()` and torch's `default_convert`. A batch is a plain value: it may be used in
    any thread and after a fork.

    Example:
        >>> for batch in loader:
        ...     train(batch["dense"])
        ...     save({"data": batch.state_dict()})
        >>> batch
        Batch(rows=32, epoch=0, step=2, {label: float32[32], c_0: int64[32], dense: float32[32, 3]})
    """

    __slots__ = ("__weakref__", "_origin", "_tensors")

    def __init__(self, tensors: Tensors, origin: Origin | None = None) -> None:
        if origin is None:
            raise TypeError(
                "a Batch is made of what a dataset reads, and not of other tensors: a wrapper that slices or "
                "joins batches (Accelerate's dispatcher, say) must be told to leave them as they are, with "
                "dispatch_batches=False, or, like Transformers' Trainer, be given dict(batch): see "
                "docs/FRAMEWORKS.md"
            )
        self._tensors = tensors
        self._origin = origin

    @property
    def num_rows(self) -> int:
        """The number of rows, B."""
        return self._origin.num_rows

    @property
    def epoch(self) -> int:
        """The number of the pass that it belongs to, counted over all jobs."""
        return of_a_pass(self._origin.epoch)

    @property
    def step(self) -> int:
        """Global batches of its pass that were delivered before it, over all cuts."""
        return of_a_pass(self._origin.step)

    @property
    def batches_left(self) -> int:
        """Batches that each rank gets in its pass after this one: 0 for the last one of a pass."""
        return of_a_pass(self._origin.share).left(self.step)

    @property
    def cursor(self) -> Cursor:
        """The cursor after this batch.

        Raises:
            FastresumeError: as `state_dict`, `epoch` and `step` do, if the rows were read by their numbers.
        """
        return Cursor(of_a_pass(self._origin.cursor))

    @property
    def cursor_before(self) -> Cursor:
        """The cursor before this batch: who loads it gets this batch first.

        Raises:
            FastresumeError: if the rows were read by their numbers.
        """
        return Cursor(of_a_pass(self._origin.share).before(self.step))

    @property
    def valid(self) -> Tensor:
        """Which rows are delivered for the first time: bool `[B]`, on the device of the tensors.

        All of them but in the last batch of a pass under `tail="pad"`, where copies fill it up.
        """
        return torch.arange(self.num_rows, device=self._device()) < self._origin.valid_rows

    def state_dict(self) -> dict[str, str]:
        """The state after this batch: what `load_state_dict` takes to go on with the next one.

        One leaf under the key "fastresume", some hundred bytes; under lockstep training the same on
        every rank. Takes no lock, asks no worker, changes nothing.
        """
        return self.cursor.to_state()

    def rows(self) -> npt.NDArray[np.int64]:
        """The row numbers, int64 `[B]`: all rows of the dataset's files are counted, in their order."""
        return of_runs(self._origin.runs)

    def row_seeds(self, draw: int = 0) -> Tensor:
        """A random number for each row: int64 `[B]` of all 64 bits, on the device of the tensors.

        A function of the dataset's seed, the epoch, the row's position in the order of the pass, and `draw`:
        the same for a row on any number of ranks and workers, at any batch size and after any resume, and
        another one in each pass. No two rows of a pass have the same. A copy that fills a batch up has that
        of its original.

        Args:
            draw: which one of a row's numbers, at least 0; each is independent of the others.

        Raises:
            FastresumeError: if the rows were read by their numbers.

        Example:
            >>> uniform = batch.row_seeds().bitwise_and(2**24 - 1) / 2**24
            >>> bool((uniform >= 0).all() and (uniform < 1).all())
            True
        """
        number = at_least(0, "draw", draw)
        seeds = row_seeds(self._origin.positions(), of_a_pass(self._origin.share).seed, self.epoch, number)
        return torch.from_numpy(seeds).to(self._device())

    def generator(self, device: torch.device | str | int = "cpu", draw: int = 0) -> torch.Generator:
        """A generator of random numbers for this batch, newly seeded by each call.

        Its seed is a function of the dataset's seed, the epoch, the step, the rank and `draw`, so that ranks
        draw different numbers. They come again after a resume under the same cut (ranks, workers, lanes,
        batch size); those of `row_seeds()` under any.

        Args:
            device: where random numbers will be drawn.
            draw: which one of the batch's generators, at least 0: two transforms of one dataset draw
                independently by two numbers.

        Raises:
            FastresumeError: if the rows were read by their numbers.

        Example:
            >>> noise = torch.randn(batch.num_rows, generator=batch.generator())
            >>> torch.equal(noise, torch.randn(batch.num_rows, generator=batch.generator()))
            True
        """
        share, number = of_a_pass(self._origin.share), at_least(0, "draw", draw)
        generator = torch.Generator(device)
        return generator.manual_seed(batch_seed(share.seed, self.epoch, self.step, share.rank, number))

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on a device; tensors that are there already are shared.

        What a transform put in beside tensors moves, too, if it has a method `to`.

        Args:
            device: where to.
            non_blocking: don't wait for copies from pinned memory; see `torch.Tensor.to`.
        """
        return self._each("to", device, non_blocking=non_blocking)

    def to_arrow(self) -> Any:
        """The batch as a pyarrow RecordBatch, over the same memory where Arrow lays values out alike.

        Matrices become lists of fixed size, a `Jagged` a large_list (of large_lists, ...), large_string or
        large_binary; a mask (`name + "_valid"`) says which values of `name` are null, and is no column of its
        own. Numbers are not copied; bools and masks are, to bits, and what is on another device.

        Raises:
            ModuleNotFoundError: if pyarrow is not installed.
            TypeError: for a value that is no column: neither a tensor with rows nor a `Jagged`.
            ValueError: if columns differ in their numbers of rows, or a string is not UTF-8.

        Example:
            >>> batch.to_arrow().schema.field("label")
            pyarrow.Field<label: float>
        """
        return arrow.of_batch(self._tensors, self._origin.masked)

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """The batch for any reader of Arrow's C interface (polars, DuckDB, ...); through pyarrow."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Its schema for any reader of Arrow's C interface; through pyarrow."""
        return self.to_arrow().schema.__arrow_c_schema__()

    def to_keyed_jagged_tensor(self, names: Iterable[str]) -> Any:
        """Lists of these names as torchrec's KeyedJaggedTensor, in their order; null rows are empty.

        Of one name over the same memory; of several the values are copied, one key after the other.

        Raises:
            ModuleNotFoundError: if torchrec is not installed.
            TypeError: if one is no `Jagged`, or a `Jagged` of a `Jagged`.
            ValueError: if they differ in type.
        """
        rows: dict[str, Jagged] = {}
        for name in names:
            value = self[name]
            if not isinstance(value, Jagged):
                raise TypeError(f"{name!r} is a {type(value).__name__}: a KeyedJaggedTensor is made of lists")
            rows[name] = value
        return keyed_jagged_tensor(rows)

    def pin_memory(self) -> Self:
        """The same batch with its tensors in pinned memory."""
        return self._each("pin_memory")

    def _each(self, method: str, *arguments: object, **keywords: object) -> Self:
        """The same batch with what a method of each value gives; one that has no such method stays."""
        values: dict[str, Any] = self._tensors
        changed = {
            name: getattr(value, method)(*arguments, **keywords) if hasattr(value, method) else value
            for name, value in values.items()
        }
        return self._like(changed)

    def _device(self) -> torch.device | None:
        values: dict[str, Any] = self._tensors
        return next((value.device for value in values.values() if isinstance(value, Tensor | Jagged)), None)

    def _like(self, tensors: Tensors) -> Self:
        return type(self)(tensors, self._origin)

    def __copy__(self) -> Self:
        return self._like(dict(self._tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._tensors, self._origin)

    def __getitem__(self, name: str) -> Tensor | Jagged:
        try:
            return self._tensors[name]
        except (KeyError, TypeError):  # a slice has a hash in some releases of Python, and none in others
            raise _no_tensor(name, self._tensors) from None

    def __setitem__(self, name: str, tensor: Tensor | Jagged) -> None:
        self._tensors[name] = tensor

    def __delitem__(self, name: str) -> None:
        del self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        def describe(value: object) -> str:
            if isinstance(value, Tensor):
                return f"{dtype_name(value.dtype)}{list(value.shape)}"
            if isinstance(value, Jagged):
                return f"{dtype_name(value.dtype)}[{len(value)}{', *' * value.depth}]"
            return type(value).__name__

        tensors = ", ".join(f"{name}: {describe(value)}" for name, value in self._tensors.items())
        place = (
            "" if self._origin.epoch is None else f"epoch={self._origin.epoch}, step={self._origin.step}, "
        )
        return f"Batch(rows={self.num_rows}, {place}{{{tensors}}})"


def _no_tensor(key: object, there: Iterable[str]) -> KeyError | TypeError:
    """What is said of a key that a batch does not have."""
    if isinstance(key, str):
        return KeyError(f"no tensor {key!r} in the batch; there are: {', '.join(there)}")
    told = f"the keys of a batch are names, found {key!r}: slice its tensors, as batch['name'][:3]"
    return TypeError(told) if isinstance(key, slice) else KeyError(told)


def of_delivered(
    schema: Schema, delivered: _core.Delivered, cursor: _core.Cursor, share: Share | None
) -> Batch:
    """The batch that the core delivered, with the cursor after it."""
    origin = Origin(
        cursor,
        delivered.epoch,
        delivered.step,
        delivered.num_rows,
        delivered.valid_rows,
        delivered.written,
        schema.masked,
        share,
    )
    return Batch(schema.tensors(delivered.memory), origin)


def refuse_to_collate(*_arguments: object, **_keywords: object) -> None:
    """What torch collates several batches with.

    Raises:
        TypeError: that says what to write.
    """
    raise TypeError(
        "the dataset yields whole batches, which can't be collated into larger ones: pass batch_size=None to "
        "the DataLoader, and the batch size to ParquetDataset"
    )


default_collate_fn_map[Batch] = refuse_to_collate
