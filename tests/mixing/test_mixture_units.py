"""The core's threads read mixtures of sequences and of bins: what a plain loop finds at their positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
import fastresume._core as _core
from support.devices import Driver
from support.documents import documents, write
from support.mixed_units import NAMES, Kind, MixedJob, check, units_at
from support.rotten_pages import rot_group
from support.unit_jobs import assert_same_batch, assert_same_by_workers_and_after_resumes, pairs

SHUFFLE: dict[str, Any] = {"shuffle": True, "seed": 3, "block_rows": 4, "window_rows": 24}

UNITS: dict[str, Any] = {
    "sequences": fr.Packed("tokens", length=16, separator=-1),
    "bins": fr.Bins("tokens", cost=30),
}

of_each_kind = pytest.mark.parametrize("kind", UNITS)


@pytest.mark.law(2)
@of_each_kind
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_threads_deliver_the_units_that_stand_at_their_positions(
    tmp_path: Path, seed: int, kind: Kind
) -> None:
    assert check(MixedJob(tmp_path, seed, kind, grows=seed == 3)) > 3


@pytest.mark.slow  # the same over many more histories
@of_each_kind
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_threads_deliver_the_same_units_in_many_histories(tmp_path: Path, first: int, kind: Kind) -> None:
    jobs = (MixedJob(tmp_path, seed, kind, grows=seed % 3 == 0) for seed in range(1000 + first, 1020 + first))
    assert sum(map(check, jobs)) > 200


@of_each_kind
def test_a_source_that_stands_in_several_passes_of_its_own_at_a_time_ends_none_twice(
    tmp_path: Path, kind: Kind
) -> None:
    """Where a small source goes through many passes in one of the mixture, lanes are in others of them."""
    given: dict[str, Any] = {}
    for name, rows in (("web", 900), ("code", 12), ("books", 5)):
        path = write(tmp_path / name, [[*documents(1, rows, 20), list(range(50))]], row_group_size=4)
        for order, how in (("in order", {}), ("shuffled", SHUFFLE)):
            dataset = fr.ParquetDataset(path, unit=UNITS[kind], nulls="mask", **how)
            given[f"{name} {order}"] = (dataset, 1)
    spec = fr.Mixture(given, batch_size=12, lanes=4, stop="all", world=(0, 1))._spec
    passes = spec.start().num_rows // 6 // dict(spec.sources)["books in order"].num_rows
    assert passes > 10
    for one, other in pairs(spec, spec.start(), 2, 1 << 20):
        assert_same_batch(one, other)


def two(root: Path, kind: Kind, **how: Any) -> fr.Mixture:
    """Two sources of units, one in file order and one shuffled."""
    given: dict[str, Any] = {}
    mask = how.pop("mask", {})
    for number, order in enumerate(({}, SHUFFLE)):
        path = root / NAMES[number]
        if not path.exists():
            write(path, [documents(number, 1200, 20)], row_group_size=100, write_page_checksum=True)
        dataset = fr.ParquetDataset(path, unit=UNITS[kind], nulls="mask", **order, **mask)
        given[NAMES[number]] = (dataset, 2 - number)
    return fr.Mixture(given, **{"batch_size": 8, "world": (0, 1), "lanes": 2, **how})


@of_each_kind
@pytest.mark.law(6)
def test_threads_and_bytes_ahead_change_nothing(tmp_path: Path, kind: Kind) -> None:
    expected = list(two(tmp_path, kind))
    for ahead in ({"threads": 1, "prefetch_bytes": 1}, {"threads": 2}, {"threads": 8}):
        with fr.Loader(two(tmp_path, kind), **ahead) as loader:  # type: ignore[arg-type]
            for one, other in zip(loader, expected, strict=True):
                assert_same_batch(one, other)
                assert one.source.tolist() == other.source.tolist()


@of_each_kind
def test_workers_and_resumes_give_the_same_units(tmp_path: Path, kind: Kind) -> None:
    assert_same_by_workers_and_after_resumes(lambda: two(tmp_path, kind), workers=1)
    three = two(tmp_path, kind, lanes=3, batch_size=9)
    planned = three._spec.pass_from(three._spec.start(), 3)
    with fr.Loader(three, num_workers=3) as loader:
        for number, one in enumerate(loader):
            assert_same_batch(one, three._spec.planned_batch(planned, number))


@of_each_kind
def test_the_source_and_the_place_of_each_unit_are_told(tmp_path: Path, kind: Kind) -> None:
    made = two(tmp_path, kind)
    batch = made.batch_at(epoch=0, step=3)
    units = units_at(made._spec, made._spec.pass_from(made._spec.start(), 1), 3)
    assert batch.source.tolist() == [source for source, _, _ in units]
    assert set(batch.source.tolist()) == {0, 1}
    rows = batch.rows()
    counts = (
        [len(own) for own in rows.to_list()] if isinstance(rows, fr.Jagged) else batch.unit_offsets.diff()
    )
    whose = batch.source.repeat_interleave(batch.source.new_tensor(list(counts)))
    numbers = rows.values if isinstance(rows, fr.Jagged) else rows
    found = made._spec.locate(batch)
    assert len(found) == len(numbers) > 8
    for (path, group, row), of, number in zip(found, whose.tolist(), numbers.tolist(), strict=True):
        assert (Path(path).parent.name, group * 100 + row) == (NAMES[of], number)


@of_each_kind
def test_a_page_that_rots_later_masks_the_units_near_it(tmp_path: Path, kind: Kind) -> None:
    mask = {"bad_rows": "mask", "max_bad_rows": 10_000}
    spec = two(tmp_path, kind, mask=mask)._spec
    rot_group(tmp_path / "web" / "0.parquet", 3)
    masked = 0
    for one, other in pairs(spec, spec.start(), 2, 1 << 20):
        assert_same_batch(one, other)
        masked += int((~one.valid).sum())
    assert masked > 0


@of_each_kind
def test_as_many_threads_work_as_were_asked_for_and_lock_pages(tmp_path: Path, kind: Kind) -> None:
    _core.release_memory()  # no block is used again that another test locked
    driver, given = Driver(), {}
    path = write(tmp_path / "data", [[list(range(1000))] * 400], row_group_size=50)
    unit: Any = fr.Packed("tokens", length=1000) if kind == "sequences" else fr.Bins("tokens", cost=1000)
    for name, order in (("in order", {}), ("shuffled", SHUFFLE)):
        given[name] = (fr.ParquetDataset(path, unit=unit, nulls="mask", **order), 1)
    spec = fr.Mixture(given, batch_size=100, world=(0, 1))._spec
    planned = spec.pass_from(spec.start(), 1)
    reader = spec.reader(spec.start(), planned, (0, 1, 0, 1), 3, 1 << 20, driver.page_lock)
    assert isinstance(reader, _core.Reader)
    assert reader.front() is not None
    assert sum(driver.locked.values()) >= 100 * 1000 * 4
    assert len(reader.activity.threads()) == 3 + 1, "and the one that asks"
    assert reader.activity.seconds > 0
    reader.close()


def test_other_units_beside_bins_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data", [documents(1, 50, 20)])
    bins = fr.ParquetDataset(path, unit=fr.Bins("tokens", cost=30), nulls="mask")
    rows = fr.ParquetDataset(path, nulls="mask")
    sequences = fr.ParquetDataset(path, unit=UNITS["sequences"])
    for other in (rows, sequences):
        with pytest.raises(ValueError, match="must count the same: 'a' counts bins, and 'b' "):
            fr.Mixture({"a": (bins, 1), "b": (other, 1)}, batch_size=2)


def test_packed_sources_may_name_their_columns_in_any_order(tmp_path: Path) -> None:
    found = []
    for other in (("tokens", "labels"), ("labels", "tokens")):
        given: dict[str, Any] = {}
        for number, (order, names) in enumerate((({}, ("tokens", "labels")), (SHUFFLE, other))):
            path = write(tmp_path / NAMES[number], [documents(number, 200, 20)])
            unit = fr.Packed(*names, length=16, separator=-1)
            given[NAMES[number]] = (fr.ParquetDataset(path, unit=unit, **order), 1)
        batches = fr.Mixture(given, batch_size=8, world=(0, 1))
        found.append([(batch["tokens"].tolist(), batch["labels"].tolist()) for batch in batches])
    assert found[0] == found[1]
