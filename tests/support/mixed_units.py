"""Jobs over mixtures of sequences or bins, and what their batches hold, by a plain loop over positions."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

import fastresume as fr
import fastresume._core as _core
from fastresume.buffers import of_buffer, of_runs
from fastresume.mixing.spec import MixtureSpec
from support.documents import Documents, Oracle, documents, units_of, write
from support.mixtures import MixedLives
from support.unit_jobs import assert_same_batch, pairs

Kind = Literal["sequences", "bins"]

NAMES = ("web", "code", "books")

GAPS = [[row, row + 1 + row % 3] for row in range(0, 40, 7)]


class MixedJob(MixedLives):
    """The lives of a job over sources of units: each under other weights, ranks and lanes.

    Args:
        root: where its files are.
        seed: what is drawn.
        kind: what is counted.
        grows: whether files come between lives.
    """

    def __init__(self, root: Path, seed: int, kind: Kind, grows: bool) -> None:
        self.draw = draw = random.Random(seed)
        self.root, self.kind, self.grows = root / f"{kind} {seed} {grows}", kind, grows
        self.root.mkdir()
        self.files = {name: [self.drawn(), self.drawn()] for name in NAMES}
        self.how = {name: self.order() for name in NAMES}
        self.length, columns = draw.choice([3, 16, 60]), draw.choice([("tokens",), ("tokens", "labels")])
        self.units = {name: self.unit(columns) for name in NAMES}
        groups, pages = draw.choice([9, 64, 1000]), draw.choice([64, 1 << 20])
        self.written = {"row_group_size": groups, "data_page_size": pages}
        self.known: dict[tuple[str, int], list[Any]] = {}

    def drawn(self) -> Documents:
        """A file of documents, some of which go over many sequences."""
        draw = self.draw
        found = documents(draw.randrange(99), draw.choice([40, 400]), draw.choice([20, 300]))
        return [*found, list(range(draw.choice([100, 1500])))]

    def order(self) -> dict[str, Any]:
        """The order of a source, and which of its rows it has."""
        draw = self.draw
        order: dict[str, Any] = {"on_change": "append"}
        if draw.random() < 0.5:
            blocks = {"block_rows": draw.choice([1, 5]), "window_rows": draw.choice([5, 40])}
            order |= {"shuffle": True, "seed": draw.randrange(9), **blocks}
        if not self.grows and draw.random() < 0.4:
            order["rows"] = ~fr.Intervals(GAPS)
        return order

    def unit(self, columns: tuple[str, ...]) -> Any:
        """What is counted of a source."""
        draw = self.draw
        if self.kind == "sequences":
            return fr.Packed(*columns, length=self.length, separator=draw.choice([None, -1, -2]))
        name, cost, rows = (
            draw.choice(["tokens", "cost"]),
            draw.choice([1, 30, 300]),
            draw.choice([None, 1, 3]),
        )
        return fr.Bins(name, cost=cost, rows=rows)

    def mixture(self) -> fr.Mixture:
        """What the next life reads."""
        draw = self.draw
        names = draw.sample(NAMES, draw.randint(2, 3)) if self.cursor is None else list(NAMES)
        world, rows = draw.choice([1, 1, 2, 3]), draw.choice([1, 4, 16])
        sources = {}
        for name in names:
            if self.grows and self.cursor is not None and draw.random() < 0.5:
                self.files[name].append(self.drawn())
            path = write(self.root / name, self.files[name], **self.written)
            nulls: Any = {"nulls": "mask"} if self.kind == "bins" else {}
            dataset = fr.ParquetDataset(path, unit=self.units[name], **nulls, **self.how[name])
            sources[name] = (dataset, draw.choice([1, 2, 5, 0.3]))
        stop, tail = draw.choice(["first", "all", 500]), draw.choice(["drop", "short", "pad"])
        return fr.Mixture(
            sources,
            batch_size=rows * 4,
            lanes=draw.choice([None, world, 2 * world, 4 * world]),
            stop=stop,
            tail="pad" if stop == "first" else tail,  # of few units, no whole batch would come
            world=(draw.randrange(world), world),
        )

    def held(self, spec: MixtureSpec, name: str, number: int) -> Any:
        """What a unit of a source holds: of a sequence its tokens and rows, of a bin its rows and lists."""
        files, gaps = self.files[name], GAPS if "rows" in self.how[name] else []
        if self.kind == "sequences" and (name, len(files)) in self.known:
            return self.known[name, len(files)][number]
        left_out = {row for start, end in gaps for row in range(start, end)}
        chosen = [row for row in range(sum(map(len, files))) if row not in left_out]
        if self.kind == "sequences":
            unit = self.units[name]
            found = Oracle(files, unit.length, unit.separator, unit.rest, set(chosen)).units
            return self.known.setdefault((name, len(files)), found)[number]
        table: Any = dict(spec.sources)[name]
        first, end = table.units_table.first_ordinals[number : number + 2].tolist()
        own = chosen[first:end]
        return own, [[document or [] for file in files for document in file][row] for row in own]


def units_at(spec: MixtureSpec, planned: _core.Pass, number: int) -> list[tuple[int, str, int]]:
    """Which unit stands at each position of a batch: the number and the name of its source, and its own."""
    axes, found = _core.Axes(planned.cursor_after(number)), []
    of = {name: (place, source) for place, (name, source) in enumerate(spec.sources)}
    for position in of_runs(of_buffer(planned.positions(number, spec.world.rank))).tolist():
        for place, name in enumerate(axes.names):
            for point in of_runs(of_buffer(axes.points(place, position, position + 1))).tolist():
                source = of[name][1]
                of_pass = axes.stretch(place, source.start(), point)
                first = of_pass.consumed_rows()
                unit = of_buffer(source.order(of_pass).rows(np.array([[first, first + 1]])))[0, 0]
                found.append((of[name][0], name, int(unit)))
    return found


def held_by(batch: fr.Batch) -> list[Any]:
    """What each unit of a batch holds: of a sequence its tokens and rows, of a bin its rows and lists."""
    if not isinstance(batch.rows(), fr.Jagged):
        ends = batch.unit_offsets.tolist()
        rows, lists = batch.rows().tolist(), batch["tokens"].to_list()  # type: ignore[union-attr]
        return [(rows[start:end], [each or [] for each in lists[start:end]]) for start, end in pairwise(ends)]
    return list(units_of(batch))


def check(job: MixedJob) -> int:
    """Asserts that three lives give what stands at their positions, however it is read; how many batches."""
    count = 0
    for life in range(3):
        spec, cursor = job.begin()
        planned = spec.pass_from(cursor, 1)
        for one, other in pairs(spec, cursor, life, job.draw.choice([1, 1 << 12, 1 << 20]), most=10):
            assert_same_batch(one, other)
            assert one.source.tolist() == other.source.tolist()
            count += 1
            units = units_at(spec, planned, one.step - planned.step_of(0))
            expected = [job.held(spec, name, unit) for _, name, unit in units]
            copies = [number % len(units) for number in range(len(one.source))]
            assert held_by(one) == [expected[copy] for copy in copies]
            assert one.source.tolist() == [units[copy][0] for copy in copies]
        job.end(spec, cursor)
    return count
