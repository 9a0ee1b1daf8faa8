"""What only a CUDA device can show: that batches are right, copies run beside kernels, and how long it waits.

    make bench-gpu                                   # all of it
    make bench-gpu ARGS='sums --batches 100000'      # one of: sums, sanitize, trace, idle

- `sums`: batches' weighted sums, computed on the device while kernels keep it busy, beside those that the row
  numbers say. Every way of reading takes its share: threads, the caller's thread, workers, transforms,
  static tensors, a stream of the user's, a CUDA graph.
- `sanitize`: some of these under `compute-sanitizer`, with every allocation of its own.
- `trace`: what of the copies' time lies beside kernels of a model, and whether they read page-locked memory.
- `idle`: the time of a model's steps with batches of the loader, and without: beside it, batches that the
  loop moves by itself, and torch's DataLoader with `pin_memory=True`.

With `--device cpu`, `sums` and `idle` run without one: that shows that this program is right, and no more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import fastresume as fr

ROWS = 1 << 22
COLUMNS = 4
FACTOR = np.int64(-7046029254386353131)
PERIOD = 1021
"""Places of values are weighted by 1 to so much, so that values that changed places are found."""

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# ------------------------------------------------------------------------------------------------- the data


def values_at(rows: np.ndarray) -> dict[str, np.ndarray]:
    """What the files hold of these rows: every value follows from the number of its row."""
    with np.errstate(over="ignore"):
        mixed = rows * FACTOR
    lengths = rows % 5
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.repeat(rows - offsets[:-1], lengths) + np.arange(offsets[-1])
    matrix = (rows[:, None] * (7 + np.arange(COLUMNS))) & 0xFFFF
    return {
        "row": rows,
        "mixed": mixed,
        "part": (rows % 65536).astype(np.float32),
        "matrix": matrix.astype(np.int32),
        "tokens.values": tokens.astype(np.int32),
        "tokens.offsets": offsets,
    }


def write(directory: Path, rows: int) -> Path:
    """A file of so many rows in row groups of 65,536."""
    found = values_at(np.arange(rows, dtype=np.int64))
    tokens = pa.LargeListArray.from_arrays(found["tokens.offsets"], found["tokens.values"])
    matrix = {f"m_{column}": found["matrix"][:, column] for column in range(COLUMNS)}
    table = pa.table(
        {"row": found["row"], "mixed": found["mixed"], "part": found["part"], **matrix, "tokens": tokens}
    )
    path = directory / "rows.parquet"
    pq.write_table(table, path, row_group_size=1 << 16)
    return path


def dataset_of(path: Path, batch_size: int, *, jagged: bool = True) -> fr.ParquetDataset:
    return fr.ParquetDataset(
        path,
        batch_size=batch_size,
        columns=["*", "!m_*", *([] if jagged else ["!tokens"]), fr.stack("m_*", name="matrix")],
        shuffle=True,
        seed=17,
        on_iter="continue",
        world=(0, 1),
    )


# ----------------------------------------------------------------------------------------------------- sums


class Summing:
    """The weighted sum of a batch's tensors, on their device; of each type its bits are summed."""

    def __init__(self, device: torch.device) -> None:
        self._weights = torch.empty(0, dtype=torch.int64, device=device)

    def __call__(self, batch: Mapping[str, Any]) -> Tensor:
        parts = []
        for name in ("row", "mixed", "part", "matrix", "tokens"):
            value = batch.get(name)
            if isinstance(value, fr.Jagged):
                parts += [self._of(value.values), self._of(value.offsets)]
            elif value is not None:
                parts.append(self._of(value))
        return torch.stack(parts)

    def _of(self, tensor: Tensor) -> Tensor:
        bits = tensor.reshape(-1).view(INTEGERS[tensor.dtype.itemsize]).to(torch.int64)
        if len(bits) > len(self._weights):
            self._weights = torch.arange(2 * len(bits), device=tensor.device) % PERIOD + 1
        return (bits * self._weights[: len(bits)]).sum()


