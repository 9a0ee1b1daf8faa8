"""`examples/train.py`, killed at random moments over one to four ranks: it ends as if it never had been.

A few kills here; FASTRESUME_PROFILE=soak makes a hundred.
"""

from __future__ import annotations

import random
import re
import signal
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint  # once, not once for each rank
from torch.distributed.fsdp import fully_shard  # noqa: F401  (the same)

import fastresume as fr
from support.audits import assert_proven

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import killed  # noqa: E402  (an example)
import train  # noqa: E402  (an example)
from killed import Job  # noqa: E402  (an example)

from support.profile import SOAK  # noqa: E402

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.law(3)]

STEPS = 28
"""Of 40 global batches in each of two passes, in windows of three: the last window of a pass has one."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    killed.warm_up()
    directory = tmp_path_factory.mktemp("visits") / "data"
    train.write_visits(directory)
    return directory


def weights_of(job: Job) -> list[torch.Tensor]:
    step, weights = job.weights()
    assert step == STEPS, job.log()
    return weights


@pytest.mark.parametrize(
    ("worlds", "options"),
    [([1], []), ([2], ["--fsdp"]), ([3], []), ([4], [])] if SOAK else [([2], ["--fsdp"])],
)
def test_killed_again_and_again_it_ends_with_the_same_bits(
    data: Path, tmp_path: Path, worlds: list[int], options: list[str]
) -> None:
    golden = Job(tmp_path / "golden", data, *options)
    assert not any(golden.live(worlds[0])), golden.log()
    wanted = weights_of(golden)
    kills, chance = 0, random.Random(worlds[0])
    for number in range(5 if SOAK else 1):
        job = Job(tmp_path / f"killed-{number}", data, *options)
        kills += job.kill_and_resume(worlds, 4 if SOAK else 1, chance)
        found = weights_of(job)
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True)), job.log()
        assert killed.difference_of_losses(job.losses(), golden.losses()) == 0.0
        assert_proven(job.directory / "audit", 2)
    print(f"{worlds[0]} ranks {options}: {kills} kills, the same bits")
    # The end is the end: neither the passes nor the steps begin anew.
    before = sorted((golden.directory / "checkpoints").iterdir())
    assert not any(golden.live(worlds[0]))
    assert golden.log() == ""
    assert sorted((golden.directory / "checkpoints").iterdir()) == before


@pytest.mark.skipif(
    not SOAK, reason="examples/killed.py does it once; FASTRESUME_PROFILE=soak, again and again"
)
def test_killed_and_resumed_on_other_ranks_it_ends_within_rounding(data: Path, tmp_path: Path) -> None:
    golden = Job(tmp_path / "golden", data, "--dropout", "0")
    assert not any(golden.live(2)), golden.log()
    wanted, losses, chance = weights_of(golden), golden.losses(), random.Random(5)
    assert list(losses) == list(range(1, STEPS + 1))
    for number in range(5 if SOAK else 1):
        job = Job(tmp_path / f"killed-{number}", data, "--dropout", "0")
        worlds = chance.sample([1, 2, 3, 4], 4) if SOAK else [4, 1, 2]
        kills = job.kill_and_resume(worlds, 4 if SOAK else 2, chance)
        assert_proven(job.directory / "audit", 2)
        apart = killed.difference(weights_of(job), wanted)
        told_apart = killed.difference_of_losses(job.losses(), losses)
        print(f"ranks {worlds}: {kills} kills, weights within {apart:.0e}, losses within {told_apart:.0e}")
        assert max(apart, told_apart) < killed.ROUNDING, job.losses()


@pytest.mark.slow
def test_the_example_that_kills_it_finds_the_same_bits_and_each_row_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # as the example does it, and for this test only
    assert killed.main(["--kills", "1"]) == 0
    said = capsys.readouterr().out
    assert f"on 3 ranks, never killed: {STEPS} steps, loss 0." in said
    assert "told to end by SIGTERM: exit codes [75, 75, 75], one checkpoint, after step " in said
    assert "the weights are the same, bit for bit" in said
    found = re.search(
        r"ranks: weights differ by at most (\S+), losses of 28 steps by (\S+)\n.*\n?PROVEN", said, re.DOTALL
    )
    assert found is not None, said
    assert all(float(one) < killed.ROUNDING for one in found.groups())
    assert "PROVEN: 2 finished passes, every row delivered exactly once" in said


def test_told_to_end_it_saves_once_and_max_steps_end_it_for_good(data: Path, tmp_path: Path) -> None:
    job = Job(tmp_path / "job", data, "--max-steps", "12", "--save-every", "1000")
    assert job.live(2, 3, signal.SIGTERM) == [fr.training.RESUMABLE] * 2, job.log()
    made = len(job.losses())
    assert 3 <= made < 12
    saved = [path.name for path in (job.directory / "checkpoints").glob("step-*")]
    assert len(saved) == 1
    assert saved[0].startswith(f"step-{made:010}-")
    assert job.live(2) == [0, 0], job.log()
    assert list(job.losses()) == list(range(1, 13)), "none after the last"
    assert all(len(lives) == 1 for lives in job.losses().values()), "each step once"
    assert (job.live(1), job.log()) == ([0], ""), "max_steps is reached"


def test_it_is_short_and_the_docs_show_where_it_is() -> None:
    source = (ROOT / "examples/train.py").read_text()
    assert len(source.splitlines()) <= 150
    assert "examples/train.py" in (ROOT / "docs/how-to/training.md").read_text()
    assert "examples/train.py" in (ROOT / "README.md").read_text()
