"""A job of real ranks in a gloo group: killed again and again, it goes on with other ranks.

Every rank logs what it is handed, and rank 0 saves the state of a step that all ranks have done. What came of
it is judged twice: by the audit, from the delivery logs, and here by the oracle, from the ranks' own logs.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from support import rank
from support.audits import assert_proven
from support.jobs import Ledger, fields_of, oracle_job
from support.oracle import group_rows_of
from support.rank import forked
from support.strategies import plain_spec
from support.topologies import Shuffle, Topology

SHUFFLE = Shuffle(3, 50, 150)
WORLD_SIZES = (1, 2, 3, 4, 8)
TAILS = ("drop", "pad", "short")
ENDLESS = 1 << 20
SECONDS = 120
"""How long anything may take before it counts as hanging."""

LAUNCH = {
    "GLOO_SOCKET_IFNAME": "lo",
    # Else gloo finds the addresses of the dead in the store that torchrun shares (pytorch issue 135712).
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


@dataclass(frozen=True)
class Kill:
    """Who is killed, when rank 0 has logged so many batches; who lags has one batch less by then."""

    victims: tuple[int, ...]
    steps: int
    lag: bool = False


class ElasticJob:
    """The lives of a job in one directory, drawn from a seed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.chance = random.Random(seed)
        (directory / "data").mkdir(parents=True)
        (directory / "lives").mkdir()
        self.lives: list[tuple[str, Topology]] = []
        self.kills = 0
        self.saves_every = 1
        self.write()

    def write(self) -> None:
        """The data of the job."""
        self.data = plain_spec([200, 0, 400], [350], [253]).write(self.directory / "data")

    def topology(self, world_size: int, workers: bool = False) -> Topology:
        """How a life of so many ranks reads."""
        chance = self.chance
        if chance.random() < 0.3:
            return Topology(world_size, 0, 24 // world_size, lanes=24, tail=chance.choice(TAILS))
        count = chance.randint(1, 2) if workers and world_size <= 3 else 0
        return Topology(world_size, count, chance.randint(1, 24 // world_size), tail=chance.choice(TAILS))

    def arguments(self, topology: Topology) -> dict[str, Any]:
        return {**topology.arguments, **SHUFFLE.arguments}

    def kill_of(self, world_size: int) -> Kill:
        everyone = tuple(range(world_size))
        victims = everyone if self.chance.random() < 0.4 else (self.chance.choice(everyone),)
        return Kill(victims, self.chance.randint(0, 8))

    def passes(self, kill: Kill | None) -> int:
        """The passes that a life is to end: the present one, or more than it can if it is to be killed."""
        return self.passes_begun if kill is None else ENDLESS

    @property
    def passes_begun(self) -> int:
        """The passes up to the one that the saved state is in."""
        return 1 + int(self.saved()["epoch"]) if (self.directory / "state.json").exists() else 1

    def saved(self) -> dict[str, Any]:
        """The parsed state that was saved last."""
        return fields_of(json.loads((self.directory / "state.json").read_text()))

    def begin(self, topology: Topology) -> str:
        name = f"{len(self.lives):04}"
        self.lives.append((name, topology))
        return name

    def live(self, world_size: int, kill: Kill | None = None, workers: bool = False) -> None:
        """A life of forked ranks, until some of them are killed, or else to the end of the present pass."""
        topology = self.topology(world_size, workers)
        name = self.begin(topology)
        context = multiprocessing.get_context("fork")
        stops = dict.fromkeys(kill.victims, kill.steps - 1) if kill is not None and kill.lag else {}
        common = self.arguments(topology), topology.workers, self.passes(kill)
        ranks = [
            context.Process(
                target=forked,
                args=(self.directory, name, (k, world_size), *common, stops.get(k), self.saves_every),
            )
            for k in range(world_size)
        ]
        for each in ranks:
            each.start()
        try:
            if kill is not None and self.reaches(name, kill.steps, ranks):
                for victim in kill.victims:
                    os.kill(ranks[victim].pid or 0, signal.SIGKILL)
                self.kills += 1
                for k in set(range(world_size)) - set(kill.victims) if kill.lag else ():
                    ranks[k].join(SECONDS)  # what a rank does that is ahead, it has done then
                    assert ranks[k].exitcode is not None, self.said()
            else:
                for each in ranks:
                    each.join(SECONDS)
                assert [each.exitcode for each in ranks] == [0] * world_size, self.said()
        finally:
            for each in ranks:  # as a launcher does: who lost a peer can't go on
                each.kill()
                each.join()

    def launch(self, world_size: int, kills: Sequence[Kill], program: bool = True) -> None:
        """Lives of ranks under torchrun, which starts all again after each kill; the last one ends a pass.

        Without `program` its agent runs in a fork, and forks the ranks: nobody has to import torch.
        """
        topology = self.topology(world_size)
        launch = f"{len(self.lives):04}"
        arguments = [str(self.directory), launch, json.dumps(self.arguments(topology))]
        arguments.append(str(self.passes_begun + 1))
        torchrun = (self.program if program else self.agent)(world_size, len(kills), arguments)
        try:
            for restart, kill in enumerate([*kills, None]):
                name = f"{launch}.{restart}"
                self.lives.append((name, topology))
                if kill is None or not self.reaches(name, kill.steps, [torchrun]):
                    break
                for process in [self.entries(name, victim)[0]["process"] for victim in kill.victims]:
                    os.kill(process, signal.SIGKILL)
                self.kills += 1
            assert ended(torchrun) == 0, self.said()
        finally:
            torchrun.terminate()  # it ends the ranks
            ended(torchrun)

    def program(self, world_size: int, restarts: int, arguments: list[str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world_size)]
        command += ["--max-restarts", str(restarts), "--rdzv-backend", "c10d", "--monitor-interval", "0.1"]
        command += ["--rdzv-endpoint", "127.0.0.1:0", rank.__file__, *arguments]
        environment = {**os.environ, **LAUNCH, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (self.directory / "ranks.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def agent(self, world_size: int, restarts: int, arguments: list[str]) -> BaseProcess:
        how = str(self.directory), world_size, restarts, LAUNCH, arguments
        process = multiprocessing.get_context("fork").Process(target=rank.agent, args=how)
        process.start()
        return process

    def said(self) -> str:
        """The end of what the ranks wrote to their standard error."""
        return (self.directory / "ranks.log").read_text(errors="replace")[-3000:]

    def reaches(self, name: str, steps: int, processes: Sequence[Any]) -> bool:
        """Wait until every rank is there and rank 0 has logged so many batches; False if it ended."""
        end = time.monotonic() + SECONDS
        world_size = self.lives[-1][1].world_size
        while time.monotonic() < end:
            logged = [len(self.entries(name, k)) for k in range(world_size)]
            if min(logged) > 0 and logged[0] > steps:
                return True
            if any(has_ended(process) for process in processes):
                return False
            time.sleep(0.002)
        raise AssertionError(f"life {name} of {self.lives[-1][1]} hangs: batches {logged}")

    def entries(self, name: str, rank: int) -> list[dict[str, Any]]:
        """What a rank has logged; a last line that was cut off does not count."""
        path = self.directory / "lives" / f"{name}-{rank}.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]]

    # ------------------------------------------------------------------------------------------- the judges

    def assert_each_row_once(self) -> None:
        """Law 3, by both judges, once a pass has ended; the oracle's knows nothing of the audit's logs."""
        assert_proven(self.directory / "audit", self.passes_begun - 1)
        self.assert_as_the_oracle_says()

    def assert_as_the_oracle_says(self) -> None:
        rows, groups = self.data.num_rows, group_rows_of(self.data.directory)
        logs = [[self.entries(name, k) for k in range(topology.world_size)] for name, topology in self.lives]
        alive = [
            (topology, log) for (_, topology), log in zip(self.lives, logs, strict=True) if any(map(len, log))
        ]
        headers = [entries[0] for log in logs for entries in log if entries]
        assert all(entry["saved"] in (None, entry["state"]) for entry in headers), (
            "a state was not gone on from"
        )
        starts = [next(entries[0]["state"] for entries in log if entries) for _, log in alive]
        fingerprint = json.loads(starts[0]["fastresume"])["dataset"]["fingerprint"]
        ledger = Ledger(rows)
        final = json.loads((self.directory / "state.json").read_text())
        for number, (topology, log) in enumerate(alive):
            job = oracle_job(rows, topology, fingerprint, SHUFFLE, groups)
            job.load(starts[number]["fastresume"])
            assert all(entries[0]["state"] == starts[number] for entries in log if entries)
            later = starts[number + 1] if number + 1 < len(alive) else final
            steps = max(len(entries) for entries in log) - 1
            is_kept = json.loads(later["fastresume"]) != json.loads(starts[number]["fastresume"])
            for step in range(1, steps + 1):
                epoch, done = job.epoch, job.steps_done
                while (expected := job.step()) is None:  # a rest that makes no batch
                    if is_kept:
                        ledger.assert_exactly_once(epoch, job.dropped[epoch])
                    epoch, done = job.epoch, job.steps_done
                marks = job.valid or []
                counted = [
                    [row for row, valid in zip(*of_rank, strict=True) if valid]
                    for of_rank in zip(expected, marks, strict=True)
                ]
                there = {k: entries[step] for k, entries in enumerate(log) if len(entries) > step}
                for k, entry in there.items():
                    assert entry["rows"] == counted[k], (number, step, k)
                    assert (entry["epoch"], entry["step"]) == (epoch, done)
                    assert entry["state"]["fastresume"] == job.state()
                if not is_kept:
                    continue
                assert len(there) == topology.world_size, "a state was saved that not all ranks had reached"
                ledger.add(epoch, [row for of_rank in counted for row in of_rank])
                if job.epoch != epoch:
                    ledger.assert_exactly_once(epoch, job.dropped[epoch])
                is_kept = job.state() != later["fastresume"]
            assert not is_kept, f"life {number + 1} goes on from a state that life {number} never had"
        assert self.saved()["cuts"] == []
        assert sorted(ledger.passes) == list(range(self.passes_begun - 1))


def has_ended(process: BaseProcess | subprocess.Popen[bytes]) -> bool:
    code = process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
    return code is not None


def ended(process: BaseProcess | subprocess.Popen[bytes]) -> int | None:
    """The exit status of a process, for which this waits."""
    if isinstance(process, subprocess.Popen):
        return process.wait(SECONDS)
    process.join(SECONDS)
    return process.exitcode