def expected_sums(rows: np.ndarray, jagged: bool) -> list[int]:
    """The same of what the files hold of these rows."""
    found = []
    for name, values in values_at(rows).items():
        if jagged or not name.startswith("tokens"):
            bits = values.reshape(-1).view(f"i{values.itemsize}").astype(np.int64)
            with np.errstate(over="ignore"):
                found.append(int((bits * (np.arange(len(bits)) % PERIOD + 1)).sum()))
    return found


class Busy:
    """Kernels that keep the device behind the host, now more, now less."""

    def __init__(self, device: torch.device) -> None:
        size = 512 if device.type == "cuda" else 8
        self._matrix = torch.full((size, size), 1e-3, device=device)
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        for _ in range(self._count * 7 % 5):
            torch.mm(self._matrix, self._matrix)


def as_it_came(batch: fr.Batch) -> fr.Batch:
    """A transform that makes tensors of new memory."""
    batch["mixed"] = batch["mixed"].clone()
    batch["row"] = batch["row"] + 0
    return batch


def ways_of(path: Path, batch_size: int, device: torch.device) -> dict[str, tuple[fr.Loader, bool]]:
    """Each way of reading, and whether it has the lists."""
    put: dict[str, Any] = {"device": device}
    dense = dataset_of(path, batch_size, jagged=False)
    static = {"static": True} if device.type == "cuda" else {}
    ways = {
        "threads": (fr.Loader(dataset_of(path, batch_size), threads=4, **put), True),
        "caller": (fr.Loader(dataset_of(path, batch_size), threads=0, **put), True),
        "mapped": (fr.Loader(dataset_of(path, batch_size).map(as_it_came), threads=4, **put), True),
        "workers": (fr.Loader(dataset_of(path, batch_size).map(as_it_came), num_workers=2, **put), True),
        "static": (fr.Loader(dense, threads=2, **static, **put), False),
    }
    if device.type == "cuda":
        ways["stream"] = (fr.Loader(dataset_of(path, batch_size), threads=4, **put), True)
        ways["graph"] = (
            fr.Loader(dataset_of(path, batch_size, jagged=False), threads=2, static=True, **put),
            False,
        )
    ways["workers"][0].start()  # they are forked before CUDA starts
    return ways


def endless(loader: Iterable[fr.Batch]) -> Iterator[fr.Batch]:
    while True:
        yield from loader


def check_sums(
    loader: fr.Loader, name: str, jagged: bool, batches: int, device: torch.device
) -> tuple[int, int]:
    """How many batches were summed, and how many of them wrongly."""
    summing, busy = Summing(device), Busy(device)
    stream = torch.cuda.Stream(device) if name == "stream" else None
    seen: list[tuple[np.ndarray, Tensor]] = []
    wrong = count = 0
    graph, summed = None, torch.empty(0)
    drawn = islice(endless(loader), batches)
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        for batch in drawn:
            busy()
            if name == "graph":
                if graph is None:
                    graph, summed = captured(summing, batch)
                graph.replay()
                seen.append((batch.rows(), summed.clone()))
            else:
                seen.append((batch.rows(), summing(batch)))
            del batch
            if len(seen) == 500:
                wrong += count_wrong(seen, jagged)
                count += len(seen)
                seen.clear()
        wrong += count_wrong(seen, jagged)
        count += len(seen)
    return count, wrong


def captured(summing: Summing, batch: fr.Batch) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A graph that sums what lies in the tensors of this batch, and where it puts the sums."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        summing(batch)  # makes the weights
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        summed = summing(batch)
    return graph, summed


def count_wrong(seen: list[tuple[np.ndarray, Tensor]], jagged: bool) -> int:
    if not seen:
        return 0
    found = torch.stack([sums for _, sums in seen]).cpu().tolist()
    expected = (expected_sums(rows, jagged) for rows, _ in seen)
    return sum(one != other for one, other in zip(found, expected, strict=True))


