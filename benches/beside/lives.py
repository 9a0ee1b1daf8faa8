"""Lives of a job: its ranks as processes, which are killed or read to the end, and what they delivered."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from beside.job import Job

SECONDS = 600.0
"""After which a life is taken as hung."""


class LoaderError(Exception):
    """What a loader said when it was opened or read: it refused a state, failed without one, or hung."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


@dataclass(frozen=True)
class Life:
    """What the ranks of a job delivered, batch by batch, and the files of the states that they saved."""

    batches: tuple[tuple[tuple[int, ...], ...], ...]
    states: tuple[str, ...] = ()

    def until(self, number: int) -> Life:
        """Its first batches alone: those that are trained when a checkpoint is loaded."""
        return replace(self, batches=tuple(rank[:number] for rank in self.batches))

    def then(self, other: Life) -> list[int]:
        """The rows of both lives."""
        return [row for rank in (*self.batches, *other.batches) for batch in rank for row in batch]


@dataclass
class Crew:
    """The processes of one loader; `python` is the interpreter that has its package."""

    loader: str
    directory: Path
    python: str = sys.executable
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        environment = dict(os.environ) | {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "OMP_NUM_THREADS": "1",
        }
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            environment.pop(name, None)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log = (self.directory / "log.txt").open("w")
        self._process = subprocess.Popen(
            [self.python, "-m", "beside.crew", self.loader],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=self.directory,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def live(
        self,
        job: Job,
        states: Sequence[str] = (),
        *,
        save_after: int | None = None,
        stop_after: int | None = None,
    ) -> Life:
        """Read on all ranks: to the end, or until each has told `stop_after` batches; then kill them.

        Raises:
            LoaderError: what the first rank that failed said.
        """
        requests = [
            {
                "what": "read",
                "job": asdict(replace(job, rank=rank)),
                "states": list(states),
                "state": str(self.directory / f"state-{next(self._numbers)}"),
                "save_after": save_after,
                "stop_after": stop_after,
            }
            for rank in range(job.world_size)
        ]
        found = self.ask(requests, stop_after)
        batches = tuple(tuple(tuple(each["ids"]) for each in rank if "ids" in each) for rank in found)
        return Life(batches, tuple(each["state"] for each in requests) if save_after else ())

    def ask(
        self, requests: Sequence[Mapping[str, Any]], stop_after: int | None = None, seconds: float = SECONDS
    ) -> list[list[dict[str, Any]]]:
        """What a process for each request tells, until all have ended or have been killed."""
        assert self._process.stdin is not None
        found: list[list[dict[str, Any]]] = [[] for _ in requests]
        threads = []
        for request, answers in zip(requests, found, strict=True):
            pipe = self.directory / f"pipe-{next(self._numbers)}"
            os.mkfifo(pipe)
            whole = dict(request) | {"told": str(pipe), "loader": self.loader}
            threads.append(threading.Thread(target=_listen, args=(pipe, answers, stop_after), daemon=True))
            threads[-1].start()
            self._process.stdin.write(json.dumps(whole) + "\n")
        self._process.stdin.flush()
        for thread in threads:
            thread.join(seconds)
        hung = any(thread.is_alive() for thread in threads)
        for answers in found:
            if answers:
                _kill(answers[0]["pid"])
        for thread in threads:
            thread.join()
        for answers in found:
            if failed := next((each for each in answers if "error" in each), None):
                has_state = any(request.get("states") for request in requests)
                raise LoaderError(
                    "refused" if has_state else "failed", f"{failed['error']}: {failed['says']}"
                )
        if hung:
            raise LoaderError("hangs", f"nothing more in {seconds:.0f} seconds")
        return found


def _listen(pipe: Path, answers: list[dict[str, Any]], stop_after: int | None) -> None:
    batches = 0
    with pipe.open() as lines:
        for line in lines:
            answers.append(json.loads(line))
            batches += "ids" in answers[-1]
            if batches == stop_after or answers[-1].keys() & {"end", "error"}:
                return


def _kill(leader: int) -> None:
    """Kill a rank, and all worker processes that it started."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for the rows and states of a run."""
    return tempfile.TemporaryDirectory(prefix="fastresume-beside-")
