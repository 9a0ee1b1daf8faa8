"""Law 11: checksums of pages are compared where there are some, but with `verify_checksums=False`."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

import fastresume as fr
from support.jobs import parallel

GROUP_ROWS, ROWS = 20, 60
DAMAGED_ROW = 27
"""It is in row group 1."""

NUMBERS = np.arange(ROWS, dtype=np.int64) * 1000 + 5
CHANGED = NUMBERS.copy()
CHANGED[DAMAGED_ROW] ^= 0x80

Source = fr.ParquetDataset | fr.Loader | DataLoader[Any]


@pytest.fixture
def damaged(path: Path) -> Path:
    """A file with checksums; one of its numbers has another bit, and one of its cities another letter."""
    cities = [f"city {row % 3} of {row // GROUP_ROWS}" for row in range(ROWS)]
    table = pa.table({"x": NUMBERS, "city": cities, "y": range(ROWS)})
    how = {"use_dictionary": ["city"], "compression": "none", "write_page_checksum": True}
    pq.write_table(table, path, row_group_size=GROUP_ROWS, **how)
    data = bytearray(path.read_bytes())
    word = NUMBERS[DAMAGED_ROW].tobytes()
    assert data.count(word) == 1
    data[data.index(word)] ^= 0x80
    # The dictionary of row group 1 comes before the statistics, which have the bounds of its column.
    at = data.index(b"city 1 of 1")
    data[at : at + 11] = b"cite 1 of 1"
    path.write_bytes(data)
    return path


def open_dataset(path: Path, **arguments: Any) -> fr.ParquetDataset:
    how = {"batch_size": 10, "columns": "x", **parallel(), **arguments}
    return fr.ParquetDataset(path, **how)


def numbers_of(batches: Iterable[Any]) -> list[int]:
    """The numbers by their rows: workers deliver these in another order."""
    found = [pair for batch in batches for pair in zip(batch.rows(), batch["x"].tolist(), strict=True)]
    return [number for _, number in sorted(found)]


def refused(path: Path, column: str = "x") -> Any:
    """Expect an error that names where the damage is and both checksums, and advises nothing."""
    where = re.escape(f"column '{column}', row group 1, file '{path}'")
    expected = rf"a page's checksum is [0-9a-f]{{8}}, its header states [0-9a-f]{{8}} \({where}\)$"
    return pytest.raises(fr.DataError, match=expected)


READERS: dict[str, Callable[[fr.ParquetDataset], Source]] = {
    "the caller's thread": lambda dataset: dataset,
    "threads": lambda dataset: fr.Loader(dataset, threads=2),
    "worker processes": lambda dataset: fr.Loader(dataset, num_workers=2),
    "workers that were spawned": lambda dataset: fr.Loader(
        dataset, num_workers=1, multiprocessing_context="spawn"
    ),
    "a DataLoader": lambda dataset: DataLoader(dataset, batch_size=None, num_workers=1),
    "a dataset that was pickled": lambda dataset: pickle.loads(pickle.dumps(dataset)),
    "a dataset that is mapped": lambda dataset: dataset.map(lambda batch: batch),
}


@pytest.mark.law(11)
@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.slow] if "spawned" in how else []) for how in READERS],
)
def test_a_damaged_page_is_an_error_or_delivered_as_it_is(damaged: Path, how: str) -> None:
    with refused(damaged):
        numbers_of(READERS[how](open_dataset(damaged)))
    with refused(damaged):
        numbers_of(READERS[how](open_dataset(damaged, verify_checksums=True)))
    reader = READERS[how](open_dataset(damaged, verify_checksums=False))
    assert numbers_of(reader) == CHANGED.tolist()


@pytest.mark.law(11)
def test_a_shuffled_pass_and_a_selection_are_no_way_around(damaged: Path) -> None:
    for how in ({"shuffle": True}, {"rows": [[20, 40]]}, {"lanes": 2}):
        with refused(damaged):
            numbers_of(open_dataset(damaged, **how))
        found = numbers_of(open_dataset(damaged, verify_checksums=False, **how))
        assert found == (CHANGED[20:40] if "rows" in how else CHANGED).tolist()


ASKED: dict[str, Callable[[fr.ParquetDataset], fr.Batch]] = {
    "batch_at": lambda dataset: dataset.batch_at(epoch=0, step=2),
    "read_rows": lambda dataset: dataset.read_rows(list(range(20, 30))),
}


@pytest.mark.law(11)
@pytest.mark.parametrize("how", ASKED)
def test_batches_and_rows_that_are_asked_for_again_are_verified_too(damaged: Path, how: str) -> None:
    with refused(damaged):
        ASKED[how](open_dataset(damaged))
    found = ASKED[how](open_dataset(damaged, verify_checksums=False))
    assert found["x"].tolist() == CHANGED[20:30].tolist()


@pytest.mark.law(11)
def test_what_is_replayed_is_verified_too(damaged: Path) -> None:
    """The damage comes after the batches were delivered."""
    content, damage = damaged.read_bytes(), NUMBERS[DAMAGED_ROW].tobytes()
    changed = CHANGED[DAMAGED_ROW].tobytes()
    for verifies in (True, False):
        damaged.write_bytes(content.replace(changed, damage))
        with fr.Loader(open_dataset(damaged, verify_checksums=verifies), threads=1) as loader:
            assert numbers_of(loader) == NUMBERS.tolist()
            damaged.write_bytes(content)
            if verifies:
                with refused(damaged):
                    numbers_of(loader.replay(6))
            else:
                assert numbers_of(loader.replay(6)) == CHANGED.tolist()


@pytest.mark.law(11)
def test_a_filter_reads_damaged_pages_as_they_are_only_if_that_is_asked_for(damaged: Path) -> None:
    sought = int(CHANGED[DAMAGED_ROW])
    condition = fr.col("x").isin([sought, 2005])
    with refused(damaged):
        open_dataset(damaged, columns="y", filter=condition, batch_size=1)
    dataset = open_dataset(damaged, columns="y", filter=condition, batch_size=1, verify_checksums=False)
    assert [row for batch in dataset for row in batch["y"].tolist()] == [2, DAMAGED_ROW]


@pytest.mark.law(11)
def test_so_does_a_filter_that_pyarrow_applies(damaged: Path) -> None:
    condition = pc.field("x").isin([int(CHANGED[DAMAGED_ROW]), 2005])
    with pytest.raises(fr.DataError, match=rf"(?s)'{re.escape(str(damaged))}'.*CRC"):
        open_dataset(damaged, columns="y", filter=condition, batch_size=1)
    dataset = open_dataset(damaged, columns="y", filter=condition, batch_size=1, verify_checksums=False)
    assert [row for batch in dataset for row in batch["y"].tolist()] == [2, DAMAGED_ROW]


@pytest.mark.law(11)
def test_what_a_filter_kept_of_damaged_pages_is_not_taken_from_its_cache_by_those_who_verify(
    damaged: Path, tmp_path: Path
) -> None:
    how = {"filter": fr.col("x") == int(CHANGED[DAMAGED_ROW]), "cache": fr.Cache(manifest=tmp_path / "kept")}
    dataset = open_dataset(damaged, columns="y", batch_size=1, verify_checksums=False, **how)
    assert dataset.num_rows == 1
    with refused(damaged):
        open_dataset(damaged, columns="y", batch_size=1, **how)
    assert open_dataset(damaged, columns="y", batch_size=1, verify_checksums=False, **how).num_rows == 1


@pytest.mark.law(11)
def test_dictionaries_are_gathered_from_damaged_pages_only_if_that_is_asked_for(damaged: Path) -> None:
    with pytest.raises(
        fr.DataError, match=r"a page's checksum is .*\.codes\(values=.* \(column 'city', row group 1,"
    ):
        open_dataset(damaged, columns=fr.col("city").codes())
    dataset = open_dataset(damaged, columns=fr.col("city").codes(), verify_checksums=False)
    assert dataset.dictionaries["city"][:2] == ["cite 1 of 1", "city 0 of 0"]
    assert len(dataset.dictionaries["city"]) == 9


@pytest.mark.law(11)
def test_what_does_not_decode_is_an_error_either_way(path: Path) -> None:
    """All other checks stay: a length that goes beyond its page."""
    table = pa.table({"s": ["one", "two", "three"]})
    pq.write_table(table, path, use_dictionary=False, compression="none", write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\3\0\0\0two", b"\3\0\0\1two", 1))
    with pytest.raises(fr.DataError, match=r"column 's', row group 0") as caught:
        list(open_dataset(path, columns="s", batch_size=3, verify_checksums=False))
    assert "checksum" not in str(caught.value)


def test_no_state_and_no_fingerprint_knows_of_it(damaged: Path, tmp_path: Path) -> None:
    cached = {"cache": fr.Cache(manifest=tmp_path / "footers")}
    verifying = open_dataset(damaged, **cached)
    trusting = open_dataset(damaged, verify_checksums=False, **cached)
    assert verifying.fingerprint == trusting.fingerprint
    assert verifying.state_dict() == trusting.state_dict()
    batches = iter(verifying)
    found = numbers_of([next(batches), next(batches)])
    with refused(damaged):
        next(batches)
    trusting.load_state_dict(verifying.state_dict())
    assert found + numbers_of(trusting) == CHANGED.tolist()
    with refused(damaged):
        numbers_of(open_dataset(damaged, **cached))


@pytest.mark.parametrize("given", [None, 0, 1, "yes"])
def test_what_is_no_bool_is_refused(damaged: Path, given: Any) -> None:
    with pytest.raises(TypeError, match=f"verify_checksums must be True or False, found {given!r}"):
        open_dataset(damaged, verify_checksums=given)
