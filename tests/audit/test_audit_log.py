"""Writing the delivery log, its format, and the command that reads it."""

from __future__ import annotations

import copy
import json
import os
import pickle
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import fastresume as fr
from fastresume.audit.log_format import digest, state_hash
from fastresume.audit.order import Dataset as Described
from fastresume.audit.order import Order
from fastresume.cli import main
from support import oracle
from support.audits import (
    ROWS,
    SHUFFLE,
    SPEC,
    Ranks,
    assert_proven,
    bodies,
    found_in,
    log_of,
    new_log,
    origin_of,
)
from support.each_of import each_of


@pytest.mark.parametrize("last", [False, True])
def test_a_batch_that_is_handed_over_twice_is_told_from_one_that_was_taken_back(
    data: Path, logs: Path, last: bool
) -> None:
    dataset = fr.ParquetDataset(data, batch_size=ROWS if last else 400, world=(0, 1))
    iterator = iter(dataset)
    batch = iterator._open().front()
    start, cursor = dataset._shared_cursor.cursor, batch.cursor
    for name, befores in (("taken back", [start, start]), ("twice", [start, cursor])):
        log = new_log(logs / name, dataset)
        for before in befores:
            log.deliver(batch, origin_of(dataset, batch), cursor, before)
    assert len(bodies(log_of(logs / "taken back", 0))) == 2
    assert_proven(logs / "taken back", int(last))
    assert "handed over twice" in found_in(logs / "twice")


def test_a_copy_of_a_log_has_a_file_of_its_own(data: Path, logs: Path) -> None:
    dataset = fr.ParquetDataset(data, batch_size=10, world=(0, 1))
    reader, log, before = iter(dataset)._open(), new_log(logs, dataset), dataset._shared_cursor.cursor
    for turn in range(6):
        batch = reader.front()
        log.deliver(batch, origin_of(dataset, batch), batch.cursor, before)
        log = copy.deepcopy(log) if turn == 1 else pickle.loads(pickle.dumps(log)) if turn == 3 else log
        before = batch.cursor
        reader.advance()
    assert len(list(logs.glob("*.log"))) == 3
    assert "60 rows, each exactly once; batches 0-5" in assert_proven(logs, 0)


def test_a_loader_that_leaves_a_batch_out(data: Path, logs: Path) -> None:
    dataset = fr.ParquetDataset(data, batch_size=10, world=(0, 1))
    reader = iter(dataset)._open()
    log, before = new_log(logs, dataset), dataset._shared_cursor.cursor
    while (batch := reader.front()) is not None:
        if batch.step != 5:
            log.deliver(batch, origin_of(dataset, batch), batch.cursor, before)
        before = batch.cursor
        reader.advance()
    assert "starts from a state that no log leads to" in found_in(logs)


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("nth", [1, 4, 61])
def test_an_interrupted_write_is_written_again(
    data: Path, logs: Path, monkeypatch: pytest.MonkeyPatch, nth: int, is_written: bool
) -> None:
    ranks = Ranks(data, logs, tail="short")
    ranks.steps(nth - 1)
    write = os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        if is_written:
            write(descriptor, data)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    before = ranks.state
    with pytest.raises(KeyboardInterrupt):
        ranks.step(0)
    assert ranks.state == before
    ranks.finish()
    assert_proven(logs, 1)


