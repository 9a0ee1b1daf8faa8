"""The resume state as a typed value."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer
from fastresume.options.attributes import METHODS_OF_CURSORS
from fastresume.options.checks import at_least, quoted
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.state.offsets import Listing, consumed
from fastresume.state.session import in_session

KEY = "fastresume"
"""The one key of a state."""


class ReadRows(Protocol):
    """What a cursor asks of what a dataset reads: a `FilesSpec` has it."""

    @property
    def paths(self) -> Sequence[str]:
        """What the user named."""

    @property
    def manifest(self) -> _core.Manifest:
        """The files, and which of their rows are selected."""

    @property
    def order_choice(self) -> object:
        """What was named of the shuffled order; None for a sequential one."""

    @property
    def units_text(self) -> str | None:
        """What is counted instead of rows, in words; None if rows are."""

    @property
    def named_session(self) -> str | None:
        """What states name of the session of the rows; None if there is none."""


class Dataset(Protocol):
    """What a cursor asks of a dataset: a `ParquetDataset` has it."""

    @property
    def _spec(self) -> ReadRows:
        """What it reads."""

    def _remaining_rows(self, cursor: Cursor) -> list[tuple[str, int, Intervals]]:
        """What is left of a cursor's pass, by file and row group."""


@takes_no_other("fr.Cursor", "cursor")
class Cursor:
    """How far a job has come: a small immutable value, the same on every rank.

    Made from a state (`from_state`) or from the offsets of another reader (`from_offsets`). Cursors of
    the same place compare equal.

    Examples:
        >>> Cursor.from_state(batch.state_dict()).consumed_rows
        32
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.Cursor) -> None:
        if not isinstance(core, _core.Cursor):
            raise TypeError(
                f"a Cursor is made of a state, found {quoted(core)}: write Cursor.from_state(state)"
            )
        self._core = core

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | Cursor) -> Cursor:
        """The cursor in a state: what `state_dict()` returned, its parsed JSON, or a `Cursor`.

        Raises:
            StateError: if it is None or empty, not a state, damaged, or of another version.

        Examples:
            >>> Cursor.from_state(loader.state_dict())
            Cursor(epoch=0, consumed_rows=0 of 100 (0.0%), step=0, sequential, dataset=...)
        """
        if isinstance(state, Cursor):
            return state
        if not isinstance(state, Mapping):
            raise _core.StateError(f"a state is a mapping with the key '{KEY}', found {_found(state)}")
        if KEY not in state:
            raise _core.StateError(f"the state has no key '{KEY}'{_what_it_is(state)}")
        text = state[KEY]
        try:
            if not isinstance(text, str) and len(state) == 1:
                way = (
                    f"of an array take its text, as {{'{KEY}': state['{KEY}'].item()}}"
                    if getattr(text, "ndim", None) == 0
                    else "pass what batch.state_dict() returned, whose one value is this text, not parsed "
                    "and not encoded"
                )
                raise _core.StateError(
                    f"a state has its text under the key '{KEY}', found {type(text).__name__}: {way}"
                )
            if text == "":
                raise _core.StateError(
                    f"the state has an empty text under the key '{KEY}': it was lost on its way; pass what "
                    "batch.state_dict() returned, as it was"
                )
            if not isinstance(text, str):
                text = json.dumps(dict(state))
            elif len(state) > 1:
                raise _core.StateError(
                    f"the state has more than the key '{KEY}': {_keys(state)}: pass "
                    f"{{'{KEY}': state['{KEY}']}}"
                )
            return cls(_core.Cursor.parse(text))
        except _core.StateError as error:
            if "this release reads version" in str(error):
                error.args = (f"{error}: upgrade fastresume",)
            raise
        # Other types, lone surrogates, nesting without end: what is no JSON.
        except (TypeError, ValueError, RecursionError) as cause:
            raise _core.StateError(f"damaged state: it is not JSON: {quoted(str(cause))}") from None

    @classmethod
    def from_offsets(
        cls,
        offsets: Mapping[str, int],
        dataset: Dataset,
        files: Sequence[str | os.PathLike[str]] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> Cursor:
        """The cursor after the rows that `{"path:start": last}` offsets name.

        The form is that of TorchEasyRec's `dataloader_state.json`: each key names a slice by a path (a
        file, a directory or a glob pattern) and by the row at which the slice began, each value is the
        last row of it that was consumed; `start - 1` says that none was. A path is found as `ParquetDataset`
        finds it. Rows are counted over its files in the order in which the writer had listed them.
        `__epochs_completed__` counts finished passes; other keys without a colon are ignored. Every row in no
        slice's `[start, last]` remains. If none remains, the pass is finished.

        Args:
            offsets: the mapping, as parsed from JSON.
            dataset: the dataset whose rows are meant, in sequential order; else see `rows_after_offsets`.
            files: the files in the writer's order. Needed where a key means several; TorchEasyRec's order is
                that of `glob.glob()`, which is not sorted.
            paths: where directories are now, by where they were when the offsets were written.

        Raises:
            StateError: if a path names no files of the dataset, or several whose order is not known; if a
                value is not an integer or out of range; the key is named. If the dataset is shuffled, or has
                units.
            TypeError: if it is a Mixture: offsets are of one dataset.

        Examples:
            >>> offsets = {"data/*.parquet:0": 29, "data/*.parquet:50": 79}
            >>> Cursor.from_offsets(offsets, dataset, files=["data/part-0.parquet"]).remaining().tolist()
            [[30, 50], [80, 100]]
        """
        spec = _files_of(dataset, offsets)
        rest = (
            "the rows that are left, by ParquetDataset(..., rows=Cursor.rows_after_offsets(offsets, dataset))"
        )
        if spec.order_choice is not None:
            raise _core.StateError(
                "offsets tell rows in the order of the files, but the dataset is shuffled: let it consist of "
                f"{rest}, or pass shuffle=False"
            )
        if spec.units_text is not None:
            raise _core.StateError(
                f"offsets tell rows, but the dataset counts units, {spec.units_text}: let them be made of "
                f"{rest}"
            )
        epoch, rows = consumed(offsets, Listing(spec, files, paths))
        slices = {str(number): (first, end - 1) for number, (first, end) in enumerate(rows.tolist())}
        return cls(in_session(_core.Cursor.from_offsets(spec.manifest, epoch, slices), spec.named_session))

    @staticmethod
    def rows_after_offsets(
        offsets: Mapping[str, int],
        dataset: Dataset,
        files: Sequence[str | os.PathLike[str]] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> Intervals:
        """The numbers of the rows of a dataset that offsets leave over: int64 `[n, 2]`, half open, sorted.

        For a job that shuffles: offsets can't name its positions. Pass these numbers to `ParquetDataset` as
        `rows=` for a dataset of what is left, in any order. All its passes (epochs) are over these rows; when
        the first one is done, open the dataset without them. `__epochs_completed__` is ignored.

        Args:
            offsets: the mapping, as parsed from JSON.
            dataset: the dataset whose rows are meant, in any order.
            files: the files in the writer's order, as for `from_offsets`.
            paths: where directories are now, by where they were.

        Raises:
            StateError, TypeError: as from `from_offsets`; but a dataset may be shuffled, and may have units.

        Examples:
            >>> offsets = {"data/part-0.parquet:0": 29, "data/part-0.parquet:50": 79}
            >>> Cursor.rows_after_offsets(offsets, dataset).tolist()
            [[30, 50], [80, 100]]
        """
        spec = _files_of(dataset, offsets)
        manifest = spec.manifest
        _, rows = consumed(offsets, Listing(spec, files, paths))
        selected = manifest.selected
        if selected is not None:
            rows = np.concatenate([rows, of_buffer(_core.remaining(of_buffer(selected), manifest.num_rows))])
        return of_buffer(_core.remaining(np.ascontiguousarray(rows), manifest.num_rows))

    @classmethod
    def merge(
        cls,
        states_in_rank_order: Mapping[int, Mapping[str, Any] | Cursor] | Sequence[Mapping[str, Any] | Cursor],
        world_size: int | None = None,
    ) -> Cursor:
        """The cursor after all that was delivered to ranks that are out of step.

        For ranks that do not train in lockstep, as in an inference job: each saves its own state, and the
        merged one resumes all of them, on any number of ranks. If all states are equal, it returns that
        state. Otherwise the result has what was delivered as intervals, so it grows with the number of lanes,
        and it counts steps from 0.

        A state does not name its rank, as it is the same on all ranks in lockstep. The keys of a mapping, or
        the order of a list, are the ranks.

        Args:
            states_in_rank_order: of every rank of the job, `{0: state, 1: state, ...}`, or a list.
            world_size: how many ranks the job had. By default it is taken from the lanes of the last cut,
                which is right unless `lanes` was given. With `lanes=1`, and between two passes, it must be
                given.

        Raises:
            StateError: if a rank's state is missing (it names the rank); if the states are of more than one
                dataset, order (seed), epoch, or line of cuts; both values are named.
            ValueError: if no state is given.

        Examples:
            >>> Cursor.merge({0: state_of_rank_0, 1: state_of_rank_1}).consumed_rows
            64
        """
        states: Any = states_in_rank_order
        if isinstance(states, Mapping) and states and all(map(_is_text_of_rank, states)):
            raise TypeError(
                "states_in_rank_order has texts as keys, as JSON makes them of ranks: write "
                "{int(rank): state for rank, state in states.items()}"
            )
        if isinstance(states, Cursor) or not isinstance(states, Iterable) or _is_state(states):
            raise TypeError(
                "states_in_rank_order must be a list with one state per rank, or {0: state, 1: state, ...}, "
                f"found {quoted(states)}"
            )
        ranks = None if world_size is None else at_least(1, "world_size", world_size)
        given = _in_rank_order(states, ranks) if isinstance(states, Mapping) else list(states)
        cursors = [cls.from_state(state)._core for state in given]
        merged = _core.Cursor.merge(cursors, ranks)
        return cls(in_session(merged, cursors[0].round))

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
        return self._core.order

    @property
    def order_text(self) -> str:
        """The order in words: "sequential", or "shuffled with seed 17"."""
        order = self.order
        return str(order.get("kind", "mixture")) + (f" with seed {order['seed']}" if "seed" in order else "")

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
            not in it. Of a Mixture, those of its sources one after another; a row that comes several times in
            the rest of the pass is in it once. Of units, the rows that have a part in one that is left.

        Raises:
            StateError: if the cursor is of another dataset, selection or order.
            TypeError: if it is no such dataset.
        """
        if dataset is None:
            return of_buffer(self._core.remaining())
        if not hasattr(type(dataset), "_remaining_rows"):
            raise TypeError(
                f"remaining takes a ParquetDataset, an ArrowDataset or a Mixture, found {quoted(dataset)}: "
                "write loader.dataset for that of a Loader, or fr.ParquetDataset(paths, ...)"
            )
        return dataset._remaining_rows(self)

    def __eq__(self, other: object) -> bool:
        return self._core == other._core if isinstance(other, Cursor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._core.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return cursor_of_text, (self._core.to_json(),)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what a cursor has not."""
            refuse_attribute(self, name, "a Cursor", METHODS_OF_CURSORS)

    def __repr__(self) -> str:
        consumed = f"{self.consumed_rows} of {self.num_rows} ({self.progress():.1%})"
        return (
            f"Cursor(epoch={self.epoch}, consumed_rows={consumed}, step={self._core.steps}, "
            f"{self.order_text}, dataset={self._core.fingerprint[:8]})"
        )


def cursor_of_text(text: str) -> Cursor:
    """The cursor in the text of a state, which `torch.load` may call: see `batch.py`."""
    return Cursor(_core.Cursor.parse(text))


def _files_of(dataset: Dataset, offsets: object) -> ReadRows:
    """What a dataset of one list of files reads.

    Raises:
        TypeError: if it is something else.
    """
    if isinstance(dataset, Mapping) and hasattr(offsets, "_spec"):
        raise TypeError(
            f"offsets come first, found a {type(offsets).__name__}: write "
            "Cursor.from_offsets(offsets, dataset)"
        )
    spec = getattr(dataset, "_spec", None)
    if spec is None or not hasattr(spec, "manifest"):
        raise TypeError(
            f"offsets tell rows of one ParquetDataset, found {quoted(dataset)}: of a Mixture, make "
            "each source of what is left of it, as ParquetDataset(..., "
            "rows=Cursor.rows_after_offsets(offsets, mixture.datasets[name]))"
        )
    read: ReadRows = spec
    return read


def _found(given: object) -> str:
    if callable(given) and not isinstance(given, type):
        name = getattr(given, "__name__", type(given).__name__)
        return f"the function {name}: call it, as {name}()"
    if callable(getattr(given, "state_dict", None)):
        return f"{quoted(given)}: write what its state_dict() returns"
    if isinstance(given, list | tuple) and any(isinstance(one, Mapping) and KEY in one for one in given):
        kind = type(given).__name__
        return f"{len(given)} in a {kind}: pass one, or Cursor.merge(states) of ranks out of step"
    if not isinstance(given, (str, bytes, bytearray, os.PathLike)):
        new = "a new job loads none" if given is None else "pass what batch.state_dict() returned"
        return f"{quoted(given)}: {new}"
    if isinstance(given, os.PathLike) or "{" not in str(given):
        return (
            f"{quoted(given)}: if it names a file, load that, as torch.load(path)['data'] or "
            "json.loads(path.read_text()), and pass the state in it"
        )
    try:
        parsed = json.loads(given)
    except (TypeError, ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict) and isinstance(parsed.get(KEY), int):
        return f"the text in one: write {{'{KEY}': text{'' if isinstance(given, str) else '.decode()'}}}"
    return f"{type(given).__name__}: parse JSON by json.loads(...) first"


def _keys(state: Mapping[Any, Any]) -> str:
    return quoted([key[:40] for key in sorted(map(str, state))])


def _is_state(given: object) -> bool:
    return isinstance(given, Mapping) and (KEY in given or not all(_is_rank(key) for key in given))


def _what_it_is(state: Mapping[Any, Any]) -> str:
    """What a mapping is instead of a state, as far as its keys tell."""
    if callable(getattr(state, "state_dict", None)):
        return f": it is a {type(state).__name__}, and its state_dict() returns one"
    for key, value in state.items():
        if isinstance(value, Mapping) and KEY in value:
            return f", but what it holds under {quoted(key)} has: pass that alone"
        if isinstance(value, Mapping) and callable(getattr(value, "state_dict", None)):
            return f", but a {type(value).__name__} is under {quoted(key)}, whose state_dict() returns one"
    if "_snapshot" in state or "_num_yielded" in state:
        return ": it is one of torchdata's StatefulDataLoader, and of no use here: save batch.state_dict()"
    return f"; its keys are {_keys(state)}: pass what batch.state_dict() or loader.state_dict() returned"


def _is_text_of_rank(key: object) -> bool:
    return isinstance(key, str) and key.isdecimal()


def _is_rank(key: object) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)


def _in_rank_order(states: Mapping[int, Any], world_size: int | None) -> list[Any]:
    """The states of ranks 0, 1, ...

    Raises:
        StateError: if one of them is lacking.
    """
    ranks = sorted(states)
    if ranks and ranks[0] < 0:
        raise _core.StateError(f"there is no rank {ranks[0]}: ranks count from 0")
    count = max(len(ranks) if world_size is None else world_size, ranks[-1] + 1 if ranks else 0)
    if count != len(ranks):
        first = next(rank for rank, found in enumerate([*ranks, -1]) if rank != found)
        raise _core.StateError(
            f"{len(ranks)} states are merged of a job of {count} ranks: that of rank {first} is lacking"
        )
    return [states[rank] for rank in ranks]
