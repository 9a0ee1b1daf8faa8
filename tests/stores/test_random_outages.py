"""Passes over a store that is away for up to a minute and a half: each has its rows, and none ends early."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import fastresume as fr
from support.fault_proxy import Proxy
from support.object_server import S3Server

PASSES = int(os.environ.get("FASTRESUME_OUTAGE_PASSES", "16"))
AT_A_TIME = 16
"""So many processes read side by side: each one waits most of the time."""
AWAY_SECONDS = (1.0, 90.0)
KINDS = ("503", "reset", "silent")


class Away(Proxy):
    """Is away from one of its requests on, for some time."""

    def __init__(self, port: int, drawn: random.Random) -> None:
        super().__init__(port)
        self.kind, self.seconds = drawn.choice(KINDS), drawn.uniform(*AWAY_SECONDS)
        self.first, self.asked = drawn.randrange(2, 30), 0
        self.until: float | None = None
        self.lock = threading.Lock()

    def fault(self) -> str | None:
        with self.lock:
            self.asked += 1
            if self.until is None and self.asked >= self.first:
                self.until = time.monotonic() + self.seconds
        left = (self.until or 0.0) - time.monotonic()
        if left <= 0:
            return None
        if self.kind == "silent":
            time.sleep(left)
            return "reset"
        return self.kind


def _passed(server: S3Server, address: str, expected: list[int], drawn: random.Random) -> str:
    """What became of one pass."""
    proxy = Away(server.port, drawn)
    serving = threading.Thread(target=proxy.serve_forever, daemon=True)
    serving.start()
    got: list[int] = []
    try:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        how = {"shuffle": True, "seed": 3, "read_bytes": drawn.choice([1, 1 << 28])}
        dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options, **how)
        with fr.Loader(dataset, threads=drawn.choice([0, 2])) as loader:
            got.extend(row for batch in loader for row in batch["id"].tolist())
    except fr.FastresumeError as error:
        right = "right" if got == expected[: len(got)] else "wrong"
        return f"ended after {len(got)} {right} rows, away {proxy.seconds:.0f} s, {proxy.kind}: {error}"
    finally:
        proxy.shutdown()
        proxy.server_close()
    if got != expected:
        return f"wrong: {len(got)} rows"
    return f"whole, {proxy.kind}" if proxy.until else "whole, nobody was away"


@pytest.mark.slow(reason="each pass waits for up to a minute and a half")
@pytest.mark.processes
@pytest.mark.timeout(3600)
def test_no_pass_ends_while_its_store_is_away(
    server: S3Server, tree: Path, address: str, tmp_path: Path
) -> None:
    how = {"shuffle": True, "seed": 3}
    expected = [
        row for batch in fr.ParquetDataset(tree, batch_size=64, **how) for row in batch["id"].tolist()
    ]
    children = []
    for number in range(min(AT_A_TIME, PASSES)):
        child = os.fork()
        if child == 0:
            try:
                with (tmp_path / f"{number}").open("w") as found:
                    for index in range(number, PASSES, AT_A_TIME):
                        print(
                            _passed(server, address, expected, random.Random(index)), file=found, flush=True
                        )
                os._exit(0)
            except BaseException as error:  # noqa: BLE001  (told to the parent by the status)
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        children.append(child)
    assert {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children} == {0}
    outcomes = Counter(line for path in tmp_path.iterdir() for line in path.read_text().splitlines())
    print(dict(outcomes))
    assert sum(outcomes.values()) == PASSES
    assert {outcome for outcome in outcomes if not outcome.startswith("whole")} == set()
    assert outcomes["whole, nobody was away"] < PASSES / 2
