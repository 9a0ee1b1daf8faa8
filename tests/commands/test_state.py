"""`fastresume state` tells what a state says, and whether it fits files."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import cli
from fastresume.checkpoint import Checkpointer
from support.delta_tables import adds, append, delete_rows
from support.tables import ids


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "data" / "a.parquet")
    return tmp_path / "data"


def state_of(files: Path, steps: int) -> dict[str, str]:
    dataset = fr.ParquetDataset(files, batch_size=8, shuffle=True, seed=3, world=(0, 1))
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
    each = map(str, sorted(files.iterdir()))
    assert cli.main(["state", str(path), *each, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["epoch"], found["step"]) == (0, 5)
    assert (found["rows_delivered"], found["rows_left"]) == (40, 60)
    assert found["order"]["seed"] == 3
    assert found["fits"] is True


@pytest.mark.filterwarnings("ignore:the pass ends here")
def test_the_state_of_a_mixture_says_its_sources_and_stages(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web, code = fr.ParquetDataset(files, shuffle=True, seed=3), fr.ParquetDataset(files)
    path = tmp_path / "state.json"
    state = None
    for weights in ((3, 1), (1, 1)):
        made = fr.Mixture({"web": (web, weights[0]), "code": (code, weights[1])}, batch_size=8, world=(0, 1))
        if state is not None:
            made.load_state_dict(state)
        for _, batch in zip(range(5), made, strict=False):
            state = batch.state_dict()
    path.write_text(json.dumps(state))
    assert cli.main(["state", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: of["rows_delivered"] for name, of in found["sources"].items()} == {"web": 50, "code": 30}
    assert found["sources"]["web"]["passes"] == 0.5
    assert [stage["shares"] for stage in found["stages"]] == [
        {"web": 0.75, "code": 0.25},
        {"web": 0.5, "code": 0.5},
    ]
    assert [stage["rows_delivered"] for stage in found["stages"]] == [40, 40]
    assert (found["epoch"], found["step"], found["rows_delivered"]) == (0, 10, 80)
    assert cli.main(["state", str(path)]) == 0
    output = capsys.readouterr().out
    for words in (
        "source   web: 100 rows, shuffled with seed 3",
        "50 rows delivered over all passes, 0.50 passes",
        "stage    1: web 50.00%, code 50.00%; 40 of 140 rows",
        "step     10 of the pass, over all its stages",
    ):
        assert words in output
    assert cli.main(["state", str(path), str(files)]) == 2
    assert "the state is of a mixture" in capsys.readouterr().err


def test_a_state_of_other_files_says_why_it_does_not_fit(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state_of(files, 2)))
    pq.write_table(pa.table({"x": [1, 2]}), files / "b.parquet")
    assert cli.main(["state", str(path), str(files)]) == 1
    output = capsys.readouterr().out
    assert "16 delivered, 84 left" in output
    assert "there is 1 file more than then, after those of the state" in output
    assert "b.parquet" in output


@pytest.mark.parametrize("more", [False, True])
def test_a_state_of_some_rows_fits_its_files(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: bool
) -> None:
    """Which rows `rows=` and `filter=` selected, the command can't know."""
    path = tmp_path / "state.json"
    dataset = fr.ParquetDataset(files, batch_size=8, rows=fr.Split(0.0, 0.5), world=(0, 1))
    path.write_text(json.dumps(next(iter(dataset)).state_dict()))
    if more:
        pq.write_table(pa.table({"x": [1, 2]}), files / "b.parquet")
    assert cli.main(["state", str(path), str(files)]) == (1 if more else 0)
    output = capsys.readouterr().out
    if more:
        assert "the first 1 of 2 files are those of the state" in output
    else:
        assert "fits     yes, if rows=, filter= and unit= select the same" in output


