"""The `Batch`: tensors by name, and the cursor after it."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import MappingKey, register_pytree_node
from torch.utils.data._utils.collate import default_collate_fn_map

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch import arrow
from fastresume.batch.jagged import Jagged, dtype_name
from fastresume.batch.keyed_jagged import keyed_jagged_tensor
from fastresume.batch.keys import no_tensor
from fastresume.batch.marks import OpenMarks, add_mark
from fastresume.batch.origin import Origin, Share, UnitRows, of_a_pass, origin_of_values
from fastresume.batch.schema import Schema, Tensors
from fastresume.batch.seeds import batch_seed, row_seeds
from fastresume.buffers import of_runs, of_words
from fastresume.options.attributes import METHODS_OF_BATCHES
from fastresume.options.checks import at_least, quoted
from fastresume.options.device import check_move, named_device, on_device
from fastresume.options.elsewhere import elsewhere
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.state.cursor import Cursor, cursor_of_text


@takes_no_other("fr.Batch", "batch")
class Batch(MutableMapping[str, Tensor | Jagged]):
    """The rows of one step on one rank: a mapping of names to tensors, with its cursor.

    Tensors are `[B]`, or `[B, k]` for stacked columns, on the CPU, and own their memory. Lists, strings and
    binary columns are a `Jagged` of such tensors. The cursor stays with the batch through `copy.copy`,
    pickle, `torch.save`, `pin_memory()`, `to()`, and torch's `default_convert` and `tree_map`. A batch is a
    plain value: it may be used in any thread and after a fork.

    Examples:
        >>> for batch in loader:
        ...     train(batch["dense"])
        ...     save({"data": batch.state_dict()})
        >>> batch
        Batch(rows=32, epoch=0, step=2, {label: float32[32], c_0: int64[32], dense: float32[32, 3]})
    """

    __slots__ = ("__weakref__", "_origin", "_tensors")

    def __init__(self, tensors: Tensors, origin: Origin | None = None) -> None:
        if origin is None:
            way = (
                ": Transformers' Trainer draws from DictBatches(loader) to evaluate, and from "
                "ResumeCallback(loader).dataloader to train, both of fastresume.integrations.transformers; "
                "another wrapper that slices or joins batches must leave them as they are (Accelerate's, by "
                "dispatch_batches=False), or be given dict(batch)"
            )
            if isinstance(tensors, OrderedDict):  # which Lightning alone makes
                way = (
                    ", as Lightning makes it under this precision=: pass ResumeCallback() to its Trainer; in "
                    "Fabric give the model tensors, as batch['name'], or dict(batch)"
                )
            raise TypeError(
                f"a Batch is made of what a dataset reads, and not of other tensors{way}: see "
                "docs/reference/frameworks.md"
            )
        self._tensors = tensors
        self._origin = origin

    @property
    def num_rows(self) -> int:
        """The number of rows, B."""
        return self._origin.num_rows

    @property
    def epoch(self) -> int:
        """The number of the batch's pass, counted over all jobs."""
        return of_a_pass(self._origin.epoch)

    @property
    def step(self) -> int:
        """The number of global batches of its pass before it, over all cuts."""
        return of_a_pass(self._origin.step)

    @property
    def global_step(self) -> int:
        """The number of global batches of the job before it, since its start, over all passes.

        Each global batch that was delivered counts once. In the first pass (epoch) it is `step`. The count
        continues after a resume, also with other ranks or batch sizes, after files were added, and over the
        stages of a mixture. It never falls, unless `reset_epochs` begins a new count, or `on_iter="restart"`
        reads a pass again.

        States of earlier releases and imported ones do not have the count. Then earlier passes, and rows that
        are in no cut, count as if the first cut of the present pass had divided them.

        Raises:
            FastresumeError: if the rows were read by their numbers.

        Examples:
            >>> batch.global_step
            2
        """
        return of_a_pass(self._origin.share).global_step(self.step)

    @property
    def batches_left(self) -> int:
        """The number of batches that each rank gets in this pass after it: 0 for the last one."""
        return of_a_pass(self._origin.share).left(self.step)

    @property
    def cursor(self) -> Cursor:
        """The cursor after this batch.

        Raises:
            FastresumeError: as from `state_dict`, `epoch` and `step`, if the rows were read by their numbers.
        """
        return Cursor(of_a_pass(self._origin.cursor))

    @property
    def cursor_before(self) -> Cursor:
        """The cursor before this batch: after loading it, this batch is the first one.

        Raises:
            FastresumeError: if the rows were read by their numbers.
        """
        return Cursor(of_a_pass(self._origin.share).before(self.step))

    @property
    def valid(self) -> Tensor:
        """Which rows are neither padding nor masked: bool `[B]`, on the device of the tensors.

        All rows are valid, with three exceptions. Under `tail="pad"` the last batch of a pass is filled up
        with copies. Under `bad_rows="mask"` rows that can't be read are masked. A function given to `map` may
        mask rows, or fail under `on_error="mask"`. It is made each time: `mask` is what masks rows, and a
        function that writes to this tensor is refused.
        """
        marks = self._origin.marks
        if self._origin.damage or marks:
            valid = torch.from_numpy(self._origin.valid).to(self._device())
        else:
            valid = torch.arange(self.num_rows, device=self._device()) < self._origin.valid_rows
        return marks.shown(valid) if isinstance(marks, OpenMarks) else valid

    def mask(self, rows: Any, reason: str) -> None:
        """Marks rows as not valid, inside a function given to `map`: one bad image, not its whole batch.

        `batch.valid` is False there, in this batch and in whatever the function returns. The rows count under
        the limit of `bad_rows`. They are logged, and are in `stats()["masked_rows"]` and in the audit.

        Args:
            rows: their places in the batch (integers), or a bool for each of its rows.
            reason: why, for the log and the audit.

        Raises:
            FastresumeError: outside of such a function.
            TypeError, ValueError, IndexError: if the batch has no such rows, or the reason is no text.

        Examples:
            >>> dataset.map(lambda batch: batch.mask([0, 3], "too dark") or batch).peek().valid.sum()
            tensor(30)
        """
        add_mark(self._origin.marks, rows, reason, self.num_rows)

    @property
    def source(self) -> Tensor:
        """Which source of a `Mixture` each row, or unit, is of: int64 `[B]`, on the device of the tensors.

        It counts in the order in which the mixture names its sources: `mixture.sources[int(source)]`.

        Raises:
            AttributeError: for a batch that no mixture made: `hasattr(batch, "source")` is False.
        """
        sources = self._origin.place_sources
        if sources is None:
            raise AttributeError  # `__getattr__` says why
        return torch.from_numpy(sources).to(self._device())

    @property
    def event_time(self) -> tuple[np.datetime64, np.datetime64]:
        """The least and the greatest time of the batch's messages: two `datetime64[ms]`, in UTC.

        Raises:
            AttributeError: of a batch without a row of a `KafkaDataset`: `hasattr(batch, "event_time")` is
                False.
        """
        share = self._origin.share
        found = None if share is None else share.event_time(self._origin.runs, self._origin.row_sources)
        if found is None:
            raise AttributeError  # `__getattr__` says why
        return np.datetime64(found[0], "ms"), np.datetime64(found[1], "ms")

    def state_dict(self) -> dict[str, str]:
        """The state after this batch: `load_state_dict` takes it, and the next batch follows.

        It has one leaf under the key "fastresume", some hundred bytes. Under lockstep training it is the same
        on every rank. Taking it needs no lock, asks no worker and changes nothing.
        """
        return self.cursor.to_state()

    @property
    def load_state_dict(self) -> NoReturn:
        """Refused, so that `hasattr` is False: the loader resumes.

        By this name `torch.distributed.checkpoint` saves the state, and not the tensors.
        """
        raise AttributeError  # `__getattr__` says why

    def rows(self) -> Any:
        """The row numbers, int64 `[B]`, counted over all rows of the dataset's files, in their order.

        For packed sequences, a `Jagged` of the row numbers of each sequence's documents, int64.
        """
        numbers, units = of_runs(self._origin.runs), self._origin.units
        if units is None or not units.are_documents:
            return numbers
        offsets = torch.from_numpy(units.offsets)
        return Jagged._of(torch.from_numpy(numbers), offsets, None, "list", None, None)

    @property
    def unit_offsets(self) -> Tensor:
        """Where the rows of each bin begin, then their number: int64 `[bins + 1]`, on the tensors' device.

        Raises:
            AttributeError: for a batch whose dataset has no `unit=fr.Bins(...)`.
        """
        units = self._origin.units
        if units is None or units.are_documents:
            raise AttributeError  # `__getattr__` says why
        return torch.from_numpy(units.offsets).to(self._device())

    def row_seeds(self, draw: int = 0) -> Tensor:
        """A random number for each row: int64 `[B]` of all 64 bits, on the device of the tensors.

        It is a function of the dataset's seed, the epoch, the row's position in the order of the pass, and
        `draw`. So a row has the same number on any number of ranks and workers, at any batch size and after
        any resume. In each pass it has another number. No two rows of a pass have the same number. A padding
        row has that of its original.

        Args:
            draw: which of a row's numbers, at least 0; they are independent of each other.

        Raises:
            FastresumeError: if the rows were read by their numbers.

        Examples:
            >>> uniform = batch.row_seeds().bitwise_and(2**24 - 1) / 2**24
            >>> bool((uniform >= 0).all() and (uniform < 1).all())
            True
        """
        number = at_least(0, "draw", draw)
        seeds = row_seeds(self._origin.positions(), of_a_pass(self._origin.share).seed, self.epoch, number)
        return torch.from_numpy(seeds).to(self._device())

    def generator(self, *, device: torch.device | str | int = "cpu", draw: int = 0) -> torch.Generator:
        """A generator of random numbers for this batch, newly seeded by each call.

        Its seed is a function of the dataset's seed, the epoch, the step, the rank and `draw`, so that ranks
        draw different numbers. A resume under the same cut (ranks, workers, lanes, batch size) draws the same
        numbers. `row_seeds()` gives the same seeds under any cut.

        Args:
            device: where random numbers will be drawn.
            draw: which of the batch's generators, at least 0. Two transforms of one dataset draw
                independently with two different numbers.

        Raises:
            FastresumeError: if the rows were read by their numbers, or there is no such device.
            TypeError, ValueError: for what is no device.

        Examples:
            >>> noise = torch.randn(batch.num_rows, generator=batch.generator())
            >>> torch.equal(noise, torch.randn(batch.num_rows, generator=batch.generator()))
            True
        """
        share, number = of_a_pass(self._origin.share), at_least(0, "draw", draw)
        named = named_device(device)
        generator = on_device(device, lambda: torch.Generator(named))
        return generator.manual_seed(batch_seed(share.seed, self.epoch, self.step, share.rank, number))

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on a device; tensors that are there already are shared.

        Other values that a transform added move too, if they have a method `to`.

        Args:
            device: the target device.
            non_blocking: don't wait for copies from pinned memory; see `torch.Tensor.to`.

        Raises:
            TypeError: for a dtype: ids and texts would lose their values.
            ValueError: for another thing that is no device.
            FastresumeError: if there is no such device.
        """
        check_move("batch", "batch[name]", device, non_blocking)
        return on_device(device, lambda: self._each("to", device, non_blocking=non_blocking))

    def to_arrow(self) -> Any:
        """The batch as a pyarrow RecordBatch; it shares memory where Arrow has the same layout.

        Matrices become lists of fixed size. A `Jagged` becomes a large_list (of large_lists, ...),
        large_string or large_binary. A mask (`name + "_valid"`) becomes the nulls of `name`, not a column.
        Numbers are not copied; bools and masks are copied to bits, and tensors of other devices are copied.
        Times and decimals are the integers that their tensors hold: `dataset.schema` has their units.

        Raises:
            ModuleNotFoundError: if pyarrow is not installed.
            TypeError: for a value that is no column: neither a tensor with rows nor a `Jagged`.
            ValueError: if columns differ in their numbers of rows, or a string is not UTF-8.

        Examples:
            >>> batch.to_arrow().schema.field("label")
            pyarrow.Field<label: float>
        """
        return arrow.of_batch(self._tensors, self._origin.masked)

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Refused: a batch has a tensor for each column.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError(
            "a Batch is no array: write batch[name].numpy(), or batch.to_arrow().to_pandas() for a frame"
        )

    @classmethod
    def __torch_function__(cls, function: Any, *_arguments: object) -> NoReturn:
        raise TypeError(f"torch's {function.__name__} takes no Batch of tensors: write batch['name']")

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """The batch for any reader of Arrow's C data interface (polars, DuckDB, ...), through pyarrow."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The batch's schema for any reader of Arrow's C data interface, through pyarrow."""
        return self.to_arrow().schema.__arrow_c_schema__()

    def to_keyed_jagged_tensor(
        self, names: Iterable[str], weights: Mapping[str, str] | Iterable[str] = ()
    ) -> Any:
        """The lists, or single ids, of these names as torchrec's KeyedJaggedTensor, in their order.

        A tensor `[B]` of single ids gives rows of one value. Nulls are left out: the row of a null list or id
        is empty. A single name shares its memory if nothing is left out; with several names the values are
        copied, one key after the other.

        Args:
            names: names of `Jagged` tensors, or of tensors `[B]`.
            weights: for each name the name of the tensor that has the weights of its values, one for each
                value: `{"clicks": "seconds"}`, or a list in the order of `names`. With a mapping, names that
                it does not have weigh 1. A null weight is 0.

        Raises:
            ModuleNotFoundError: if torchrec is not installed.
            TypeError: if one is neither a `Jagged` nor a tensor `[B]`, or is a `Jagged` of a `Jagged`.
            ValueError: if they differ in type; if a row has another number of weights than of values.
        """
        listed = [names] if isinstance(names, str) else list(names)
        if isinstance(weights, Mapping):
            strange = next((name for name in weights if name not in listed), None)
            if strange is not None:
                raise ValueError(f"weights are named for {strange!r}, which is not among the names {listed}")
            weighed = dict(weights)
        else:
            each = [weights] if isinstance(weights, str) else list(weights)
            if each and len(each) != len(listed):
                raise ValueError(f"found {plural(len(listed), 'name')} and {len(each)} of weights")
            weighed = dict(zip(listed, each, strict=False))
        return keyed_jagged_tensor(
            {
                name: self._rows_of(name)._keyed_rows(
                    name, self._rows_of(weighed[name]) if name in weighed else None
                )
                for name in listed
            }
        )

    def _rows_of(self, name: str) -> Jagged:
        """The lists of this name; single values are lists of one, and their mask marks the nulls.

        Raises:
            TypeError: if it is neither.
        """
        value: object = self[name]  # a transform may have put anything there
        if isinstance(value, Jagged):
            return value
        if not isinstance(value, Tensor) or value.dim() != 1:
            found = f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(
                f"{name!r} is {found}: a KeyedJaggedTensor is made of lists, and of tensors [B] of single ids"
            )
        marks = self._tensors.get(f"{name}_valid") if name in self._origin.masked else None
        offsets = torch.arange(len(value) + 1, device=value.device)
        return Jagged._of(value, offsets, None, "list", marks if isinstance(marks, Tensor) else None, None)

    def pin_memory(self) -> Self:
        """The same batch with its tensors in pinned memory."""
        return self._each("pin_memory")

    def _each(self, method: str, *arguments: object, **keywords: object) -> Self:
        """The same batch with the result of a method of each value; values without that method are kept."""
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

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says how a tensor is taken."""
            is_tensor = not name.startswith("_") and name in self._tensors
            hints = {name: f"batch[{name!r}]"} if is_tensor else METHODS_OF_BATCHES
            if name not in hints and isinstance(getattr(type(self), name, None), property):
                of_a_pass(self._origin.epoch)
            if name not in hints and not name.startswith("_") and hasattr(Tensor, name):
                hints = {name: f"batch['name'].{name}, of one tensor"}
            refuse_attribute(self, name, "a Batch", hints)

    def __copy__(self) -> Self:
        return self._like(dict(self._tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._tensors, self._origin)

    def __getitem__(self, name: str) -> Tensor | Jagged:
        try:
            return self._tensors[name]
        except (KeyError, TypeError):  # a slice is hashable in some releases of Python, and not in others
            raise no_tensor(name, self._tensors) from None

    def __setitem__(self, name: str, tensor: Tensor | Jagged) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"the keys of a batch are names, found {quoted(name)}: write batch['name'] = tensor, or "
                "batch['name'][3] = value for one row"
            )
        self._tensors[name] = tensor

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses what is no part of it: a tensor is set by its key."""
        try:
            super().__setattr__(name, value)
        except AttributeError:
            if hasattr(type(self), name):
                way = "write batch.mask(rows, reason), in dataset.map(function)"
                way = way if name == "valid" else "it tells what was read"
                raise AttributeError(f"batch.{name} can't be set: {way}") from None
            if name in METHODS_OF_BATCHES or elsewhere(self, name) is not None:
                refuse_attribute(self, name, "a Batch", METHODS_OF_BATCHES)
            raise AttributeError(f"a Batch has no attribute {name!r}: write batch[{name!r}] = ...") from None

    def __or__(self, other: object) -> NoReturn:
        """Refused: a batch of two would have two places.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError("a Batch joins no other by |: write batch.update(tensors), or dict(batch) | tensors")

    __ror__ = __ior__ = __or__

    def __delitem__(self, name: str) -> None:
        try:
            del self._tensors[name]
        except (KeyError, TypeError):
            raise no_tensor(name, self._tensors) from None

    def __eq__(self, other: object) -> bool:
        """Refused of another mapping: whether tensors are equal has no one answer.

        Raises:
            TypeError: for a mapping; it says what to write.
        """
        if not isinstance(other, Mapping):
            return NotImplemented
        raise TypeError(
            "a Batch compares with nothing: write torch.equal(a['name'], b['name']) for what it holds, or "
            "a.cursor == b.cursor for its place"
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        """The names of the tensors.

        Raises:
            TypeError: for a checkpoint of torch, which takes a batch deep in its mapping for its tensors.
        """
        caller = sys._getframe(1).f_back  # between them is a view of the items
        if (
            caller is not None
            and caller.f_globals.get("__name__") == "torch.distributed.checkpoint._traverse"
        ):
            raise TypeError(
                "torch.distributed.checkpoint would save the tensors of a Batch, and not its place: write "
                "{'data': batch} at the top of the mapping, or batch.state_dict() below it"
            )
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


def of_delivered(
    schema: Schema,
    delivered: _core.Delivered,
    cursor: _core.Cursor,
    share: Share | None,
    is_mixed: bool = False,
) -> Batch:
    """The batch that the core delivered, with the cursor after it; a mixture's rows have their sources."""
    units = delivered.unit_offsets()
    origin = Origin(
        cursor,
        delivered.epoch,
        delivered.step,
        delivered.num_rows,
        delivered.valid_rows,
        delivered.written,
        schema.masked,
        share,
        tuple(delivered.damage),
        delivered.written if is_mixed else None,
        None if units is None else UnitRows(of_words(units[0]), units[1]),
    )
    return Batch(schema._tensors(delivered.memory), origin)


