"""Which rows of the files a dataset consists of, and in which order they come."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.buffers import Intervals as RowArray
from fastresume.buffers import of_buffer, to_array
from fastresume.options.checks import at_least, is_table, quoted
from fastresume.options.masks import in_order, refuse_ones
from fastresume.options.unknown import takes_no_other

PARTS = 2**53
"""The hash of a row is counted in parts of the whole: this many make 1."""


class RowSet:
    """Some of the rows of any dataset: `~` is all others, `&` what two have in common, `|` what is in one.

    The other side of `&` and `|` may be whatever `rows=` takes, a mask or numbers of rows too.
    """

    def rows(self, num_rows: int) -> RowArray:
        """The rows among `num_rows`, as intervals: int64 `[n, 2]`, half open, sorted, coalesced."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(
            "a Split or Intervals has no truth of its own: write &, | and ~ for and, or and not, as "
            "fr.Split(0.0, 0.9) & ~fr.Intervals([[0, 10]])"
        )

    def __invert__(self) -> RowSet:
        return _Others(self)

    def __and__(self, other: object) -> RowSet:
        return _Common(self, _row_set("&", other))

    def __or__(self, other: object) -> RowSet:
        return ~_Common(~self, ~_row_set("|", other))

    __rand__, __ror__ = __and__, __or__

    def _count(self, *_index: object) -> NoReturn:
        raise TypeError(
            "a Split or Intervals is no list: write .rows(num_rows), which gives an array of intervals, "
            "int64 [n, 2]"
        )

    __len__ = __getitem__ = _count
    __array_ufunc__ = None  # so that numpy's masks leave & and | to this class
    __pandas_priority__ = 5000  # and those of pandas: a frame has 4000

    def _compute(self, _other: object) -> NoReturn:
        raise TypeError(
            "sets of rows have no arithmetic: write a | b for the rows of either, a & ~b for the rows "
            "of a that are not in b"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __xor__ = __rxor__ = _compute


def _row_set(op: str, other: object) -> RowSet:
    if isinstance(other, RowSet):
        return other
    if other is None:
        raise TypeError(f"{op} joins a Split or Intervals with other rows, found None: leave it out")
    _check_kind(other, None)
    return _Named(other)


@dataclass(frozen=True, eq=False, repr=False)
class _Named(RowSet):
    """Rows as `rows=` takes them: a mask of all rows, numbers of rows, or intervals."""

    given: Any

    def rows(self, num_rows: int) -> RowArray:
        """Those that are named, among `num_rows`."""
        others = _core.remaining(_rows(self.given, num_rows), num_rows)
        return of_buffer(_core.remaining(of_buffer(others), num_rows))

    def __repr__(self) -> str:
        return quoted(self.given)


@dataclass(frozen=True, repr=False)
class _Others(RowSet):
    """All rows but some."""

    of: RowSet

    def rows(self, num_rows: int) -> RowArray:
        """All other rows among `num_rows`."""
        return of_buffer(_core.remaining(self.of.rows(num_rows), num_rows))

    def __repr__(self) -> str:
        return f"~{self.of!r}"


@dataclass(frozen=True, repr=False)
class _Common(RowSet):
    """What two sets have in common."""

    left: RowSet
    right: RowSet

    def rows(self, num_rows: int) -> RowArray:
        """The rows among `num_rows` that are in both."""
        return of_buffer(_core.intersection(self.left.rows(num_rows), self.right.rows(num_rows)))

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@takes_no_other("fr.Intervals", "intervals")
class Intervals(RowSet):
    """Rows by intervals of their numbers, for `rows=`; `~` is all other rows.

    A frozen value, which may be pickled; `==` compares.

    Args:
        intervals: int64 `[n, 2]`, half open, in any order.

    Raises:
        ValueError: if they are no intervals.

    Examples:
        >>> bad = Intervals([[512, 640], [7, 8]])
        >>> (~bad).rows(1000).tolist()
        [[0, 7], [8, 512], [640, 1000]]
    """

    __slots__ = ("_array",)

    def __init__(self, intervals: npt.ArrayLike) -> None:
        try:
            array = to_array(intervals)
            most = int(array.max(initial=0))
            kept = of_buffer(_core.remaining(of_buffer(_core.remaining(array, most)), most)).copy()
        except (TypeError, ValueError) as cause:
            raise ValueError(
                f"fr.Intervals takes [[start, stop], ...], found {reprlib.repr(intervals)}: "
                f"{_way(intervals) or cause}"
            ) from None
        kept.flags.writeable = False
        self._array = kept

    def rows(self, num_rows: int) -> RowArray:
        """The intervals; all of them must be within `num_rows` rows."""
        return _inside("rows", self._array, num_rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The intervals: int64 `[n, 2]`."""
        return np.array(self._array, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and np.array_equal(self._array, other._array)

    def __hash__(self) -> int:
        return hash(self._array.tobytes())

    def __repr__(self) -> str:
        some = self._array[:6].tolist()
        more = ", ..." if len(self._array) > 6 else ""
        return f"fr.Intervals({str(some)[:-1]}{more}])"


@takes_no_other("fr.Split", "split")
@dataclass(frozen=True)
class Split(RowSet):
    """A share of the rows by a hash of their numbers: those whose hash is in `[start, stop)`.

    Every row number has a hash in `[0, 1)` that depends on the seed alone. It is the same on every machine,
    in every release, in any order, on any ranks and for any number of rows. Splits of one seed with disjoint
    ranges have no row in common, and splits that cover `[0, 1)` have all rows.

    Args:
        start: where the share begins, from 0 to 1.
        stop: where it ends.
        seed: another seed chooses other rows.

    Raises:
        ValueError: unless `0 <= start <= stop <= 1`.

    Examples:
        >>> train, validation = Split(0.0, 0.9, seed=1), Split(0.9, 1.0, seed=1)
        >>> validation.rows(30).tolist()
        [[0, 2], [17, 18], [20, 21]]
    """

    start: float
    stop: float
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("start", "stop"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, np.floating)):
                raise TypeError(f"{name} must be a number, found {quoted(value)}")
            if isinstance(value, np.floating):
                object.__setattr__(self, name, float(value))
        if not 0 <= self.start <= self.stop <= 1:
            way = "start is at most stop" if 0 <= self.stop < self.start <= 1 else "90 % is 0.9"
            raise ValueError(f"a split is a share of [0, 1): {way}, found [{self.start!r}, {self.stop!r})")
        object.__setattr__(self, "seed", at_least(0, "seed", self.seed))

    def rows(self, num_rows: int) -> RowArray:
        """The split's rows among `num_rows`, as intervals: int64 `[n, 2]`, half open, sorted, coalesced."""
        # Exact: a float is a fraction, and a whole number of parts is at least it or not.
        start, stop = (math.ceil(Fraction(bound) * PARTS) for bound in (self.start, self.stop))
        return of_buffer(_core.split_rows(at_least(0, "num_rows", num_rows), start, stop, self.seed))


Rows = RowSet | npt.ArrayLike
"""A split, intervals, all rows but some, a boolean mask, or numbers of rows."""


def select(manifest: _core.Manifest, rows: Rows | None) -> _core.Manifest:
    """The manifest with its selection: what `rows` says of those that are selected; all of them if None.

    Raises:
        ValueError: if a mask is not of all rows, or intervals go beyond them.
        TypeError: if `rows` is something else.
    """
    if rows is None:
        return manifest
    found, selected = _rows(rows, manifest.num_rows), manifest.selected
    if selected is not None:
        found = of_buffer(_core.intersection(of_buffer(selected), found))
    return manifest.select(found)


def _rows(rows: Rows, total: int) -> RowArray:
    if isinstance(rows, RowSet):
        return rows.rows(total)
    _check_kind(rows, total)
    if isinstance(rows, tuple) and len(rows) == 2 and all(isinstance(one, int) for one in rows):
        start, stop = rows
        raise ValueError(
            f"rows={rows} may mean two rows or an interval: write rows=[[{start}, {stop}]] for the interval, "
            f"or rows=[{start}, {stop}] for the two"
        )
    array = np.asarray(in_order(rows, "rows=mask.to_numpy()"))
    if array.ndim == 1 and np.issubdtype(array.dtype, np.integer):
        return _numbered(array, total)
    if array.dtype != np.bool_:
        return _intervals(rows, total)
    if array.shape != (total,):
        raise ValueError(
            f"a mask of rows must have the shape [{total}], one value for each row of the files, found "
            f"{list(array.shape)}"
        )
    return of_buffer(_core.marked(np.ascontiguousarray(array).view(np.uint8)))


def _way(given: object) -> str | None:
    """What to write instead of intervals made of a mask, of numbers of rows or of two bounds."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of several lengths
        return None
    is_mask = array.dtype == np.bool_
    if array.ndim != 1 or not (is_mask or np.issubdtype(array.dtype, np.integer)) or isinstance(given, range):
        return None
    if len(array) == 2 and not is_mask:
        return f"write [{array.tolist()}] for one interval"
    return (
        f"rows by {'a mask' if is_mask else 'numbers'} need no Intervals: write rows=rows, or rows & "
        "fr.Split(0.0, 0.9); ~(fr.Split(0, 1) & rows) is all other rows"
    )


def _check_kind(rows: object, total: int | None) -> None:
    """Refuses what numpy would make an array of, though it names no rows; `total` is how many there are."""
    if hasattr(rows, "of_rows"):  # a condition, which `filter` has
        raise TypeError(
            f"rows= takes row numbers, intervals or a mask, found {quoted(rows)}: write filter= for it, "
            "beside rows= for others"
        )
    if isinstance(rows, list | tuple) and any(isinstance(one, RowSet) for one in rows):
        raise TypeError(
            f"rows= takes one set of rows, found {len(rows)}: write rows=a & b for the rows that both "
            "have, or a | b for the rows of either"
        )
    found = f"rows must be intervals, a boolean mask, row numbers or a Split, found {quoted(rows)}"
    if is_table(rows) and not isinstance(rows, type):
        way = "frame['row'].to_numpy(), which names rows by their numbers"
        if hasattr(type(rows), "collect"):
            way = f"frame.collect(){way.removeprefix('frame')}"
        elif hasattr(rows, "index"):
            way = (
                "frame.index.to_numpy(), if it counts the rows of all files: that of "
                "pandas.concat(frames, ignore_index=True) does"
            )
        raise TypeError(f"{found}: write rows={way}")
    if isinstance(rows, AbstractSet):
        raise TypeError(f"{found}: write rows=sorted(rows)")
    if isinstance(rows, Iterator):
        raise TypeError(f"{found}: write rows=list(rows)")
    is_slice = isinstance(rows, str) and ":" in rows
    if (isinstance(rows, str) and not is_slice) or (callable(rows) and not isinstance(rows, type)):
        raise TypeError(f"{found}: write filter={_as_filter(rows)}, or rows=fr.Split(0.0, 0.9)")
    if isinstance(rows, slice | str | bytes | float | int | np.integer | type):
        share = rows if isinstance(rows, float) and 0 < rows < 1 else 0.9
        raise TypeError(f"{found}: write rows={_as_interval(rows, total)}, or fr.Split(0.0, {share})")


def _as_interval(rows: object, total: int | None) -> str:
    """An interval: the one that a slice or a number of rows means, else all rows."""
    most = "num_rows" if total is None else total
    if isinstance(rows, int | np.integer) and not isinstance(rows, bool) and rows > 0:
        return f"[[0, {int(rows) if total is None else min(int(rows), total)}]]"
    if isinstance(rows, slice) and all(isinstance(end, int | None) for end in (rows.start, rows.stop)):
        if total is not None:
            start, stop, _ = slice(rows.start, rows.stop).indices(total)
            return f"[[{start}, {stop}]]"
        return f"[[{rows.start or 0}, {most if rows.stop is None else rows.stop}]]"
    return f"[[0, {most}]]"


def _as_filter(rows: object) -> str:
    """A condition on a column: the one that a text holds, else any."""
    term = re.fullmatch(r"\s*(\w+)\s*(==|!=|<=|>=|<|>)\s*([\w.+-]+|'[^']*'|\"[^\"]*\")\s*", str(rows))
    name, op, value = term.groups() if term is not None else ("age", ">", "50")
    return f'fr.col("{name}") {op} {value}'


def _numbered(given: npt.NDArray[np.integer], total: int) -> RowArray:
    """Rows by their numbers, as intervals."""
    for number in (given.min(initial=0), given.max(initial=0)):
        if not 0 <= number < max(total, 1):
            raise ValueError(f"rows must be numbers from 0 to {total - 1}, found {number}")
    numbers = given.astype(np.int64)
    steps = np.diff(numbers)
    refuse_ones("rows=", given, total, "rows=numpy.asarray(rows, bool)")
    if (steps <= 0).any():
        unique, counts = np.unique(numbers, return_counts=True)
        way = "write rows=numpy.sort(rows); shuffle=True gives another order"
        if len(unique) < len(numbers):
            way = (
                f"row {unique[counts > 1][0]} is there twice; if each frame of a concat begins at 0, write "
                "pandas.concat(frames, ignore_index=True) before it, else rows=numpy.unique(rows)"
            )
        raise ValueError(f"rows= chooses rows, each once, in the order of the files: {way}")
    first, last = np.concatenate([[True], steps > 1]), np.concatenate([steps > 1, [True]])
    return np.stack([numbers[first[: len(numbers)]], numbers[last[: len(numbers)]] + 1], axis=1)


def _intervals(given: npt.ArrayLike, total: int) -> RowArray:
    array = np.asarray(given)
    if array.dtype.kind == "f" and array.size:
        raise TypeError(
            f"rows must be integers, intervals or a mask, found {array.dtype} numbers {quoted(given)}: "
            f"write rows={_of_floats(array.ravel().tolist())}"
        )
    try:
        array = to_array(given)
    except (TypeError, ValueError) as cause:
        raise ValueError(
            f"rows must be intervals, a boolean mask, row numbers or a Split, found {reprlib.repr(given)}: "
            f"write [[start, stop], ...], a bool for each row ({total}), or fr.Split(0.0, 0.9); {cause}"
        ) from None
    return _inside("rows", array, total)


def _of_floats(numbers: list[float]) -> str:
    """What to write instead of floats: a share, where they are no whole numbers beyond 0 and 1."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 2 and 0 <= first < last <= 1:
        return f"fr.Split({first}, {last})"
    if all(number.is_integer() for number in numbers):
        return "numpy.asarray(rows, int)"
    return f"fr.Split(0.0, {first if 0 < first < 1 else 0.9}) for a share of the rows"


def _inside(name: str, array: RowArray, total: int) -> RowArray:
    if array.max(initial=0) > total:
        raise ValueError(
            f"{name} must lie in the {plural(total, 'row')} of the files, found one up to {array.max()}"
        )
    return array


@takes_no_other("fr.Shuffle", "shuffle")
@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """The sizes of the shuffled order: `shuffle=` of a `ParquetDataset`.

    Args:
        block_rows: rows of a block. If None, those of a loaded state, or chosen for the dataset; `plan()`
            shows them.
        window_rows: rows of a window: larger windows shuffle better and take more memory. If None, those of a
            loaded state, or the number that takes 256 MiB.

    Raises:
        ValueError: for numbers out of range.
        TypeError: for arguments that are no integers.

    Threads and forks: a frozen value.

    Examples:
        >>> Shuffle(window_rows=65_536)
        Shuffle(block_rows=None, window_rows=65536)
    """

    block_rows: int | None = None
    window_rows: int | None = None

    def __post_init__(self) -> None:
        for name in ("block_rows", "window_rows"):
            if (size := getattr(self, name)) is not None:
                object.__setattr__(self, name, at_least(1, name, size))


OrderChoice = tuple[int | None, int | None, int | None] | None
"""Seed, rows of a block and rows of a window, as far as they were named; None for a sequential order."""


def order_choice(shuffle: bool | Shuffle, seed: int | None) -> OrderChoice:
    """What is named of the order; None for a sequential one.

    Raises:
        TypeError: if `shuffle` is neither a bool nor a `Shuffle`.
    """
    named_seed = None if seed is None else at_least(0, "seed", seed)
    if isinstance(shuffle, Shuffle):
        return named_seed, shuffle.block_rows, shuffle.window_rows
    if not isinstance(shuffle, bool):
        raise TypeError(
            f"shuffle must be True, False or fr.Shuffle(block_rows=, window_rows=), found {quoted(shuffle)}"
        )
    return (named_seed, None, None) if shuffle else None
