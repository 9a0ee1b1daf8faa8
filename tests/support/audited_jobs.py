"""Audited jobs drawn from a seed, whose lives are killed; and faults that are planted in their logs."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from fastresume.audit.log_format import BATCH, CONTENT, LAST_BATCH, START, digest, key_of, state_hash
from support.audits import bodies, write_bodies
from support.documents import documents
from support.killed_ranks import Pipes, go, run_ranks
from support.rotten_pages import pages_of, rot, write_file

KINDS = (
    "rows",
    "growth",
    "damage",
    "packed",
    "bins",
    "mixture",
    "mixture growth",
    "mixture packed",
    "mixture damage",
)
NAMES = ("web", "code", "books")


class AuditedJob:
    """A job of some lives. Each begins with the newest state that was saved, every so many steps.

    Attributes:
        kind: what it reads.
        ends: whether its last life ends a pass.
        counting: the hashes of the states that led to what was saved, or to the end.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.data, self.logs, self._saved = directory / "data", directory / "logs", directory / "state.json"
        self.is_mixture = self.kind.startswith("mixture")
        self.names = NAMES[: chance.randint(2, 3)] if self.is_mixture else NAMES[:1]
        self._days = 0
        self._has_damage = "damage" in self.kind
        self._unit: Any = None
        if "packed" in self.kind:
            separator, rest = chance.choice((None, 7)), chance.choice(("drop", "pad"))
            self._unit = fr.Packed("tokens", length=chance.choice((6, 11)), separator=separator, rest=rest)
        elif self.kind == "bins":
            self._unit = fr.Bins("tokens", cost=chance.choice((9, 20)), rows=chance.choice((None, 3)))
        self._orders = {name: self._order() for name in self.names}
        self._tail = chance.choice(("drop", "short", "pad"))
        self._stages = self._drawn_stages()
        self.counting: set[int] = set()
        self._led_on: set[Path] = set()  # the logs of lives that others went on from
        self.state: Mapping[str, str] | None = None
        for name in self.names:
            self._add_file(name)
        self.ends = chance.random() < 0.6

    def _order(self) -> dict[str, Any]:
        if self.chance.random() < 0.4:
            return {}
        block = self.chance.randint(2, 8)
        return {
            "shuffle": True,
            "seed": self.chance.randint(0, 99),
            "block_rows": block,
            "window_rows": 3 * block,
        }

    def _drawn_stages(self) -> list[tuple[int, dict[str, int]]]:
        count = self.chance.choice((0, 0, 1, 2)) if self.is_mixture else 0
        return [(self.chance.randint(12, 50), self._weights()) for _ in range(count)]

    def _weights(self) -> dict[str, int]:
        names = self.chance.sample(self.names, self.chance.randint(1, len(self.names)))
        return {name: self.chance.randint(1, 3) for name in names}

    def _add_file(self, name: str) -> None:
        """Add a file behind those that are there."""
        path = self.data / name / f"day={self._days:02}" / f"{name}.parquet"  # else sources may be alike
        path.parent.mkdir(parents=True)
        self._days += 1
        if self._has_damage:
            write_file(path, "1.0", has_index=False)
            for page in self.chance.sample(
                [p for p in pages_of(path, "1.0", has_index=False) if p.column == "x"], 2
            ):
                rot(path, page)
            return
        found = documents(self.chance.randint(0, 999), self.chance.randint(8, 70), 12)
        tokens = pa.array(found, pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": tokens}), path, row_group_size=self.chance.randint(3, 20))

    # ------------------------------------------------------------------------------------------- its lives

    def _source(self, name: str, **how: Any) -> fr.ParquetDataset:
        how |= (
            {"bad_rows": "mask", "max_bad_rows": 1.0, "columns": ["x"]}
            if self._has_damage
            else {"nulls": "mask"}
        )
        how |= {} if self._unit is None else {"unit": self._unit}
        return fr.ParquetDataset(self.data / name, on_change="append", **self._orders[name], **how)

    def _drawn_life(self) -> Callable[[int], fr.Loader]:
        """What makes the loader of a rank of the next life."""
        chance, world_size = self.chance, self.world_size
        lanes = chance.choice((None, None, world_size, 2 * world_size))
        rows = chance.choice((2, 4)) if lanes == 2 * world_size else chance.randint(1, 5)
        how = {"batch_size": rows, "lanes": lanes, "world_size": world_size, "tail": self._tail}
        if chance.random() < 0.1:
            how["tail"] = self._tail = chance.choice(("drop", "short", "pad"))
        weights = self._weights()
        stop = chance.choice(("first", "all", 40))

        def make(rank: int) -> fr.Loader:
            if self.is_mixture:
                # A state none of whose sources is there is refused.
                named = dict.fromkeys([NAMES[0], *weights, *(name for _, of in self._stages for name in of)])
                sources = {name: (self._source(name), weights.get(name, 1)) for name in named}
                # One that is left out while a new one comes is let go.
                gone = {name: None for name in self.names if name not in named}
                made: Any = fr.Mixture(
                    sources, stages=self._stages, stop=stop, renamed=gone or None, rank=rank, **how
                )
            else:
                made = self._source(NAMES[0], rank=rank, **how)
            if self.state is not None:
                made.load_state_dict(self.state)
            return fr.Loader(made, threads=0, audit=self.logs)

        if _gives_no_batch(make):
            how["tail"] = self._tail = "pad"
        return make

    def live(self) -> None:
        """All lives: at the end of each, some ranks have delivered a batch more than others."""
        for _ in range(self.chance.randint(0, 4)):
            self._live(self.chance.randint(1, 15))
            if "growth" in self.kind and self.chance.random() < 0.7:
                for name in self.names:
                    if self.chance.random() < 0.6:
                        self._add_file(name)
        self._live(None if self.ends else self.chance.randint(1, 12), is_last=True)

    def _live(self, steps: int | None, is_last: bool = False) -> None:
        self._led_on = set(self.logs.glob("rank-*.log"))
        chance, self.world_size = self.chance, self.chance.randint(1, 3)
        every = 1 if is_last else chance.choice((1, 2, 3, 5))
        make = self._drawn_life()
        loaders = [make(rank) for rank in range(self.world_size)]
        iterators = [iter(loader) for loader in loaders]
        done, reached = 0, list[int]()
        while done != steps:
            batches = [next(iterator, None) for iterator in iterators]
            after = loaders[0].state_dict()
            assert all((batch is None) == (batches[0] is None) for batch in batches)
            reached.append(state_hash(after["fastresume"]))
            if batches[0] is not None:
                done += 1
            if batches[0] is None or loaders[0].epoch != batches[0].epoch:
                iterators = [iter(loader) for loader in loaders]
                if steps is None:
                    self._keep(after, reached)
                    return
            if done % every == 0:
                self._keep(after, reached)
        for iterator in chance.sample(iterators, chance.randint(0, self.world_size)):
            next(iterator, None)

    def _keep(self, state: Mapping[str, str], reached: list[int]) -> None:
        self.state = json.loads(json.dumps(state))
        self.counting.update(reached)
        reached.clear()

    def live_as_processes(self) -> None:
        """Lives of processes that are killed with SIGKILL some time after so many steps."""
        self.ends = False
        for _ in range(self.chance.randint(1, 3)):
            self.world_size = self.chance.randint(1, 3)
            self.state = json.loads(self._saved.read_text()) if self._saved.exists() else None
            make = self._drawn_life()
            work = partial(_rank_process, make, self._saved)
            run_ranks(work, self.world_size, self.chance.randint(1, 12), self.chance.uniform(0, 0.003))

    # ------------------------------------------------------------------------------------ faults in its logs

    def faults(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Faults that can be planted in its logs, each with its name; an undelivered end is no fault."""
        batches, effective = list(self._batches()), self._effective()
        if batches:
            yield "another row", partial(self._other_rows, self.chance.choice(batches))
            if self.is_mixture:
                yield "a source swapped", partial(self._other_source, self.chance.choice(batches))
        held = [
            (path, at) for path, found in self._logs() for at, body in enumerate(found) if body[0] == CONTENT
        ]
        if held:
            yield "another content", partial(self._other_content, *self.chance.choice(held))
        if effective:
            path, at = self.chance.choice(effective)
            yield "a batch less", partial(self._without, path, at)
            yield "a batch twice", partial(self._twice, path, at)
        led_on = [place for place in effective if place[0] in self._led_on]
        if led_on:
            path, at = self.chance.choice(led_on)
            yield "a log cut", partial(self._cut, path, at)
            yield "a log lost", path.unlink

    def _logs(self) -> list[tuple[Path, list[bytes]]]:
        return [(path, bodies(path)) for path in sorted(self.logs.glob("rank-*.log"))]

    def _batches(self) -> Iterator[tuple[Path, int]]:
        """The batches with rows, wherever they led."""
        for path, found in self._logs():
            for at, body in enumerate(found):
                if body[0] in (BATCH, LAST_BATCH) and body[9:17] != bytes(8):
                    yield path, at

    def _effective(self) -> list[tuple[Path, int]]:
        """The batches without which a state that counts can't be reached, but for the last ones of all."""
        ways: dict[int, set[object]] = {}
        found: list[tuple[Path, int, int, bytes]] = []
        for path, records in self._logs():
            start: dict[str, Any] = {}
            before = 0
            for at, body in enumerate(records):
                if body[0] == START:
                    start = json.loads(body[1:])
                    before = state_hash(start["cursor"])
                elif body[0] in (BATCH, LAST_BATCH):
                    after = struct.unpack_from("<Q", body, 1)[0]
                    ways.setdefault(after, set()).add(
                        (before, start["world_size"], tuple(start["cut"]), start["tail"])
                    )
                    found.append((path, at, after, body))
                    before = after
        times: dict[tuple[str, bytes], int] = {}
        for path, _, _, body in found:
            key = path.name[:10], body
            times[key] = times.get(key, 0) + 1
        last = state_hash((self.state or {}).get("fastresume", ""))
        return [
            (path, at)
            for path, at, after, body in found
            if after in self.counting
            and after != last
            and len(ways[after]) == 1
            and times[path.name[:10], body] == 1
        ]

    def _change(self, path: Path, at: int, first: int, change: int) -> None:
        found = bodies(path)
        (message,) = struct.unpack_from("<Q", found[at], first)
        packed = struct.pack("<Q", (message + change) % (1 << 64))
        found[at] = found[at][:first] + packed + found[at][first + 8 :]
        write_bodies(path, found)

    def _other_rows(self, place: tuple[Path, int]) -> None:
        key = key_of(self.names[0]) if self.is_mixture else 0
        one, other = (digest(np.array([row]), key) for row in self.chance.sample(range(50), 2))
        self._change(*place, 9, one - other)

    def _other_source(self, place: tuple[Path, int]) -> None:
        keys = map(key_of, self.names[:2])
        one, other = (digest(np.array([self.chance.randint(0, 9)]), key) for key in keys)
        self._change(*place, 9, one - other)

    def _other_content(self, path: Path, at: int) -> None:
        self._change(path, at, 1, self.chance.getrandbits(63) + 1)

    def _without(self, path: Path, at: int) -> None:
        found = bodies(path)
        write_bodies(path, found[:at] + found[at + 1 :])

    def _twice(self, path: Path, at: int) -> None:
        found = bodies(path)
        write_bodies(path, found[: at + 1] + found[at:])

    def _cut(self, path: Path, at: int) -> None:
        write_bodies(path, bodies(path)[:at])


def _gives_no_batch(make: Callable[[int], fr.Loader]) -> bool:
    """Whether a life is refused, as there are too few rows, or units, for a batch on each rank."""
    try:
        make(0)
    except ValueError as error:
        if "no batch would come" not in str(error):
            raise
        return True
    return False


def _rank_process(make: Callable[[int], fr.Loader], saved: Path, rank: int, pipes: Pipes) -> None:
    go(make(rank), saved, rank, pipes, passes=99)
