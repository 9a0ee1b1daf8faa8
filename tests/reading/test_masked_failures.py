"""`map(function, on_error="mask")`: a batch over which a function fails is delivered masked, in its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from support.refusals import refused

BAD = 5  # a row of each of these batches makes the functions below fail
BATCHES, ROWS = 12, 8

READERS: dict[str, Callable[[fr.ParquetDataset], Iterable[fr.Batch]]] = {
    "alone": lambda dataset: dataset,
    "threads": lambda dataset: fr.Loader(dataset, threads=3),
    "workers": lambda dataset: fr.Loader(dataset, num_workers=2),
    "torch": lambda dataset: DataLoader(dataset, batch_size=None, num_workers=2),
}


def doubled(batch: fr.Batch) -> fr.Batch:
    """Writes to the tensors in place, and puts others there, before it fails."""
    batch["x"] *= 2
    batch["y"] = batch["y"] + 1
    if (batch["x"] == 2 * ROWS * BAD).any():
        raise ValueError("a row that nobody can take")
    return batch


def renamed(batch: fr.Batch) -> dict[str, Any]:
    """Makes a tensor of another name."""
    return {"z": doubled(batch)["x"]}


def never(batch: fr.Batch) -> fr.Batch:
    """Fails over each batch."""
    raise ValueError(f"no batch of {batch.num_rows} rows is taken")


def endless(batch: fr.Batch) -> fr.Batch:
    """Has no memory."""
    raise MemoryError(f"for {batch.num_rows} rows")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 96 rows."""
    path = tmp_path / "data.parquet"
    numbers = range(BATCHES * ROWS)
    texts, lists = [f"row {n}" for n in numbers], [[n] * (1 + n % 5) for n in numbers]
    pq.write_table(pa.table({"x": numbers, "y": numbers, "s": texts, "l": lists}), path)
    return path


def open_dataset(path: Path, **options: Any) -> fr.ParquetDataset:
    """A dataset of one rank whose functions may fail over all rows."""
    return fr.ParquetDataset(
        path,
        **{"batch_size": ROWS, "rank": 0, "world_size": 1, "max_bad_rows": 1.0, "columns": ["!l"], **options},
    )


def x_of(batches: Iterable[fr.Batch], name: str = "x") -> dict[int, list[int]]:
    """The numbers of each step."""
    return {batch.step: batch[name].tolist() for batch in batches}


@pytest.mark.parametrize("reader", READERS)
def test_the_batch_is_handed_on_as_it_was_with_no_valid_row(path: Path, reader: str) -> None:
    plain = list(READERS[reader](open_dataset(path)))
    mapped = open_dataset(path).map(doubled, on_error="mask")
    found = list(READERS[reader](mapped))
    assert [batch.state_dict() for batch in found] == [batch.state_dict() for batch in plain]
    for batch, before in zip(found, plain, strict=True):
        is_bad = BAD * ROWS in before.rows()
        assert batch.valid.tolist() == [not is_bad] * ROWS
        assert torch.equal(batch["x"], before["x"] if is_bad else 2 * before["x"])
        assert torch.equal(batch["y"], before["y"] if is_bad else before["y"] + 1)
        assert batch["s"].to_strings() == before["s"].to_strings()
        assert batch.rows().tolist() == before.rows().tolist()


@pytest.mark.parametrize("reader", READERS)
def test_it_has_the_names_types_and_shapes_that_the_function_makes(path: Path, reader: str) -> None:
    plain = list(READERS[reader](open_dataset(path)))
    batches = READERS[reader](open_dataset(path).map(renamed, on_error="mask"))
    found = list(batches)
    assert [batch.state_dict() for batch in found] == [batch.state_dict() for batch in plain]
    for batch, before in zip(found, plain, strict=True):
        is_bad = BAD * ROWS in before.rows()
        assert list(batch) == ["z"]
        assert batch.valid.tolist() == [not is_bad] * ROWS
        assert batch.rows().tolist() == before.rows().tolist()
        assert batch["z"].tolist() == [2 * row for row in (plain[0].rows() if is_bad else before.rows())]
    if isinstance(batches, fr.Loader):
        assert (batches.stats()["masked_rows"], batches.stats()["batches"]) == (ROWS, BATCHES)


