"""Rows of a source that can't be read are masked where it says so: nothing else of the mixture changes."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.amounts import plural
from support.audits import assert_proven
from support.documents import documents, units_of, write
from support.rotten_pages import pages_of, rot, rot_group, write_file

MASK: dict[str, Any] = {"bad_rows": fr.MaskBadRows(at_most=1.0)}
ORDERS = [{}, {"shuffle": True, "block_rows": 8, "window_rows": 32, "seed": 3}]
COLUMNS = ["x", "code"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two files of whose numbers other rows can't be read: 20 to 29, and 50 to 59."""
    found = {}
    for name, first in (("web", 20), ("code", 50)):
        found[name] = write_file(tmp_path / f"{name}.parquet", "1.0", has_index=False)
        pages = pages_of(found[name], "1.0", has_index=False)
        rot(found[name], next(page for page in pages if page.column == "x" and page.rows.start == first))
    return found


def mixture(files: dict[str, Path], **how: Any) -> fr.Mixture:
    source = {"columns": COLUMNS, **MASK, **how.pop("source", {})}
    given = {name: (fr.ParquetDataset(path, **source), 1) for name, path in files.items()}
    return fr.Mixture(given, **{"batch_size": 10, "rank": 0, "world_size": 1, **how})


def rows_of(batches: Any) -> list[tuple[int, int, bool, int, int]]:
    """Source, row number, whether it is valid, and the values of each row."""
    found = []
    for batch in batches:
        values = batch["x"].tolist(), batch["code"].tolist()
        found += zip(batch.source.tolist(), batch.rows().tolist(), batch.valid.tolist(), *values, strict=True)
    return found


ROTTEN = {(0, row) for row in range(20, 30)} | {(1, row) for row in range(50, 60)}


