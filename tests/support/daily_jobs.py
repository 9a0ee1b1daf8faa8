"""A job that is started again each day, over files that are added each day, and killed on the way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.audits import assert_proven
from support.elastic import ElasticJob, Kill
from support.topologies import Shuffle, Topology

SHUFFLE = Shuffle(3, 20, 60)
A_DAY = 1 << 20
"""Steps between two states that are saved, so many that only the end of a day saves one."""


class DailyJob(ElasticJob):
    """The lives of such a job, drawn from a seed; each trains on what is new, once."""

    def __init__(self, directory: Path, seed: int, saves_every: int) -> None:
        super().__init__(directory, seed)
        self.saves_every = saves_every

    def write(self) -> None:
        """Begin with no day."""
        self.days = self.rows = 0

    def add_day(self) -> None:
        """Add a day's files, some of them without rows."""
        directory = self.directory / "data" / f"day={self.days:03}"
        directory.mkdir()
        for part in range(self.chance.randint(1, 3)):
            rows = 0 if part and self.chance.random() < 0.3 else self.chance.randint(1, 240)
            table = pa.table({"row": np.arange(self.rows, self.rows + rows)})
            pq.write_table(
                table, directory / f"part-{part}.parquet", row_group_size=self.chance.randint(5, 60)
            )
            self.rows += rows
        self.days += 1

    def arguments(self, topology: Topology) -> dict[str, Any]:
        return {**topology.arguments, **SHUFFLE.arguments, "tail": "pad", "on_change": "append"}

    def passes(self, kill: Kill | None) -> int:
        """The pass that all days are of, whoever ends it."""
        return 1

    def run_day(self, kills: int, ends: bool = True) -> None:
        """Add a day and train on it: lives that are killed, and one to the day's end if it `ends`."""
        self.add_day()
        for _ in range(kills):
            world_size = self.chance.randint(1, 4)
            self.live(world_size, self.kill_of(world_size))
        if ends:
            self.live(self.chance.randint(1, 4))
            assert (self.saved()["epoch"], self.saved()["dataset"]["rows"]) == (1, self.rows)

    def kept_rows(self) -> Counter[int]:
        """The valid rows that all ranks were given, up to the state that the next life began with."""
        kept: Counter[int] = Counter()
        logs = [
            [self.entries(name, rank) for rank in range(topology.world_size)] for name, topology in self.lives
        ]
        final = json.loads((self.directory / "state.json").read_text())
        saved = [log[0][0]["saved"] for log in logs] + [final]
        for log, began, left in zip(logs, saved[:-1], saved[1:], strict=True):
            if began == left:
                continue
            steps = 1 + [entry["state"] for entry in log[0][1:]].index(left)
            for entries in log:
                assert len(entries) > steps, "a state was saved that not all ranks had reached"
                for entry in entries[1 : steps + 1]:
                    assert entry["epoch"] == 0
                    kept.update(entry["rows"])
        return kept

    def assert_each_row_once(self) -> None:
        """Each row of all days was given once, in one pass: so the ranks' logs say, and the audit."""
        assert self.kept_rows() == Counter(range(self.rows))
        assert_proven(self.directory / "audit", 1)