class FailsAt:
    """Makes tensors of another name and type, but of the batches of some steps of a rank."""

    def __init__(self, *steps: int, rank: int = 0) -> None:
        self.steps, self.rank = steps, rank

    def __call__(self, batch: fr.Batch) -> dict[str, Any]:
        share = batch._origin.share
        if batch.step in self.steps and share is not None and share.rank == self.rank:
            raise ValueError(f"step {batch.step}")
        longest = int(batch["s"].lengths.max())
        noise = torch.rand(batch.num_rows, generator=batch.generator())
        names = [f"row {number}" for number in batch.rows()]
        return {"noise": noise, "text": batch["s"].to_padded(longest), "names": names, "old": batch["s"]}


WHERE = {"first": (0,), "last": (BATCHES - 1,), "start": (0, 1, 2), "many": (2, 3, 7, 8, 9, 11)}


def bits_of(batch: fr.Batch) -> tuple[Any, ...]:
    """All that a batch is, to compare it bit for bit."""
    value: Any = batch._tensors
    text, old = value["text"], value["old"]
    values = value["noise"].tolist(), text.tolist(), value["names"], old.to_strings(), old.offsets.tolist()
    return batch.step, batch.rows().tolist(), batch.valid.tolist(), batch.state_dict(), values


PROCESSES = pytest.param("workers", marks=pytest.mark.slow), pytest.param("torch", marks=pytest.mark.slow)
MATRIX = [
    *((reader, where) for reader in ("alone", "threads") for where in WHERE),
    *(("workers", "many"), ("torch", "start")),
    *(
        pytest.param(reader, where, marks=pytest.mark.slow)
        for reader in ("workers", "torch")
        for where in WHERE
        if (reader, where) not in (("workers", "many"), ("torch", "start"))
    ),
]


@pytest.mark.law(2)
@pytest.mark.law(6)
@pytest.mark.parametrize(("reader", "where"), MATRIX)
def test_a_resumed_pass_is_the_unbroken_one_bit_for_bit(path: Path, reader: str, where: str) -> None:
    def opened() -> fr.ParquetDataset:
        dataset = open_dataset(path, groups=2, tail="short", batch_size=10)
        return dataset.map(FailsAt(*(step for step in WHERE[where] if step < 10)), on_error="mask")

    whole = list(opened())
    assert [batch.step for batch in whole] == list(range(10)), "96 rows, in batches of 10 and one of 6"
    expected = [bits_of(batch) for batch in whole]
    assert [batch.step for batch in whole if not batch.valid.any()] == [
        step for step in WHERE[where] if step < 10
    ]
    bad = next((step for step in WHERE[where] if step < 10), 9)
    for after in sorted({max(bad - 1, 0), bad, 4}):
        dataset = opened()
        dataset.load_state_dict(whole[after].state_dict())
        assert [bits_of(batch) for batch in READERS[reader](dataset)] == expected[after + 1 :] or after == 9
    assert [bits_of(opened().batch_at(0, step)) for step in range(10)] == expected


@pytest.mark.law(8)
@pytest.mark.parametrize("reader", ["alone", "threads", *PROCESSES])
def test_ranks_do_even_steps_where_one_of_them_fails(path: Path, reader: str) -> None:
    for where in WHERE.values():
        ranks = [
            open_dataset(path, batch_size=4, rank=rank, world_size=2).map(FailsAt(*where), on_error="mask")
            for rank in range(2)
        ]
        steps = [[batch.step for batch in READERS[reader](dataset)] for dataset in ranks]
        assert steps == [list(range(BATCHES))] * 2, where