def refuse_to_collate(*_arguments: object, **_keywords: object) -> None:
    """Torch's collate function for several batches, which refuses.

    Raises:
        TypeError: always; it says what to write instead.
    """
    raise TypeError(
        "the dataset yields whole batches, which can't be collated into larger ones: pass batch_size=None to "
        "the DataLoader, no collate_fn, and the batch size to ParquetDataset"
    )


class _Names(tuple[str, ...]):
    """The names of a batch's tensors, with its origin: batches of the same names are trees of one form."""

    origin: Origin


def as_pytree(kind: type[Batch]) -> None:
    """Lets `torch.utils._pytree.tree_map` map the tensors of batches of a class, each `Jagged` as a whole."""

    def flatten(batch: Batch) -> tuple[list[Tensor | Jagged], _Names]:
        names = _Names(batch._tensors)
        names.origin = batch._origin
        return list(batch._tensors.values()), names

    def unflatten(values: Iterable[Any], names: _Names) -> Batch:
        return Batch(dict(zip(names, values, strict=True)), names.origin)

    def with_keys(batch: Batch) -> tuple[list[tuple[Any, Any]], _Names]:
        values, names = flatten(batch)
        return list(zip(map(MappingKey, names), values, strict=True)), names

    register_pytree_node(kind, flatten, unflatten, flatten_with_keys_fn=with_keys)


as_pytree(Batch)

default_collate_fn_map[Batch] = refuse_to_collate

# What `torch.load` reads without `weights_only=False`: a batch, its cursor, and rows of lists.
torch.serialization.add_safe_globals([cursor_of_text, Jagged, Batch, origin_of_values])
