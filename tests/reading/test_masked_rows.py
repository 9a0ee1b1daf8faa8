"""`batch.mask(rows, reason)` masks rows of a batch; each masked row of a pass counts once."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from support.audits import assert_proven
from support.each_of import each_of
from support.refusals import refused
from support.rotten_pages import pages_of, rot, write_file

ROWS = 96
BAD = {5, 6, 40, 95}

READERS: dict[str, Callable[[fr.ParquetDataset], Iterable[fr.Batch]]] = {
    "alone": lambda dataset: dataset,
    "threads": lambda dataset: fr.Loader(dataset, threads=3),
    "workers": lambda dataset: fr.Loader(dataset, num_workers=2),
    "torch": lambda dataset: DataLoader(dataset, batch_size=None, num_workers=2),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 96 rows."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": range(ROWS), "tokens": [[n] * 4 for n in range(ROWS)]}), path)
    return path


def open_dataset(path: Path, **options: Any) -> fr.ParquetDataset:
    """A dataset of one rank of which all rows may be masked."""
    how = {"batch_size": 8, "rank": 0, "world_size": 1, "max_bad_rows": 1.0, "columns": ["x"], **options}
    return fr.ParquetDataset(path, **how)


def is_bad(batch: fr.Batch) -> np.ndarray:
    """Which rows are to be masked."""
    return np.isin(batch["x"], list(BAD))


def in_place(batch: fr.Batch) -> fr.Batch:
    batch.mask(torch.from_numpy(is_bad(batch)), "one of the bad")
    return batch


def renamed(batch: fr.Batch) -> dict[str, Any]:
    batch.mask(np.flatnonzero(is_bad(batch)), "one of the bad")
    return {"y": batch["x"] * 2}


def of_a_copy(batch: fr.Batch) -> fr.Batch:
    other = copy.copy(batch.to("cpu"))
    other.mask(is_bad(batch).tolist(), "one of the bad")
    assert not other.valid[torch.from_numpy(is_bad(batch))].any()
    return other


def of_a_lost_copy(batch: fr.Batch) -> dict[str, Any]:
    batch.to("cpu").mask(np.flatnonzero(is_bad(batch)).tolist(), "one of the bad")
    return dict(batch)


FUNCTIONS = [in_place, renamed, of_a_copy, of_a_lost_copy]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("reader", READERS)
def test_the_rows_are_not_valid_whatever_the_function_returns(
    path: Path, reader: str, function: Callable[[fr.Batch], Any]
) -> None:
    mapped = open_dataset(path, shuffle=True, tail="pad", batch_size=10).map(function)
    batches = READERS[reader](mapped)
    found = list(batches)
    assert {int(row) for batch in found for row in batch.rows()[~batch.valid.numpy()]} >= BAD
    for batch in found:
        padding = np.arange(10) >= (6 if batch.batches_left == 0 else 10)
        assert (~batch.valid).tolist() == (np.isin(batch.rows(), list(BAD)) | padding).tolist()
        again = mapped.batch_at(0, batch.step)
        assert again.valid.tolist() == batch.valid.tolist()
    if isinstance(batches, fr.Loader):
        assert batches.stats()["masked_rows"] == len(BAD)
        assert [batch.valid.tolist() for batch in batches.replay(10)] == [b.valid.tolist() for b in found]


def test_they_are_logged_once_with_place_and_reason(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loader = fr.Loader(open_dataset(path, on_iter="restart").map(in_place))
    for _ in range(2):
        list(loader)
    message = [record.getMessage() for record in caplog.records]
    assert len(message) == 3, "of three batches"
    for words in ("masked as not valid: 2 rows", "epoch 0, step 0", "row 5 of row group 0", str(path)):
        assert words in message[0]
    assert message[0].endswith("in_place: one of the bad")


def test_they_count_under_the_bound(path: Path) -> None:
    mapped = open_dataset(path, max_bad_rows=3).map(in_place)
    batches, steps = iter(mapped), []
    with refused(fr.DataError, "bad_rows= allows 3", "pass 0 has 4", "in_place: one of the bad"):
        steps += [batch.step for batch in batches]
    assert mapped.batches_left == 1
    assert len(list(open_dataset(path, max_bad_rows=4).map(in_place))) == 12
    with refused(fr.DataError, "allows 0"):
        list(fr.ParquetDataset(path, batch_size=8, columns=["x"], world=(0, 1)).map(in_place))


def twice(batch: fr.Batch) -> fr.Batch:
    """Masks some rows for two reasons, and fails over the last batch."""
    batch.mask([0, 1], "the first ones")
    batch.mask([0, 1, 2], "some more")
    if batch.step == 9:
        raise ValueError("the last ones")
    return batch


def test_a_row_counts_once_whoever_masks_it(tmp_path: Path) -> None:
    path = write_file(tmp_path / "data.parquet", "1.0", has_index=False)
    rot(path, list(pages_of(path, "1.0", has_index=False))[2])  # the rows 20 to 29

    dataset = open_dataset(path, bad_rows="mask", batch_size=10).map(twice, on_error="mask")
    with fr.Loader(dataset, audit=tmp_path / "logs") as loader:
        assert sum(int((~batch.valid).sum()) for batch in loader) == 8 * 3 + 10 + 10
        assert loader.stats()["masked_rows"] == 44
    said = assert_proven(tmp_path / "logs", 1)
    assert "44 of these rows were masked as not valid" in said
    assert "row group 0: rows 0-1: twice: the first ones" in said
    assert "ValueError: the last ones" in said


def test_a_mask_is_of_a_function_alone(path: Path) -> None:
    dataset = open_dataset(path)
    for batch in (next(iter(dataset.map(in_place))), dataset.peek(), dataset.read_rows([1, 2])):
        with refused(fr.FastresumeError, "outside of a function given to dataset.map()"):
            batch.mask([0], "too late")


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ([8], IndexError, "row 8 is not in [0, 8)"),
        ([-1], IndexError, "row -1"),
        ([True] * 7, ValueError, "a bool for each row of the batch, 8 in all, found 7"),
        (True, ValueError, "found 1"),
        ([0.5], TypeError, "integers"),
        ("all", TypeError, "integers"),
        ([[0], [1]], TypeError, "integers"),
        (
            [0, 1] * 4,
            ValueError,
            "a mask has the type bool, so write batch.mask(numpy.asarray(rows, bool)",
        ),
        ([1] * 8, ValueError, "all of them 0 or 1, for 8 rows"),
        (torch.tensor([0, 1] * 4), ValueError, "so write batch.mask(rows.bool(), reason)"),
        (np.array([0, 1] * 4, np.uint8), ValueError, "all of them 0 or 1, for 8 rows"),
        ([1, 1, 2], ValueError, "has row 1 twice: write batch.mask(numpy.unique(rows), reason)"),
        (torch.tensor([5, 2, 5]), ValueError, "has row 5 twice: write batch.mask(rows.unique(), reason)"),
        (pd.Series([True] * 8, index=range(8, 16)), ValueError, "write batch.mask(rows.to_numpy(), reason)"),
    ],
)
def test_rows_that_are_none_are_refused(path: Path, rows: Any, kind: type[Exception], words: str) -> None:
    def wrong(batch: fr.Batch) -> fr.Batch:
        batch.mask(rows, "a reason")
        return batch

    with pytest.raises(kind) as caught:
        next(iter(open_dataset(path).map(wrong)))
    assert words in str(caught.value)


def test_a_mask_of_pandas_is_of_the_rows_that_its_index_names(path: Path) -> None:
    mask = pd.Series([True, False, True, False, False, False, False, False], index=[7, 6, 5, 4, 3, 2, 1, 0])

    def masked(batch: fr.Batch) -> fr.Batch:
        batch.mask(mask, "a reason")
        return batch

    batch = next(iter(open_dataset(path).map(masked)))
    assert (~batch.valid).nonzero().flatten().tolist() == [5, 7]


def test_a_reason_is_a_text_and_no_rows_are_none(path: Path) -> None:
    def without(batch: fr.Batch) -> fr.Batch:
        with pytest.raises(TypeError, match="takes the reason as a text"):
            batch.mask([0], "")
        for none in ([], np.zeros(8, np.bool_), torch.empty(0, dtype=torch.int64)):
            batch.mask(none, "nothing")
        batch.mask(3, "one")
        return batch

    found = list(open_dataset(path).map(without))
    assert all((~batch.valid).nonzero().flatten().tolist() == [3] for batch in found)


# --------------------------------------------------------------------------------------- mixtures and units


@pytest.mark.parametrize("how", [{"threads": 2}, {"num_workers": 2}], ids=str)
def test_rows_of_a_mixture(path: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    given = {name: (fr.ParquetDataset(path, columns=["x"]), 1) for name in ("web", "code")}
    made = fr.Mixture(given, batch_size=8, world=(0, 1), lanes=2)
    object.__setattr__(made._spec, "max_bad_rows", 1.0)
    with fr.Loader(made.map(renamed), audit=tmp_path / "logs", **how) as loader:
        for batch in loader:
            assert (~batch.valid).tolist() == np.isin(batch.rows(), list(BAD)).tolist()
        assert loader.stats()["masked_rows"] == 2 * len(BAD)
    said = assert_proven(tmp_path / "logs", 2)
    for name in ("web", "code"):
        assert f"4 of these rows were masked as not valid: source '{name}': renamed: one of the bad" in said


def masks_third(batch: fr.Batch) -> fr.Batch:
    """Masks the third unit, or row, of each batch."""
    batch.mask([2], "the third")
    return batch


@each_of("how", [{"threads": 2}, {"num_workers": 2}])
@each_of("unit", [fr.Packed("tokens", length=6), fr.Bins("cost", cost=5)])
def test_rows_of_units(tmp_path: Path, unit: Any, how: dict[str, Any]) -> None:
    path = tmp_path / "units.parquet"
    pq.write_table(
        pa.table({"tokens": [[n] * 4 for n in range(96)], "cost": [1 + n % 3 for n in range(96)]}), path
    )
    columns = ["tokens"] if isinstance(unit, fr.Packed) else ["cost"]
    dataset = open_dataset(path, unit=unit, columns=columns, batch_size=4).map(masks_third)
    with fr.Loader(dataset, audit=tmp_path / "logs", **how) as loader:
        found = list(loader)
        assert loader.stats()["masked_rows"] == len(found)
    assert all((~batch.valid).nonzero().flatten().tolist() == [2] for batch in found)
    said = assert_proven(tmp_path / "logs", 1)
    assert "rows were masked as not valid" in said
    assert "masks_third: the third" in said


# ---------------------------------------------------------------------------------------------- the bounds


def test_evaluations_do_not_add_up(path: Path) -> None:
    evaluated = open_dataset(path, on_iter="restart", max_bad_rows=4).map(in_place)
    trained = open_dataset(path, max_bad_rows=4).map(in_place)
    loader = fr.Loader(trained)
    for _ in range(4):
        assert len(list(evaluated)) == 12
        loader.reset()
        assert [batch.step for _, batch in zip(range(7), loader, strict=False)] == list(range(7))
    assert trained._spec.masked_rows.count.rows == (3,)
    assert [batch.step for batch in loader] == list(range(7, 12))


def test_a_pass_that_is_read_on_from_a_state_counts_each_row_once(path: Path) -> None:
    mapped = open_dataset(path, max_bad_rows=4).map(in_place)
    states = [batch.state_dict() for batch in mapped]
    for again in (0, 4, 8, 3):
        mapped.load_state_dict(states[again])
        list(mapped)
    assert mapped._spec.masked_rows.count.rows == (4,)
    mapped.load_state_dict(states[4])
    list(mapped)
    assert [batch.epoch for batch in mapped] == [1] * 12
    assert mapped._spec.masked_rows.count.rows == (4,)


def test_what_is_mended_counts_no_more(path: Path) -> None:
    is_mended = False

    def mendable(batch: fr.Batch) -> fr.Batch:
        return batch if is_mended else in_place(batch)

    mapped = open_dataset(path, max_bad_rows=3, on_iter="restart").map(mendable)
    with refused(fr.DataError, "has 4"):
        list(mapped)
    is_mended = True
    assert len(list(mapped)) == 12
    assert mapped._spec.masked_rows.count.rows == (0,)


UNITS: dict[str, Any] = {
    "rows": None,
    "packed": fr.Packed("tokens", length=6),
    "bins": fr.Bins("x", cost=100),
}


@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
@pytest.mark.parametrize("unit", UNITS)
def test_a_share_is_of_the_rows_of_this_rank_and_all_of_them_never_raise(
    path: Path, tail: str, unit: str
) -> None:
    def all_of(batch: fr.Batch) -> fr.Batch:
        batch.mask(np.ones(batch.num_rows, np.bool_), "all of them")
        return batch

    columns = ["tokens"] if unit == "packed" else ["x"]
    how: dict[str, Any] = {"unit": UNITS[unit], "tail": tail, "columns": columns, "batch_size": 7}
    for rank in range(3):
        mapped = open_dataset(path, rank=rank, world_size=3, **how).map(all_of)
        found = list(mapped)
        rows = sum(batch._origin.valid_rows for batch in found)
        assert mapped._spec.masked_rows.count.rows == (rows,)
        if unit == "bins":
            continue
        most = math.floor(rows / 4)
        quarter = open_dataset(path, rank=rank, world_size=3, max_bad_rows=0.25, **how).map(all_of)
        with refused(fr.DataError, f"allows {most} masked rows"):
            list(quarter)


def test_two_ranks_of_ten_rows_do_not_share_a_bound(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "ten.parquet")

    def never(batch: fr.Batch) -> fr.Batch:
        if batch.rows().tolist() != [0, 1, 2, 3]:
            raise ValueError("never")
        return batch

    for rank, rows in ((0, 2), (1, 4)):
        how: dict[str, Any] = {"rank": rank, "world_size": 2, "tail": "pad", "batch_size": 4}
        mapped = open_dataset(tmp_path / "ten.parquet", **how).map(never, on_error="mask")
        assert [batch.valid.any().item() for batch in mapped] == [rank == 0, False]
        assert mapped._spec.masked_rows.count.rows == (rows,)


def test_files_without_checksums_are_told_of_once_where_damage_is_masked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, has_checksums in (("plain", False), ("checked", True)):
        rows = pa.table({"x": range(100)})
        pq.write_table(rows, tmp_path / f"{name}.parquet", write_page_checksum=has_checksums)

    def told_of(dataset: fr.ParquetDataset | fr.Mixture) -> list[str]:
        caplog.clear()
        with fr.Loader(dataset, threads=1) as loader:
            for _ in range(2):
                assert len(list(loader)) == 10
        return [message for message in caplog.messages if "have no checksums" in message]

    def of(name: str, **how: Any) -> fr.ParquetDataset:
        return fr.ParquetDataset(tmp_path / f"{name}.parquet", world=(0, 1), **how)

    assert told_of(of("plain", batch_size=10)) == [], "there damage is an error"
    masking = {"bad_rows": fr.MaskBadRows(at_most=1)}
    assert told_of(of("checked", batch_size=10, **masking)) == []
    (found,) = told_of(of("plain", batch_size=10, **masking))
    assert "pages of the files have no checksums" in found
    assert "write_page_checksum=True" in found
    sources = {name: (of(name, **masking), 1) for name in ("plain", "checked")}
    (found,) = told_of(fr.Mixture(sources, batch_size=20, world=(0, 1)))
    assert "pages of the files of source 'plain' have" in found


def test_to_write_to_valid_is_refused_for_it_would_mask_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "rows.parquet")

    def marking(batch: fr.Batch) -> fr.Batch:
        batch.valid[:2] = False
        return batch

    def copying(batch: fr.Batch) -> fr.Batch:
        batch["keep"] = batch.valid.clone()
        batch["keep"][:2] = False
        return batch

    dataset = fr.ParquetDataset(tmp_path, batch_size=5, world=(0, 1))
    with pytest.raises(ValueError, match=r"write batch\.mask\(rows, reason\)"):
        dataset.map(marking).peek()
    batch = dataset.map(copying).peek()
    assert int(batch.valid.sum()) == 5
    assert int(batch["keep"].sum()) == 3
