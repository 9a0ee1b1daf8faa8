"""`map(function, on_error="mask")`: a batch over which a function fails ends no pass, and moves no step."""

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
    pq.write_table(pa.table({"x": numbers, "y": numbers, "s": [f"row {n}" for n in numbers]}), path)
    return path


def open_dataset(path: Path, **options: Any) -> fr.ParquetDataset:
    """A dataset of one rank whose functions may fail over all rows."""
    return fr.ParquetDataset(
        path, **{"batch_size": ROWS, "rank": 0, "world_size": 1, "max_bad_rows": 1.0, **options}
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


@pytest.mark.parametrize("reader", ["alone", "threads", "workers"])
def test_a_batch_whose_tensors_are_others_is_dropped_and_its_step_counts(path: Path, reader: str) -> None:
    mapped = open_dataset(path).map(renamed, on_error="mask")
    batches = READERS[reader](mapped)
    found = list(batches)
    plain = list(READERS[reader](open_dataset(path)))
    assert [batch.step for batch in found] == [one.step for one in plain if BAD * ROWS not in one.rows()]
    assert len(found) == BATCHES - 1
    assert all(batch.valid.all() and list(batch) == ["z"] for batch in found)
    if isinstance(batches, fr.Loader):
        stats = batches.stats()
        assert (stats["masked_rows"], stats["batches"]) == (ROWS, BATCHES)


def test_torchs_workers_refuse_to_drop_a_batch(path: Path) -> None:
    mapped = open_dataset(path).map(renamed, on_error="mask")
    with pytest.raises(fr.FastresumeError, match=r"nobody can take(.|\n)*use fastresume\.Loader"):
        list(READERS["torch"](mapped))


def test_a_batch_that_fails_first_is_dropped_as_nobody_knows_what_the_function_makes(path: Path) -> None:
    dataset = open_dataset(path)
    dataset.load_state_dict(dataset.batch_at(0, BAD - 1).state_dict())
    assert list(x_of(dataset.map(doubled, on_error="mask"))) == list(range(BAD + 1, BATCHES))
    assert dataset.epoch == 1


def test_a_pass_may_end_with_a_dropped_batch(path: Path) -> None:
    dataset = open_dataset(path)
    assert list(dataset.map(never, on_error="mask")) == []
    assert dataset.epoch == 1


def test_a_state_behind_a_failed_batch_goes_on_behind_it(path: Path) -> None:
    whole = x_of(open_dataset(path).map(renamed, on_error="mask"), "z")
    for step in range(BATCHES):
        again = open_dataset(path)
        again.load_state_dict(again.batch_at(0, step).state_dict())
        rest = x_of(again.map(renamed, on_error="mask"), "z")
        assert rest == {at: values for at, values in whole.items() if at > step} or step == BATCHES - 1


def test_functions_behind_it_are_given_the_masked_batch(path: Path) -> None:
    def behind(batch: fr.Batch) -> dict[str, Any]:
        return {"sum": batch["x"] + batch["y"], "valid": batch.valid}

    found = list(open_dataset(path).map(doubled, on_error="mask").map(behind))
    assert len(found) == BATCHES
    assert not found[BAD]["valid"].any()
    assert found[BAD]["sum"].tolist() == [2 * row for row in range(BAD * ROWS, (BAD + 1) * ROWS)]

    def needs_z(batch: fr.Batch) -> dict[str, Any]:
        return {"x": batch["z"]}

    dropped = x_of(open_dataset(path).map(renamed, on_error="mask").map(needs_z))
    assert BAD not in dropped
    assert len(dropped) == BATCHES - 1


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
    with refused(fr.DataError, f"max_bad_rows allows {ROWS - 1}", f"has {ROWS}", "doubled", "nobody"):
        for _ in batches:
            found += 1
    assert found == BAD
    state = mapped.state_dict()
    with refused(fr.DataError, "nobody can take"):
        next(batches)
    assert mapped.state_dict() == state
    wider = open_dataset(path, max_bad_rows=ROWS)
    wider.load_state_dict(state)
    assert len(list(wider.map(doubled, on_error="mask"))) == BATCHES - BAD - 1, "it is the first one here"


def test_the_bound_is_a_thousandth_if_none_is_named(path: Path) -> None:
    mapped = fr.ParquetDataset(path, batch_size=ROWS, rank=0, world_size=1).map(doubled, on_error="mask")
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


def test_a_batch_that_is_read_again_is_the_masked_one(path: Path) -> None:
    mapped = open_dataset(path).map(renamed, on_error="mask")
    again = mapped.batch_at(0, BAD)
    assert not again.valid.any()
    assert again["x"].tolist() == list(range(BAD * ROWS, (BAD + 1) * ROWS))