def sums(arguments: argparse.Namespace, path: Path) -> dict[str, Any]:
    device = torch.device(arguments.device)
    ways = ways_of(path, arguments.batch_size, device)
    found: dict[str, Any] = {"batches": 0, "wrong": 0, "ways": {}}
    for number, (name, (loader, jagged)) in enumerate(ways.items()):
        share = arguments.batches // len(ways) + (number < arguments.batches % len(ways))
        began = time.perf_counter()
        count, wrong = check_sums(loader, name, jagged, share, device)
        loader.close()
        seconds = time.perf_counter() - began
        found["batches"] += count
        found["wrong"] += wrong
        found["ways"][name] = {"batches": count, "wrong": wrong, "seconds": round(seconds, 2)}
    return found


# ------------------------------------------------------------------------------------------------- sanitize


def sanitize(arguments: argparse.Namespace, _path: Path) -> dict[str, Any]:
    """`sums` in a process under compute-sanitizer, without the allocator's cache, which hides much."""
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [str(Path(home) / "bin") for home in homes if home]
    program = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(places)
    )
    if program is None:
        return {"missing": "compute-sanitizer is neither on the path nor in CUDA_HOME"}
    found: dict[str, Any] = {}
    for tool in ("memcheck", "initcheck"):
        command = [program, "--tool", tool, "--error-exitcode", "9", "--target-processes", "all"]
        command += [sys.executable, __file__, "sums", "--batches", str(min(arguments.batches, 210))]
        command += ["--rows", str(1 << 17), "--batch-size", str(arguments.batch_size)]
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        lines = [line for line in ended.stdout.splitlines() if "=========" in line]
        found[tool] = {"status": ended.returncode, "said": lines[-12:], "errors": ended.stderr[-2000:]}
    return found


# ---------------------------------------------------------------------------------------------------- model


