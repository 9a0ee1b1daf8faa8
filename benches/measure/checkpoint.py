"""Measures how long a save that is not waited for blocks training, beside torch's own.

    make bench-checkpoint
    make bench-checkpoint ARGS='--rounds 5 --results -'

The states are those of two models and their AdamW, after one step: one of few large tensors, one of many
small ones. Both ways copy the same tensors and write the same files in a thread. Torch's is
`get_model_state_dict` and `get_optimizer_state_dict`, given to `torch.distributed.checkpoint.async_save`;
ours is `Checkpointer.save` of model, optimizer, loader and random generators with `wait=False`. They take
turns, and each save is over (which is not measured) before the next begins. The ratio is that of the seconds
of each round, its median. What the cursor adds is measured by itself: to take it from the loader in mid pass.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.checkpoint.job import JobParts
from page import in_words, tell

MODELS: dict[str, Callable[[], nn.Module]] = {
    "4 layers of 2048 x 2048": lambda: nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]),
    "300 layers of 64 x 64": lambda: nn.Sequential(*[nn.Linear(64, 64) for _ in range(300)]),
}

Seconds = dict[str, list[float]]


def job(make: Callable[[], nn.Module], files: Path) -> dict[str, Any]:
    """A model and its optimizer after a step, and a loader in mid pass."""
    model = make()
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    loader = fr.Loader(fr.ParquetDataset(files, batch_size=16, shuffle=True, lanes=16), threads=0)
    for _, _ in zip(range(20), loader, strict=False):
        pass
    return {"model": model, "optimizer": optimizer, "loader": loader}


def torch_save(parts: dict[str, Any], place: Path) -> Any:
    """Torch's own; gives what to wait for."""
    model, optimizer = parts["model"], parts["optimizer"]
    state = {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer)}
    return dcp.async_save(state, checkpoint_id=place).result


def measured(make: Callable[[], nn.Module], directory: Path, rounds: int) -> Seconds:
    """What each round took: of torch's call, of ours, and of the cursor alone."""
    parts = job(make, directory / "data.parquet")
    found: Seconds = {"torch": [], "fastresume": [], "cursor": []}
    checkpointer = Checkpointer(directory / "ours", keep=2)
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        place = directory / "torchs"
        shutil.rmtree(place, ignore_errors=True)
        gc.collect()
        began = time.perf_counter()
        wait = torch_save(parts, place)
        torch_took = time.perf_counter() - began
        wait()
        gc.collect()
        began = time.perf_counter()
        checkpointer.save(number, **parts, wait=False)
        own_took = time.perf_counter() - began
        checkpointer.wait()
        taken = JobParts.of(None, None, None, parts["loader"], None)
        began = time.perf_counter()
        for _ in range(100):
            taken.cursor()
        cursor_took = (time.perf_counter() - began) / 100
        if number:  # the first round of both makes what later ones use again
            for name, took in (("torch", torch_took), ("fastresume", own_took), ("cursor", cursor_took)):
                found[name].append(took)
    checkpointer.close()
    shutil.rmtree(directory / "ours")
    return found


def report(found: dict[str, Seconds], rounds: int) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    lines = [
        "## Saving without waiting",
        "",
        "Written by `make bench-checkpoint`; the head of `checkpoint.py` says what is measured, and how.",
        f"Milliseconds for which a call blocks, medians of {rounds} rounds in turns, with their range.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
        "",
        "| model and AdamW | `async_save` of torch | `save(wait=False)` | ratio | of it the cursor |",
        "|---|---:|---:|---:|---:|",
    ]
    for model, seconds in found.items():
        ratios = [own / base for own, base in zip(seconds["fastresume"], seconds["torch"], strict=True)]
        torchs, own, cursor = (in_milliseconds(seconds[name]) for name in ("torch", "fastresume", "cursor"))
        lines.append(f"| {model} | {torchs} | {own} | {statistics.median(ratios):.2f} | {cursor} |")
    return "\n".join(lines) + "\n"


def in_milliseconds(seconds: Sequence[float]) -> str:
    """The median in milliseconds, and the range."""
    found = [1e3 * each for each in seconds]
    return in_words(found, 1 if statistics.median(found) > 1 else 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="of each way (%(default)s)")
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        values = np.arange(100_000, dtype=np.float32)
        pq.write_table(pa.table({"x": values}), directory / "data.parquet", row_group_size=10_000)
        found = {model: measured(make, directory, options.rounds) for model, make in MODELS.items()}
    text = report(found, options.rounds)
    tell(text, options.results)


if __name__ == "__main__":
    main()