@pytest.mark.law(11)
@pytest.mark.parametrize("order", ORDERS, ids=["sequential", "shuffled"])
@pytest.mark.parametrize("how", [{"threads": 0}, {"threads": 2}, {"num_workers": 2}], ids=str)
def test_rows_of_a_source_are_masked_by_themselves(
    files: dict[str, Path], order: dict[str, Any], how: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    lanes = {"lanes": 2} if "num_workers" in how else {}
    with fr.Loader(mixture(files, source=order, **lanes), **how) as loader, caplog.at_level(logging.WARNING):
        found = rows_of(loader)
        assert loader.stats()["masked_rows"] == 20
    assert {(source, row) for source, row, is_valid, *_ in found if not is_valid} == ROTTEN
    for _, row, is_valid, x, code in found:
        assert x == (row + 1 if is_valid else 0)
        assert code == row % 7 + 1, "other columns of a masked row are read"
    assert len({(source, row) for source, row, *_ in found}) == len(found) == 200
    message = [
        record.getMessage() for record in caplog.records if "masked as not valid" in record.getMessage()
    ]
    assert len(message) == 2
    assert "source 'web': rows [20, 30) of row group 0" in message[0] + message[1]
    assert "source 'code': rows [0, 10) of row group 1" in message[0] + message[1]


@pytest.mark.law(2)
def test_positions_and_states_are_those_of_whole_files(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = {name: tmp_path / "whole" / path.name for name, path in files.items()}
    for path in whole.values():
        write_file(path, "1.0", has_index=False)
    order = {"source": ORDERS[1]}
    made, masked = mixture(whole, **order), mixture(files, **order)
    batches, others = list(made), list(masked)
    assert [batch.rows().tolist() for batch in batches] == [batch.rows().tolist() for batch in others]
    assert [batch.step for batch in batches] == [batch.step for batch in others]
    again = mixture(files, **order)
    again.load_state_dict(others[6].state_dict())
    assert rows_of(again) == rows_of(others[7:])
    for step in (3, 11):
        assert rows_of([masked.batch_at(0, step)]) == rows_of([others[step]])
    assert rows_of([pickle.loads(pickle.dumps(others[3]))]) == rows_of([others[3]])
    loaded = DataLoader(mixture(files, lanes=2, **order), batch_size=None, num_workers=2)
    assert sorted(rows_of(loaded)) == sorted(rows_of(others))


def test_each_source_has_its_own_bound(files: dict[str, Path]) -> None:
    web = fr.ParquetDataset(files["web"], columns=COLUMNS, **MASK)
    code = fr.ParquetDataset(files["code"], columns=COLUMNS, bad_rows=fr.MaskBadRows(at_most=3))
    strict = fr.ParquetDataset(files["code"], columns=COLUMNS)
    made = fr.Mixture({"web": (web, 1), "code": (code, 1)}, batch_size=10, world=(0, 1))
    words = (
        r"bad_rows= of source 'code' allows 3 masked rows of a pass in this process, pass 0 has \d+ by now"
    )
    with pytest.raises(fr.DataError, match=words):
        list(made)
    made = fr.Mixture({"web": (web, 1), "code": (strict, 1)}, batch_size=10, world=(0, 1))
    with pytest.raises(fr.DataError, match=r"code\.parquet"):
        list(made)
    state = made.state_dict()
    other = mixture(files)
    other.load_state_dict(state)
    assert sum(not is_valid for _, _, is_valid, *_ in rows_of(other)) > 0


def test_a_share_counts_of_what_a_source_gives(files: dict[str, Path]) -> None:
    how: dict[str, Any] = {"source": {"max_bad_rows": 0.1}, "stop": 600}
    # Each source is read three times, and a tenth of it can't be.
    assert sum(not is_valid for _, _, is_valid, *_ in rows_of(mixture(files, **how))) == 60
    with pytest.raises(fr.DataError, match="bad_rows= of source 'web' allows 27"):
        rows_of(mixture(files, source={"max_bad_rows": 0.09}, stop=600))


# ----------------------------------------------------------------------------- the bound of the whole mixture

READERS: dict[str, Any] = {
    "alone": lambda mixture: mixture,
    "threads": lambda mixture: fr.Loader(mixture, threads=2),
    "worker": lambda mixture: fr.Loader(mixture, num_workers=1),
    "torch": lambda mixture: DataLoader(mixture, batch_size=None, num_workers=1),
}


def bounded(files: dict[str, Path], most: float | None, source: Any = None, **how: Any) -> fr.Mixture:
    """A mixture with a bound of its own, whose sources name none unless they are given one."""
    of_source = "mask" if source is None else fr.MaskBadRows(at_most=source)
    of_all = None if most is None else fr.MaskBadRows(at_most=most)
    return mixture(files, source={"bad_rows": of_source}, bad_rows=of_all, **how)


@pytest.mark.parametrize(
    "reader",
    [each if each in ("alone", "torch") else pytest.param(each, marks=pytest.mark.slow) for each in READERS],
)
def test_a_bound_of_the_mixture_counts_the_damage_of_all_sources(files: dict[str, Path], reader: str) -> None:
    assert len(rows_of(READERS[reader](bounded(files, 20)))) == 200
    # Each source has 10 rows that can't be read: it is their sum that is too much.
    with pytest.raises(fr.DataError, match="bad_rows= of the Mixture allows 19 masked rows of a pass"):
        list(READERS[reader](bounded(files, 19)))


def test_what_functions_mask_counts_under_it_too(files: dict[str, Path]) -> None:
    def one_more(batch: fr.Batch) -> fr.Batch:
        batch.mask([0], "the first one")
        return batch

    made = bounded(files, 40).map(one_more)
    found = rows_of(made)
    masked = sum(not is_valid for _, _, is_valid, *_ in found)
    assert 20 < masked <= 40, "a row that is damaged counts once"
    assert made._spec.masked_rows.count.rows == (10, 10, masked)
    with pytest.raises(fr.DataError, match="of the Mixture allows"):
        list(bounded(files, masked - 1).map(one_more))


def test_without_one_of_its_own_a_thousandth_bounds_functions_alone(files: dict[str, Path]) -> None:
    assert bounded(files, None, source=10)._spec.masked_rows.most_failed == 0
    assert len(rows_of(bounded(files, None, source=10))) == 200
    with pytest.raises(fr.DataError, match=r"bad_rows= of source '(web|code)' allows 0 "):
        list(bounded(files, None))


def test_a_source_keeps_the_bound_that_its_dataset_names(files: dict[str, Path]) -> None:
    with pytest.raises(fr.DataError, match=r"bad_rows= of source '(web|code)' allows 3 "):
        list(bounded(files, 1.0, source=3))


@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
def test_as_a_share_it_is_of_the_rows_of_this_rank(files: dict[str, Path], tail: str) -> None:
    def all_of(batch: fr.Batch) -> fr.Batch:
        batch.mask(range(batch.num_rows), "all of them")
        return batch

    how: dict[str, Any] = {"batch_size": 7, "tail": tail, "world_size": 3, "stop": 64}
    for rank in range(3):
        batches = list(bounded(files, 1.0, rank=rank, **how).map(all_of))
        rows = sum(batch._origin.valid_rows for batch in batches if batch.epoch == 0)
        with pytest.raises(fr.DataError, match=f"allows {rows // 4} masked rows"):
            list(bounded(files, 0.25, rank=rank, **how).map(all_of))
        made = bounded(files, 0.25, rank=rank, **how)
        assert made.plan().max_bad_rows == rows // 4
        assert f"at most {plural(rows // 4, 'row')} of" in repr(made.plan())


def test_it_does_not_add_up_over_evaluations(files: dict[str, Path]) -> None:
    made = bounded(files, 20, on_iter="restart")
    for _ in range(3):
        assert len(rows_of(made)) == 200
    trained = bounded(files, 20)
    for _ in range(3):
        assert len(rows_of(trained)) == 200


def rows_of_passes(made: Any, passes: int) -> int:
    return sum(batch.num_rows for _ in range(passes) for batch in made)


@pytest.mark.parametrize("is_mixed", [False, True], ids=["dataset", "mixture"])
def test_a_pass_that_goes_on_with_files_that_came_counts_each_row_once(
    tmp_path: Path, is_mixed: bool
) -> None:
    def come(day: int) -> None:
        path = tmp_path / f"day={day}" / "part.parquet"
        path.parent.mkdir()
        write_file(path, "1.0", has_index=False)
        rot(path, next(page for page in pages_of(path, "1.0", has_index=False) if page.column == "x"))

    def made(most: float) -> Any:
        how: dict[str, Any] = {"rank": 0, "world_size": 1, "max_bad_rows": most, "batch_size": 10}
        given: dict[str, Any] = {"columns": ["x"], "on_change": "append", "bad_rows": "mask"}
        if not is_mixed:
            return fr.ParquetDataset(tmp_path, **given, **how)
        return fr.Mixture({"web": (fr.ParquetDataset(tmp_path, **given), 1)}, **how)

    come(0)
    first = made(1.0)
    batches = list(first)
    damaged = sum(int((~batch.valid).sum()) for batch in batches)
    rows = sum(batch.num_rows for batch in batches)
    assert 0 < damaged < rows
    state = batches[-3].state_dict()
    left = sum(int((~batch.valid).sum()) for batch in batches[-2:])
    come(1)
    for most in (left + damaged, 1.0):
        grown = made(most)
        grown.load_state_dict(state)
        found = list(grown)
        while is_mixed and sum(batch.num_rows for batch in found) < 20 + rows:
            found += list(grown)  # the stage ends first where the source ended before
        assert sum(int((~batch.valid).sum()) for batch in found) == left + damaged
    less = made(damaged - 1)
    less.load_state_dict(state)
    with pytest.raises(fr.DataError, match=f"allows {damaged - 1} masked rows"):
        rows_of_passes(less, 3)


@pytest.mark.parametrize(
    ("wrong", "kind"), [(1.5, ValueError), (-1, ValueError), (True, TypeError), ("all", TypeError)], ids=str
)
def test_a_bound_that_is_none_is_refused_as_a_datasets_is(
    files: dict[str, Path], wrong: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="at_most") as of_mixture:
        bounded(files, wrong)
    with pytest.raises(kind, match="at_most") as of_dataset:
        fr.ParquetDataset(files["web"], bad_rows=fr.MaskBadRows(at_most=wrong, damaged=False))
    assert str(of_mixture.value) == str(of_dataset.value)


def test_the_audit_lists_masked_rows_and_proves_all(files: dict[str, Path], tmp_path: Path) -> None:
    loader = fr.Loader(mixture(files), audit=tmp_path / "logs")
    list(loader)
    said = assert_proven(tmp_path / "logs", 2)
    assert said.count("10 of these rows were masked as not valid: ") == 2


# -------------------------------------------------------------------------------------------- packed sources


def packed(root: Path, **how: Any) -> fr.Mixture:
    unit = fr.Packed("tokens", length=16)
    order: dict[str, Any] = {"shuffle": True, "block_rows": 8, "window_rows": 32, "unit": unit}
    given = {name: (fr.ParquetDataset(root / name, **order, **how), 1) for name in ("web", "code")}
    return fr.Mixture(given, batch_size=4, world=(0, 1), lanes=2, tail="pad", stop="all")


@pytest.mark.law(11)
@pytest.mark.parametrize("how", [{"threads": 2}, {"num_workers": 1}], ids=str)
def test_a_page_of_a_packed_source_that_rots_later_masks_the_sequences_near_it(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    for number, name in enumerate(("web", "code")):
        write(tmp_path / name, [documents(number, 1200, 20)], row_group_size=100, write_page_checksum=True)
    sound, strict = list(packed(tmp_path)), packed(tmp_path)
    made, again = packed(tmp_path, **MASK), packed(tmp_path, **MASK)
    rot_group(tmp_path / "code" / "0.parquet", 7)
    with fr.Loader(made, audit=tmp_path / "logs", **how) as loader:
        batches = list(loader)
        masked = sum(int((~batch.valid).sum()) for batch in batches if batch.epoch == 0)
        assert loader.stats()["masked_rows"] > 0
    assert masked > 0
    for batch, whole in zip(batches, sound, strict=True):
        assert batch.source.tolist() == whole.source.tolist()
        each = zip(units_of(batch), units_of(whole), batch.valid.tolist(), batch.source.tolist(), strict=True)
        for own, other, is_valid, source in each:
            is_rotten = source == 1 and bool(set(other[3]) & set(range(700, 800)))
            if is_valid:
                assert own == other
                assert not is_rotten
            elif (set(own[0]), set(own[1])) == ({0}, {-1}):  # else it fills the batch up
                assert source == 1
                assert set(own[3]) <= set(range(700, 800))
                assert other[3][-1] >= 700 - 512
                assert other[3][0] < 800 + 512
    said = assert_proven(tmp_path / "logs", 0, or_more=True)
    assert "batches held can't be told" in said
    assert "of these rows were masked as not valid: " in said
    with pytest.raises(fr.DataError, match="checksum"):
        list(strict)
    again.load_state_dict(strict.state_dict())
    step = next(batch.step for batch in batches if not batch.valid.all())
    assert list(units_of(again.batch_at(0, step))) == list(units_of(batches[step]))
