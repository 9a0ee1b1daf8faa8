"""Kill a job again and again, and count every row: `make soak ARGS='--kills 200'`.

With `--workers`, first the tests of worker processes, with every start method and up to 8 of them.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from strategies import plain_spec
from test_processes import run_and_kill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="at least so many kills in all")
    parser.add_argument("--kills-per-job", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workers", action="store_true", help="every start method, many workers, interruptions"
    )
    arguments = parser.parse_args()
    if arguments.workers:
        files = [f"tests/test_{name}.py" for name in ("crew", "dataloader", "dataloader_misuse", "parcel")]
        if status := pytest.main(["-q", "--timeout=900", *files]):
            raise SystemExit(status)
    chance = random.Random(arguments.seed)
    lost = twice = kills = jobs = 0
    while kills < arguments.kills:
        with tempfile.TemporaryDirectory(prefix="fastresume-soak-") as name:
            directory = Path(name)
            groups = [[chance.randint(0, 800) for _ in range(chance.randint(1, 4))] for _ in range(3)]
            (directory / "data").mkdir()
            data = plain_spec(*groups, [1]).write(directory / "data")
            kept = Counter(run_and_kill(data.directory, directory, arguments.kills_per_job, chance))
            lost += len(set(range(data.num_rows)) - set(kept))
            twice += sum(count - 1 for count in kept.values())
            kills += arguments.kills_per_job
            jobs += 1
            print(f"{jobs} jobs, at most {kills} kills: lost {lost}, twice {twice}", flush=True)
    raise SystemExit(lost + twice > 0)


if __name__ == "__main__":
    main()