class Other:
    """Makes one tensor of another name, but of the batches of some steps."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def __call__(self, batch: fr.Batch) -> dict[str, Any]:
        if batch.step in self.steps:
            raise ValueError(f"step {batch.step}")
        (value, *_) = (value for value in batch.values() if isinstance(value, torch.Tensor))
        return {"other": value.double() / 2}


def mixed(path: Path, **how: Any) -> fr.Mixture:
    """A mixture of two sources, the second of which is read twice as often."""
    given = {name: fr.ParquetDataset(path, columns=["x"]) for name in ("web", "code")}
    made = fr.Mixture({"web": (given["web"], 1), "code": (given["code"], 2)}, batch_size=12, **how)
    object.__setattr__(made._spec, "max_bad_rows", 1.0)
    return made


UNITS: dict[str, Callable[..., Any]] = {
    "mixture": mixed,
    "packed": lambda path, **how: open_dataset(
        path, columns=["l"], unit=fr.Packed("l", length=7), batch_size=4, **how
    ),
    "bins": lambda path, **how: open_dataset(path, columns=["x"], unit=fr.Bins("x", cost=150), **how),
}


@pytest.mark.law(2)
@pytest.mark.parametrize("reader", ["alone", "threads"])
@pytest.mark.parametrize("unit", UNITS)
def test_batches_of_mixtures_and_units_are_masked_in_their_places(path: Path, unit: str, reader: str) -> None:
    def opened() -> Any:
        how: dict[str, Any] = {"tail": "drop", "rank": 0, "world_size": 1}
        return UNITS[unit](path, **how).map(Other(0, 2, last), on_error="mask")

    last = -1
    last = len(list(opened())) - 1
    whole = [(one.step, one["other"].tolist(), one.valid.tolist(), one.state_dict()) for one in opened()]
    assert [step for step, _, valid, _ in whole if not any(valid)] == [0, 2, last]
    for after in (0, 1, last - 1):
        dataset = opened()
        dataset.load_state_dict(whole[after][3])
        found = [
            (one.step, one["other"].tolist(), one.valid.tolist(), one.state_dict())
            for one in READERS[reader](dataset)
        ]
        assert found == whole[after + 1 :]


def test_a_loader_replays_the_masked_batches_too(path: Path) -> None:
    for threads in (0, 3):
        dataset = open_dataset(path).map(FailsAt(0, 5, 11), on_error="mask")
        loader = fr.Loader(dataset, threads=threads)
        found = [bits_of(batch) for batch in loader]
        assert [bits_of(batch) for batch in loader.replay(BATCHES)] == found
        assert [batch.batches_left for batch in loader.replay(2)] == [1, 0]


def test_no_global_generator_moves_as_a_form_is_looked_for(path: Path) -> None:
    def drawn(batch: fr.Batch) -> dict[str, Any]:
        if batch.step in (0, 6):
            raise ValueError("before it draws")
        return {"drawn": torch.rand(batch.num_rows)}

    def values(steps: list[int]) -> list[list[float]]:
        torch.manual_seed(5)
        dataset = open_dataset(path).map(drawn, on_error="mask")
        return [batch["drawn"].tolist() for batch in dataset if batch.step in steps]

    with torch.random.fork_rng():
        found = values([1, 2, 3])
        torch.manual_seed(5)
        assert found == [torch.rand(ROWS).tolist() for _ in range(3)]
        assert values([0]) == values([6])


@pytest.mark.parametrize("on_error", ["raise", "mask"])
def test_a_failure_over_packed_sequences_of_a_mixture_names_the_file(
    path: Path, on_error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    unit = fr.Packed("l", length=7)
    given = {name: (fr.ParquetDataset(path, columns=["l"], unit=unit), 1) for name in ("web", "code")}
    made = fr.Mixture(given, batch_size=4, world=(0, 1))
    object.__setattr__(made._spec, "max_bad_rows", 1.0)
    mapped = made.map(Other(1), on_error=on_error)
    if on_error == "raise":
        with pytest.raises(ValueError, match="step 1") as caught:
            list(mapped)
        assert any(str(path) in note for note in caught.value.__notes__)
    else:
        assert sum(not batch.valid.any() for batch in mapped) == 1
        assert str(path) in caplog.text


def test_a_rank_that_takes_no_batch_of_its_own_learns_the_form_of_another_one(path: Path) -> None:
    def of_rank_0(batch: fr.Batch) -> dict[str, Any]:
        if batch.rows().min() >= BATCHES * ROWS // 2:
            raise ValueError("the second half can't be taken")
        return {"z": batch["x"].float()}

    for rank in range(2):
        dataset = open_dataset(path, rank=rank, world_size=2).map(of_rank_0, on_error="mask")
        found = list(dataset)
        assert [(batch.step, batch["z"].dtype) for batch in found] == [(n, torch.float32) for n in range(6)]
        assert all(batch.valid.any() == (rank == 0) for batch in found)


def test_the_only_batch_of_a_cut_learns_the_form_of_the_next_pass(path: Path) -> None:
    dataset = open_dataset(path)
    again = open_dataset(path, batch_size=16)
    again.load_state_dict(dataset.batch_at(0, BATCHES - 3).state_dict())
    mapped = again.map(FailsAt(BATCHES - 2), on_error="mask")
    (last,) = list(mapped)
    assert (last.num_rows, last["noise"].shape, last.valid.any().item()) == (16, (16,), False)


def test_a_function_that_takes_nothing_is_one_error_with_the_first_cause(path: Path) -> None:
    mapped = open_dataset(path).map(never, on_error="mask")
    for reads in (mapped, fr.Loader(mapped, threads=2), fr.Loader(mapped, num_workers=1)):
        with refused(fr.DataError, "never fails over every batch of pass 0", "step 0", "no batch of 8 rows"):
            list(reads)
        assert (mapped.epoch, mapped.batches_left) == (0, BATCHES)
    bounded = open_dataset(path, max_bad_rows=20).map(never, on_error="mask")
    with refused(fr.DataError, "bad_rows= allows 20", "never", "24 rows", "step 0"):
        list(bounded)


def test_functions_behind_it_are_given_the_masked_batch(path: Path) -> None:
    def behind(batch: fr.Batch) -> dict[str, Any]:
        return {"sum": batch["x"] + batch["y"], "valid": batch.valid}

    found = list(open_dataset(path).map(doubled, on_error="mask").map(behind))
    assert len(found) == BATCHES
    assert not found[BAD]["valid"].any()
    assert found[BAD]["sum"].tolist() == [2 * row for row in range(BAD * ROWS, (BAD + 1) * ROWS)]

    def needs_z(batch: fr.Batch) -> dict[str, Any]:
        return {"x": batch["z"]}

    both = x_of(open_dataset(path).map(renamed, on_error="mask").map(needs_z))
    assert list(both) == list(range(BATCHES))


def test_it_is_counted_and_logged_once_with_its_place(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "fastresume")
    loader = fr.Loader(open_dataset(path).map(doubled, on_error="mask"))
    list(loader)
    assert loader.stats()["masked_rows"] == ROWS
    (said,) = (record.getMessage() for record in caplog.records)
    for words in ("masked as not valid", "doubled", f"step {BAD}", str(path), "ValueError: a row that"):
        assert words in said


def test_more_than_the_bound_is_an_error_before_the_batch(path: Path) -> None:
    mapped = open_dataset(path, max_bad_rows=ROWS - 1).map(doubled, on_error="mask")
    batches, found = iter(mapped), 0
    with refused(fr.DataError, f"bad_rows= allows {ROWS - 1}", f"has {ROWS}", "doubled", "nobody"):
        for _ in batches:
            found += 1
    assert found == BAD
    state = mapped.state_dict()
    with refused(fr.DataError, "nobody can take"):
        next(batches)
    assert mapped.state_dict() == state
    wider = open_dataset(path, max_bad_rows=ROWS)
    wider.load_state_dict(state)
    assert len(list(wider.map(doubled, on_error="mask"))) == BATCHES - BAD


def test_the_bound_is_a_thousandth_if_none_is_named(path: Path) -> None:
    mapped = fr.ParquetDataset(path, batch_size=ROWS, world=(0, 1)).map(doubled, on_error="mask")
    with refused(fr.DataError, "allows 0"):
        list(mapped)
    assert mapped.plan().max_bad_rows == 0


def test_an_error_is_raised_where_nothing_else_is_asked_for(path: Path) -> None:
    for mapped in (open_dataset(path).map(doubled), open_dataset(path).map(doubled, on_error="raise")):
        with pytest.raises(ValueError, match="nobody can take"):
            list(mapped)
    with pytest.raises(MemoryError):
        list(open_dataset(path).map(endless, on_error="mask"))
    with pytest.raises(ValueError, match="on_error"):
        open_dataset(path).map(doubled, on_error="skip")  # type: ignore[arg-type]
