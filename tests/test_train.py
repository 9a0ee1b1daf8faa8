"""`examples/train.py`, killed at random moments over one to four ranks: it ends as if it never had been.

A few kills here; FASTRESUME_PROFILE=soak makes a hundred.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint  # once, not once for each rank
from torch.distributed.fsdp import fully_shard  # noqa: F401  (the same)

import fastresume as fr
from audits import assert_proven
from fastresume.checkpoint import Checkpointer

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.law(3)]

ROOT = Path(__file__).parent.parent
SOAK = os.environ.get("FASTRESUME_PROFILE") == "soak"
SECONDS = 120.0
STEPS = 46
"""Of 45 global batches in each of two passes, in windows of two: the last window of a pass has one."""


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_example", ROOT / "examples/train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.optim.Adam([torch.zeros(1)])  # has torch import the rest of itself
    return module


@pytest.fixture(scope="module")
def data(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("visits") / "data"
    program.write_visits(directory)
    return directory


def run_rank(
    program: ModuleType, directory: Path, life: int, rank: int, world_size: int, arguments: list[str]
) -> None:
    with (directory / f"{life}-{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout = log  # pytest has put another one in its place
        torch.set_num_threads(1)
        os.environ["LOCAL_WORLD_SIZE"] = str(world_size)
        if world_size > 1:
            store = f"file://{directory}/{life}-store"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
        program.main(arguments)
        if world_size > 1:
            dist.destroy_process_group()


class Job:
    """The lives of one job in a directory of its own."""

    def __init__(self, program: ModuleType, directory: Path, data: Path, *arguments: str) -> None:
        directory.mkdir()
        (directory / "data").symlink_to(data)
        self.program, self.directory = program, directory
        self.arguments = [str(directory), "--global-batch", "96", "--save-every", "7", *arguments]
        self.lives = 0

    def live(self, world_size: int, kill_at: int | None = None, number: int = signal.SIGKILL) -> list[int]:
        """A life of so many ranks, and their exit codes; a signal to all of them at so many steps."""
        self.lives += 1
        context = multiprocessing.get_context("fork")
        ranks = [
            context.Process(
                target=run_rank,
                args=(self.program, self.directory, self.lives, rank, world_size, self.arguments),
            )
            for rank in range(world_size)
        ]
        for process in ranks:
            process.start()
        try:
            if kill_at is not None:
                self._signal(ranks, kill_at, number)
            for process in ranks:
                process.join(SECONDS)
            codes = [process.exitcode for process in ranks]
            assert None not in codes, "a rank hangs: " + self.log()
        finally:
            for process in ranks:
                process.kill()
        return [code for code in codes if code is not None]

    def _signal(self, ranks: list[BaseProcess], kill_at: int, number: int) -> None:
        end = time.monotonic() + SECONDS
        while self.log().count("step ") < kill_at and any(process.is_alive() for process in ranks):
            assert time.monotonic() < end, self.log()
            time.sleep(0.002)
        time.sleep(random.random() * 0.02)  # in the midst of a step, of a save, of a collective
        for process in random.sample(ranks, len(ranks)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid or 0, number)

    def log(self) -> str:
        path = self.directory / f"{self.lives}-0.log"
        return path.read_text() if path.exists() else ""

    def weights(self, dropout: float = 0.0) -> list[torch.Tensor]:
        """Of the last checkpoint, as one process gets them."""
        model = self.program.Recommender(dropout)
        with Checkpointer(self.directory / "checkpoints", accumulation=2) as checkpointer:
            restored = checkpointer.restore(model=model, partial=True)
        assert restored is not None
        assert restored.step == STEPS
        return [value.clone() for value in model.state_dict().values()]

    def losses(self) -> dict[int, float]:
        """The loss of each step on rank 0, as the last life that made it printed it."""
        found = {}
        for life in range(1, self.lives + 1):
            log = (self.directory / f"{life}-0.log").read_text()
            found |= {int(step): float(loss) for step, loss in re.findall(r"step (\d+): loss (\S+)", log)}
        return found


def kill_and_resume(job: Job, worlds: Sequence[int], kills: int, chance: random.Random) -> int:
    """Kill a job so many times, at most; let it come to its end; return how many kills it took."""
    for killed in range(kills):
        codes = job.live(worlds[killed % len(worlds)], chance.randint(0, 20))
        if not any(codes):
            return killed
    assert not any(job.live(worlds[kills % len(worlds)])), job.log()
    return kills


@pytest.mark.parametrize(
    ("worlds", "options"),
    [([1], []), ([2], ["--fsdp"]), ([3], []), ([4], [])] if SOAK else [([3], []), ([2], ["--fsdp"])],
)
def test_killed_again_and_again_it_ends_with_the_same_bits(
    program: ModuleType, data: Path, tmp_path: Path, worlds: list[int], options: list[str]
) -> None:
    golden = Job(program, tmp_path / "golden", data, *options)
    assert not any(golden.live(worlds[0])), golden.log()
    wanted = golden.weights()
    kills, chance = 0, random.Random(worlds[0])
    for number in range(5 if SOAK else 1):
        job = Job(program, tmp_path / f"killed-{number}", data, *options)
        kills += kill_and_resume(job, worlds, 4 if SOAK else 2, chance)
        found = job.weights()
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True)), job.log()
        assert_proven(job.directory / "audit", 2)
    print(f"{worlds[0]} ranks {options}: {kills} kills, the same bits")
    # The end is the end: neither the passes nor the steps begin anew.
    before = sorted((golden.directory / "checkpoints").iterdir())
    assert not any(golden.live(worlds[0]))
    assert golden.log() == ""
    assert sorted((golden.directory / "checkpoints").iterdir()) == before


def test_killed_and_resumed_on_other_ranks_it_ends_within_rounding(
    program: ModuleType, data: Path, tmp_path: Path
) -> None:
    golden = Job(program, tmp_path / "golden", data, "--dropout", "0")
    assert not any(golden.live(2)), golden.log()
    wanted, chance = golden.weights(), random.Random(5)
    for number in range(5 if SOAK else 1):
        job = Job(program, tmp_path / f"killed-{number}", data, "--dropout", "0")
        worlds = chance.sample([1, 2, 3, 4], 4) if SOAK else [4, 1, 3]
        kills = kill_and_resume(job, worlds, 4 if SOAK else 2, chance)
        assert_proven(job.directory / "audit", 2)
        for one, other in zip(job.weights(), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        print(f"ranks {worlds}: {kills} kills, within rounding")


def test_told_to_end_it_saves_once_and_max_steps_end_it_for_good(
    program: ModuleType, data: Path, tmp_path: Path
) -> None:
    job = Job(program, tmp_path / "job", data, "--max-steps", "12", "--save-every", "1000")
    assert job.live(2, 3, signal.SIGTERM) == [fr.training.RESUMABLE] * 2, job.log()
    made = len(job.losses())
    assert 3 <= made < 12
    saved = [path.name for path in (job.directory / "checkpoints").glob("step-*")]
    assert len(saved) == 1
    assert saved[0].startswith(f"step-{made:010}-")
    assert job.live(2) == [0, 0], job.log()
    assert list(job.losses()) == list(range(1, 13)), "each step once, and none after the last"
    assert (job.live(1), job.log()) == ([0], ""), "max_steps is reached"


def test_it_is_short_and_the_docs_show_where_it_is() -> None:
    source = (ROOT / "examples/train.py").read_text()
    assert len(source.splitlines()) <= 150
    assert "examples/train.py" in (ROOT / "docs/TRAINING.md").read_text()
    assert "examples/train.py" in (ROOT / "README.md").read_text()
