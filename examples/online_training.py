"""Train from a Kafka topic that is being written: three ranks are killed, and two continue with the next row.

    python examples/online_training.py kafka://broker:9092/clicks [directory]

It writes clicks into the topic, trains, and evaluates on a table. Saves are due by the time of events.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
from datetime import timedelta

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.kafka import KafkaDataset

MESSAGES, ROWS, MINUTE_MS = 120, 32, 60_000
COLUMNS = ["label", fr.stack("x_*", name="inputs")]


def clicks(seed: int, rows: int) -> pa.Table:
    """Rows whose label depends on their inputs."""
    inputs = np.random.default_rng(seed).normal(size=(rows, 2)).astype(np.float32)
    label = (inputs[:, 0] > inputs[:, 1]).astype(np.float32)
    return pa.table({"label": label, "x_0": inputs[:, 0], "x_1": inputs[:, 1]})


def produce(address: str, numbers: range) -> None:
    """Write messages of clicks, one for each minute."""
    from confluent_kafka import Producer

    servers, _, topic = address.removeprefix("kafka://").partition("/")
    producer = Producer({"bootstrap.servers": servers, "enable.metrics.push": False})
    for number in numbers:
        table, sink = clicks(number, ROWS), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        value = sink.getvalue().to_pybytes()
        producer.produce(topic, value, str(number), timestamp=1_700_000_000_000 + number * MINUTE_MS)
    producer.flush()


def score(model: torch.nn.Module, batch: fr.Batch) -> dict[str, torch.Tensor]:
    """Whether the prediction of each row is right."""
    return {"accuracy": ((model(batch["inputs"]).squeeze(1) > 0) == (batch["label"] > 0.5)).float()}


def train(rank: int, ranks: int, directory: str, address: str, life: int, killed_at: int | None) -> None:
    """Train on what is in the topic, from the last checkpoint on; or die after a step."""
    torch.set_num_threads(1)
    store = f"file://{directory}/store-{life}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    dataset = KafkaDataset(
        address, global_batch_size=48, columns=COLUMNS, round_rows=480, max_wait=0.2, stop="end"
    )  # without stop= it never ends
    table = fr.ArrowDataset(clicks(10**6, 500), batch_size=64, columns=COLUMNS, on_iter="restart", tail="pad")
    evaluator = fr.training.Evaluator(fr.Loader(table), score)
    loader = fr.Loader(dataset, audit=f"{directory}/audit")
    saves = timedelta(minutes=10)
    with Checkpointer(f"{directory}/checkpoints", save_by_event_time=saves) as checkpointer:
        restored = checkpointer.restore(model=model, optimizer=optimizer, loader=loader)
        step = 0 if restored is None else restored.step
        if rank == 0:
            print(f"{ranks} ranks begin after step {step}", flush=True)
        for batch in loader:
            logits = model(batch["inputs"]).squeeze(1)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if checkpointer.is_due(loader):
                checkpointer.save(step, model=model, optimizer=optimizer, loader=loader)
            if step == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpointer.save(step, model=model, optimizer=optimizer, loader=loader)
    found = evaluator.run(model)
    if rank == 0:
        print(f"step {step}, watermark {dataset.watermark}: accuracy {found['accuracy']:.3f}", flush=True)
    loader.close()
    dataset.close()
    dist.destroy_process_group()


def live(ranks: int, *given: object) -> None:
    """Run this many ranks until they end, well or not."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=train, args=(rank, ranks, *given)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()


def main(address: str, directory: str) -> None:
    """Train on a topic that grows between two lives of a job."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    produce(address, range(MESSAGES // 2))
    live(3, directory, address, 0, 30)
    print("all ranks were killed with SIGKILL after step 30", flush=True)
    produce(address, range(MESSAGES // 2, MESSAGES))
    live(2, directory, address, 1, None)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else name)
