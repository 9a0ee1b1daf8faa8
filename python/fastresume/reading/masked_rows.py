"""The rows that were masked in this process: counted against the bound, and logged once each.

They are damaged, or a function given to `map` masked them, or failed over their batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.damage import Range, among, of_rows
from fastresume.batch.delivered import Delivered
from fastresume.batch.marks import Mark
from fastresume.batch.origin import Origin
from fastresume.buffers import of_buffer, of_runs
from fastresume.reading.row_places import locate
from fastresume.reading.stand_in import StandIn

_log = logging.getLogger("fastresume")

_NAMED = 3
"""An error names this many causes."""

_MOST_LOGGED = 4096
"""The most ranges of rows that are remembered as logged."""

_SHARE = 0.001
"""Such a share of a pass may be masked where nothing is named."""

RowNumbers = npt.NDArray[np.int64]


class MaskedCount(NamedTuple):
    """What was masked of one pass: each batch counts as it was read last.

    Args:
        rows: how many rows were masked, under each bound.
        epoch: the number of the pass.
        of_steps: how many of these are of each step, but of the last batch; it grows.
        step: the step of the last batch.
        rows_of_batch: how many of these are of the last batch, under each bound.
        causes: why, of the first of them.
    """

    rows: tuple[int, ...]
    epoch: int
    of_steps: dict[int, tuple[int, ...]]
    step: int = -1
    rows_of_batch: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()


class Bound(NamedTuple):
    """How many rows of a pass may be masked.

    Args:
        rows: the number; infinity where all may be.
        manifest: the files whose rows they are.
        source: of a mixture, the name of the source.
        is_of_all: of a mixture, whether the damaged rows of all sources count under it, too.
        masks_damage: whether damaged rows of these files are masked.
    """

    rows: float
    manifest: _core.Manifest
    source: str | None = None
    is_of_all: bool = False
    masks_damage: bool = False

    @classmethod
    def of(
        cls,
        most: float | None,
        rows: int,
        manifest: _core.Manifest,
        source: str | None = None,
        *,
        masks_damage: bool = False,
    ) -> Self:
        """That of `fr.MaskBadRows(at_most=)`, where this rank reads this many rows."""
        is_all = isinstance(most, float) and most >= 1
        most_rows = math.inf if is_all else bound_of(most, rows)
        return cls(most_rows, manifest, source, masks_damage=masks_damage)


class MaskedRows:
    """Counts and tells what is masked, in this process.

    Args:
        bounds: of a mixture, that of each source; rows that functions mask count under the last one.

    Attributes:
        count: what was masked of the present pass.
        stand_ins: what is handed on where a function fails, by the function's number.
    """

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = tuple(bounds)
        self._logged: set[object] = set()
        self._without_checksums = [bound for bound in self._bounds if bound.masks_damage]
        self.stand_ins: dict[int, StandIn] = {}
        self.count = MaskedCount((0,) * len(bounds), 0, {})

    @property
    def most_failed(self) -> float:
        """How many rows of a pass functions may mask, or fail over."""
        return self._bounds[-1].rows

    def counted(self, batch: Delivered, origin: Origin) -> MaskedCount:
        """What will be masked of the pass with this batch; `origin` is that of what functions made of it.

        Raises:
            DataError: if that is more than the bound; it says how many, where, and the first causes.
        """
        if self._without_checksums:
            self._tell_of_checksums()
        nothing, step = (0,) * len(self._bounds), batch.step
        before = self.count
        if before.epoch != batch.epoch:
            before = MaskedCount(nothing, batch.epoch, {})
        elif any(before.rows_of_batch) or before.step in before.of_steps:
            before.of_steps[before.step] = before.rows_of_batch
        again = before.rows_of_batch if before.step == step else before.of_steps.get(step, nothing)
        if not batch.damage and not origin.marks:
            if any(again):
                rows = tuple(np.subtract(before.rows, again).tolist())
                return before._replace(rows=rows, step=step, rows_of_batch=nothing)
            return before._replace(step=step, rows_of_batch=nothing)
        masked = _Masked(batch, origin)
        own = masked.counts(self._bounds)
        counts = tuple(np.add(np.subtract(before.rows, again or nothing), own).tolist())
        texts = [*map(self._text, masked.damage), *(mark.cause for mark in origin.marks)]
        new = [text for text in dict.fromkeys(texts) if text not in before.causes]
        causes = (*before.causes, *new)[:_NAMED]
        for bound, count in zip(self._bounds, counts, strict=True):
            if count > bound.rows:
                of = "" if bound.source is None else f"of source {bound.source!r} "
                of = "of the Mixture " if bound.is_of_all else of
                raise _core.DataError(
                    f"bad_rows= {of}allows {plural(int(bound.rows), 'masked row')} of a pass in this "
                    f"process, pass {batch.epoch} has {count} by now: {'; '.join(causes)}. The state is the "
                    "one before this batch: mend what is wrong and continue, or allow more: "
                    "bad_rows=fr.MaskBadRows(at_most=n)"
                )
        return MaskedCount(counts, batch.epoch, before.of_steps, step, own, causes)

    def by_cause(self, batch: Delivered, origin: Origin) -> list[tuple[str, RowNumbers]]:
        """The numbers of the rows that are masked of a batch, by cause."""
        if not batch.damage and not origin.marks:
            return []
        masked = _Masked(batch, origin)
        found = [(one[2], masked.rows[masked.among((one,))]) for one in masked.damage]
        for mark, is_marked in masked.of_marks():
            if masked.sources is None:
                found.append((mark.cause, masked.rows[is_marked]))
                continue
            for of in np.unique(masked.sources[is_marked]).tolist():
                cause = f"source {self._bounds[of].source!r}: {mark.cause}"
                found.append((cause, masked.rows[is_marked & (masked.sources == of)]))
        return [(cause, rows) for cause, rows in found if len(rows)]

    def tell(self, batch: Delivered, origin: Origin) -> None:
        """Logs what is masked of a batch, once: each damaged range, and what functions masked."""
        masked = _Masked(batch, origin)
        for mark, is_marked in masked.of_marks():
            rows = masked.rows[is_marked]
            if not len(rows) or not self._is_new((mark.cause, rows.tobytes())):
                continue
            text, place = mark.cause, f"epoch {batch.epoch}, step {batch.step}"
            if place not in text:  # no failure, which names its batch
                source = 0 if masked.sources is None else masked.sources[is_marked][0]
                path, group, row = locate(self._bounds[int(source)].manifest, rows[:1])[0]
                where = f"{plural(len(rows), 'row')} of the batch of {place}, the first is row {row} of row "
                where += f"group {group}"
                text = f"{where} in {path}: {text}"
            _log.warning("masked as not valid: %s", text)
        for one in masked.damage:
            if self._is_new(one):
                _log.warning("masked as not valid: %s", self._text(one))

    def _tell_of_checksums(self) -> None:
        """Logs once of files, or of a source, that pages without checksums were read."""
        for bound in [bound for bound in self._without_checksums if bound.manifest.lacks_checksums]:
            self._without_checksums.remove(bound)
            of = "files" if bound.source is None else f"files of source {bound.source!r}"
            _log.warning(
                "bad_rows= masks what can't be decoded, but pages of the %s have no checksums: bytes that "
                "were changed may be delivered as other values. Write files with write_page_checksum=True",
                of,
            )

    def _is_new(self, warning: object) -> bool:
        if warning in self._logged or len(self._logged) >= _MOST_LOGGED:
            return False
        self._logged.add(warning)
        return True

    def _text(self, one: Range) -> str:
        start, end, cause, *source = one
        bound = self._bounds[int(source[0]) if source else 0]
        of = "" if bound.source is None else f"source {bound.source!r}: "
        _, group, first = locate(bound.manifest, [start])[0]
        return f"{of}rows [{first}, {first + end - start}) of row group {group}: {cause}"


class _Masked:
    """The rows of a batch that are no padding, and which of them are masked.

    Args:
        batch: the batch as it was read.
        origin: that of what functions made of it.

    Attributes:
        rows: the numbers of the rows; of units, of those that they are made of.
        sources: of a mixture, which source each is of.
        damage: the ranges of damaged rows that have some of them.
    """

    def __init__(self, batch: Delivered, origin: Origin) -> None:
        self.rows = of_runs(of_buffer(batch.runs))
        sources = origin.row_sources
        self.sources = None if sources is None else sources[: len(self.rows)]
        self.damage = of_rows(batch.damage, self.rows, self.sources)
        self._marks = origin.marks
        units = origin.units
        offsets = np.arange(len(self.rows) + 1)
        if units is not None and units.are_documents:
            offsets = units.offsets[: batch.valid_rows + 1]
        self._offsets = offsets
        self._is_damaged = self.among(self.damage)

    def among(self, damage: Sequence[Range]) -> npt.NDArray[np.bool_]:
        """Which of the rows are in these ranges."""
        return among(damage, self.rows, self.sources)

    def _units(self) -> Iterator[tuple[Mark, npt.NDArray[np.bool_]]]:
        """For each mark, which rows of the batch it masks that nothing before it does."""
        sums = np.cumsum(np.append(0, self._is_damaged))[self._offsets]
        is_masked = np.diff(sums) > 0
        for mark in self._marks:
            new = np.zeros(len(is_masked), np.bool_)
            new[mark.places[mark.places < len(new)]] = True
            yield mark, new & ~is_masked
            is_masked |= new

    def of_marks(self) -> Iterator[tuple[Mark, npt.NDArray[np.bool_]]]:
        """For each mark, which of the rows it masks that nothing before it does."""
        for mark, is_marked in self._units():
            yield mark, np.repeat(is_marked, np.diff(self._offsets))

    def counts(self, bounds: Sequence[Bound]) -> tuple[int, ...]:
        """How many of them are masked under each bound; units that functions masked, under the last one."""
        sources = np.zeros(len(self.rows), np.int64) if self.sources is None else self.sources
        found = np.bincount(sources[self._is_damaged], minlength=len(bounds))
        found[-1] += sum(int(is_marked.sum()) for _, is_marked in self._units())
        if bounds[-1].is_of_all:
            found[-1] += found[:-1].sum()
        return tuple(found.tolist())


def bound_of(most: float | None, rows: int) -> int:
    """How many rows may be masked, out of these: a count as it is, a share of them rounded down.

    Examples:
        >>> bound_of(7, 1000), bound_of(0.01, 1999), bound_of(None, 1999)
        (7, 19, 1)
    """
    most = _SHARE if most is None else most
    return most if isinstance(most, int) else math.floor(Fraction(str(most)) * rows)
