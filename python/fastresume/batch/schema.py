"""The schema of a batch: its keys, known before the first one, with dtypes, kinds and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.jagged import Jagged, all_valid, dtype_name
from fastresume.options.attributes import METHODS_OF_SCHEMAS
from fastresume.options.checks import quoted
from fastresume.options.unknown import refuse_attribute, takes_no_other

Tensors = dict[str, Tensor | Jagged]
"""The values of a batch: tensors by name, and a `Jagged` for lists, strings and binary columns."""


FieldKind = str
"""The kind of a field's rows: see `Field`."""


@takes_no_other("fr.Field", "field")
@dataclass(frozen=True)
class Field:
    """One key of a batch, known before the first batch.

    Args:
        name: the key.
        dtype: the dtype of its values; uint8 for the bytes of strings and binary columns.
        columns: the columns of the files in it.
        is_stacked: whether it is a matrix `[B, k]` of k columns, rather than `[B]`.
        kind: "scalar"; "list", "string" or "binary", which are a `Jagged`; "list<list>", "list<string>" or
            "list<binary>", which are a `Jagged` of a `Jagged`; deeper ones, as "list<list<list>>"; "mask" for
            the tensor that marks the nulls of the one before it, of the same columns; "length" for the tensor
            that says how many elements of a padded row are its own.
        is_masked: whether nulls are marked: by the mask that follows, or by the `valid` of a `Jagged`.
        size: how many elements a row has, of a matrix `[B, n]` of one column: bytes of one length, lists that
            all have this length, or what `.pad()` names; for lists of bytes or lists of one length, how many
            each value of a `Jagged` has; else None.
        unit: what its numbers count or mean, if their type alone does not say it: "timestamp[us, UTC]" (ms,
            us or ns; without UTC, in no time zone), "date[day]", "time[us]", "duration[us]", "decimal(9, 2)"
            (units of 0.01), "uuid", "interval", "hash1[1000, seed 7]" (buckets); else None.
        sizes: where a row is lists in a list, how many elements these have at each level: (k1, k2) of a
            tensor `[B, k1, k2]`, whose `size` is k1 * k2; else empty.
        marks_values: whether the `values_valid` of a `Jagged` marks which elements of its lists are null, or
            which numbers of these.
        mark_shape: the shape of the marks of one value: () for a number, (k,) for a list of `.fixed((None,
            k))`.
        null_count: how many nulls its columns have in all rows of the files, null lists and elements of lists
            among them; None if footers don't count all of them. If nulls are errors, the first one is then
            raised when it is read, and not when the dataset is made.
        expression: what made the tensor, as `fr.col(...)` or `fr.stack(...)`; None for a column as it is.
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
    marks_values: bool = False
    mark_shape: tuple[int, ...] = ()
    null_count: int | None = 0
    expression: str | None = None

    @property
    def width(self) -> int | None:
        """For a matrix `[B, k]`, k: its columns, or the elements in a row of its only column; else None."""
        return len(self.columns) if self.is_stacked else self.size

    @property
    def is_jagged(self) -> bool:
        """Whether it is a `Jagged` rather than a tensor."""
        return self.kind not in ("scalar", "mask", "length")

    @property
    def is_nested(self) -> bool:
        """Whether it is a `Jagged` whose values are a `Jagged`: lists of lists, or of strings."""
        return self.kind.startswith("list<")

    @property
    def shape(self) -> tuple[str | int, ...]:
        """`("B",)`, `("B", k)`, `("B", k1, k2)`, or `("B", "*")` for a `Jagged`; B is the number of rows.

        `("B", "*", "*")` for a `Jagged` of a `Jagged`. Then follows the shape of a value, if it is not one
        number.
        """
        return ("B", *("*" * len(self._kinds) if self.is_jagged else ()), *self._sides)

    @property
    def _kinds(self) -> list[str]:
        """Of a `Jagged`, what its rows are, and what theirs are, down to the innermost ones."""
        return self.kind.rstrip(">").split("<")

    @property
    def _sides(self) -> tuple[int, ...]:
        """The shape of a row of a tensor."""
        return self.sizes or (() if self.width is None else (self.width,))

    def _types(self) -> list[tuple[str, torch.dtype, tuple[int, ...]]]:
        """The dtypes of the tensors that it is made of, and their dimensions after the first one."""
        types = [(self.dtype, self._sides)]
        if self.marks_values:
            types.append((torch.bool, self.mark_shape))
        if self.is_jagged:
            ends = [torch.int64, torch.bool] if self.is_masked else [torch.int64]
            types += [(dtype, ()) for dtype in ends * len(self._kinds)]
        return [(dtype_name(dtype), dtype, sides) for dtype, sides in types]

    def _of_tensors(self, tensors: Iterator[Tensor]) -> Tensor | Jagged:
        """The value that the next tensors are, as the core filled them."""
        tensor = next(tensors)
        if not self.is_jagged:
            return tensor
        values: Any = tensor
        values_valid = next(tensors) if self.marks_values else None
        # Where no element of the batch is null, the core marks none.
        if values_valid is not None and len(values_valid) < len(tensor):
            values_valid = all_valid(len(tensor), *self.mark_shape)
        # The innermost rows come first.
        kind: Any
        for kind in reversed(self._kinds):
            offsets = next(tensors)
            valid = next(tensors) if self.is_masked else None
            values = Jagged._of(values, offsets, valid, kind, values_valid, self.name)
            values_valid = None
        rows: Jagged = values
        return rows


def _over(buffer: _core.Buffer, dtype: torch.dtype) -> Tensor:
    """A tensor over memory, where torch is too old for a quicker way."""
    return torch.frombuffer(buffer, dtype=dtype) if len(buffer) else torch.empty(0, dtype=dtype)


@takes_no_other("fr.Schema", "schema")
class Schema(Mapping[str, Field]):
    """The keys of a batch in their order, with a `Field` for each; prints as a table.

    If nulls are masked, the tensor is followed by its mask, which is a separate field.

    Examples:
        >>> dataset.schema["dense"].shape
        ('B', 3)
        >>> dataset.schema
        label: float32 [B]
        c_0: int64 [B]
        dense: float32 [B, 3] i_0, i_1, i_2
    """

    def __init__(self, layout: _core.Layout) -> None:
        if not isinstance(layout, _core.Layout):
            raise TypeError(f"a Schema is read of files, found {quoted(layout)}: write dataset.schema")
        self._fields: dict[str, Field] = {}
        for planned in layout.fields:
            shape = planned.shape
            field = Field(
                name=planned.name,
                dtype=getattr(torch, planned.dtype),
                columns=tuple(planned.columns),
                is_stacked=planned.is_stacked,
                kind=planned.kind,
                is_masked=planned.is_masked,
                size=prod(shape) if shape else None,
                unit=planned.unit,
                sizes=tuple(shape) if len(shape) > 1 else (),
                marks_values=planned.mark_shape is not None,
                mark_shape=tuple(planned.mark_shape or ()),
                null_count=planned.null_count,
                expression=planned.expression,
            )
            self._fields[field.name] = field
            if field.is_masked and not field.is_jagged:
                mask = f"{field.name}_valid"
                self._fields[mask] = Field(
                    mask,
                    torch.bool,
                    field.columns,
                    field.is_stacked,
                    "mask",
                    expression=field.expression,
                )
        self._prepare()

    def _prepare(self) -> None:
        """Puts at hand what each batch needs."""
        self.fields = tuple(self._fields.values())
        self.masked = frozenset(
            field.name for field in self.fields if field.is_masked and not field.is_jagged
        )
        self._has_jagged = any(field.is_jagged for field in self.fields)
        types = [of_tensor for field in self.fields for of_tensor in field._types()]
        exchange = getattr(Tensor, "__dlpack_c_exchange_api__", None)
        self._maker = _core.TensorMaker(types, _over, exchange)

    @classmethod
    def of_fields(cls, fields: Sequence[Field]) -> Schema:
        """The schema of tensors that are no columns of files as they are."""
        made = cls.__new__(cls)
        made._fields = {field.name: field for field in fields}
        made._prepare()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.of_fields, (self.fields,)

    def _tensors(self, memory: _core.Memory) -> Tensors:
        """The tensors of a batch over the memory that the core filled; they own it, nothing is copied."""
        made = self._maker.tensors(memory)
        if not self._has_jagged:  # in one call: a batch may have hundreds of these
            return dict(zip(self._fields, made, strict=True))
        tensors = iter(made)
        return {field.name: field._of_tensors(tensors) for field in self.fields}

    @property
    def row_widths(self) -> list[int]:
        """The bytes of a row of each tensor; none of them is jagged."""
        return [field.dtype.itemsize * (field.size or 1) for field in self.fields]

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says how a field is taken."""
            is_field = name in self.__dict__.get("_fields", ())
            refuse_attribute(
                self, name, "a Schema", {name: f"schema[{name!r}]"} if is_field else METHODS_OF_SCHEMAS
            )

    def __getitem__(self, name: str) -> Field:
        try:
            return self._fields[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r}; there are: {', '.join(self._fields)}") from None

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
                innermost = field._kinds[-1]
                kind = "" if innermost == "list" else innermost
                notes = ", ".join(filter(None, (kind, "valid" if field.is_masked else "")))
            if field.null_count is None and not field.is_masked:
                notes = ", ".join(filter(None, (notes, "nulls not counted")))
            lines.append(
                " ".join(
                    filter(None, (f"{field.name}: {dtype_name(field.dtype)} {shape}", field.unit, notes))
                )
            )
        return "\n".join(lines)
