"""The core's threads read mixtures as they read one dataset: the same batches as source by source."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
import fastresume._core as _core
from fastresume.mixing.spec import MixtureSpec
from support.devices import Driver
from support.jobs import assert_same_batch
from support.mixtures import MixedLives

NAMES = ("web", "code", "books", "mail")

COLUMNS = [
    "label",
    fr.col("seen").mask_null(),
    fr.col("text").mask_null(),
    fr.col("tokens").mask_null(),
    fr.stack("a", "b", name="pair"),
    fr.stack("c", "d", "e", "f", name="four"),
    "small",
    fr.col("bag").pad(3, value=-1, truncate="tail").mask_null().alias("padded"),
    fr.col("nested"),
    "far",
    fr.col("g").mask_null(),
    "h",
    "i",
    "j",
]


def table(first: int, rows: int) -> pa.Table:
    """Rows with numbers, texts, lists and nulls."""
    random = np.random.default_rng([7, first])
    numbers = np.arange(first, first + rows)
    lists = [list(range(number % 5)) for number in numbers]
    columns: dict[str, Any] = {
        "label": pa.array(numbers % 2 == 0),
        "seen": pa.array([None if number % 7 == 3 else int(number) * 3 for number in numbers], pa.int64()),
        "text": pa.array([None if number % 11 == 5 else "t" * int(number % 13) for number in numbers]),
        "tokens": pa.array([None if number % 9 == 4 else lists[at] for at, number in enumerate(numbers)]),
        "small": pa.array((numbers % 100).astype(np.int8)),
        "bag": pa.array(
            [[*lists[at], None] if number % 6 == 1 else lists[at] for at, number in enumerate(numbers)]
        ),
        "nested": pa.array([[lists[at], [int(number)]] for at, number in enumerate(numbers)]),
        "far": pa.array(random.integers(-(1 << 62), 1 << 62, rows)),
    }
    for at, name in enumerate("abcdef"):
        columns[name] = pa.array((numbers * (at + 1)).astype(np.float32))
    for at, name in enumerate("ghij"):
        nulls = (numbers % 5 == 1) if name == "g" else None
        columns[name] = pa.array(numbers + at * 1000, mask=nulls)
    return pa.table(columns)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Four sources of other sizes, in files of several row groups."""
    root = tmp_path_factory.mktemp("sources")
    found = {}
    for number, (name, rows) in enumerate(zip(NAMES, (900, 313, 57, 5), strict=True)):
        found[name] = root / name
        found[name].mkdir()
        for part in range(2):
            own = table(10_000 * number + 1000 * part, rows // 2 + part)
            pq.write_table(
                own, found[name] / f"{part}.parquet", row_group_size=max(rows // 5, 2), data_page_size=400
            )
    return found


def dataset(path: Path, draw: random.Random) -> fr.ParquetDataset:
    """A source, in whatever order, of whichever rows."""
    order: dict[str, Any] = {}
    if draw.random() < 0.4:
        order = {
            "shuffle": True,
            "seed": draw.randrange(9),
            "block_rows": draw.choice([2, 9, 40]),
            "window_rows": 80,
        }
    rows = fr.Split(0.0, 0.7, seed=1) if path.name in NAMES[:2] and draw.random() < 0.4 else None
    return fr.ParquetDataset(path, columns=COLUMNS, rows=rows, **order)


class Job(MixedLives):
    """The lives of a job over a mixture: each under other weights, ranks and lanes."""

    def __init__(self, sources: dict[str, Path], seed: int) -> None:
        self.draw = random.Random(seed)
        self.datasets = {name: dataset(path, self.draw) for name, path in sources.items()}

    def mixture(self) -> fr.Mixture:
        """What the next life reads."""
        draw = self.draw
        names = draw.sample(NAMES, draw.randint(2, 4)) if self.cursor is None else list(NAMES)
        world = draw.choice([1, 1, 2, 3])
        lanes = draw.choice([None, world, 2 * world, 4 * world])
        rows = draw.choice([1, 4, 16, 60]) * (4 if lanes else 1)
        return fr.Mixture(
            {name: (self.datasets[name], draw.choice([1, 2, 5, 0.3])) for name in names},
            batch_size=rows,
            lanes=lanes,
            stop=draw.choice(["first", "all", 700] if rows < 4 else [2000, 3000]),
            tail=draw.choice(["drop", "short", "pad"]),
            world=(draw.randrange(world), world),
        )


def assert_same_batches(spec: MixtureSpec, cursor: _core.Cursor, threads: int, most: int = 60) -> int:
    """The core's threads deliver what is read batch by batch; of how many batches some were compared."""
    planned = spec.pass_from(cursor, 1)
    share = spec.share(planned, planned.cursor_after(0))
    place = (spec.world.rank, spec.world.world_size, 0, 1)
    reader = spec.reader(cursor, planned, place, threads, 1 << 16)
    assert isinstance(reader, _core.Reader)
    done = planned.batches - planned.batches_left
    count = min(most, planned.batches_left)
    for number in range(done, done + count):
        front = reader.front()
        assert front is not None
        if number % max(count // 10, 1) == 0:
            one, other = spec.batch(front, front.cursor, share), spec.planned_batch(planned, number)
            assert_same_batch(one, other)
            assert one.source.tolist() == other.source.tolist()
            assert one.rows().tolist() == other.rows().tolist()
            assert one.valid.tolist() == other.valid.tolist()
        reader.advance()
    assert count == most or reader.front() is None
    reader.close()
    return count


def check(sources: dict[str, Path], seed: int) -> None:
    job = Job(sources, seed)
    for life in range(3):
        spec, cursor = job.begin()
        assert_same_batches(spec, cursor, threads=life)
        job.end(spec, cursor)


@pytest.mark.law(2)
@pytest.mark.parametrize("seed", range(8))
def test_threads_deliver_what_is_read_batch_by_batch(sources: dict[str, Path], seed: int) -> None:
    check(sources, seed)


@pytest.mark.slow  # the same over many more histories
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_threads_deliver_the_same_in_many_histories(sources: dict[str, Path], first: int) -> None:
    for seed in range(1000 + first, 1000 + first + 50):
        check(sources, seed)


def two(sources: dict[str, Path], **how: Any) -> fr.Mixture:
    columns = ["seen", "a", "b", "h"]
    given = {name: (fr.ParquetDataset(sources[name], columns=columns, nulls="mask"), 1) for name in NAMES[:2]}
    return fr.Mixture(given, **{"batch_size": 20, "rank": 0, "world_size": 1, **how})


@pytest.mark.law(6)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_nothing(sources: dict[str, Path], threads: int) -> None:
    with fr.Loader(two(sources, lanes=2), threads=threads) as loader:
        for one, other in zip(loader, two(sources, lanes=2), strict=True):
            assert_same_batch(one, other)


def reader_of(spec: MixtureSpec, *ahead: Any) -> _core.Reader:
    """A reader of the first pass, with threads, bytes ahead and a page lock."""
    reader = spec.reader(spec.start(), spec.pass_from(spec.start(), 1), (0, 1, 0, 1), *ahead)
    assert isinstance(reader, _core.Reader)
    return reader


def test_as_many_threads_work_as_were_asked_for(sources: dict[str, Path]) -> None:
    reader = reader_of(two(sources)._spec, 3, 1 << 20)
    assert reader.front() is not None
    assert len(reader.activity.threads()) == 3 + 1, "and the one that asks"
    assert reader.activity.seconds > 0
    reader.close()


def test_what_is_copied_to_a_device_was_decoded_into_locked_pages(tmp_path: Path) -> None:
    driver = Driver()
    for name in NAMES[:2]:
        pq.write_table(pa.table({"x": np.arange(40_000)}), tmp_path / f"{name}.parquet")
    given = {name: (fr.ParquetDataset(tmp_path / f"{name}.parquet"), 1) for name in NAMES[:2]}
    spec = fr.Mixture(given, batch_size=20_000, world=(0, 1))._spec
    reader = reader_of(spec, 1, 1 << 20, driver.page_lock)
    before = sum(driver.locked.values())
    assert reader.front() is not None
    assert sum(driver.locked.values()) - before >= 20_000 * 8
    reader.close()


def test_sources_may_name_their_tensors_in_any_order(sources: dict[str, Path]) -> None:
    columns = ["a", "h", "b", "i"]
    rows = {}
    for other in (columns, columns[::-1]):
        given = {
            name: (fr.ParquetDataset(sources[name], columns=own), 1)
            for name, own in zip(NAMES[:2], (columns, other), strict=True)
        }
        batches = list(fr.Mixture(given, batch_size=10, world=(0, 1)))
        rows[tuple(other)] = [[batch[name].tolist() for name in columns] for batch in batches]
    assert rows[tuple(columns)] == rows[tuple(columns[::-1])]
