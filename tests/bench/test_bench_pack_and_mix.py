"""`fastresume bench --pack` and `--mix` measure those that deliver the same tokens, or rows by weight."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastresume import cli
from fastresume.bench import child, command, turns
from fastresume.bench.checksum import difference
from fastresume.bench.contenders import OF_JOBS, missing
from fastresume.bench.drawn import fault
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.survey import survey
from fastresume.bench.task import Source, Task

LENGTH, BATCH = 16, 4


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists of no token to more than two sequences, in two files; some are null."""
    directory = tmp_path_factory.mktemp("pack") / "data"
    directory.mkdir()
    random = np.random.default_rng(1)
    for number in range(2):
        rows = [random.integers(1, 1000, length).tolist() for length in random.integers(0, 40, 90)]
        rows[number] = None
        column = pa.array(rows, pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": column}), directory / f"{number}.parquet", row_group_size=40)
    return directory


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directories = [tmp_path_factory.mktemp("mix") / name for name in ("web", "code")]
    for number, (directory, rows) in enumerate(zip(directories, (3000, 1200), strict=True)):
        directory.mkdir()
        values = np.arange(rows) + 10_000 * number
        columns = {"id": values, "x": values.astype(np.float32) / 7, "small": (values % 100).astype(np.int8)}
        pq.write_table(pa.table(columns), directory / "0.parquet", row_group_size=500)
    return directories


@pytest.fixture
def packing(documents: Path, tmp_path: Path) -> Task:
    found = survey([str(documents)], ["tokens"])
    tokens = sum(len(each or ()) for each in pq.read_table(documents)["tokens"].to_pylist())
    return Task(found.files, found.columns, BATCH, 1, tokens, length=LENGTH, scratch=str(tmp_path))


@pytest.fixture
def mixing(sources: list[Path], tmp_path: Path) -> Task:
    return mix_of(sources, tmp_path, 0.75, 0.25)


def mix_of(sources: list[Path], scratch: Path, *weights: float) -> Task:
    found = survey([str(path) for path in sources], None)
    each = tuple(
        Source(str(path), (str(path / "0.parquet"),), weight, pq.read_metadata(path / "0.parquet").num_rows)
        for path, weight in zip(sources, weights, strict=True)
    )
    return Task(found.files, found.columns, 100, 1, found.num_rows, sources=each, scratch=str(scratch))


def installed(job: Any) -> list[str]:
    return [name for name, one in OF_JOBS[job].items() if not missing(one)]


# --------------------------------------------------------------------------------------------- the contenders


@pytest.mark.parametrize("name", installed("pack"))
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_each_that_packs_delivers_every_token_once(packing: Task, name: str) -> None:
    expected = child.check(packing, OF_JOBS["pack"]["python"])
    found = child.check(packing, OF_JOBS["pack"][name])
    assert difference(found, expected, "token") is None
    assert found["rows"] == packing.num_rows


@pytest.mark.parametrize("name", installed("mix"))
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_each_that_mixes_draws_rows_of_the_sources_by_weight(mixing: Task, name: str) -> None:
    found = child.check(mixing, OF_JOBS["mix"][name])
    assert fault(found, mixing) is None
    assert found["rows"] > 3500, "it goes on until a source has ended"


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_documents_are_told_apart_by_hand_as_by_us(packing: Task, documents: Path) -> None:
    ours, theirs = (
        torch.cat(
            [batch["document"] for batch in list(OF_JOBS["pack"][name].open(packing, None).batches)[:-1]]
        )
        for name in ("fastresume", "pyarrow")
    )
    # Ours begins anew with each file: the sequences of the first one, over its row groups, are the same.
    lists = pq.read_table(documents / "0.parquet")["tokens"].to_pylist()
    same = sum(len(each or ()) for each in lists) // LENGTH
    assert same > 90
    assert torch.equal(ours[:same], theirs[:same])


def made(job: Any, batches: Iterator[Any]) -> Contender:
    return Contender("theirs", f"theirs, which {job}s", lambda task, _: Reading(batches))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values[1:], "it delivered {less} tokens, expected {all}"),
        (lambda values: np.concatenate([values[:1], values[:-1]]), "other values in 'tokens'"),
    ],
)
def test_tokens_that_are_lost_or_come_twice_are_told(packing: Task, change: Any, message: str) -> None:
    column = pq.read_table([*packing.files])["tokens"].combine_chunks()
    values = change(column.flatten().to_numpy())
    whole = len(values) // LENGTH * LENGTH
    batches = [{"tokens": torch.tensor(values[:whole]).reshape(-1, LENGTH)}]
    batches += [{"tokens": torch.tensor(values[whole:])[None]}]
    found = child.check(packing, made("pack", iter(batches)))
    expected = child.check(packing, OF_JOBS["pack"]["python"])
    spelled = message.format(less=packing.num_rows - 1, all=packing.num_rows)
    assert difference(found, expected, "token") == spelled


def test_a_sequence_that_is_too_long_is_told(packing: Task) -> None:
    contender = made("pack", iter([{"tokens": torch.zeros(2, LENGTH + 1, dtype=torch.int32)}]))
    with pytest.raises(ValueError, match="a sequence has 17 tokens, expected 16"):
        child.check(packing, contender)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows, None),
        (lambda rows: rows.slice(0, 0), "it delivered no rows"),
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 9)]), "9 of 1609 rows came more often than they"),
        (lambda rows: pa.concat_tables([rows.slice(1, 0), rows.slice(0, 1200)]), "1200 of 1200 rows are of"),
        (
            lambda rows: rows.set_column(0, "id", pa.array(rows["id"].to_numpy() + 5)),
            "1600 of 1600 rows are no source's",
        ),
    ],
)
def test_rows_of_a_mixture_that_are_none_or_too_many_are_told(
    mixing: Task, change: Any, message: str | None
) -> None:
    web, code = (pq.read_table(source.files[0]) for source in mixing.sources)
    rows = pa.concat_tables([web.slice(0, 1200), code.slice(0, 400)]).combine_chunks()
    found = fault(child.check(mixing, made("mix", iter([change(rows)]))), mixing)
    assert (found is None) == (message is None)
    assert (found or "").startswith(message or "")


