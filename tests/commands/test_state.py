"""`fastresume state` tells what a state says, and whether it fits files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import cli


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "data" / "a.parquet")
    return tmp_path / "data"


def state_of(files: Path, steps: int) -> dict[str, str]:
    dataset = fr.ParquetDataset(files, batch_size=8, shuffle=True, seed=3, rank=0, world_size=1)
    batches = iter(dataset)
    for _ in range(steps):
        batch = next(batches)
    return batch.state_dict()


@pytest.mark.parametrize("how", ["json", "torch", "nested"])
def test_a_state_says_where_it_is(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    state, path = state_of(files, 5), tmp_path / "state"
    if how == "json":
        path.write_text(json.dumps(state))
    else:
        torch.save({"model": {"w": torch.zeros(2)}, "data": state} if how == "nested" else state, path)
    assert cli.main(["state", str(path), str(files), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["epoch"], found["step"]) == (0, 5)
    assert (found["rows_delivered"], found["rows_left"]) == (40, 60)
    assert found["order"]["seed"] == 3
    assert found["fits"] is True


def test_a_state_of_other_files_says_why_it_does_not_fit(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state_of(files, 2)))
    pq.write_table(pa.table({"x": [1, 2]}), files / "b.parquet")
    assert cli.main(["state", str(path), str(files)]) == 1
    told = capsys.readouterr().out
    assert "16 delivered, 84 left" in told
    assert "there is 1 file more than then, behind those of the state" in told
    assert "b.parquet" in told


@pytest.mark.parametrize("more", [False, True])
def test_a_state_of_some_rows_fits_its_files(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: bool
) -> None:
    """Which rows `rows=` and `filter=` selected, the command can't know."""
    path = tmp_path / "state.json"
    dataset = fr.ParquetDataset(files, batch_size=8, rows=fr.Split(0.0, 0.5), rank=0, world_size=1)
    path.write_text(json.dumps(next(iter(dataset)).state_dict()))
    if more:
        pq.write_table(pa.table({"x": [1, 2]}), files / "b.parquet")
    assert cli.main(["state", str(path), str(files)]) == (1 if more else 0)
    told = capsys.readouterr().out
    if more:
        assert "the first 1 of 2 files are those of the state" in told
    else:
        assert "fits     yes, if rows= and filter= select the same rows" in told


def test_what_is_no_state_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.json"
    for content, said in (("{}", "0 states"), ("not JSON", "neither JSON")):
        path.write_text(content)
        assert cli.main(["state", str(path)]) == 2
        assert said in capsys.readouterr().err
