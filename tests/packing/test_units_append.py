"""Files that are added behind others add units: none is lost, none comes twice, whoever reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.audits import assert_proven
from support.documents import Documents, Oracle, documents, units_of, write
from support.jobs import FEW

SHUFFLE = {"shuffle": True, "block_rows": 3, "window_rows": 9}


class Days:
    """A job over files that are added, and what it was given up to the states that it went on from."""

    def __init__(self, directory: Path, unit: Any, **how: Any) -> None:
        self.directory, self.unit, self.how = directory, unit, {"tail": "pad", **how}
        self.files: list[Documents] = []
        self.state: Any = None
        self.given: Counter[str] = Counter()

    def add(self, found: Documents) -> None:
        self.files.append(found)
        write(self.directory / "data", self.files, row_group_size=17)

    def live(self, world_size: int, lanes: int, steps: int | None, lost: int = 0) -> None:
        """Deliver so many batches of the first pass to each rank, or what is left, and some that are lost."""
        loaders = [self.loader(rank, world_size, lanes) for rank in range(world_size)]
        if loaders[0].epoch:
            return
        iterators = [iter(loader) for loader in loaders]
        done = 0
        while not loaders[0].epoch and (steps is None or done < steps):
            batches = [next(iterator, None) for iterator in iterators]
            self.state = loaders[0].state_dict()
            for batch in batches:
                self.given.update([] if batch is None else self.contents(batch))
            done += 1
        if not loaders[0].epoch:
            for _ in range(lost):
                for iterator in iterators:
                    next(iterator, None)

    def loader(self, rank: int, world_size: int, lanes: int) -> fr.Loader:
        how = {
            "rank": rank,
            "world_size": world_size,
            "lanes": lanes * world_size,
            "nulls": "mask",
            **self.how,
        }
        dataset = fr.ParquetDataset(
            [[file] for file in self.paths], batch_size=2, unit=self.unit, on_change="append", **how
        )
        loader = fr.Loader(dataset, threads=0, audit=self.directory / "logs")
        if self.state is not None:
            loader.load_state_dict(self.state)
        return loader

    @property
    def paths(self) -> list[Path]:
        return [self.directory / "data" / f"{number}.parquet" for number in range(len(self.files))]

    def contents(self, batch: fr.Batch) -> list[str]:
        valid = batch.valid.tolist()
        if isinstance(self.unit, fr.Packed):
            return [str(each) for each, is_valid in zip(units_of(batch), valid, strict=True) if is_valid]
        return [str(row) for row, is_valid in zip(batch.rows().tolist(), valid, strict=True) if is_valid]

    def expected(self) -> Counter[str]:
        if not isinstance(self.unit, fr.Packed):
            return Counter(map(str, range(sum(map(len, self.files)))))
        oracle = Oracle(self.files, self.unit.length, self.unit.separator, self.unit.rest)
        return Counter(map(str, oracle.units))


@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_every_token_comes_once_over_days_kills_ranks_and_lanes(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    unit: Any = data.draw(
        st.sampled_from(
            (fr.Packed("tokens", length=16), fr.Packed("tokens", length=9, separator=-1, rest="pad"))
        )
        | st.sampled_from((fr.Bins("tokens", cost=30, rows=3),))
    )
    how = SHUFFLE if data.draw(st.booleans()) else {}
    job = Days(tmp_path_factory.mktemp("days"), unit, **how)
    job.add(documents(0, 90, 40))
    for day in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(0, 2))):
            numbers = [data.draw(st.integers(1, most)) for most in (3, 2, 5)]
            job.live(*numbers, lost=data.draw(st.integers(0, 2)))
        if data.draw(st.booleans()):
            job.live(2, 1, None)
        job.add(documents(day + 1, data.draw(st.sampled_from((3, 50))), 40))
    job.live(data.draw(st.integers(1, 3)), 1, None)
    assert job.given == job.expected()
    assert_proven(job.directory / "logs", 1, or_more=True)


@pytest.mark.law(2)
@pytest.mark.parametrize("how", [{}, SHUFFLE], ids=["sequential", "shuffled"])
def test_a_packed_source_of_a_mixture_goes_on_as_it_does_alone(tmp_path: Path, how: dict[str, Any]) -> None:
    job = Days(tmp_path, fr.Packed("tokens", length=16), **how)
    states: list[Any] = [None, None]
    for day, steps in enumerate((3, 6, 4)):
        job.add(documents(day, 40, 40))
        own = job.loader(0, 1, 1).dataset
        how_opened = {"on_change": "append", "nulls": "mask", **how}
        source = fr.ParquetDataset([[file] for file in job.paths], unit=job.unit, **how_opened)
        mixture = fr.Mixture({"web": (source, 1)}, batch_size=2, stop="all", world=(0, 1))
        found = []
        for place, dataset in enumerate((own, mixture)):
            if states[place] is not None:
                dataset.load_state_dict(states[place])
            contents = []
            for _, batch in zip(range(steps), dataset, strict=False):
                contents.append(job.contents(batch))
                states[place] = batch.state_dict()
            found.append(contents)
        assert found[0] == found[1]


def test_units_of_the_first_files_keep_their_numbers(tmp_path: Path) -> None:
    job = Days(tmp_path, fr.Packed("tokens", length=16))
    job.add(documents(1, 60, 40))
    job.live(1, 1, 4)
    given = job.given.copy()
    job.add(documents(2, 60, 40))
    dataset = job.loader(0, 1, 1).dataset
    again = [each for step in range(4) for each in job.contents(dataset.batch_at(epoch=0, step=step))]
    assert Counter(again) == given
    assert dataset.num_rows == sum(job.expected().values())


def test_a_state_of_other_units_or_files_is_refused_by_what_differs(tmp_path: Path) -> None:
    job = Days(tmp_path, fr.Packed("tokens", length=16))
    job.add(documents(1, 60, 40))
    job.live(1, 1, 4)
    job.add(documents(2, 60, 40))
    job.unit = fr.Packed("tokens", length=8)
    with pytest.raises(fr.StateError, match="the first 1 of 2 files are those of the state, and other rows"):
        job.loader(0, 1, 1)
    fixed = fr.ParquetDataset(
        tmp_path / "data", batch_size=2, unit=fr.Packed("tokens", length=16), world=(0, 1), tail="pad"
    )
    with pytest.raises(
        fr.StateError, match=r"1 file more than then, after those of the state.*on_change='append'"
    ):
        fixed.load_state_dict(job.state)
