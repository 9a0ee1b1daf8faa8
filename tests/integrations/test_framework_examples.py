"""Each example of a framework is killed with SIGKILL in mid pass and run again: rows are the oracle's."""

from __future__ import annotations

import importlib
import random
from pathlib import Path

import pytest

from support.profile import SOAK
from support.rehearsal import expected_steps, program, run, write_data
from support.topologies import Topology

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.law(3)]

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"with_ray", "with_torchtitan"}
"""Examples of frameworks that tests of their own kill, as these want more: at most 60 lines."""
EXAMPLES = sorted({path.stem for path in (ROOT / "examples").glob("with_*.py")} - ELSEWHERE)
ROWS = 2605  # five steps of 512 rows and a rest

IMPORTED = {
    "with_torchdata": "torchdata.stateful_dataloader",
    "with_lightning": "lightning.pytorch",
    "with_accelerate": "accelerate",
    "with_transformers": "transformers.trainer",
}

LIVES = {
    "quickstart": (1, 1),
    "with_ddp": (2, 1),
    "with_fsdp2": (1, 2),
    "with_torchdata": (1, 1),
    "with_lightning": (1, 1),
    "with_accelerate": (2, 2),
    "with_transformers": (1, 1),
}
"""On how many ranks an example is killed, and on how many it is run again."""

LAUNCHED = {"with_ddp", "with_fsdp2", "with_accelerate"}
"""Those that are started by torchrun, also on one rank."""


def test_every_example_is_here_and_short() -> None:
    assert sorted(LIVES) == sorted([*EXAMPLES, "quickstart"])
    for name in LIVES:
        lines = (ROOT / "examples" / f"{name}.py").read_text().splitlines()
        assert len(lines) <= (48 if name == "quickstart" else 30), name  # that one makes its own data
        if name != "quickstart":
            assert f"examples/{name}.py" in (ROOT / "docs/reference/frameworks.md").read_text()
    for name in ELSEWHERE:
        assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 60, name


@pytest.mark.parametrize("job", range(5 if SOAK else 1))
@pytest.mark.parametrize("name", LIVES)
def test_an_example_that_is_killed_goes_on_after_the_last_step_it_saved(
    name: str, job: int, tmp_path: Path
) -> None:
    if name in IMPORTED:
        importlib.import_module(IMPORTED[name])  # once, before the forks
    chance = random.Random(f"{name} {job}")
    kills = [chance.randint(0, 3) for _ in range(4)] if SOAK else [3]  # of 15 steps in all
    write_data(tmp_path, ROWS)
    workers = 2 if name == "with_torchdata" else 0
    before, after = LIVES[name]
    found, legs = [], []
    for number, kill_at in enumerate([*kills, None]):
        world_size = before if number % 2 == 0 and kill_at is not None else after
        legs.append((Topology(world_size, workers, 512 // world_size), kill_at))
        work = program(ROOT / "examples" / f"{name}.py")
        found.append(run(work, tmp_path, world_size, kill_at, is_launched=name in LAUNCHED))
    expected = expected_steps(tmp_path, legs, epochs=3)
    for life, (steps, right) in enumerate(zip(found, expected, strict=True)):
        # Other ranks may have begun the step in which one was killed.
        kept = None if legs[life][1] is None else legs[life][1]
        assert [of_rank[:kept] for of_rank in steps] == right, f"life {life}"
