"""Kill jobs again and again, and count every row: `make soak ARGS='--kills 200 --seed 1'`.

First jobs of one process, then jobs of 1 to 8 ranks in a gloo group, of which one or all are killed and which
go on in other numbers, `--torchrun-kills` of them under torchrun. With `--workers`, before all that, the
tests of worker processes, with every start method and up to 8 of them. At the end `examples/train.py` is
killed a hundred times.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Before anything imports torch: its threads would fight with the ranks.
os.environ["OMP_NUM_THREADS"] = "1"

from support.elastic import WORLD_SIZES, ElasticJob
from support.killed_jobs import run_and_kill
from support.strategies import plain_spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="at least so many of jobs of one process")
    parser.add_argument("--kills-per-job", type=int, default=20)
    parser.add_argument("--rank-kills", type=int, default=160, help="at least so many of forked ranks")
    parser.add_argument("--torchrun-kills", type=int, default=40, help="at least so many under torchrun")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workers", action="store_true", help="every start method, many workers, interruptions"
    )
    arguments = parser.parse_args()
    if arguments.workers:
        names = ("workers", "worker_failures", "dataloader", "dataloader_misuse", "parcels")
        files = [f"tests/reading/test_{name}.py" for name in names]
        files.append("tests/robustness/test_worker_ends.py")
        if status := run_tests("-q", "--timeout=900", *files):
            raise SystemExit(status)
    failed = kill_processes(arguments.kills, arguments.kills_per_job, arguments.seed)
    failed += kill_ranks(arguments.rank_kills, arguments.kills_per_job, arguments.seed)
    failed += kill_under_torchrun(arguments.torchrun_kills, arguments.seed)
    failed += run_tests("-q", "-s", "--timeout=3600", "tests/training/test_train.py")
    raise SystemExit(failed > 0)


def run_tests(*arguments: str) -> int:
    """Run pytest in a process of its own, which imports what the tests use by itself; return its status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def kill_processes(wanted: int, kills_per_job: int, seed: int) -> int:
    """Kill jobs of one process; return how many rows were lost or came twice."""
    chance = random.Random(seed)
    lost = twice = kills = jobs = 0
    while kills < wanted:
        with tempfile.TemporaryDirectory(prefix="fastresume-soak-") as name:
            directory = Path(name)
            groups = [[chance.randint(0, 800) for _ in range(chance.randint(1, 4))] for _ in range(3)]
            (directory / "data").mkdir()
            data = plain_spec(*groups, [1]).write(directory / "data")
            kept = Counter(run_and_kill(data.directory, directory, kills_per_job, chance))
            lost += len(set(range(data.num_rows)) - set(kept))
            twice += sum(count - 1 for count in kept.values())
            kills += kills_per_job
            jobs += 1
            print(f"{jobs} jobs, at most {kills} kills: lost {lost}, twice {twice}", flush=True)
    return lost + twice


def kill_ranks(wanted: int, kills_per_job: int, seed: int) -> int:
    """Kill one rank or all of a forked group, again and again; return how many jobs failed."""
    tally = Tally("forked ranks")
    while tally.kills < wanted:
        seed += 1
        with tally.job(seed) as job:
            while job.kills < kills_per_job:
                world_size = job.chance.choice(WORLD_SIZES)
                job.live(world_size, job.kill_of(world_size), workers=True)
            job.live(3)  # the pass ends
    return tally.failed


def kill_under_torchrun(wanted: int, seed: int) -> int:
    """The same under torchrun, which starts the ranks again; every launch has another number of them."""
    tally = Tally("torchrun")
    while tally.kills < wanted:
        seed += 1
        with tally.job(seed) as job:
            for world_size in job.chance.sample(WORLD_SIZES, len(WORLD_SIZES)):
                job.launch(world_size, [job.kill_of(world_size) for _ in range(4)])
            job.live(3)  # the pass ends
    return tally.failed


class Tally:
    """What came of jobs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kills = self.jobs = self.failed = 0
        self.world_sizes: Counter[int] = Counter()

    @contextlib.contextmanager
    def job(self, seed: int) -> Iterator[ElasticJob]:
        """A job whose rows are counted when it is over."""
        directory = Path(tempfile.mkdtemp(prefix="fastresume-soak-"))
        job = ElasticJob(directory / "job", seed)
        try:
            yield job
            job.assert_each_row_once()
        except Exception:  # noqa: BLE001  (is told, and the next job begins)
            traceback.print_exc()
            print(f"seed {seed} failed; what there is of it: {directory}", flush=True)
            self.failed += 1
        else:
            shutil.rmtree(directory)
        self.kills += job.kills
        self.jobs += 1
        self.world_sizes.update(topology.world_size for _, topology in job.lives)
        sizes = ", ".join(f"{count} of {size}" for size, count in sorted(self.world_sizes.items()))
        print(
            f"{self.name}: {self.jobs} jobs up to seed {seed}, {self.kills} kills, lives by number of ranks: "
            f"{sizes}; failed: {self.failed}",
            flush=True,
        )


if __name__ == "__main__":
    main()
