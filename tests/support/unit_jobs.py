"""Jobs over units: each life under other ranks, lanes and batch sizes, and perhaps with more files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastresume as fr
import fastresume._core as _core
from support.documents import documents, opened, write
from support.jobs import arrays_of, assert_batch_values


def assert_same_batch(one: fr.Batch, other: fr.Batch) -> None:
    """Assert that two batches of units are equal in everything that a user can see."""
    assert_batch_values(one, arrays_of(other))
    assert numbers_of(one) == numbers_of(other)
    assert one.valid.tolist() == other.valid.tolist()
    assert sources_of(one) == sources_of(other)
    assert (one.epoch, one.step, one.state_dict()) == (other.epoch, other.step, other.state_dict())


def assert_same_by_workers_and_after_resumes(
    dataset: Callable[[], fr.ParquetDataset | fr.Mixture], workers: int = 2
) -> None:
    """Assert that worker processes, and datasets that load a state, give the batches of an unbroken pass."""
    expected = list(dataset())
    with fr.Loader(dataset(), num_workers=workers) as loader:
        for one, other in zip(loader, expected, strict=True):
            assert_same_batch(one, other)
    for stop in (1, 7, len(expected) - 1):
        first = dataset()
        batches = iter(first)
        for _ in range(stop):
            state = next(batches).state_dict()
        second = dataset()
        second.load_state_dict(state)
        for one, other in zip(second, expected[stop:], strict=True):
            assert_same_batch(one, other)


def numbers_of(batch: fr.Batch) -> Any:
    """The row numbers of each unit of a batch."""
    rows = batch.rows()
    if isinstance(rows, fr.Jagged):
        return rows.to_list()
    return rows.tolist(), batch.unit_offsets.tolist()


def sources_of(batch: fr.Batch) -> list[int] | None:
    """The source of each unit of a batch, if it is one of a mixture."""
    return batch.source.tolist() if hasattr(batch, "source") else None


class UnitJob:
    """The lives of a job over units.

    Args:
        root: where its files are.
        seed: what is drawn.
        unit: draws what is counted.
    """

    def __init__(self, root: Path, seed: int, unit: Callable[[random.Random], Any]) -> None:
        self.draw = draw = random.Random(seed)
        self.seed = seed
        sizes = [(draw.choice([0, 1, 50, 400]), draw.choice([7, 40, 300])) for _ in range(3)]
        self.files = [documents(seed + number, *size) for number, size in enumerate(sizes)]
        self.files.append([*documents(seed + 9, 300, 30), list(range(2000))])
        groups, pages = draw.choice([9, 64, 1000]), draw.choice([64, 900, 1 << 20])
        self.written = {"row_group_size": groups, "data_page_size": pages}
        self.path = write(root / str(seed), self.files, **self.written)
        self.unit = unit(draw)
        self.order: dict[str, Any] = {}
        if draw.random() < 0.5:
            blocks = {"block_rows": draw.choice([1, 5, 40]), "window_rows": draw.choice([40, 200])}
            self.order = {"shuffle": True, "seed": draw.randrange(9), **blocks}
        if draw.random() < 0.4:
            num_rows = sum(map(len, self.files))
            some = fr.Intervals([[row, row + 1 + row % 3] for row in range(0, num_rows - 3, 50)])
            self.order["rows"] = ~some
        self.cursor: _core.Cursor | None = None

    def begin(self) -> tuple[Any, _core.Cursor]:
        """What the next life reads, and from where."""
        draw = self.draw
        world = draw.choice([1, 1, 2, 3])
        lanes, groups = draw.choice([(None, None), (world, 1), (2 * world, 1), (4 * world, 2)])
        tail = draw.choice(["drop", "short", "pad"])
        cut: dict[str, Any] = {"lanes": lanes, "groups": groups, "tail": tail}
        rows = draw.choice([1, 4, 12]) * (4 if lanes else 1)
        if self.cursor is not None and "rows" not in self.order and draw.random() < 0.4:
            self.files.append(documents(self.seed + len(self.files), draw.choice([3, 90]), 40))
            write(self.path, self.files, **self.written)
        how = {"on_change": "append", **self.order}
        if world * rows > opened(self.path, self.unit, 1, **how).num_rows:
            rows, cut = 1, {"tail": "pad"}
        whose = {"rank": draw.randrange(world), "world_size": world}
        spec: Any = opened(self.path, self.unit, rows, **cut, **whose, **how)._spec
        self.cursor = spec.start() if self.cursor is None else spec.fitted(self.cursor)
        return spec, self.cursor

    def end(self, spec: Any, cursor: _core.Cursor) -> None:
        """It is killed somewhere in the pass."""
        planned = spec.pass_from(cursor, 1)
        done = planned.batches - planned.batches_left
        self.cursor = planned.cursor_after(done + self.draw.randint(0, planned.batches_left))


def pairs(
    spec: Any, cursor: _core.Cursor, threads: int, ahead: int, most: int = 1 << 20
) -> Iterator[tuple[fr.Batch, fr.Batch]]:
    """Batches as the core's threads deliver them, and as each is read by itself: about so many at most."""
    planned = spec.pass_from(cursor, 1)
    share = spec.share(planned, planned.cursor_after(0))
    reader = spec.reader(cursor, planned, (spec.world.rank, spec.world.world_size, 0, 1), threads, ahead)
    assert isinstance(reader, _core.Reader)
    for number in range(planned.batches - planned.batches_left, planned.batches):
        front = reader.front()
        assert front is not None
        if number % -(-planned.batches_left // most) == 0:
            yield spec.batch(front, front.cursor, share), spec.planned_batch(planned, number)
        reader.advance()
    assert reader.front() is None
    reader.close()


def check(job: UnitJob) -> int:
    """Asserts that three lives of a job give the same batches in both ways; how many these are."""
    count = 0
    for life in range(3):
        spec, cursor = job.begin()
        for one, other in pairs(spec, cursor, life, job.draw.choice([1, 1 << 12, 1 << 20]), most=10):
            assert_same_batch(one, other)
            count += 1
        job.end(spec, cursor)
    return count
