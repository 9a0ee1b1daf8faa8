"""What a new user runs first: the demo, the README's example, and the models."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume.audit.verify import audit
from support import oracle
from support.audits import assert_proven
from support.code_blocks import blocks
from support.each_of import each_of
from support.kafka_broker import NO_GO, Broker

ROOT = Path(__file__).resolve().parents[2]


def program(path: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / path)))


# the demo


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.law(3)
def test_demo_kills_and_resumes_and_counts_every_row(tmp_path: Path) -> None:
    options = ["--rows", "6007", "--ranks", "2,3", "--directory", str(tmp_path / "demo")]
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("every process was killed with SIGKILL") == 1
    assert "from the checkpoint after step " in found.stdout
    last_line = found.stdout.splitlines()[-1]
    counts = re.fullmatch(
        r"delivered (\d+) rows: lost 0, twice 0, dropped by the tail policy (\d+)", last_line
    )
    assert counts is not None, last_line
    assert int(counts[1]) + int(counts[2]) == 6007


def test_demo_takes_files_of_the_user_and_says_which_columns_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {
        "name": ["x"] * 500,
        "flag": [True] * 500,
        "weight": np.linspace(-1e300, 1e300, 500),
        "gap": pa.array([None] + [1] * 499),
        "small": np.full(500, 200, dtype=np.uint8),
        "huge": np.full(500, 2**64 - 1, dtype=np.uint64),
        "row": np.full(500, 7),
    }
    pq.write_table(pa.table(columns), tmp_path / "theirs.parquet", row_group_size=90)
    demo = program("examples/demo.py")
    for data in (tmp_path, tmp_path / "*.parquet", tmp_path / "theirs.parquet"):
        assert demo.find_columns(str(data)) == ["flag", "weight", "small", "huge", "row"]
        said = capsys.readouterr().out
        assert "the column 'name' is left out: its type is string" in said
        assert "the column 'gap' is left out: it has nulls" in said

    job = demo.Job.over(tmp_path, str(tmp_path), ["flag", "weight", "small", "huge", "row"], is_ours=False)
    assert job.label == "weight"
    dataset = job.dataset(batch_size=100, world=(0, 1))
    batch = next(iter(dataset))
    assert torch.isfinite(demo.Model(job, dataset.schema)(batch))
    assert demo.spell_rows(demo.rows_of(batch, job)) == "0-99"


def test_demo_ends_with_one_line_about_data_that_it_can_not_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # as the demo does it, and for this test only
    pq.write_table(pa.table({"name": ["x"]}), tmp_path / "names.parquet")
    for data, reason in (("nothing*", "no file matches"), ("*.parquet", "can be delivered")):
        assert program("examples/demo.py").main(["--data", str(tmp_path / data)]) == 1
        assert reason in capsys.readouterr().err


@each_of(
    ("ranges", "may_drop", "expected"),
    [
        ([(0, 3), (4, 9)], 0, "delivered 10 rows: lost 0, twice 0, dropped by the tail policy 0"),
        ([(4, 7), (0, 3)], 2, "delivered 8 rows: lost 0, twice 0, dropped by the tail policy 2"),
        ([(0, 3), (5, 7)], 2, "delivered 7 rows: lost 1, twice 0, dropped by the tail policy 2"),
        ([(0, 9), (2, 4), (2, 2)], 0, "delivered 10 rows: lost 0, twice 3, dropped by the tail policy 0"),
    ],
)
def test_demo_counts_what_is_lost_and_what_comes_twice(
    ranges: Sequence[tuple[int, int]], may_drop: int, expected: str
) -> None:
    assert str(program("examples/demo.py").count_rows(10, ranges, may_drop)) == expected


def test_demo_kills_in_mid_pass_and_between_checkpoints() -> None:
    demo = program("examples/demo.py")
    assert [demo.when_to_kill(batches) for batches in (0, 1)] == [None, None]
    for batches in range(2, 300):
        killed_after = demo.when_to_kill(batches)
        assert 0 < killed_after < batches
        if batches > 2 * demo.CHECKPOINT_EVERY:
            assert killed_after % demo.CHECKPOINT_EVERY not in (0, demo.CHECKPOINT_EVERY - 1)


# the code of the docs


def test_the_example_of_choosing_rows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    for part in range(2):
        rows = np.arange(200 * part, 200 * part + 200)
        # Nulls in the batches of each of its datasets, but in no row that its filter asks for a number.
        weight = pa.array(rows % 4 / 4, mask=(rows % 10 == 0) | (rows % 4 == 3))
        columns = {"x": rows, "label": rows % 5, "weight": weight}
        pq.write_table(pa.table(columns), tmp_path / "data" / f"{part}.parquet", row_group_size=70)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.py").write_text(code_of("docs/how-to/rows.md"))
    made = runpy.run_path("rows.py")
    assert made["positive"].num_rows == 20
    for name in ("train", "validation", "every_tenth", "some", "positive"):
        assert list(next(iter(made[name]))) == ["x", "label"]


def test_the_example_of_shaping_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    rows = np.arange(20)
    columns = {
        "label": rows % 2 == 0,
        "user": [f"user-{row}" if row % 3 else None for row in rows],
        "item": rows * 1000,
        "tags": [[row, row + 1] for row in rows],
        "age": rows.astype(np.int8),
        "price": rows / 4,
    }
    pq.write_table(pa.table(columns), tmp_path / "data" / "0.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shaping.py").write_text(code_of("docs/reference/shaping.md"))
    batch = runpy.run_path("shaping.py")["batch"]
    assert batch["dense"][3].tolist() == [3.0, 0.75]
    assert batch["ids"][3].tolist() == [0, oracle.bucket(3000, 50_000, 7)]


# the README's code


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that the README's example runs in, with the data that it reads: 6 batches and 8 rows."""
    random = np.random.default_rng(3)
    inputs = {f"i_{i}": random.normal(size=1540).astype(np.float32) for i in range(13)}
    for part in range(2):
        rows = slice(part * 1540, part * 1540 + 1540)
        table = pa.table({"label": np.arange(rows.start, rows.stop, dtype=np.float32) / 3080, **inputs})
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "data" / f"part-{part}.parquet", row_group_size=400)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code_of(page: str) -> str:
    """The one program that a page of the documentation shows."""
    (code,) = blocks(ROOT / page)
    return code.lstrip("\n")