def test_a_full_disk_is_an_error_before_the_batch_is_handed_over(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, tail="short")
    ranks.steps(3)
    before, path = ranks.state, log_of(logs, 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.stat().st_size
    for limit in (size + 20, 0):  # a record can be begun; not even a new file can be
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(fr.SourceError, match=r"logs/rank-00000-of-00002-.*\.log: .*delivery log"):
                ranks.step(0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ranks.state == before
    assert path.stat().st_size == size + 20
    ranks.finish()
    assert len(list(logs.glob("rank-00000-*"))) == 2
    assert_proven(logs, 1)


def test_a_place_that_can_not_be_written_to(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    dataset = fr.ParquetDataset(data, batch_size=10, world=(0, 1))
    with pytest.raises(fr.SourceError, match=f"{file}: can't write the delivery log: "):
        fr.Loader(dataset, audit=file)
    logs = tmp_path / "new" / "logs"
    loader = fr.Loader(dataset, audit=logs)
    logs.rmdir()
    before = loader.state_dict()
    with pytest.raises(fr.SourceError, match=f"{logs}/.*: can't write the delivery log: No such file"):
        next(iter(loader))
    assert loader.state_dict() == before
    logs.mkdir()
    assert len(list(loader)) == 120
    assert_proven(logs, 1)


def test_nothing_is_written_for_batches_that_are_not_handed_over(data: Path, logs: Path) -> None:
    loader = fr.Loader(fr.ParquetDataset(data, batch_size=10, world=(0, 1)), audit=logs)
    loader.start()
    loader.peek()
    iter(loader)
    loader.close()
    assert list(logs.iterdir()) == []


def test_a_log_takes_few_bytes_a_batch(data: Path, logs: Path) -> None:
    for shuffle in (None, SHUFFLE):
        ranks = Ranks(data, logs, shuffle=shuffle)
        ranks.steps(1)
        size = log_of(logs, 0).stat().st_size
        ranks.steps(40)
        assert (log_of(logs, 0).stat().st_size - size) / 40 < 40
        for path in logs.glob("rank-*"):
            path.unlink()


# ----------------------------------------------------------------------------------------- the rest of it


def test_the_description_of_the_dataset(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs)
    ranks.finish()
    (path,) = logs.glob("dataset-*.json")
    described = json.loads(path.read_text())
    assert described["rows"] == ROWS
    assert described["files"] == [
        ["part-000.parquet", [200, 0, 400]],
        ["part-001.parquet", [350]],
        ["part-002.parquet", [253]],
    ]
    for damage in (None, "{", "[]", json.dumps({**described, "files": []})):
        path.unlink()
        if damage is not None:
            path.write_text(damage)
        said = found_in(logs)
        assert "problem: the description of the dataset is missing or damaged" in said
        path.touch()
    log_of(logs, 1).unlink()
    assert "positions 600-1199 never delivered" not in found_in(logs)
    path.unlink()
    Ranks(data, logs).steps(1)
    assert json.loads(path.read_text()) == described
    assert [child for child in logs.iterdir() if child.name.startswith(".")] == []


def all_rows_of(sizes: Sequence[int]) -> Described:
    """Return a dataset of one file with row groups of these sizes, all of whose rows are selected."""
    return Described(("a",), np.array([0, len(sizes)]), np.cumsum([0, *sizes]), np.array([[0, sum(sizes)]]))


def test_the_witness_has_the_order_of_the_golden_vectors() -> None:
    golden = json.loads((Path(__file__).parents[1] / "golden" / "orders.json").read_text())
    for entry in golden["orders"]:
        sizes = [rows for rows, times in entry["groups"] for _ in range(times)]
        order = {name: entry[name] for name in ("seed", "block_rows", "window_rows")}
        found = Order({"kind": "shuffled", **order}, entry["epoch"], all_rows_of(sizes))
        for position, row in entry["at"]:
            assert found.rows(np.array([[position, position + 1]])).tolist() == [row], entry["name"]


def test_rows_are_named_by_file_and_row_group() -> None:
    starts = np.array([0, 10, 10, 20, 25, 30])
    dataset = Described(("a", "b"), np.array([0, 3, 5]), starts, np.array([[0, 30]]))
    rows = np.array([9, 10, 11, 8, 19, 20, 21, 29])
    assert list(dataset.name(rows)) == [
        "a: row group 0: rows 8-9",
        "a: row group 2: rows 0-1",
        "a: row group 2: row 9",
        "b: row group 0: rows 0-1",
        "b: row group 1: row 4",
    ]


def test_the_digest_is_that_of_a_multiset_and_part_of_the_format() -> None:
    for rows in ([0], [0, 1, 2], [5, 2**53 - 2]):
        assert digest(np.array(rows)) == sum(oracle.mix(row + 1) for row in rows) % 2**64
    assert digest(np.array([5, 5, 7])) == digest(np.array([7, 5, 5])) != digest(np.array([5, 7, 7]))


def test_states_are_places_whatever_the_count_of_passes(data: Path) -> None:
    loader = fr.Loader(fr.ParquetDataset(data, batch_size=10, world=(0, 1)))
    list(loader)
    state = loader.state_dict()
    loader.load_state_dict(state, reset_epochs=True)
    assert loader.state_dict() != state
    assert state_hash(loader.state_dict()["fastresume"]) == state_hash(state["fastresume"])
    next(iter(loader))
    assert state_hash(loader.state_dict()["fastresume"]) != state_hash(state["fastresume"])


def test_the_command_says_what_it_found(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["audit", *map(str, arguments)])
        return status, *capsys.readouterr()

    logs = tmp_path / "logs"
    assert run(logs)[0] == 2
    logs.mkdir()
    status, out, error = run(logs)
    assert (status, out) == (2, "")
    assert error == f"fastresume audit: {logs}: there is no delivery log (rank-*.log) in this directory\n"
    (logs / "rank-00000-of-00001-1-1.log").touch()
    status, out, error = run(logs)
    assert (status, out) == (2, "")
    assert error == f"fastresume audit: {logs}: 1 log without a batch: nothing to prove\n"
    ranks = Ranks(data, logs)
    state = ranks.steps(5)
    assert run(logs)[1].endswith("PROVEN so far: no row was delivered twice; no pass is finished yet\n")
    ranks.finish()
    status, out, error = run(logs, "--passes", 1)
    assert (status, error) == (0, "")
    assert out.endswith("PROVEN: 1 finished pass, every row delivered exactly once\n")
    status, out, _ = run(logs, "--passes", 2)
    assert status == 1
    assert out.endswith("problem: --passes 2: 1 finished pass is proven\nNOT PROVEN: 1 problem\n")
    later = tmp_path / "later"
    Ranks(data, later, 3, state=state).finish()
    assert run(later)[0] == 1
    file = tmp_path / "state.json"
    for content in (state, state["fastresume"], json.loads(state["fastresume"]), {"data": state}):
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        assert run(later, "--start", file)[0] == 0
        assert run(later, "--start", file.read_text())[0] == 0
    torch.save({"model": {}, "data": state}, file)
    assert run(later, "--start", file)[0] == 0
    file.write_text("[1]")
    far = oracle.checked({**json.loads(state["fastresume"]), "epoch": 1 << 22})
    for wrong in ("{", "{}", json.dumps({"fastresume": "{}"}), far, file, tmp_path / "missing"):
        status, out, error = run(later, "--start", wrong)
        assert (status, out) == (2, "")
        assert "--start" in error
    with pytest.raises(SystemExit) as usage:
        main(["audit"])
    assert usage.value.code == 2


def test_the_command_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"fastresume {fr.__version__}\n"


@each_of(("audit", "error"), [("", ValueError), (True, TypeError), (3, TypeError), (b"logs", TypeError)])
def test_what_is_no_directory_is_refused_by_name(
    tmp_path: Path, audit: object, error: type[Exception]
) -> None:
    SPEC.write(tmp_path / "data")
    dataset = fr.ParquetDataset(tmp_path / "data", batch_size=4, world=(0, 1))
    with pytest.raises(error, match=r"audit (must be a|is an empty) path"):
        fr.Loader(dataset, audit=audit)  # type: ignore[arg-type]


def test_ranks_of_numpy_are_logged(tmp_path: Path) -> None:
    SPEC.write(tmp_path / "data")
    dataset = fr.ParquetDataset(
        tmp_path / "data",
        batch_size=4,
        world=(np.int64(0), np.int64(1)),
        # type: ignore[arg-type]
    )
    assert len(list(fr.Loader(dataset, audit=tmp_path / "logs"))) == len(dataset)
    assert main(["audit", str(tmp_path / "logs")]) == 0


def test_a_log_that_is_removed_while_the_job_runs_ends_it_at_the_next_batch(tmp_path: Path) -> None:
    SPEC.write(tmp_path / "data")
    dataset = fr.ParquetDataset(tmp_path / "data", batch_size=4, world=(0, 1))
    batches = iter(fr.Loader(dataset, audit=tmp_path / "audit"))
    next(batches)
    shutil.rmtree(tmp_path / "audit")
    with pytest.raises(
        fr.SourceError, match=r"audit/rank-.*\.log: the delivery log was removed while the job"
    ):
        next(batches)
