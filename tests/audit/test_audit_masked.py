"""The audit lists the rows that were masked, and proves the rest: they count as delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from fastresume.cli import main
from support.audits import assert_proven, bodies, found_in, log_of, write_bodies
from support.rotten_pages import pages_of, rot, write_file


@pytest.fixture
def rotten(tmp_path: Path) -> Path:
    """A file of whose numbers the rows 20 to 29 can't be read."""
    path = write_file(tmp_path / "data.parquet", "1.0", has_index=False)
    rot(path, list(pages_of(path, "1.0", has_index=False))[2])
    return path


def loader_of(path: Path, logs: Path, how: dict[str, Any], function: Any = None, **reads: Any) -> fr.Loader:
    """A loader of a rank, all of whose rows may be masked."""
    how = {"batch_size": 8, "rank": 0, "world_size": 1, "max_bad_rows": 1.0, "tail": "pad", **how}
    dataset = fr.ParquetDataset(path, **how)
    if function is not None:
        dataset = dataset.map(function, on_error="mask")
    return fr.Loader(dataset, audit=logs, **reads)


ORDERS = pytest.mark.parametrize(
    "order", [{}, {"shuffle": True, "block_rows": 8, "window_rows": 32}], ids=["sequential", "shuffled"]
)
MASK = {"bad_rows": "mask"}


@ORDERS
@pytest.mark.parametrize("reads", [{}, {"num_workers": 2}], ids=["threads", "workers"])
def test_masked_rows_are_listed_by_file_group_and_cause(
    rotten: Path, tmp_path: Path, order: dict[str, Any], reads: dict[str, Any]
) -> None:
    logs = tmp_path / "logs"
    list(loader_of(rotten, logs, {**MASK, **order}, **reads))
    said = assert_proven(logs, 1)
    assert "finished: 100 rows, each exactly once" in said
    assert "10 of these rows were masked as not valid:" in said
    assert "data.parquet: row group 0: rows 20-29: a page's checksum is" in said
    assert "(column 'x', row group 0, file" in said


def test_the_last_line_counts_them(rotten: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    loader = loader_of(rotten, logs, MASK)
    list(loader)
    list(loader)
    assert main(["audit", str(logs)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("PROVEN: 2 finished passes")
    assert last.endswith("20 of them masked as not valid, as listed")


@ORDERS
def test_ranks_that_are_killed_and_resumed_elsewhere_list_each_row_once(
    rotten: Path, tmp_path: Path, order: dict[str, Any]
) -> None:
    logs, state = tmp_path / "logs", None
    for world_size, steps in ((2, 3), (3, 2), (1, 1000)):
        how = {**MASK, **order, "batch_size": 5, "world_size": world_size}
        loaders = [loader_of(rotten, logs, {**how, "rank": rank}, threads=0) for rank in range(world_size)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        for batches in list(zip(*[_first(loader, steps) for loader in loaders], strict=True)):
            state = batches[0].state_dict()
    said = assert_proven(logs, 1)
    assert said.count("10 of these rows were masked as not valid:") == 1


def _first(loader: fr.Loader, steps: int) -> list[fr.Batch]:
    return [batch for _, batch in zip(range(steps), loader, strict=False)]


def test_a_batch_over_which_a_function_failed_is_listed(tmp_path: Path) -> None:
    path, logs = write_file(tmp_path / "data.parquet", "1.0", has_index=False), tmp_path / "logs"

    def picky(batch: fr.Batch) -> fr.Batch | dict[str, Any]:
        if batch.step == 3:
            raise ValueError("not these")
        return {"other": batch["x"]} if batch.step > 5 else batch

    list(loader_of(path, logs, {}, picky))
    said = assert_proven(logs, 1)
    assert "8 of these rows were masked as not valid:" in said
    assert "data.parquet: row group 0: rows 24-31: raised by" in said
    assert "ValueError: not these" in said


def test_logs_without_masked_rows_have_the_same_records_as_ever(tmp_path: Path) -> None:
    path, logs = write_file(tmp_path / "data.parquet", "1.0", has_index=False), tmp_path / "logs"
    list(loader_of(path, logs, MASK))
    assert {body[0] for body in bodies(log_of(logs, 0))} == {1, 2, 3}
    assert "masked" not in assert_proven(logs, 1)


def test_a_record_of_masked_rows_that_nobody_understands_is_a_problem(rotten: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    list(loader_of(rotten, logs, MASK))
    log = log_of(logs, 0)
    kept = [b"\x04[[1]]" if body[0] == 4 else body for body in bodies(log)]
    write_bodies(log, kept)
    assert "a record of masked rows is not understood" in found_in(logs)