class Model(nn.Module):
    """Some layers over the matrix: enough to keep a device busy for longer than a copy takes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [
            nn.Linear(COLUMNS, width),
            *(nn.Linear(width, width) for _ in range(3)),
            nn.Linear(width, 1),
        ]
        self.layers = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        found: Tensor = self.layers(batch["matrix"].float() / 65536)
        return (found.squeeze(1) - batch["part"] / 65536).square().mean()


def trained(
    batches: Iterable[Mapping[str, Any]], model: Model, count: int, device: torch.device
) -> tuple[float, int]:
    """Seconds of so many steps, after some that warm up; and how many there were."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    began, steps = 0.0, 0
    for number, batch in enumerate(islice(batches, count + count // 5)):
        if number == count // 5:
            wait_for(device)
            began = time.perf_counter()
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        steps += number >= count // 5
    wait_for(device)
    return time.perf_counter() - began, steps


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# ---------------------------------------------------------------------------------------------------- trace


def trace(arguments: argparse.Namespace, path: Path) -> dict[str, Any]:
    """What of the time of copies to the device lies beside kernels."""
    device = torch.device(arguments.device)
    model = Model(arguments.width).to(device)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with fr.Loader(dataset_of(path, 1 << 15), device=device, threads=4) as loader:
        batches = endless(loader)
        trained(batches, model, 10, device)
        with torch.profiler.profile(activities=activities) as profile:
            trained(batches, model, 40, device)
    with tempfile.TemporaryDirectory() as directory:
        kept = Path(arguments.trace or Path(directory) / "trace.json")
        profile.export_chrome_trace(str(kept))
        events = json.loads(kept.read_text())["traceEvents"]
    copies = [event for event in events if event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"]]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    of_kernels = {event["args"]["stream"] for event in kernels}
    beside = [event for event in copies if event["args"]["stream"] not in of_kernels]
    total = sum(event["dur"] for event in copies)
    return {
        "copies": len(copies),
        "copies on a stream of their own": len(beside),
        "bytes": sum(event["args"].get("bytes", 0) for event in copies),
        "copies of page-locked memory": sum("Pinned" in event["name"] for event in copies),
        "copy microseconds": round(total),
        "beside kernels": round(overlap(copies, kernels) / max(total, 1), 4),
        "kernels": len(kernels),
    }


def overlap(copies: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> float:
    """Microseconds of copies during which a kernel ran."""
    busy: list[tuple[float, float]] = []
    for begin, end in sorted((event["ts"], event["ts"] + event["dur"]) for event in kernels):
        if busy and begin <= busy[-1][1]:
            busy[-1] = busy[-1][0], max(busy[-1][1], end)
        else:
            busy.append((begin, end))
    return sum(
        max(min(end, event["ts"] + event["dur"]) - max(begin, event["ts"]), 0.0)
        for event in copies
        for begin, end in busy
    )


# ----------------------------------------------------------------------------------------------------- idle


def moved(batches: Iterable[Any], device: torch.device, non_blocking: bool) -> Iterator[Any]:
    for batch in batches:
        yield batch.to(device, non_blocking=non_blocking)


def idle(arguments: argparse.Namespace, path: Path) -> dict[str, Any]:
    """The share of the time that a device waits for batches, by each way, in turns."""
    device = torch.device(arguments.device)
    model = Model(arguments.width).to(device)
    fixed = next(iter(dataset_of(path, 1 << 15))).to(device)

    def alone() -> Iterator[Any]:
        while True:
            yield fixed

    def data_loader() -> Iterator[Any]:
        pin = device.type == "cuda"
        with_workers = DataLoader(
            dataset_of(path, 1 << 15), batch_size=None, num_workers=4, pin_memory=pin, persistent_workers=True
        )
        return moved(endless(with_workers), device, non_blocking=True)

    ways: dict[str, Callable[[], Iterator[Any]]] = {
        "model alone": alone,
        "Loader(device=)": lambda: endless(fr.Loader(dataset_of(path, 1 << 15), device=device, threads=8)),
        "Loader, batch.to(device)": lambda: moved(
            endless(fr.Loader(dataset_of(path, 1 << 15), threads=8)), device, non_blocking=False
        ),
        "DataLoader(pin_memory=True)": data_loader,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, make in ways.items():
            taken, steps = trained(make(), model, arguments.steps, device)
            seconds[name].append(taken / steps)
    best = min(seconds["model alone"])
    return {
        name: {
            "milliseconds per step": round(1e3 * min(found), 4),
            "share of waiting": round(1 - best / min(found), 4),
        }
        for name, found in seconds.items()
    }


PARTS = {"sums": sums, "sanitize": sanitize, "trace": trace, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, default=100_000, help="batches that are summed")
    parser.add_argument("--batch-size", type=int, default=512, help="rows of a batch that is summed")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the made file")
    parser.add_argument("--width", type=int, default=2048, help="width of the model's layers")
    parser.add_argument("--steps", type=int, default=200, help="steps of the model in each round of `idle`")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of `idle`")
    parser.add_argument("--trace", help="a file for the trace, which a browser can show")
    arguments = parser.parse_args()
    if wrong := sorted(set(arguments.parts) - set(PARTS)):
        parser.error(f"no part {', '.join(wrong)}: there are {', '.join(PARTS)}")
    if arguments.device == "cpu" and not set(arguments.parts or PARTS) <= {"sums", "idle"}:
        parser.error("without a device there are sums and idle")
    with tempfile.TemporaryDirectory() as directory:
        path = write(Path(directory), arguments.rows)
        found = {name: PARTS[name](arguments, path) for name in arguments.parts or PARTS}
    if arguments.device != "cpu":
        found["device"] = torch.cuda.get_device_name()
    found["versions"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "fastresume": fr.__version__}
    print(json.dumps(found, indent=1))
    raise SystemExit(found.get("sums", {}).get("wrong", 0) > 0)


if __name__ == "__main__":
    main()
