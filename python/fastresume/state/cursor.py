"""The resume state as a typed value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, overload

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer
from fastresume.messages import bounds_messages
from fastresume.options.checks import integer

KEY = "fastresume"
"""The one key of a state."""

EPOCHS_COMPLETED = "__epochs_completed__"


class ReadRows(Protocol):
    """What a cursor asks of what a dataset reads: a `ReadSpec` has it."""

    @property
    def paths(self) -> Sequence[str]:
        """What the user named."""

    @property
    def manifest(self) -> _core.Manifest:
        """The files, and which of their rows are selected."""

    @property
    def order_choice(self) -> object:
        """What was named of the shuffled order; None of a sequential one."""


class Dataset(Protocol):
    """What a cursor asks of a dataset: a `ParquetDataset` has it."""

    @property
    def spec(self) -> ReadRows:
        """What it reads."""

    def remaining_rows(self, cursor: Cursor) -> list[tuple[str, int, Intervals]]:
        """What is left of a cursor's pass, by file and row group."""


class Cursor:
    """How far a job has come: a small immutable value, the same on every rank.

    Made from a state (`from_state`) or from the offsets of another reader (`from_offsets`). Cursors of
    the same place compare equal.

    Example:
        >>> Cursor.from_state(batch.state_dict()).consumed_rows
        32
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.Cursor) -> None:
        self._core = core

    @classmethod
    @bounds_messages
    def from_state(cls, state: Mapping[str, Any] | Cursor) -> Cursor:
        """The cursor in a state: what `state_dict()` returned, its parsed JSON, or a `Cursor`.

        Raises:
            StateError: if it is None or empty, not a state, damaged, or of another version.

        Example:
            >>> Cursor.from_state(loader.state_dict())
            Cursor(epoch=0, consumed_rows=0 of 100 (0.0%), step=0, sequential, dataset=...)
        """
        if isinstance(state, Cursor):
            return state
        if not isinstance(state, Mapping):
            raise _core.StateError(f"a state is a mapping with the key '{KEY}', found {_found(state)}")
        if KEY not in state:
            raise _core.StateError(f"the state has no key '{KEY}'; its keys are {sorted(map(str, state))}")
        text = state[KEY]
        try:
            if not isinstance(text, str):
                text = json.dumps(dict(state))
            elif len(state) > 1:
                raise _core.StateError(f"the state has more than the key '{KEY}': {sorted(map(str, state))}")
            return cls(_core.Cursor.parse(text))
        except _core.StateError:
            raise
        # Other types, lone surrogates, nesting without end: what is no JSON.
        except (TypeError, ValueError, RecursionError) as cause:
            raise _core.StateError(f"damaged state: it is not JSON: {cause}") from None

    @classmethod
    @bounds_messages
    def from_offsets(cls, offsets: Mapping[str, int], dataset: Dataset) -> Cursor:
        """The cursor after the rows that `{"path:start": last}` offsets tell.

        The form is that of TorchEasyRec's `dataloader_state.json`: each key names a slice by a path (a
        file, a directory or a glob pattern) and by the row at which the slice began, each value is the
        last row of it that was consumed; `start - 1` says that none was. Rows are counted over the files
        of that path in the dataset's order. A path is found as `ParquetDataset` finds it, and its files must
        lie together in the dataset. `__epochs_completed__` counts finished passes; other keys
        without a colon are ignored. Every row in no slice's `[start, last]` remains. If none remains, the
        pass is finished.

        Args:
            offsets: the mapping, as parsed from JSON.
            dataset: the dataset whose rows are meant; in sequential order.

        Raises:
            StateError: if a path names no files of the dataset, or a value is not an integer or out of
                range; the key is named. If the dataset is shuffled.

        Example:
            >>> offsets = {"data/*.parquet:0": 29, "data/*.parquet:50": 79}
            >>> Cursor.from_offsets(offsets, dataset).remaining().tolist()
            [[30, 50], [80, 100]]
        """
        if dataset.spec.order_choice is not None:
            raise _core.StateError(
                "offsets tell rows in the order of the files, but the dataset is shuffled: pass shuffle=False"
            )
        if not isinstance(offsets, Mapping):
            raise _core.StateError(f"offsets map 'path:start' to the last row, found {offsets!r}")
        epoch = 0
        slices: dict[str, tuple[int, int]] = {}
        for key, value in offsets.items():
            if key == EPOCHS_COMPLETED:
                epoch = _to_integer(key, value)
                if not 0 <= epoch < 2**53 - 1:
                    raise _core.StateError(f"key '{key}': {epoch} is out of range")
            elif ":" in key:
                path, _, start_text = key.rpartition(":")
                start, last = _to_start(key, start_text), _to_integer(key, value)
                first, end = _rows_of(path, dataset.spec)
                if not (0 <= start <= end - first and start - 1 <= last < end - first):
                    raise _core.StateError(
                        f"key '{key}': offset {last} is out of range; '{path}' has {end - first} rows"
                    )
                slices[key] = (first + start, first + last)
        return cls(_core.Cursor.from_offsets(dataset.spec.manifest, epoch, slices))

    @classmethod
    @bounds_messages
    def merge(cls, states_in_rank_order: Sequence[Mapping[str, Any] | Cursor]) -> Cursor:
        """The cursor after all that ranks which are out of step were given.

        For ranks that do not train in lockstep, as in an inference job: each saves its own state, and the
        merged one resumes all of them, on any number of ranks. Equal states give that state. Otherwise the
        result holds what was delivered as intervals, so that it grows with the number of lanes, and counts
        steps anew.

        Args:
            states_in_rank_order: the state of rank 0, that of rank 1, ..., of every rank of the job.

        Raises:
            StateError: if the states are of more than one dataset, order (seed), epoch, or line of cuts, or
                so many ranks can't share the cut; both values are named.
            ValueError: if no state is given.

        Example:
            >>> Cursor.merge([state_of_rank_0, state_of_rank_1]).consumed_rows
            64
        """
        if isinstance(states_in_rank_order, (Mapping, Cursor)) or not isinstance(
            states_in_rank_order, Iterable
        ):
            raise TypeError(
                f"states_in_rank_order must be a list with one state per rank, found {states_in_rank_order!r}"
            )
        return cls(_core.Cursor.merge([cls.from_state(state)._core for state in states_in_rank_order]))

    def to_state(self) -> dict[str, str]:
        """The state: one leaf, the canonical JSON text, under the key "fastresume"."""
        return {KEY: self._core.to_json()}

    @property
    def epoch(self) -> int:
        """Passes completed before the present one, over all jobs."""
        return self._core.epoch

    @property
    def num_rows(self) -> int:
        """Rows of the dataset: those that are selected."""
        return self._core.num_rows

    @property
    def consumed_rows(self) -> int:
        """Rows of the present pass that were delivered, over all ranks."""
        return self._core.consumed_rows()

    @property
    def order(self) -> dict[str, Any]:
        """The order, as the state records it: `{"kind": "sequential"}`, or "shuffled" with seed and sizes."""
        order: dict[str, Any] = json.loads(self._core.to_json())["order"]
        return order

    @property
    def order_text(self) -> str:
        """The order in words: "sequential", or "shuffled with seed 17"."""
        order = self.order
        return str(order["kind"]) + (f" with seed {order['seed']}" if "seed" in order else "")

    def progress(self) -> float:
        """How much of the present pass was delivered, over all ranks: from 0.0 to below 1.0."""
        return self.consumed_rows / max(self.num_rows, 1)

    @overload
    def remaining(self) -> Intervals: ...

    @overload
    def remaining(self, dataset: Dataset) -> list[tuple[str, int, Intervals]]: ...

    def remaining(self, dataset: Dataset | None = None) -> Intervals | list[tuple[str, int, Intervals]]:
        """What was not delivered of the present pass.

        Args:
            dataset: with it, rows by their files; without, positions in the order (which are row numbers
                where the order is sequential and all rows are selected).

        Returns:
            Positions: int64 `[n, 2]`, half open, sorted. Or a list of (path, row group, rows), the rows
            counted within the row group: int64 `[n, 2]`, half open, sorted; row groups with nothing left are
            not in it.

        Raises:
            StateError: if the cursor is of another dataset, selection or order.
        """
        if dataset is None:
            return of_buffer(self._core.remaining())
        return dataset.remaining_rows(self)

    def __eq__(self, other: object) -> bool:
        return self._core == other._core if isinstance(other, Cursor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._core.to_json())

    def __reduce__(self) -> tuple[type[Cursor], tuple[_core.Cursor]]:
        return Cursor, (self._core,)

    def __repr__(self) -> str:
        consumed = f"{self.consumed_rows} of {self.num_rows} ({self.progress():.1%})"
        return (
            f"Cursor(epoch={self.epoch}, consumed_rows={consumed}, step={self._core.steps}, "
            f"{self.order_text}, dataset={self._core.fingerprint[:8]})"
        )


def _found(given: object) -> str:
    is_text = isinstance(given, (str, bytes, bytearray))
    return f"{type(given).__name__}: parse JSON by json.loads(...) first" if is_text else repr(given)


def _to_integer(key: str, value: object) -> int:
    try:
        return integer(key, value)
    except TypeError:
        raise _core.StateError(f"key '{key}': {value!r} is not an integer") from None


def _to_start(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _core.StateError(f"key '{key}': {text!r} after the colon is not a row number")
    return int(text)


def _rows_of(path: str, spec: ReadRows) -> tuple[int, int]:
    """The rows `[first, end)` of the files that a path names."""
    if path == ",".join(spec.paths):
        return 0, spec.manifest.num_rows
    try:
        return spec.manifest.rows_of(path)
    except (ValueError, OSError) as cause:
        raise _core.StateError(f"the path '{path}' names no rows of this dataset: {cause}") from None