def test_a_state_of_sequences_is_not_compared_with_rows(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path = tmp_path / "tokens.parquet", tmp_path / "state.json"
    pq.write_table(pa.table({"tokens": [[1, 2, 3, 4]] * 6}), data)
    packed = fr.ParquetDataset(data, batch_size=2, unit=fr.Packed("tokens", length=2), world=(0, 1))
    path.write_text(json.dumps(next(iter(packed)).state_dict()))
    assert cli.main(["state", str(path), str(data)]) == 0
    found = capsys.readouterr().out
    assert "12 rows, sequences or bins, a selection by rows=, filter= or unit=" in found
    assert "fits     yes, if rows=, filter= and unit= select the same" in found
    assert cli.main(["state", str(path), str(files)]) == 1
    assert "than then" not in capsys.readouterr().out


def test_a_state_of_a_table_fits_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(tmp_path / "t", ids(0, 20))
    delete_rows(tmp_path / "t", adds(tmp_path / "t", 0)[0], [1])
    address, path = f"delta://{tmp_path / 't'}", tmp_path / "state.json"
    dataset = fr.ParquetDataset(address, batch_size=8, world=(0, 1))
    path.write_text(json.dumps(next(iter(dataset)).state_dict()))
    assert cli.main(["state", str(path), address]) == 0
    assert "fits     yes" in capsys.readouterr().out
    append(tmp_path / "t", ids(20, 20))
    assert cli.main(["state", str(path), address]) == 1
    assert "fits     no" in capsys.readouterr().out


def test_one_of_several_states_is_chosen_by_its_keys(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.pt"
    torch.save({"train": {"data": state_of(files, 2)}, "validation": state_of(files, 1)}, path)
    assert cli.main(["state", str(path)]) == 2
    words = "'train.data', 'validation': name one, as fastresume state FILE --key train.data"
    assert words in capsys.readouterr().err
    for key, step in (("train.data", 2), ("validation", 1)):
        assert cli.main(["state", str(path), "--key", key, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["step"] == step
    assert cli.main(["state", str(path), "--key", "train"]) == 2
    assert "no state under the keys 'train': there are 'train.data'" in capsys.readouterr().err


def test_data_in_place_of_a_state_says_which_comes_first(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["state", str(files)]) == 2
    assert "the state comes before the data, as fastresume state STATE DATA" in capsys.readouterr().err


def test_what_is_no_state_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.json"
    pickled = pickle.dumps({"data": collections.Counter()})
    for content, said in (
        (b"{}", "holds no state, which has the key 'fastresume'"),
        (b"PAR1", "is a file of Parquet, and no state: the state comes before the data"),
        (b"not JSON", "neither JSON"),
        (b"", "state.json is empty: a write that was cut off leaves such a file"),
        (b'{"fastresume": "{', "state.json is no JSON (Unterminated string"),
        (b'{"fastresume": 1}', "found int"),
        (pickled, "neither JSON"),
    ):
        path.write_bytes(content)
        with warnings.catch_warnings(record=True) as warned:  # as errors, they would be causes
            warnings.simplefilter("always")
            assert cli.main(["state", str(path)]) == 2
        assert not warned
        output = capsys.readouterr().err
        assert said in output
        assert "weights_only" not in output


def test_the_newest_state_of_a_directory_is_shown(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    (run / "kept").mkdir(parents=True)

    def step() -> int:
        assert cli.main(["state", str(run), "--json"]) == 0
        found: int = json.loads(capsys.readouterr().out)["step"]
        return found

    for steps in (2, 5):
        (run / "kept" / f"{steps}.json").write_text(json.dumps(state_of(files, steps)))
        os.utime(run / "kept" / f"{steps}.json", (steps, steps))
    assert step() == 5
    for log in (run / "metrics.json", run / "kept" / "config.json"):
        log.write_text('{"loss": 0.5}')
    assert step() == 5, "a log is newer"
    dataset = fr.ParquetDataset(files, batch_size=8, world=(0, 1))
    checkpointer = Checkpointer(run / "checkpoints")
    for batch, number in zip(dataset, (7, 9), strict=False):
        checkpointer.save(number, loader=batch)
    assert step() == 2
    assert cli.main(["state", str(run / "checkpoints" / "latest"), "--json"]) == 0, "a checkpoint by its name"
    capsys.readouterr()
    with next((run / "checkpoints").glob("step-*9-*/__0_0.distcp")).open("ab") as file:
        file.write(b"more")
    assert cli.main(["state", str(run), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["step"] == 1, "what restore takes"
    assert "000009-000002 is not whole, and is passed over" in shown.err
    (tmp_path / "empty").mkdir()
    assert cli.main(["state", str(tmp_path / "empty")]) == 2
    assert "has no checkpoint" in capsys.readouterr().err
    for log in ("a.json", "b.json"):
        (tmp_path / "empty" / log).write_text("{}")
    assert cli.main(["state", str(tmp_path / "empty")]) == 2
    assert "none of 2 files, 'b.json' and older ones, has a state" in capsys.readouterr().err


def test_a_directory_from_which_restore_takes_nothing_says_why(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(place: Path) -> str:
        assert cli.main(["state", str(place)]) == 2
        return capsys.readouterr().err

    for run in ("m", "z", "a"):
        Checkpointer(tmp_path / "runs" / run).save(1, loader=fr.ParquetDataset(files, batch_size=8))
    assert "directories in it have: a, m, z; name one of them" in said(tmp_path / "runs")
    (saved,) = (tmp_path / "runs" / "a").glob("step-*")
    saved.rename(saved.with_name("good"))
    assert f"good is a checkpoint that must be called {saved.name}" in said(tmp_path / "runs" / "a")
    (saved,) = (tmp_path / "runs" / "m").glob("step-*")
    (saved / "__0_0.distcp").write_bytes(b"")
    (saved / ".metadata").write_bytes(b"")
    assert "no checkpoint of" in said(tmp_path / "runs" / "m")


def test_only_the_file_is_missed_and_the_home_directory_is_found(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["state"])
    assert "arguments are required: FILE\n" in capsys.readouterr().err
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(files)
    dataset = fr.ParquetDataset(files, batch_size=8, world=(0, 1))
    loader = fr.Loader(dataset, audit="~/run/audit")
    Checkpointer("~/run/ck").save(1, loader=next(iter(loader)))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["audit", "ck"]
    assert not (files / "~").exists()
    assert cli.main(["state", "~/run"]) == 0
    assert cli.main(["audit", "~/run"]) == 0
    (tmp_path / "other.json").write_text(json.dumps(state_of(files, 5)))
    assert cli.main(["audit", "~/run", "--start", "~/other.json"]) == 0
    assert "note: no run started from the state of --start, so" in capsys.readouterr().out


def test_a_state_is_taken_as_text_and_from_standard_input(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(state_of(files, 5))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for given, place in ((text, "as given"), ("-", "standard input")):
        assert cli.main(["state", given, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["file"], found["step"]) == (place, 5)
    assert cli.main(["state", text.replace('"', "")]) == 2
    assert "fastresume state: the text is no JSON (Expecting" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["state", "-"]) == 2
    assert "standard input is empty" in capsys.readouterr().err


def test_a_closed_standard_output_leaves_the_exit_status(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state_of(files, 5)))
    path = str(next(files.iterdir()))
    for arguments, status in (
        (["inspect", path], 0),
        (["state", str(tmp_path / "state.json"), path], 0),
        (["audit", str(files)], 2),
    ):
        monkeypatch.setattr("sys.stdout", None)
        assert cli.main(arguments) == status