def readme_code() -> str:
    _glance, example, _columns = blocks(ROOT / "README.md")
    return example.lstrip("\n")


def test_readme_code_about_columns_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, columns = blocks(ROOT / "README.md")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "columns.py").write_text(columns)
    assert runpy.run_path("columns.py")["dataset"].num_rows == 3


def test_readme_code_at_a_glance_resumes_after_the_batch_that_was_saved(working_directory: Path) -> None:
    glance, *_ = blocks(ROOT / "README.md")
    loader = fr.Loader(fr.ParquetDataset("data/*.parquet", batch_size=512, shuffle=True))
    saved, trained = [batch.state_dict() for batch in loader][2], []
    (working_directory / "glance.py").write_text(glance)
    end = runpy.run_path("glance.py", {"saved": saved, "train": trained.append})
    assert [batch.step for batch in trained] == [3, 4, 5]
    assert list(end["batch"]) == ["label", *(f"i_{i}" for i in range(13))]
    assert list((working_directory / "audit").iterdir())


@pytest.mark.slow  # in one process, the next three tests say the same of it
def test_readme_code_dies_at_step_100_and_continues_at_step_101(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(readme_code())
    command = [sys.executable, "train.py"]
    died = subprocess.run([*command, "--die"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert "epoch 0, step 100: loss" in died.stdout or not died.stdout, "what a pipe holds back dies, too"
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert again.stdout.startswith("epoch 0, step 101: loss")
    assert again.stdout.splitlines()[-1].startswith("epoch 2, step 194: loss")


def test_readme_shows_the_example_that_can_be_run() -> None:
    assert (ROOT / "examples" / "quickstart.py").read_text().endswith("\n\n" + readme_code())


def test_readme_code_trains_three_passes_and_then_has_none_left(working_directory: Path) -> None:
    code = working_directory / "readme.py"
    code.write_text(readme_code())
    end = runpy.run_path(str(code))
    assert (end["batch"].epoch, end["batch"].step) == (2, 5)
    assert end["loader"].epoch == 3
    assert "batch" not in runpy.run_path(str(code)), "a finished job trained on"


@pytest.mark.law(2)
def test_readme_code_resumes_to_the_model_of_a_job_that_was_never_interrupted(
    working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = working_directory / "readme.py"
    torch.manual_seed(1)
    code.write_text(readme_code())
    whole = runpy.run_path(str(code))["model"].state_dict()
    (working_directory / "checkpoint.pt").unlink()

    class Killed(BaseException):
        pass

    rename, renames = Path.replace, []

    def rename_until_killed(path: Path, target: Path) -> Path:
        renames.append(path)
        if len(renames) == 9:
            raise Killed  # the third batch of the second pass was trained on, but its checkpoint is not there
        return rename(path, target)

    torch.manual_seed(1)
    monkeypatch.setattr(Path, "replace", rename_until_killed)
    with pytest.raises(Killed):
        runpy.run_path(str(code))
    monkeypatch.setattr(Path, "replace", rename)
    end = runpy.run_path(str(code))
    assert (end["batch"].epoch, end["batch"].step) == (2, 5)
    assert all(torch.equal(end["model"].state_dict()[name], value) for name, value in whole.items())


# the models


@pytest.mark.law(2)
@pytest.mark.parametrize("name", ["recommender", "tokens"])
def test_a_model_that_is_killed_and_resumed_ends_at_the_same_loss(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ROOT / "examples" / f"{name}.py"
    assert len(source.read_text().splitlines()) < 100
    assert f"examples/{name}.py" in (ROOT / "README.md").read_text()
    end = SimpleNamespace(**runpy.run_path(str(source)))
    assert end.resumed == end.whole
    assert end.resumed < end.killed, "it learned nothing after the kill"
    assert f"{end.resumed:.6f} resumed, {end.whole:.6f} never interrupted" in capsys.readouterr().out


def test_a_recommender_keeps_the_shares_of_its_datasets_over_a_kill_and_embeds_each_user_once() -> None:
    source = ROOT / "examples" / "views_and_orders.py"
    assert len(source.read_text().splitlines()) < 80
    assert "examples/views_and_orders.py" in (ROOT / "README.md").read_text()
    end = SimpleNamespace(**runpy.run_path(str(source)))
    assert end.orders == [60] * 20 + [120] * 20
    assert end.losses[-1] < end.losses[0]
    assert sum(map(len, end.embedded)) == 1500
    assert max(end.costs) <= 2000
    assert sum(end.costs) / len(end.costs) > 1800, "bins are full, but where a row group ends"


# the other pages' code


@pytest.mark.law(2)
def test_code_about_transforms_draws_the_same_when_it_is_run_again(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, parts = working_directory / "transforms.py", blocks(ROOT / "docs/how-to/transforms.md")
    code.write_text(parts[0])
    one = runpy.run_path(str(code))
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == ["0", "1", "2", "3", "4", "5"]
    assert "torch.Size([512, 13])" in said
    other = runpy.run_path(str(code))
    assert capsys.readouterr().out == said
    assert torch.equal(one["batch"]["inputs"], other["batch"]["inputs"])
    assert not one["batch"]["keep"].all()
    code.write_text("".join(parts))
    runpy.run_path(str(code))
    assert capsys.readouterr().out.splitlines()[6:] == ["512", "22 22"]


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning")
def test_code_about_torch_goes_on_after_a_break_and_under_another_loader(working_directory: Path) -> None:
    """As a program, since workers that are started anew import it."""
    (working_directory / "program.py").write_text(code_of("docs/reference/loader.md"))
    command = [sys.executable, "-W", "ignore", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("3\n3 True\n", 0), done.stderr


# pretraining


def test_pretraining_that_is_killed_goes_on_with_a_source_added(tmp_path: Path) -> None:
    example = program("examples/pretrain.py")
    example.write_sources(tmp_path)
    two, three = {"web": 0.7, "code": 0.3}, {"web": 0.6, "code": 0.2, "books": 0.2}
    unbroken = example.train(tmp_path, tmp_path / "a.pt", two, 12)
    example.train(tmp_path, tmp_path / "b.pt", two, 5)
    assert example.train(tmp_path, tmp_path / "b.pt", two, 12) == unbroken
    example.train(tmp_path, tmp_path / "b.pt", three, 15)
    found = assert_proven(tmp_path / "b.audit", 0)
    whole = "sequences, each exactly once, with all its tokens; batches"
    assert f"web 70.00%, code 30.00%: 144 {whole} 0-11 on 1 rank" in found
    assert f"web 60.00%, code 20.00%, books 20.00%: 36 {whole} 12-14 on 1 rank" in found
    batch = next(iter(example.mixture_of(tmp_path, three)))
    assert batch["tokens"].shape == (12, 49)
    assert set(batch.source.tolist()) == {0, 1, 2}


# a topic


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.skipif(bool(NO_GO), reason=NO_GO or "Go is there")
def test_online_training_that_is_killed_goes_on_with_the_next_row_of_a_topic(tmp_path: Path) -> None:
    with Broker("clicks", partitions=4) as broker:
        command = [
            sys.executable,
            str(ROOT / "examples" / "online_training.py"),
            broker.address,
            str(tmp_path),
        ]
        found = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert found.returncode == 0, found.stderr
    first, killed, second, last = found.stdout.splitlines()
    assert first == "3 ranks begin after step 0", found.stderr
    assert killed == "all ranks were killed with SIGKILL after step 30"
    begun = re.fullmatch(r"2 ranks begin after step (\d+)", second)
    assert begun is not None, second
    assert 0 < int(begun[1]) <= 30
    accuracy = re.fullmatch(r"step (\d+), watermark \S+: accuracy (\S+)", last)
    assert accuracy is not None, found.stderr
    assert int(accuracy[1]) * 48 == 3840, "each row of the topic once"
    assert float(accuracy[2]) > 0.9
    report = audit(tmp_path / "audit")
    assert report.problems == 0, "\n".join(report.lines)