def test_rows_that_several_sources_have_are_no_ground_for_a_judgment(
    sources: list[Path], tmp_path: Path
) -> None:
    shutil.copytree(sources[0], tmp_path / "again")
    task = mix_of([sources[0], tmp_path / "again"], tmp_path, 0.9, 0.1)
    found = child.check(task, OF_JOBS["mix"]["python"])
    assert (found["of_several"], found["sources"]) == (found["rows"], [0, 0])
    assert fault(found, task) is None


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Processes are calls; the list is of what they were asked for."""
    asked: list[str] = []

    def call(contender: Contender, **request: Any) -> Any:
        asked.append(request["what"])
        request |= {"contender": contender.name, "seconds": 0.0}
        return json.loads(json.dumps(child.work(request)))

    monkeypatch.setattr(turns, "in_process", call)
    monkeypatch.setattr(child, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    return asked


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_packing_is_measured_in_tokens(
    documents: Path, packing: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], here: list[str]
) -> None:
    message = tmp_path / "out.json"
    names = "fastresume,fastresume-indexed,pyarrow,python"
    arguments = ["bench", str(documents), "--pack", f"tokens:{LENGTH}", "--contenders", names, "--quick"]
    assert cli.main([*arguments, "--json", str(message)]) == 0
    said = capsys.readouterr()
    assert f"same tokens: all 4 delivered each of the {packing.num_rows} tokens once" in said.out
    assert "million tokens per CPU second" in said.out
    assert f"data: {packing.num_rows} tokens, 180 rows, 1 column" in said.out
    assert f"batches of 8 sequences of {LENGTH} tokens" in said.out
    assert "checked: python: the same tokens" in said.err
    found = json.loads(message.read_text())
    assert (found["job"], found["length"], found["same_rows"], found["rival"]) == (
        "pack",
        LENGTH,
        True,
        "pyarrow",
    )
    for one in found["contenders"].values():
        (turn,) = one["passes"]
        assert turn["rows"] == turn["passes"] * packing.num_rows
        assert one["figures"]["millions_of_tokens_per_cpu_second"]["median"] > 0


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_mixing_is_measured_by_its_sources(
    sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], here: list[str]
) -> None:
    message, each = tmp_path / "out.json", [f"{sources[0]}:3", f"{sources[1]}:1"]
    arguments = ["bench", "--mix", *each, "--contenders", "fastresume,pyarrow", "--rounds", "1"]
    assert cli.main([*arguments, "--json", str(message)]) == 0
    said = capsys.readouterr()
    assert f"source: {sources[0]}: 75.00% of the rows, 3000 there" in said.out
    assert "by weight: all 2 delivered rows of the sources alone" in said.out
    assert "checked: fastresume: rows by weight" in said.err
    found = json.loads(message.read_text())
    assert found["job"] == "mix"
    assert [source["weight"] for source in found["sources"]] == [3, 1]
    assert found["contenders"]["fastresume"]["checksum"]["rows"] == 4000, "the first one ends then"
    assert set(here) == {"check", "pass"}, "nobody resumes"


@pytest.mark.slow  # that of rows, in the file beside, is not
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_sigterm_keeps_the_rounds_that_were_whole_of_packing_too(
    documents: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: list[str]
) -> None:
    call = turns.in_process

    def end(contender: Contender, **request: Any) -> Any:
        if here.count("pass") == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return call(contender, **request)

    monkeypatch.setattr(turns, "in_process", end)
    arguments = ["bench", str(documents), "--pack", "tokens:8", "--contenders", "pyarrow,python"]
    assert cli.main(arguments) == command.TERMINATED
    assert "interrupted: of 5 rounds, 1 of passes are whole" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name files as PATH, or datasets to mix as --mix PATH:WEIGHT, and not both"),
        (["DOCUMENTS", "--mix", "DOCUMENTS:1"], "and not both"),
        (["--mix", "DOCUMENTS:1", "--pack", "tokens"], "--pack and --mix are measured one at a time"),
        (["--mix", "DOCUMENTS:1"], "tokens: --mix compares numbers without nulls, found list<"),
        (["DOCUMENTS", "--pack", "tokens", "--columns", "tokens"], "leave out --columns"),
        (["DOCUMENTS", "--pack", "words"], "no column matches 'words'; there are tokens"),
        (
            ["DOCUMENTS", "--pack", "tokens:2k"],
            "there are tokens; a length is digits alone, as --pack tokens:2",
        ),
        (["SOURCE", "--pack", "x"], "--pack x: expected lists of integers, found float"),
    ],
)
def test_command_says_in_one_line_what_it_can_not_pack_or_mix(
    documents: Path,
    sources: list[Path],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    given = [
        part.replace("DOCUMENTS", str(documents)).replace("SOURCE", str(sources[0])) for part in arguments
    ]
    assert cli.main(["bench", *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fastresume bench: ")
    assert said.count("\n") == 1
    assert reason in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--mix", "web/"], "expected PATH:WEIGHT with a weight above 0, found 'web/'"),
        (["--mix", "web/:0"], "expected PATH:WEIGHT with a weight above 0, found 'web/:0'"),
        (["web/", "--pack", "tokens:0"], "expected a whole number of at least 1, found '0'"),
    ],
)
def test_weights_and_lengths_that_are_none_are_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", *arguments])
    assert reason in capsys.readouterr().err
