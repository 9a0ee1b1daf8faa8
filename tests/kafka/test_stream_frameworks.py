"""Frameworks train on a stream over several rounds, are killed, and go on after the last save."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import fastresume as fr
from fastresume.kafka import KafkaDataset
from support.kafka_broker import Broker
from support.rehearsal import BATCH, ROWS, SCALE, STEPS, run, steps

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.slow]

Start = Callable[..., Broker]


def clicks(broker: Broker) -> Broker:
    """Write the rows of `rehearsal`, in messages of 5."""
    for first in range(0, ROWS, 5):
        numbers = np.arange(first, first + 5)
        columns = [numbers % 5, numbers / SCALE, numbers % 7]
        table = pa.table([column.astype(np.float32) for column in columns], ["label", "i_0", "i_1"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        broker.send([(0, sink.getvalue().to_pybytes())])
    return broker


def loader_of(address: str) -> fr.Loader:
    """Rounds of four steps."""
    dataset = KafkaDataset(
        address,
        batch_size=BATCH,
        columns=["label", fr.stack("i_*", name="inputs")],
        round_rows=4 * BATCH,
        max_wait=0.1,
        stop="end",
    )
    return fr.Loader(dataset, threads=1)


def lightning(address: str) -> None:
    """Lightning reads a batch ahead of what it trains, as it asks no stream for its length."""
    jobs = importlib.import_module("support.lightning_jobs")
    loader = loader_of(address)
    jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), max_epochs=1)


def transformers(address: str) -> None:
    """The Trainer has to be told the number of steps."""
    jobs = importlib.import_module("support.trainer_jobs")
    resume = importlib.import_module("fastresume.integrations.transformers").ResumeCallback
    with pytest.raises(ValueError, match="pass max_steps= to TrainingArguments"):
        jobs.train(jobs.make_trainer(resume(loader_of(address))))
    jobs.train(jobs.make_trainer(resume(loader_of(address)), max_steps=STEPS))


def accelerate(address: str) -> None:
    """Accelerate leaves a `Loader` as it is."""
    accelerator = importlib.import_module("accelerate").Accelerator(cpu=True)
    loader = loader_of(address)
    model, loader = accelerator.prepare(torch.nn.Linear(2, 1), loader)
    resume = importlib.import_module("fastresume.integrations.accelerate").register(accelerator, loader)
    if Path("saved").exists():
        accelerator.load_state("saved")
    for batch in loader:
        model(batch["inputs"])
        resume.trained(batch)
        accelerator.save_state("saved")


FRAMEWORKS: list[Callable[[str], None]] = [lightning, transformers, accelerate]


@pytest.mark.parametrize("train", FRAMEWORKS)
def test_a_framework_that_is_killed_goes_on_in_its_round(
    broker: Start, tmp_path: Path, train: Callable[[str], None]
) -> None:
    kafka = clicks(broker())
    found: list[Any] = []
    for kill_at in (4, 3, None):  # at the end of a round, and within one
        found += run(partial(train, kafka.address), tmp_path, kill_at=kill_at)[0]
    assert found == steps(0, STEPS)
