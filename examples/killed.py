"""Kill `examples/train.py` again and again, and compare the end with that of a run which was never killed.

    python examples/killed.py --ranks 3 --kills 4

On the same number of ranks the weights are the same, bit for bit. On other numbers they and the losses of all
steps differ by rounding, and the audit says that every row was delivered exactly once. A run that is told to
end by SIGTERM says that it can go on.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import train
from torch import Tensor, distributed

import fastresume as fr
from fastresume import cli
from fastresume.checkpoint import Checkpointer

ACCUMULATE = 3
"""Micro-batches of a step: of the 40 of a pass, the last window has one."""

ROUNDING = 1e-4
"""By how much weights, and losses of a step, may differ on other numbers of ranks; seen were 1e-6."""

SECONDS = 120.0
"""What has not ended by then is taken to hang."""


class Job:
    """The lives of one job in a directory of its own, over data that lie elsewhere."""

    def __init__(self, directory: Path, data: Path, *arguments: str) -> None:
        directory.mkdir(parents=True)
        (directory / "data").symlink_to(data.absolute())
        self.directory = directory
        sizes = {"--global-batch": 108, "--accumulate": ACCUMULATE, "--save-every": 5, "--evaluate-every": 12}
        self.arguments = [str(directory), *(str(word) for pair in sizes.items() for word in pair), *arguments]
        self.lives = 0

    def live(self, world_size: int, kill_at: int | None = None, number: int = signal.SIGKILL) -> list[int]:
        """Run so many ranks, and return their exit codes; with a signal to all after so many steps."""
        self.lives += 1
        context = multiprocessing.get_context("fork")  # torch is imported once, not once for every rank
        place = (self.directory, self.lives, world_size, self.arguments)
        ranks = [context.Process(target=run_rank, args=(rank, *place)) for rank in range(world_size)]
        for process in ranks:
            process.start()
        try:
            if kill_at is not None:
                self._signal(ranks, kill_at, number)
            for process in ranks:
                process.join(SECONDS)
            codes = [process.exitcode for process in ranks]
        finally:
            for process in ranks:
                process.kill()
        if None in codes:
            raise TimeoutError(f"a rank hangs:\n{self.log()}")
        return [code for code in codes if code is not None]

    def _signal(self, ranks: list[BaseProcess], kill_at: int, number: int) -> None:
        end = time.monotonic() + SECONDS
        while self.log().count("step ") < kill_at and any(process.is_alive() for process in ranks):
            if time.monotonic() > end:
                raise TimeoutError(f"no step is made:\n{self.log()}")
            time.sleep(0.002)
        time.sleep(random.random() * 0.02)  # in the midst of a step, of a save, of a collective
        for process in random.sample(ranks, len(ranks)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid or 0, number)

    def kill_and_resume(self, worlds: Sequence[int], kills: int, chance: random.Random) -> int:
        """Kill it so many times, unless it ends before; let it come to its end; return how many it were."""
        for killed in range(kills):
            if not any(self.live(worlds[killed % len(worlds)], chance.randint(0, 12))):
                return killed
        if any(self.live(worlds[kills % len(worlds)])):
            raise RuntimeError(self.log())
        return kills

    def log(self, life: int | None = None) -> str:
        """Return what rank 0 has said in a life, or in the last one: nothing, where it was killed at once."""
        path = self.directory / f"{life or self.lives}-0.log"
        return path.read_text() if path.exists() else ""

    def losses(self) -> dict[int, list[float]]:
        """Return the losses of each step: one for each life that made it."""
        found: dict[int, list[float]] = {}
        for life in range(1, self.lives + 1):
            for step, loss in re.findall(r"step (\d+): loss (\S+)", self.log(life)):
                found.setdefault(int(step), []).append(float(loss))
        return found

    def weights(self) -> tuple[int, list[Tensor]]:
        """Return the last checkpoint's step, and the weights as one process gets them."""
        model = train.Recommender(0.0)
        with Checkpointer(self.directory / "checkpoints", accumulation=ACCUMULATE) as checkpointer:
            restored = checkpointer.restore(model=model, partial=True)
        return 0 if restored is None else restored.step, list(model.state_dict().values())


def run_rank(rank: int, directory: Path, life: int, world_size: int, arguments: list[str]) -> None:
    """Be one rank, which says what it says into a log."""
    with (directory / f"{life}-{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 2)
        sys.stdout = log
        torch.set_num_threads(1)
        os.environ["LOCAL_WORLD_SIZE"] = str(world_size)
        if world_size > 1:
            store = f"file://{directory.absolute()}/{life}-store"
            distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
        train.main(arguments)
        if world_size > 1:
            distributed.destroy_process_group()


def warm_up() -> None:
    """Have torch import the rest of itself: once, not once for every rank."""
    torch.optim.Adam([torch.zeros(1)])


def difference(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def difference_of_losses(found: dict[int, list[float]], wanted: dict[int, list[float]]) -> float:
    """Return by how much the losses of a step differ at most; infinity if they are not of the same steps."""
    if list(found) != list(wanted):
        return math.inf
    return max(abs(loss - wanted[step][0]) for step, losses in found.items() for loss in losses)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    warm_up()
    chance, ranks = random.Random(options.seed), options.ranks
    with tempfile.TemporaryDirectory(prefix="fastresume-killed-") as name:
        data = Path(name, "data")
        train.write_visits(data)
        whole = Job(Path(name, "whole"), data)
        whole.live(ranks)
        steps, wanted = whole.weights()
        last = whole.log().splitlines()[-1].partition(": ")[2]
        print(f"on {ranks} ranks, never killed: {steps} steps, {last}")

        job = Job(Path(name, "killed"), data)
        codes = job.live(ranks, 3, signal.SIGTERM)
        print(f"told to end by SIGTERM: exit codes {codes}, one checkpoint, after step {job.weights()[0]}")
        kills = job.kill_and_resume([ranks], options.kills, chance)
        found = difference(job.weights()[1], wanted)
        print(f"killed {kills} times: the weights " + ("differ" if found else "are the same, bit for bit"))

        # Dropout draws from each rank's generator; all else is the same at every number of ranks.
        whole, other = (Job(Path(name, kind), data, "--dropout", "0") for kind in ("whole-0", "killed-0"))
        whole.live(ranks)
        worlds = [4, 1, ranks, 2]
        kills = other.kill_and_resume(worlds, 3, chance)
        weights = difference(other.weights()[1], whole.weights()[1])
        losses = difference_of_losses(other.losses(), whole.losses())
        print(
            f"killed {kills} times, on {worlds[: kills + 1]} ranks: weights differ by at most {weights:.0e}, "
            f"losses of {steps} steps by {losses:.0e}"
        )
        is_proven = cli.main(["audit", str(other.directory / "audit")]) == 0
        is_told = set(codes) == {fr.training.RESUMABLE}
        return int(not (is_told and found == 0.0 and max(weights, losses) < ROUNDING and is_proven))


if __name__ == "__main__":
    sys.exit(main())
