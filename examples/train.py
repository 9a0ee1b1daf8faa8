"""A recommender trained as a job that may be killed at any moment and goes on on any number of ranks.

    python examples/train.py --write job               # writes data into job/data, trains in one process
    torchrun --nproc-per-node 4 examples/train.py job  # goes on with four ranks: DDP, or FSDP2 with --fsdp

`fastresume audit job/audit` proves that every row was delivered exactly once. SIGTERM and Ctrl-C end the job
after the step, with exit code 75: start it again to go on.
"""

import argparse
import os
import pathlib
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

import fastresume as fr
from fastresume.checkpoint import Checkpointer

ITEMS, TOPICS = 500, 40


def write_visits(directory: pathlib.Path, rows: int = 4800) -> None:
    """Write visits: what was seen (lists of any length), three numbers, and whether something was bought."""
    random = np.random.default_rng(1)
    taste = random.normal(size=ITEMS)
    seen = [random.integers(0, ITEMS, random.integers(0, 12)) for _ in range(rows)]
    liking = np.array([taste[items].sum() for items in seen])
    columns = {"bought": (liking > 0).astype(np.float32), "items": pa.array(seen, pa.list_(pa.int32()))}
    columns |= {f"n_{i}": random.normal(size=rows).astype(np.float32) for i in range(3)}
    columns["topic"] = random.integers(0, TOPICS, rows)
    directory.mkdir(parents=True)
    for part in range(4):
        table = pa.table({name: values[part::4] for name, values in columns.items()})
        pq.write_table(table, directory / f"part-{part}.parquet", row_group_size=500)


class Recommender(nn.Module):
    """A bag of embeddings, another embedding and numbers, into two layers with dropout between them."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.items = nn.EmbeddingBag(ITEMS, 16, mode="sum", include_last_offset=True)
        self.topic = nn.Embedding(TOPICS, 8)
        self.top = nn.Sequential(nn.Linear(16 + 8 + 3, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 1))

    def forward(self, batch: fr.Batch) -> torch.Tensor:
        bag = self.items(batch["items"].values, batch["items"].offsets.int())
        return self.top(torch.cat([bag, self.topic(batch["topic"]), batch["numbers"]], dim=1))


def blurred(batch: fr.Batch) -> dict[str, Any]:
    """Add noise to the numbers, by each row's own seeds: the same again after any resume, on any ranks."""
    bits = torch.stack([batch.row_seeds(draw) for draw in range(3)], dim=1) & 0xFFFF
    return {**batch, "numbers": batch["numbers"] + bits / 0xFFFF - 0.5}


def score(model: nn.Module, batch: fr.Batch) -> dict[str, torch.Tensor]:
    logits, bought = model(batch).squeeze(1), batch["bought"]
    loss = nn.functional.binary_cross_entropy_with_logits(logits, bought, reduction="none")
    return {"loss": loss, "right": (logits > 0) == (bought > 0)}


def parallel(model: nn.Module, shards: bool) -> nn.Module:
    if not distributed.is_initialized():
        return model
    if shards:
        return fully_shard(model)
    # Else buckets are reordered after the first step, and a job that starts again rounds otherwise in one.
    return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="write the data first, if they are not there")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=sys.maxsize, help="of the optimizer, over all lives")
    parser.add_argument("--global-batch", type=int, default=48, help="rows of a micro-batch over all ranks")
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--evaluate-every", type=int, default=25)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--fsdp", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    if "RANK" in os.environ and not distributed.is_initialized():
        distributed.init_process_group("gloo")
    out, data = options.directory, options.directory / "data"
    if options.write and not data.exists():
        write_visits(data)
    # Twelve lanes: the same global batches in the same order at every number of ranks that divides twelve.
    columns = ["*", "!n_*", fr.stack("n_*", name="numbers")]
    what: dict[str, Any] = {"global_batch_size": options.global_batch, "columns": columns}
    visits = fr.ParquetDataset(data, rows=fr.Split(0, 0.9), shuffle=True, seed=7, lanes=12, **what)
    held_out = fr.ParquetDataset(data, rows=fr.Split(0.9, 1), on_iter="restart", tail="pad", **what)
    torch.manual_seed(0)
    model = parallel(Recommender(options.dropout), options.fsdp)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [9, 18], gamma=0.5)
    accumulation = fr.training.accumulate(model, options.accumulate)
    evaluator = fr.training.Evaluator(fr.Loader(held_out), score, every=options.evaluate_every)
    with (
        fr.training.Preemption() as preemption,
        fr.Loader(visits.map(blurred), audit=out / "audit") as loader,
        Checkpointer(
            out / "checkpoints", best=("loss", "min"), accumulation=options.accumulate
        ) as checkpointer,
    ):
        job = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}
        restored = checkpointer.restore(**job)  # after all is made, before the first batch is drawn
        step = 0 if restored is None else restored.step
        for _ in range(loader.epoch, options.epochs if step < options.max_steps else 0):
            for batch in loader:
                with accumulation(batch) as window:
                    loss = score(model, batch)["loss"].mean()
                    (loss / window.size).backward()
                if not window.is_last:
                    continue
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                step += 1
                mean = loss.detach() / visits.world.world_size  # over all ranks, which have as many rows each
                if distributed.is_initialized():
                    distributed.all_reduce(mean)
                found = evaluator.run(model) if evaluator.is_due(step) else {}
                if visits.world.rank == 0:
                    print(f"step {step}: loss {mean.item():.6f}", found or "", flush=True)
                is_told = preemption.is_due()
                is_end = is_told or step == options.max_steps or loader.epoch == options.epochs
                if is_end or step % options.save_every == 0 or (found and checkpointer.is_best(found)):
                    checkpointer.save(step, **job, metrics=found, wait=is_end)
                if is_told:
                    preemption.exit()
                if step == options.max_steps:
                    return


if __name__ == "__main__":
    main(sys.argv[1:])
