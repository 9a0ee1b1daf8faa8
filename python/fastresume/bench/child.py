"""The work of one process for one contender: a check, passes, states, or resumes."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import multiprocessing
import resource
import time
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from fastresume.bench.checksum import Checksum, difference
from fastresume.bench.contenders import named
from fastresume.bench.delivered import cells_by_name, num_rows, tokens_of
from fastresume.bench.drawn import Drawn
from fastresume.bench.reading import STATE, Contender, Reading
from fastresume.bench.rivals import skipped
from fastresume.bench.task import Task
from fastresume.platform import peak_bytes, private_bytes, reset_peak, resident_bytes

WARM_SECONDS = 1.0
"""The seconds that a contender reads before it is measured: code is loaded, threads start, memory is
allocated."""


def work(request: Mapping[str, Any]) -> object:
    """The answer to the request, as JSON can hold it."""
    warnings.simplefilter("ignore")  # Arrow's memory is read-only, about which torch warns
    torch.set_num_threads(1)
    task = Task.from_json(request["task"])
    contender = named(request["contender"], task.job)
    for module in (*contender.needs, *contender.imports):
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            importlib.import_module(module)
    match request["what"]:
        case "check":
            return check(task, contender)
        case "pass":
            return passes(task, contender, request["seconds"])
        case "states":
            return keep_states(task, contender, request["places"], request["path"])
        case _:
            return resumes(task, contender, request["places"], request["path"])


def check(task: Task, contender: Contender) -> object:
    """The checksum of all delivered rows, or tokens; of a mixture which rows they are."""
    found = Drawn(task) if task.job == "mix" else Checksum(task.names)
    for batch in contender.open(task, None).batches:
        if task.job == "pack":
            tokens = tokens_of(batch, task)
            found.add(len(tokens.values), {task.names[0]: tokens})
        else:
            found.add(num_rows(batch), cells_by_name(batch, task))
    return found.to_json()


def passes(task: Task, contender: Contender, seconds: float) -> object:
    """Rows, wall clock and CPU time of complete passes for at least `seconds`, and their peak memory."""
    gc.collect()
    resident = resident_bytes()
    reset_peak()
    worker_bytes = _warm_up(contender.open(task, None))
    gc.collect()
    rows = number = 0
    cpu, began = _cpu_seconds(), time.perf_counter()
    while number == 0 or time.perf_counter() - began < seconds:
        rows += _read(contender.open(task, None))
        number += 1
    elapsed, cpu = time.perf_counter() - began, _cpu_seconds() - cpu
    peak = peak_bytes()
    return {
        "passes": number,
        # Of sequences the check has shown that each pass has all tokens: to count them would take time.
        "rows": number * task.num_rows if task.job == "pack" else rows,
        "seconds": elapsed,
        "cpu_seconds": cpu,
        "peak_bytes": peak + worker_bytes,
        "peak_bytes_above_imports": peak - resident + worker_bytes,
    }


def _warm_up(reading: Reading) -> int:
    """Read for a while; return the most memory that worker processes had for themselves."""
    most, began = 0, time.perf_counter()
    for _ in reading.batches:
        most = max(most, sum(private_bytes(worker.pid) for worker in multiprocessing.active_children()))
        if time.perf_counter() - began > WARM_SECONDS:
            break
    return most


def _read(reading: Reading) -> int:
    """Read to the end; return the number of rows. Worker processes end with it."""
    return sum(map(num_rows, reading.batches))


def keep_states(task: Task, contender: Contender, places: list[int], path: str) -> object:
    """Save the state at each place (percent of the rows), with the checksum of the batch that comes next.

    Return the number of rows before each state.
    """
    reading = contender.open(task, None)
    # For each place: the rows before it, the state, and the checksum of the batch after it.
    kept: dict[int, tuple[int, object, object]] = {}
    rows, state, due = 0, None, [place for place in places if place <= 0]
    for batch in reading.batches:
        if due:
            kept |= dict.fromkeys(due, (rows, state, _sum_of(batch, task)))
        rows += num_rows(batch)
        due = [place for place in places if place not in kept and place * task.num_rows <= rows * 100]
        state = reading.state() if due and reading.state is not None else None
    # If no batch comes after a place, the last state that was kept is resumed from.
    if missing := [place for place in places if place not in kept]:
        latest = max(kept.values(), key=lambda one: one[0], default=(0, None, None))
        kept |= dict.fromkeys(missing, latest)
    torch.save({place: (state, following) for place, (_, state, following) in kept.items()}, path)
    return {place: kept[place][0] for place in places}


def resumes(task: Task, contender: Contender, places: list[int], path: str) -> object:
    """The seconds from opening the files to the first batch at each place, after a trial that does not count.

    Raises:
        ValueError: if a state does not lead to the batch that followed it.
    """
    kept = torch.load(path, weights_only=True) if contender.resumes == STATE else {}
    seconds = {}
    for place in [places[0], *places]:
        state, following = kept.get(place, (None, None))
        began = time.perf_counter()
        reading = contender.open(task, state)
        if contender.resumes != STATE:
            reading = skipped(reading, min(place * task.num_rows // 100, task.num_rows - 1))
        batch = next(reading.batches)
        seconds[str(place)] = time.perf_counter() - began
        if num_rows(batch) == 0:
            raise ValueError("the first batch after a resume has no rows")
        if following is not None and (found := difference(_sum_of(batch, task), following)):
            raise ValueError(
                f"the first batch after a resume at {place} % is not the one that followed: {found}"
            )
        _end(reading)
        del reading, batch
        gc.collect()
    return seconds


def _sum_of(batch: object, task: Task) -> Mapping[str, Any]:
    found = Checksum(task.names)
    found.add(num_rows(batch), cells_by_name(batch, task))
    return found.to_json()


def _end(reading: Reading) -> None:
    if close := getattr(reading.batches, "close", None):
        close()


def _cpu_seconds() -> float:
    """CPU seconds of all threads of this process, and of its worker processes that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
