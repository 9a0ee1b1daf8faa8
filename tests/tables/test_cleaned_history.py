"""A state goes on while its files are there, though the history of the table that added them was cleaned."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import fastresume as fr
from support.each_of import each_of
from support.iceberg_tables import catalog_in
from support.tables import id_list, ids, opened

DAYS = 6


def by_partition(path: str, day: int) -> None:
    """Four files, one in each of four directories."""
    parts = [f"p{(7 * day + row) % 4}" for row in range(60)]
    write_deltalake(path, ids(100 * day, 60, p=parts), mode="append", partition_by=["p"])


def by_day(path: str, day: int) -> None:
    """One file in a directory of its own, whose name is not in the order of days."""
    write_deltalake(path, ids(100 * day, 60, p=[f"day={13 - day}"] * 60), mode="append", partition_by=["p"])


def by_size(path: str, day: int) -> None:
    """Several files in one directory."""
    text = [f"{day}-{row}-{'x' * 400}" for row in range(60)]
    write_deltalake(path, ids(100 * day, 60, text=text), mode="append", target_file_size=2_000)


def by_some(path: str, day: int) -> None:
    """Files in some of four directories, in others each day."""
    parts = [f"p{(day + row % (1 + day % 3)) % 4}" for row in range(60)]
    write_deltalake(path, ids(100 * day, 60, p=parts), mode="append", partition_by=["p"])


def clean(path: str) -> None:
    """What deltalake's own cleaning leaves: no commit before the checkpoint."""
    table = DeltaTable(path)
    table.create_checkpoint()
    for commit in Path(path, "_delta_log").glob("*.json"):
        if int(commit.name[:20]) < table.version():
            commit.unlink()


@pytest.mark.law(2)
@each_of("is_mid_pass", [False, True])
@each_of("write", [by_partition, by_day, by_size, by_some])
def test_a_job_of_each_day_goes_on_over_a_delta_log_that_is_cleaned(
    tmp_path: Path, write: Callable[[str, int], None], is_mid_pass: bool
) -> None:
    path, state, seen = str(tmp_path / "t"), None, []
    for day in range(DAYS):
        write(path, day)
        if day in (2, 4):
            clean(path)
        dataset = opened(f"delta://{path}", batch_size=16, tail="pad", on_change="append", columns=["id"])
        if state is not None:
            dataset.load_state_dict(state)
        for batch in dataset:
            seen += batch["id"][batch.valid].tolist()
            state = batch.state_dict()
            if is_mid_pass and day < DAYS - 1 and len(seen) % 60 > 30:
                break
    assert sorted(seen) == [100 * day + row for day in range(DAYS) for row in range(60)]


def test_a_state_that_does_not_fit_tells_that_the_log_was_cleaned(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    by_partition(path, 0)
    state = next(iter(opened(f"delta://{path}"))).state_dict()
    by_partition(path, 1)
    DeltaTable(path).delete("id = 5")
    clean(path)
    found = r"of whose history a part was cleaned: its log reaches back to commit 2 alone"
    with pytest.raises(fr.StateError, match=found):
        opened(f"delta://{path}", on_change="append").load_state_dict(state)


def forget(catalog: SqlCatalog, table: Table, *, keeps_metadata: bool) -> Table:
    """What `expire_snapshots` leaves: the last snapshot, and maybe the metadata that told the others."""
    path = Path(table.metadata_location.removeprefix("file://"))
    found: dict[str, Any] = json.loads(path.read_text())
    found["snapshots"] = [
        one for one in found["snapshots"] if one["snapshot-id"] == found["current-snapshot-id"]
    ]
    found["snapshot-log"] = [
        one for one in found["snapshot-log"] if one["snapshot-id"] == found["current-snapshot-id"]
    ]
    if not keeps_metadata:
        for log in found["metadata-log"]:
            Path(log["metadata-file"].removeprefix("file://")).unlink()
    path.write_text(json.dumps(found))
    return catalog.load_table("ns.t")


@pytest.mark.law(2)
@each_of("keeps_metadata", [True, False])
@each_of("version", ["1", "2"])
def test_a_job_goes_on_over_an_iceberg_table_that_has_forgotten_snapshots(
    tmp_path: Path, version: str, keeps_metadata: bool
) -> None:
    catalog = catalog_in(tmp_path / "lake")
    table = catalog.create_table("ns.t", schema=ids(0, 1).schema, properties={"format-version": version})
    for number in range(5):
        table.append(ids(10 * number, 7))
    state = list(opened(table))[5].state_dict()
    table = forget(catalog, table, keeps_metadata=keeps_metadata)
    assert len(table.snapshots()) == 1
    table.append(ids(50, 7))
    expected = [10 * number + row for number in range(6) for row in range(7)]
    dataset = opened(table, on_change="append")
    assert id_list(dataset) == expected
    dataset = opened(table, on_change="append")
    dataset.load_state_dict(state)
    assert id_list(dataset) == expected[18:]
