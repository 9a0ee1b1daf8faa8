"""The audit says what it can't prove."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.cli import main
from support.audits import Ranks, assert_proven, found_in
from support.strategies import plain_spec


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return plain_spec([100], [103]).write(tmp_path / "data").directory


@pytest.mark.parametrize(("world_size", "steps"), [(2, 6), (3, 5)])
def test_a_run_that_began_at_row_0_again_is_named(
    data: Path, tmp_path: Path, world_size: int, steps: int
) -> None:
    logs = tmp_path / "logs"
    Ranks(data, logs).steps(5)
    assert "note" not in assert_proven(logs, 0)
    state = Ranks(data, logs, world_size).steps(steps)
    said = assert_proven(logs, 0)
    assert "  note: 2 runs began at the start of pass 0; 5 batches of the first do not count\n" in said
    Ranks(data, logs, 1, state=state).finish()
    Ranks(data, logs, 2).steps(1)
    said = assert_proven(logs, 1)
    assert "note: 3 runs began at the start of pass 0; 6 batches of the others do not count" in said


def test_a_run_that_was_begun_again_by_mistake_does_not_count(data: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    state = Ranks(data, logs, 2).steps(6)
    Ranks(data, logs, 2).steps(1)
    Ranks(data, logs, 1, state=state).finish()
    said = assert_proven(logs, 1)
    assert "note: 2 runs began at the start of pass 0; 1 batch of the second does not count" in said


def test_evaluations_that_restart_are_no_runs_that_began_again(data: Path, tmp_path: Path) -> None:
    ranks = Ranks(data, tmp_path / "logs", on_iter="restart", tail="short")
    for _ in range(3):
        ranks.finish()
    assert "note" not in assert_proven(tmp_path / "logs", 1)


def test_a_run_of_a_mixture_under_other_weights_began_again(data: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"

    def run(weights: dict[str, int], steps: int) -> None:
        sources = {name: (fr.ParquetDataset(data), weight) for name, weight in weights.items()}
        made = fr.Mixture(sources, batch_size=4, world=(0, 1))
        for _ in zip(range(steps), fr.Loader(made, threads=0, audit=logs), strict=False):
            pass

    run({"a": 1, "b": 1}, 5)
    run({"a": 2, "b": 1}, 9)
    said = assert_proven(logs, 0)
    assert "note: 2 runs began at the start of pass 0; 5 batches of the first do not count" in said


def test_a_state_that_was_merged_is_said_to_be_one(data: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    ranks = Ranks(data, logs, 2)
    ranks.steps(3)
    ranks.step(0)
    ranks.step(0)
    merged = fr.Cursor.merge([loader.state_dict() for loader in ranks.loaders]).to_state()
    Ranks(data, logs, 1, state=merged).finish()
    said = found_in(logs)
    assert "starts from a state that no log leads to (pass 0)" in said
    assert "it was merged or imported: what it says was delivered can't be proven" in said
    said = assert_proven(logs, 1, merged)
    assert "more on trust, before the start that was declared" in said


def test_a_state_that_was_declared_for_nothing_hides_no_pass(data: Path, tmp_path: Path) -> None:
    ranks = Ranks(data, tmp_path / "elsewhere")
    later = [ranks.finish() for _ in range(3)][-1]
    Ranks(data, tmp_path / "logs").finish()
    assert "pass 0: finished: 200 rows" in assert_proven(tmp_path / "logs", 1, later)


def test_passes_that_files_came_to_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, logs, state = tmp_path / "data", tmp_path / "logs", None
    for day in range(3):
        path = data / f"day={day}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": range(40)}), path)
        state = Ranks(data, logs, 2, 4, state=state, on_change="append", tail="pad").finish()
    assert main(["audit", str(logs), "--passes", "1"]) == 0
    assert main(["audit", str(logs), "--passes", "3"]) == 1
    said = capsys.readouterr().out
    assert "problem: --passes 3: 1 finished pass is proven" in said
    assert "files came after a finished pass 2 times: it continued with them, and counts once" in said


def test_the_logs_of_a_run_are_found_and_told_to_programs(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    Ranks(data, run / "data" / "audit", 2).finish()
    assert main(["audit", str(run), "--json", "--passes", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["proven"], found["finished_passes"], found["logs"]) == (True, [1], 2)
    assert found["directory"] == str(run / "data" / "audit")
    Ranks(data, run / "evaluation" / "audit").steps(1)
    assert main(["audit", str(run)]) == 2
    assert (
        "2 directories in it have delivery logs; name one, or move the logs of all ranks of a job into one: "
        in capsys.readouterr().err
    )
    assert main(["audit", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == f"fastresume audit: {tmp_path}/nowhere: no such file or directory\n"
