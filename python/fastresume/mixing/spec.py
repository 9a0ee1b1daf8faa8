"""The `MixtureSpec`: what a mixture reads, and how its sources share the places."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.audit.log_format import digest, key_of
from fastresume.audit.logged import Description
from fastresume.batch.batch import Batch, of_delivered
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, Share, of_a_pass
from fastresume.buffers import Intervals, of_buffer, of_runs, row_count
from fastresume.mixing.blend import Blend
from fastresume.options.rows import OrderChoice
from fastresume.packing.content import with_proof
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.masked_rows import Bound, bound_of
from fastresume.reading.row_places import locate
from fastresume.reading.spec import PassReader, ReadSpec
from fastresume.state.session import in_session, text_of_each

_MOST_PASSES = 4096
"""Passes that are gone through to find where another one begins."""


def _of_each(texts: Iterable[tuple[str, str | None]]) -> str | None:
    """What is said of each source that has something to say."""
    found = [f"{name}: {text}" for name, text in texts if text is not None]
    return "; ".join(found) or None


def _named_source(
    name: str, spec: FilesSpec
) -> tuple[str, _core.Cursor, OrderChoice, _core.Manifest | _core.Units | None, bool]:
    """What the core has to know of a source."""
    return name, spec.start(), spec.order_choice, spec.files_of_state, spec.on_change == "append"


@dataclass(frozen=True, kw_only=True)
class MixtureSpec(ReadSpec):
    """What a `Mixture` reads.

    Args:
        sources: what each source reads, with its name; in the order in which they were named.
        blends: the passes of the mixture; the last one for all that follow.
        renamed: the names that sources had in states, with those of now; None where one starts over.
        is_audited: whether batches have what a delivery log notes of units.
    """

    sources: tuple[tuple[str, FilesSpec], ...]
    blends: tuple[Blend, ...]
    renamed: tuple[tuple[str, str | None], ...] = ()
    is_audited: bool = False
    _cores: tuple[_core.Mixture, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._prepare()

    def _prepare(self) -> None:
        named = {name: _named_source(name, spec) for name, spec in self.sources}
        cores = [
            _core.Mixture(
                [named[name] for name in blend.weights],
                blend.core_weights(),
                blend.stop,
                [each for name, each in named.items() if name not in blend.weights],
                self.renamed,
            )
            for blend in self.blends
        ]
        object.__setattr__(self, "_cores", tuple(cores))

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values."""
        own = ("paths", "version", "rows", "columns", "nulls", "shuffle", "on_change", "bad_rows", "unit")
        configs = {name: spec.config() for name, spec in self.sources}
        return {
            **super().config(),
            "sources": {
                name: {key: config[key] for key in own if key in config} for name, config in configs.items()
            },
            "stages": [{"weights": dict(blend.weights), "stop": blend.plain_stop} for blend in self.blends],
        }

    @property
    def masking_bounds(self) -> Sequence[Bound]:
        """How many rows of each source may be masked; and how many functions may mask, or of all in all."""
        rows, ranks, own = self._most_rows_given(), self.world.world_size, self.max_bad_rows
        of_sources = []
        for name, spec in self.sources:
            of_source = spec.max_bad_rows
            most = 1.0 if of_source is None and own is not None else of_source
            masks = spec.masks_damage
            of_sources.append(Bound.of(most, rows[name] // ranks, spec.manifest, name, masks_damage=masks))
        of_all = Bound.of(own, self.rows_of_rank, self.sources[0][1].manifest)
        return [*of_sources, of_all._replace(is_of_all=own is not None)]

    @property
    def most_bad_rows(self) -> int | None:
        """How many rows of a pass may be masked in a process; None if no bound is named."""
        return None if self.max_bad_rows is None else bound_of(self.max_bad_rows, self.rows_of_rank)

    @property
    def rows_of_rank(self) -> int:
        """The number of rows of the longest pass that this rank gets; of bins, on the average."""
        found, of = [], dict(self.sources)
        for blend, core in self.each_blend:
            own, weights = self.rows_of(core.start(self.global_batch_size)), core.weights
            each = zip(blend.weights, weights, strict=True)
            found.append(sum(of[name].rows_in(own * weight) for name, weight in each) // sum(weights))
        return max(found)

    def _most_rows_given(self) -> dict[str, int]:
        """The rows of a pass of each source, or what it gives to one of the mixture if that is more."""
        of = dict(self.sources)
        rows = {name: spec.rows_in(spec.num_rows) for name, spec in self.sources}
        for blend, core in self.each_blend:
            weights, given = core.weights, core.start(self.global_batch_size).num_rows
            places = sum(weights)
            for name, weight in zip(blend.weights, weights, strict=True):
                rows[name] = max(rows[name], of[name].rows_in(given * weight // places))
        return rows

    def shares(self, epoch: int) -> dict[str, float]:
        """The share of each source in a pass, as it is read."""
        return self._at(epoch)[0].shares(self._at(epoch)[1].weights)

    def rounded(self, epoch: int) -> dict[str, float]:
        """The shares that were asked for in a pass, of the sources that have another one."""
        return self._at(epoch)[0].rounded(self._at(epoch)[1].weights)

    @property
    def each_blend(self) -> Sequence[tuple[Blend, _core.Mixture]]:
        """What is named for each of the first passes, and for all after them."""
        return tuple(zip(self.blends, self._cores, strict=True))

    @property
    def last(self) -> tuple[Blend, _core.Mixture]:
        """The sources, weights and end of all passes after the first ones."""
        return self.blends[-1], self._cores[-1]

    def _at(self, epoch: int) -> tuple[Blend, _core.Mixture]:
        number = min(epoch, len(self.blends) - 1)
        return self.blends[number], self._cores[number]

    @property
    def fingerprint(self) -> str:
        """A hash of the names of the sources and of their files."""
        sources = json.dumps([[name, spec.fingerprint] for name, spec in self.sources])
        return hashlib.sha256(sources.encode()).hexdigest()[:32]

    @property
    def num_rows(self) -> int:
        """The number of rows of the first pass."""
        return self.start().num_rows

    @property
    def row_bytes(self) -> int:
        """Estimated bytes of a row of a batch: of the source with the largest ones."""
        return max(spec.row_bytes for _, spec in self.sources)

    @property
    def stores(self) -> Sequence[_core.Stores]:
        """The stores that files of the sources may lie in."""
        return tuple(store for _, spec in self.sources for store in spec.stores)

    @property
    def is_made_ahead(self) -> bool:
        """Whether threads make batches ahead of the loop: what units hold is worked out for a log, too."""
        return super().is_made_ahead or self.is_audited

    @property
    def units_text(self) -> str | None:
        """What is counted instead of rows, in words; None of rows."""
        return _of_each((name, spec.units_text) for name, spec in self.sources)

    @property
    def dropped_tokens(self) -> int:
        """How many tokens of all sources are in no unit; 0 of rows."""
        return sum(spec.dropped_tokens for _, spec in self.sources)

    @property
    def table_text(self) -> str | None:
        """The snapshots of the tables that are read, in words; None where no source is a table."""
        return _of_each((name, spec.table_text) for name, spec in self.sources)

    def order_sizes(self, _cursor: _core.Cursor) -> tuple[int, int, int]:
        """The numbers of blocks and windows of a pass of each source, and the rows of the largest window."""
        each = [spec.order_sizes(spec.start()) for _, spec in self.sources]
        blocks, windows, rows = zip(*each, strict=True)
        return sum(blocks), sum(windows), max(rows)

    def rows_decoded(self, planned: _core.Pass, cursor: _core.Cursor, workers: int) -> tuple[int, float]:
        """The rows that this rank decodes in the rest of a stage, and the same per row that it gets.

        Of units, these are the rows that they are made of.
        """
        decoded, of, given = 0, dict(self.sources), self.rows_given(cursor)
        rows = sum(
            count * of[name].manifest.num_selected / max(of[name].num_rows, 1)
            for name, count in given.items()
        )
        of_a_unit = rows / max(sum(given.values()), 1)
        if planned.batches_left:
            decoded = self.planned_reader(planned).rows_decoded(workers)
        return decoded, decoded / max(planned.batches_left * self.batch_size * of_a_unit, 1)

    @property
    def rows_of_sources(self) -> dict[str, int]:
        """The rows of a pass of each source."""
        return {name: spec.num_rows for name, spec in self.sources}

    def rows_given(self, cursor: _core.Cursor) -> dict[str, int]:
        """How many rows each source gives to the rest of the stage that a cursor is in."""
        axes, left = _core.Axes(cursor), of_buffer(cursor.remaining()).tolist()
        return {
            name: sum(row_count(axes.points(place, start, end)) for start, end in left)
            for place, name in enumerate(axes.names)
        }

    def audited(self) -> Self:
        """The same spec, whose batches have what a delivery log notes of units."""
        return replace(self, is_audited=self.sources[0][1].counting is not None)

    def digests(self, batch: Delivered, origin: Origin) -> tuple[int, int | None]:
        """The digest of the rows, or units, of a batch, each with its source, and that of what units hold."""
        if origin.units is not None:
            return of_a_pass(origin.units.proof)
        rows = of_runs(of_buffer(batch.runs))
        sources = of_a_pass(origin.place_sources)[: len(rows)]
        each = (
            digest(rows[sources == of], key_of(self.sources[of][0])) for of in np.unique(sources).tolist()
        )
        return sum(each) % (1 << 64), None

    def dropped_content(self, _before: _core.Cursor, _positions: Intervals) -> int | None:
        """What the places at the end of a stage hold that no rank gets counts for nothing: they go back.

        None for rows, whose numbers alone are logged.
        """
        return 0 if self.is_audited else None

    def stage_at(self, before: _core.Cursor) -> Mapping[str, Any]:
        """The state in the stage that begins there or continues; the sources' files, and older names."""
        files = {name: (spec.fingerprint, spec.hash_of_selection) for name, spec in self.sources}
        renamed = {"renamed": dict(self.renamed)} if self.renamed else {}
        return {"stage": self.fitted(before).to_json(), "sources": files, **renamed}

    def descriptions(self, rank: int) -> Iterator[Description]:
        """The files that describe the sources."""
        for _, spec in self.sources:
            yield from spec.descriptions(rank)

    def start(self) -> _core.Cursor:
        """The cursor of a new job."""
        return in_session(self._at(0)[1].start(self.global_batch_size), self.named_session)

    def fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of this mixture; with other sources, weights, files or another end, a new stage begins.

        Raises:
            StateError: if it is of no mixture, or of one of other sources; if a source is another dataset
                than the one of this name, or is there under another name.
        """
        found = self._at(cursor.epoch)[1].fitted(cursor, self.global_batch_size)
        return in_session(found, self.named_session)

    @property
    def named_session(self) -> str | None:
        """What states name of the sessions of the sources."""
        texts = ((name, spec.session_text) for name, spec in self.sources)
        named = {name: session for name, session in texts if session is not None}
        return text_of_each(named) if named else None

    def pass_from(self, cursor: _core.Cursor, workers: int) -> _core.Pass:
        """The rest of the stage that a cursor is in."""
        return super().pass_from(self.fitted(cursor), workers)

    def at_epoch(self, present: _core.Cursor, epoch: int, workers: int) -> _core.Cursor:
        """The beginning of a pass that was not read here yet; the cursor of the present one.

        What each source has given before it tells only a job that was read without a break.

        Raises:
            StateError: if that is not known.
        """
        if present.epoch <= epoch <= present.epoch + _MOST_PASSES:
            return self._ahead(present, epoch, workers)
        if epoch < present.epoch <= _MOST_PASSES:
            found = self._ahead(self.start(), epoch, workers)
            unbroken = self.fitted(self._ahead(found, present.epoch, workers)).restarted()
            if unbroken == self.fitted(present).restarted():
                return found
        raise _core.StateError(
            f"what the sources have given before pass {epoch} is not known here: give a state of that pass, "
            "as batch_at(epoch, step, state=state)"
        )

    def reader(
        self,
        _cursor: _core.Cursor,
        planned: _core.Pass,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
        page_lock: _core.PageLock | None = None,
    ) -> PassReader:
        """The batches of a rank's worker, decoded by the core."""
        sources = [(name, (spec.manifest, spec.layout), spec.counting) for name, spec in self.sources]
        return _core.Reader.of_mixture(sources, planned, place, (threads, prefetch_bytes, page_lock))

    def batch(self, delivered: Any, cursor: _core.Cursor, share: Share | None) -> Batch:
        """The batch that a reader delivered, with the cursor after it."""
        made = of_delivered(self.schema, delivered, cursor, share, is_mixed=True)
        return with_proof(delivered, made, [name for name, _ in self.sources]) if self.is_audited else made

    def locate(self, batch: Batch) -> list[tuple[str, int, int]]:
        """The places of the rows of a batch, or of its units: (path, row group, row in it)."""
        specs = [spec for _, spec in self.sources]
        origin = batch._origin
        pairs = zip(of_a_pass(origin.row_sources).tolist(), of_runs(origin.runs).tolist(), strict=True)
        return [locate(specs[source].manifest, [row])[0] for source, row in pairs]

    def files_of(self, _planned: _core.Pass, _number: int) -> list[str]:
        """The files that hold rows of this rank's batch: all of the sources."""
        return [path for _, spec in self.sources for path in spec.manifest.files]

    def seed_at(self, _cursor: _core.Cursor) -> int:
        """The seed of random numbers: the mixture's."""
        return self.seed

    def read_by_all(self, cursor: _core.Cursor, workers: int) -> dict[str, object]:
        """What has to be the same on all ranks, so that they divide the same rows among them."""
        blend, core = self._at(cursor.epoch)
        return {
            "sources": {
                name: [spec.manifest.fingerprint, spec.manifest.selection, spec.num_rows]
                for name, spec in self.sources
            },
            "weights": dict(zip(blend.weights, core.weights, strict=True)),
            "stop": blend.plain_stop,
            "renamed": dict(self.renamed),
            "batch_size": self.batch_size,
            "tail": self.tail,
            "cut": self.cut(workers),
            "on_iter": self.on_iter,
        }

    def dropped_text(self, planned: _core.Pass) -> str:
        """The message when a pass ends with places that make no batch."""
        of = f"stages[{planned.epoch}]" if planned.epoch < len(self.blends) - 1 else "it"
        return (
            f"the pass ends here, with {plural(planned.rest, 'row')} left of {of}: too few for a global "
            f"batch of {self.global_batch_size}; the next pass begins with what is left of each source"
        )

    def no_batch_text(self, rows: str, number: int = 0) -> str:
        """The message that the pass of this number has no batch, of `rows` in words."""
        found, (blend, core) = super().no_batch_text(rows), self.each_blend[number]
        if isinstance(blend.stop, int):
            is_stage = number < len(self.blends) - 1
            asked = f"stages=[({blend.stop}, ...)]" if is_stage else f"stop={blend.stop}"
            return (
                f"{found}. {asked} counts rows: write {blend.stop * self.global_batch_size} for "
                f"{plural(blend.stop, 'batch', 'batches')}"
            )
        if blend.stop != "first" or len(blend.weights) == 1:
            return found
        shares, given = blend.shares(core.weights), self.rows_of_sources
        first = min(shares, key=lambda name: given[name] / shares[name])
        return (
            f"{found}. stop='first' ends a pass after the {plural(given[first], 'row')} of {first!r}, and "
            "stop='all' reads that source again"
        )

    def row_text(self) -> str:
        """The number of rows, in words."""
        return f"{plural(self.num_rows, 'row')} of {plural(len(self.sources), 'source')}"

    def name_at(self, cursor: _core.Cursor) -> str:
        """What is read, and by which shares, in words."""
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.shares(cursor.epoch).items())
        return f"Mixture({shares}; {plural(cursor.num_rows, 'row')}, {plural(len(self.schema), 'tensor')}"

    _REBUILT = ("_cores",)

    def _rebuild(self) -> None:
        super()._rebuild()
        self.__dict__["schema"] = self.sources[0][1].schema
        self._prepare()
