"""Several datasets as one, by weight."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, cast

import numpy as np

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.batch.schema import Field
from fastresume.buffers import Intervals
from fastresume.kafka.dataset import KafkaDataset
from fastresume.kafka.mixed_round import MixedRound, check_stream
from fastresume.kafka.spec import RoundSpec
from fastresume.messages import some_of, warn
from fastresume.mixing.asked import limit_of, renamed_of, stages_of, weight_of
from fastresume.mixing.blend import Blend, RoundOf
from fastresume.mixing.remaining import remaining_by_group, remaining_rows
from fastresume.mixing.source_names import SourceNames
from fastresume.mixing.spec import MixtureSpec
from fastresume.options.bad_rows import MaskBadRows
from fastresume.options.checks import at_least, one_of, quoted
from fastresume.options.earlier import of_today
from fastresume.options.hints import SETTINGS_OF_MIXTURES
from fastresume.options.rows import Intervals as RowIntervals
from fastresume.options.tail import Tail, checked_tail
from fastresume.options.units import Packed
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World, cut_of, resolve_world, rows_of_each_rank
from fastresume.plan import Plan, make_plan
from fastresume.reading.resumable import ResumableDataset, dataset_behind
from fastresume.rows_dataset import Found, RowsDataset
from fastresume.state.cursor import Cursor
from fastresume.state.session import sessions_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

Sources = Mapping[str, tuple[RowsDataset, float]]
Stages = Sequence[tuple[int, Mapping[str, float]]]

_log = logging.getLogger("fastresume")

_TIMES = ("timestamp[", "date[", "time[", "duration[")
"""How the units begin that count time."""


@takes_no_other("Mixture", "mixture", of_today)
class Mixture(ResumableDataset):
    """An iterable of `Batch`es of several datasets, each with its share of the rows, that resumes exactly.

    At every prefix of a stage each source is within one row of its share. A source is read in its own order,
    pass after pass, and each of its passes delivers each of its rows once. Nothing is lost or repeated by a
    change of ranks, workers, batch size, weights or sources: a state loads under all of these.

    Args:
        sources: `{"web": (dataset, 0.7), "code": (dataset, 0.3)}`. The datasets are made without a batch
            size; where one has a batch size, ranks or lanes, the mixture's own count. Each dataset says
            for itself what happens to new files (`on_change`) and to rows that can't be read (`bad_rows`).
            One may be a `KafkaDataset`, see below.
            Weights are numbers above 0; they become integers that sum to at most 65,536. Integers whose sum
            is no more, once their common divisor is gone, stay exact. Where others are rounded, a warning or
            the log says to what, and so does `plan()`.
        batch_size: rows per rank and step.
        global_batch_size: rows of all ranks per step, instead of `batch_size`.
        stop: where a pass ends: "first", before a source would pass the end of its present pass; "all", as
            soon as each source has ended its present pass; or a number of rows. The next pass of the
            mixture continues in each source where the last one ended.
        stages: passes before those under `sources`' own weights: `[(rows, {"web": 0.9, "code": 0.1}), ...]`.
            Each is a pass of that many rows, after which `iter()` ends, and `batch.epoch` counts it. A source
            that is not named in one is not read in it. `len()` is that of the present pass.
        renamed: names that sources had when a state was saved, each with the one that it has now:
            `{"crawl": "web"}`. It is looked at where a state has an old name, and changes nothing elsewhere:
            so it may stay in the script. With None, files of a source that is gone are read again.
        seed: that of `batch.row_seeds()` and `batch.generator()`; each source's order has its own.
        lanes: as of a `ParquetDataset`, and so are `tail` and `on_iter`.
        tail: what happens to rows that make no whole batch.
        on_iter: whether `iter()` continues or starts over.
        bad_rows: `fr.MaskBadRows(at_most=n)` limits how many rows of a pass may be masked in this process
            over all sources: damaged ones, and those that functions given to `map` mask or fail over. A float
            is a share of the rows that this rank gets. A source's own limit counts beside it, if its dataset
            names one. With None, damaged rows count under the limit of their source alone, and functions
            under a thousandth.
        world: which of how many ranks this is, as of a `ParquetDataset`.

    Attributes:
        sources: the names of the sources; `batch.source` counts in their order.
        datasets: the datasets by their names, for `read_rows` and `locate` of each.

    Raises:
        TypeError, ValueError: for what is no mixture: it says what to write. One error tells all in which the
            tensors of the sources differ.

    With a `KafkaDataset`, a pass is one round of it: as many whole global batches as its rows make by the
    weights. The iteration continues with the next round, and ends where `stop=` of the stream says. Tables
    run on beside it, pass after pass. `stop`, `stages`, `tail` and `on_iter` have their defaults then. All
    ranks call `peek()` together. `loader.stats()["lag"]`, `mixture.watermark` and `batch.event_time` are
    those of the stream.

    Threads and forks: see `ParquetDataset`.

    Examples:
        >>> import fastresume as fr
        >>> web, code = (fr.ParquetDataset("data/*.parquet", seed=seed, shuffle=True) for seed in range(2))
        >>> two = fr.Mixture({"web": (web, 0.7), "code": (code, 0.3)}, batch_size=10)
        >>> next(iter(two)).source.tolist()
        [0, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    """

    _spec: MixtureSpec

    _settings: ClassVar[Mapping[str, str]] = SETTINGS_OF_MIXTURES

    def __init__(
        self,
        sources: Sources,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        stop: Literal["first", "all"] | int = "first",
        stages: Stages = (),
        renamed: Mapping[str, str | None] | None = None,
        seed: int | None = None,
        lanes: int | None = None,
        tail: Tail = "drop",
        on_iter: Literal["continue", "restart"] = "continue",
        bad_rows: MaskBadRows | None = None,
        world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None = None,
    ) -> None:
        datasets, weights = _checked(sources)
        stream = next((name for name, dataset in datasets.items() if dataset._is_stream), None)
        self._stream = None if stream is None else cast("KafkaDataset", datasets[stream])
        self._is_stream = self._stream is not None
        if isinstance(stop, str):
            one_of("stop", stop, ("first", "all"), "a number of rows")
        end = stop if isinstance(stop, str) else at_least(1, "stop", stop)
        end_of_pass = end if stream is None else RoundOf(stream)
        own_world, was_detected = resolve_world(world)
        rows = rows_of_each_rank(batch_size, global_batch_size, own_world.world_size)
        if rows is None:
            raise TypeError(
                "one of batch_size and global_batch_size must be given, found neither: write "
                "Mixture(sources, batch_size=n)"
            )
        named_lanes = None if lanes is None else at_least(1, "lanes", lanes)
        cut_of(rows, own_world.world_size, 1, named_lanes, None)
        _check_alike(datasets)
        _tell_unused(datasets, own_world, rows)
        first = next(iter(datasets.values()))
        spec = MixtureSpec(
            schema=first._spec.schema,
            seed=0 if seed is None else at_least(0, "seed", seed),
            world=own_world,
            world_was_detected=was_detected,
            batch_size=rows,
            tail=checked_tail(tail),
            lanes=named_lanes,
            groups=None,
            on_iter=one_of("on_iter", on_iter, ("continue", "restart")),
            max_bad_rows=limit_of(bad_rows),
            sources=tuple((name, dataset._at_start()) for name, dataset in datasets.items()),
            blends=(*stages_of(stages, datasets), Blend(weights, end_of_pass)),
            renamed=renamed_of(renamed, datasets),
        )
        if stream is not None:
            check_stream(stream, spec, end)
            spec = MixedRound.of(spec, stream)
        self._datasets: Mapping[str, RowsDataset] = datasets
        super().__init__(spec)
        if self._stream is None or stream is None:
            self._check_behind_stages()
        else:
            self._stream._mixed_as = stream, self._shared_cursor
        for blend, core in self._spec.each_blend:
            _tell_rounded(blend, core)

    def _adopted(self, cursor: _core.Cursor) -> _core.Cursor:
        renamed, present = dict(self._spec.renamed), dict(self._spec.sources)
        sessions = {
            old if old in self.datasets else renamed.get(old) or old: session
            for old, session in sessions_of(cursor).items()
        }
        found: dict[str, Found] = {}
        for name, session in sessions.items():
            if name in self.datasets:
                in_session = self.datasets[name]._in_session(session, present[name])
                found |= {} if in_session is None else {name: in_session}
        spec = self._spec
        stream = self._stream
        if stream is not None and isinstance(spec, MixedRound) and spec.stream not in sessions:
            found[spec.stream] = Found(stream._at_start(), None)  # it is new here
        if not found:
            return super()._adopted(cursor)
        sources = [(name, found[name].spec if name in found else own) for name, own in spec.sources]
        spec = dataclasses.replace(spec, sources=tuple(sources))
        fitted = spec.fitted(cursor)
        for name, in_session in found.items():
            self.datasets[name]._take_found(in_session)
        self._take(spec)
        return fitted

    @property
    def _has_end(self) -> bool:
        """Whether an iteration ends with the rows: not with a stream, which has the rows of tables in it."""
        return not self._is_stream

    def _follow(self) -> bool:
        """Makes the pass with the next round this mixture's; False if the stream has ended. It waits.

        All ranks call it together.
        """
        spec, cursor = self._spec, self._shared_cursor.cursor
        stream = self._stream
        if stream is None or not isinstance(spec, MixedRound):
            return super()._follow()
        # The mixture that this one was mapped from may be further on.
        named = stream._in_session(sessions_of(cursor).get(spec.stream), spec.round_spec)
        if named is not None and isinstance(named.spec, RoundSpec):
            spec = spec.with_round(named.spec)
        found = spec.next_round(stream._stream, cursor)
        if found is None:
            return False
        spec, here = found
        if spec is not self._spec:
            stream._take_found(Found(spec.round_spec, None))
            self._take(spec)
        if here != cursor:
            self._shared_cursor.follow(here)
        return True

    def _of_worker(self, worker: int, workers: int) -> Iterator[Batch]:
        if self._is_stream:
            raise _core.FastresumeError(
                "workers of a torch DataLoader don't hear of the next round of a stream: write "
                "fr.Loader(mixture, num_workers=n) for a Mixture with one, whose workers do"
            )
        return super()._of_worker(worker, workers)

    def _wait_in_words(self, seconds: float) -> str:
        stream = self._stream
        return super()._wait_in_words(seconds) if stream is None else stream._wait_in_words(seconds)

    def _after_save(self) -> Callable[[], None] | None:
        return None if self._stream is None else self._stream._after_save()

    def _check_present(self) -> None:
        if isinstance(self._spec, MixedRound):
            self._spec.check_present(self._shared_cursor.cursor)

    @property
    def watermark(self) -> np.datetime64 | None:
        """The event time up to which the stream was delivered, as of its `KafkaDataset`.

        Raises:
            AttributeError: if no source is a stream.
        """
        if self._stream is None:
            raise AttributeError
        return self._stream.watermark

    def _check_behind_stages(self) -> None:
        """Refuses what would give no batch for ever, once the stages have ended.

        Raises:
            ValueError: if passes after the stages give none.
        """
        spec = self._spec
        start = spec.last[1].start(spec.global_batch_size)
        planned = _core.Pass(start, spec.cut(1), spec.tail, spec.world.world_size)
        if planned.batches == 0:
            rows = f"the {plural(start.num_rows, 'row')} of a pass after the stages"
            raise ValueError(spec.no_batch_text(rows, len(spec.blends) - 1))

    def __getitem__(self, index: object) -> Batch:
        """Refuses an index; see `ParquetDataset`.

        Raises:
            TypeError: always.
        """
        if isinstance(index, str):
            name = index if index in self.datasets else self.sources[0]
            raise TypeError(f"a Mixture is a stream of batches: write mixture.datasets[{name!r}]")
        return super().__getitem__(index)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, in the order in which `batch.source` counts them."""
        return SourceNames(self.datasets)

    @property
    def datasets(self) -> Mapping[str, RowsDataset]:
        """The datasets by their names, for `read_rows` and `locate` of each."""
        return self._datasets

    @property
    def shares(self) -> dict[str, float]:
        """The share of each source in the present pass, as its whole weights make it.

        Examples:
            >>> mixture.shares
            {'web': 0.7, 'code': 0.3}
        """
        return self._spec.shares(self._shared_cursor.cursor.epoch)

    def _batches_of_pass(self) -> int:
        """The batches of the present pass, with those that are done: passes differ in length.

        Raises:
            TypeError: with a stream, which has no end.
        """
        if self._is_stream:
            raise TypeError(
                "a Mixture with a stream has no length, since its topics have no end: count steps, or use "
                "mixture.batches_left for the present round"
            )
        planned = self._spec.pass_from(self._shared_cursor.cursor, 1)
        return planned.step_of(planned.batches)

    def remaining(self, state: Mapping[str, Any] | Cursor | None = None) -> dict[str, RowIntervals]:
        """The rows of each source that a state's pass has still to deliver, as `fr.Intervals` of row numbers.

        A row that the rest of the pass has several times is listed once. Given to a dataset over the
        files of a source as `rows=`, they make a dataset of what is left. Of packed sequences, they are the
        rows that have a token in one that is left.

        Args:
            state: a state of this mixture; the present one if None.

        Raises:
            StateError: if the state is of another mixture.
            DataError, SourceError: if a file can't be read, of packed sequences.

        Examples:
            >>> mixture.remaining()["code"]
            fr.Intervals([[0, 43]])
        """
        cursor = self._shared_cursor.cursor if state is None else Cursor.from_state(state)._core
        return {name: RowIntervals(rows) for name, rows in remaining_rows(self._spec, cursor).items()}

    def _remaining_rows(self, cursor: Cursor) -> list[tuple[str, int, Intervals]]:
        """The rest of a cursor's pass, by file and row group: see `Cursor.remaining`.

        Raises:
            StateError: if the cursor is of another mixture.
        """
        return remaining_by_group(self._spec, cursor._core)

    def plan(self, workers: int = 0) -> Plan:
        """What is left of the present pass: steps, what each source gives, and memory; prints as a table.

        Args:
            workers: how many workers a torch DataLoader over the mixture will have.

        Raises:
            ValueError: if that many workers can't share the lanes.

        Examples:
            >>> mixture.plan().rows
            {'web': 100, 'code': 43}
        """
        made = make_plan(self._spec, self._shared_cursor.cursor, at_least(0, "workers", workers))
        if self._stream is None or not isinstance(self._spec, MixedRound):
            return made
        return dataclasses.replace(made, bytes_of_rounds=self._stream._held_bytes(self._spec.round_spec))


def _checked(sources: object) -> tuple[dict[str, RowsDataset], dict[str, float]]:
    """The datasets and weights of the sources.

    Raises:
        TypeError, ValueError: if they are none.
    """
    form = 'write {"web": (dataset, 0.7), "code": (dataset, 0.3)}'
    if not isinstance(sources, Mapping) or not sources:
        raise TypeError(f"a Mixture takes names with a dataset and a weight: {form}, found {quoted(sources)}")
    datasets = _Datasets()
    weights: dict[str, float] = {}
    for name, given in sources.items():
        if not isinstance(name, str):
            raise TypeError(f"the names of a Mixture's sources are strings, found {quoted(name)}")
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(
                f"source {name!r} must be a dataset and its weight: {form}, found {quoted(given)}"
            )
        dataset, weight = given
        if isinstance(dataset, Mixture):
            raise TypeError(
                f"source {name!r} is a Mixture itself: name its sources here, with weights multiplied, as "
                f"{_flat(name, dataset, weight_of(name, weight))}"
            )
        if not isinstance(dataset, RowsDataset):
            way = "" if dataset_behind(dataset) is None else ": write loader.dataset"
            if isinstance(dataset, str | os.PathLike):
                way = f": write {{{name!r}: (fr.ParquetDataset({str(dataset)!r}), {quoted(weight)})}}"
            raise TypeError(
                f"source {name!r} must be a ParquetDataset, an ArrowDataset or a KafkaDataset, found "
                f"{type(dataset).__name__}{way}"
            )
        _check_source(name, dataset)
        datasets[name], weights[name] = dataset, weight_of(name, weight)
    _tell_twice(datasets)
    streams = [name for name, dataset in datasets.items() if dataset._is_stream]
    if len(streams) > 1:
        raise ValueError(
            f"sources {streams[0]!r} and {streams[1]!r} are streams, and a pass of a Mixture is a round of "
            'one: let one KafkaDataset read all topics, as KafkaDataset("kafka://broker:9092/one,other")'
        )
    return datasets, weights


class _Datasets(dict[str, RowsDataset]):
    """The datasets of the sources, by their names."""

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(f"a Mixture has no source {quoted(name)}; there are: {quoted(list(self))}")


def _tell_twice(datasets: Mapping[str, RowsDataset]) -> None:
    """Warns of the first dataset that has two names, or whose rows come by another one in the same order."""
    names: dict[int, str] = {}
    same: dict[tuple[object, ...], str] = {}
    for name, dataset in datasets.items():
        if (other := names.setdefault(id(dataset), name)) != name:
            warn(f"sources {other!r} and {name!r} are one dataset: each of its rows comes by both")
            return
        if dataset._is_stream:
            continue
        delivered = ((field.name, field.expression, *field.columns) for field in dataset.schema.values())
        if (other := same.setdefault((dataset._spec.start().to_json(), *delivered), name)) != name:
            warn(
                f"sources {other!r} and {name!r} are the same rows in one order: each row comes by both. "
                "Name other paths, rows= or filter=, or another seed= if you mean it"
            )
            return


def _tell_unused(datasets: Mapping[str, RowsDataset], world: World, batch_size: int) -> None:
    """Warns of what sources have and the mixture's own counts for."""
    for name, dataset in datasets.items():
        spec = dataset._spec
        is_named = not (spec.world_was_detected or dataset._is_stream)  # other ranks of a stream are refused
        if spec.world != world and is_named:
            warn(
                f"source {name!r} was made for {spec.world}, and the mixture is for {world}, which counts: "
                "leave world= out of the source, or write it of the Mixture"
            )
        usual: dict[str, Any] = {"batch_size": batch_size if spec.has_batch_size else spec.batch_size}
        usual |= {} if dataset._is_stream else {"tail": "drop", "on_iter": "continue"}
        for option, value in usual.items():
            if (given := getattr(spec, option)) != value:
                warn(
                    f"source {name!r} has {option}={given!r}, which a mixture does not ask: write "
                    f"{option}= of the Mixture"
                )


def _flat(name: str, inner: Mixture, weight: float) -> str:
    """What to write instead of a mixture among the sources."""
    blend, core = inner._spec.last
    parts = zip(blend.weights, core.weights, strict=True)
    each = (f'"{name}/{own}": ({own}, {weight * part / sum(core.weights):.12g})' for own, part in parts)
    return f"{{{', '.join(each)}}}"


def _tell_rounded(blend: Blend, core: _core.Mixture) -> None:
    """Says which shares are others than those that the weights ask for."""
    text, is_much = blend.rounded_text(core.weights)
    if is_much:
        warn(text)
    elif text:
        _log.info("%s", text)


def _check_source(name: str, dataset: RowsDataset) -> None:
    """Refuses what a mixture does not know of.

    Raises:
        ValueError: naming it.
    """
    spec = dataset._spec
    if spec.transforms:
        raise ValueError(f"source {name!r} is mapped: map the Mixture, as Mixture(...).map(function)")
    if not spec.num_rows and not dataset._is_stream:
        raise ValueError(f"source {name!r} has no rows: leave it out")


def _check_alike(datasets: Mapping[str, RowsDataset]) -> None:
    """Refuses sources whose tensors differ, or that count others.

    Raises:
        ValueError: naming all differences, up to some number, and what makes one of both.
    """
    (first_name, first), *others = datasets.items()
    unlike: list[str] = []
    ways: dict[str, None] = {}
    for name, dataset in others:
        counted, of_first = dataset._spec.counted, first._spec.counted
        if counted != of_first:
            raise ValueError(
                f"the sources of a Mixture must count the same: {first_name!r} counts {of_first}, and "
                f"{name!r} {counted}: give all of them the same kind of unit=, or none"
            )
        own, its = dict(first.schema), dict(dataset.schema)
        for key in dict.fromkeys((*own, *its)):
            if key not in its or key not in own:
                there, lacking = (first_name, name) if key in own else (name, first_name)
                unlike.append(f"{key!r} is in {there!r}, and not in {lacking!r}")
                if (own.get(key) or its[key]).kind not in ("mask", "length"):  # these follow another one
                    ways["columns=[...] of each, with that tensor or without it"] = None
            elif _form(own[key]) != _form(its[key]):
                unlike.append(
                    f"{key!r} is {_form(own[key])} in {first_name!r}, and {_form(its[key])} in {name!r}"
                )
                ways[_way_to_one_form(own[key], its[key], of_first == Packed.counted)] = None
            elif own[key].is_stacked and own[key].columns != its[key].columns:
                _check_stacked(key, (first_name, own[key].columns), (name, its[key].columns))
        codes, of_others = first.dictionaries, (_codes_of_others(first), _codes_of_others(dataset))
        for key, values in dataset.dictionaries.items():
            if key in codes and codes[key] != values:
                unlike.append(f"the codes of {key!r} mean other values in {first_name!r} than in {name!r}")
                if _form(own[key]) == _form(its[key]):
                    ways[".codes(values=[...]) of each, with the same values"] = None
            elif len(found := {each[key] for each in of_others if key in each}) > 1:
                given = " and ".join(map(str, sorted(found)))
                unlike.append(f"the code of values of {key!r} that .codes() does not name is {given}")
                ways["the same unknown= of each"] = None
    if unlike:
        raise ValueError(
            f"the sources of a Mixture must have the same tensors: {some_of(unlike)}: write {'; '.join(ways)}"
        )


def _codes_of_others(dataset: RowsDataset) -> dict[str, int]:
    """The code of all values that `.codes()` does not name, by the names of the tensors that have one."""
    rules = {column.text: column.rules.codes for column in dataset._spec.columns.expressions}
    codes = {name: rules.get(field.expression or "") for name, field in dataset.schema.items()}
    return {name: said[1] for name, said in codes.items() if said is not None and said[1] is not None}


def _way_to_one_form(one: Field, other: Field, are_sequences: bool) -> str:
    """What to write of sources, one of whose tensors has two forms."""
    form, its = _form(one), _form(other)
    if are_sequences and one.width != other.width:
        return "the same length= of each fr.Packed"
    if one.is_stacked and other.is_stacked and one.width != other.width:
        return "as many columns in each fr.stack"
    if one.is_masked != other.is_masked:
        return "fr.col(name).mask_null() of each, or fr.col(name).fill_null(value)"
    if any(unit in form or unit in its for unit in ("hash1[", "dictionary[")):
        return "the same .hash(buckets) of each, or .codes(values=[...]) with the same values"
    if (one.unit or "").startswith(_TIMES) and (other.unit or "").startswith(_TIMES):
        return "files whose times have one unit, as .cast() leaves it as it is, or columns=['*', '!name']"
    if one.kind != other.kind and "string" in one.kind + other.kind:
        return "columns=['*', '!name'] of each, since texts and numbers make no tensor together"
    if one.shape != other.shape:
        return "fr.col(name).pad(length) of each, with the same length, where both are lists"
    return "fr.col(name).cast(dtype) in columns=[...] of each, with the same dtype"


def _check_stacked(key: str, one: tuple[str, tuple[str, ...]], other: tuple[str, tuple[str, ...]]) -> None:
    """Refuses matrices that have the same columns in another order, and warns of other columns.

    Raises:
        ValueError: naming both orders.
    """
    columns, its = one[1], other[1]
    at = next(number for number, pair in enumerate(zip(columns, its, strict=True)) if len(set(pair)) > 1)
    name, another = quoted(columns[at]), quoted(its[at])
    where = f"column {at} of {key!r} is {name} in {one[0]!r}, and {another} in {other[0]!r}"
    if sorted(columns) == sorted(its):
        raise ValueError(
            f"{where}: name the columns in one order, as fr.stack({quoted(columns[0])}, ..., name={key!r})"
        )
    warn(f"{where}: the schema has the names of {one[0]!r}, for the rows of both")


def _form(field: Field) -> str:
    shape = ", ".join(map(str, field.shape))
    parts: list[Any] = [f"{str(field.dtype).removeprefix('torch.')} [{shape}]"]
    parts += [field.kind if field.is_jagged else "", field.unit or "", "masked" if field.is_masked else ""]
    return " ".join(filter(None, parts))
