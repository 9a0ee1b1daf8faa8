"""Pretraining on sources by weight, packed and shuffled, on any number of ranks; a source may come later.

    torchrun --nproc-per-node 2 examples/pretrain.py run/          # kill it, and start it again
    torchrun --nproc-per-node 3 examples/pretrain.py run/ --books 0.3
    fastresume audit run/checkpoint.audit                          # each sequence once, over all of it

Documents of one sequence do not see each other: attention is masked by `batch["document"]`. On a GPU the same
places, as `fr.cu_seqlens(batch["document"][:, :-1])` of the inputs, go to attention over variable lengths, or
to flex_attention.
"""

import argparse
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import fastresume as fr

TOKENS, LENGTH, GLOBAL_BATCH = 64, 48, 12


def write_sources(root: pathlib.Path) -> None:
    """Write three sources of documents that count upwards, each in strides of its own."""
    for stride, (name, rows) in enumerate({"web": 3000, "code": 1500, "books": 500}.items(), 1):
        random = np.random.default_rng(stride)
        documents = [
            (random.integers(0, TOKENS) + stride * np.arange(random.integers(4, 90))) % TOKENS
            for _ in range(rows)
        ]
        table = pa.table({"tokens": pa.array(documents, pa.list_(pa.int32()))})
        (root / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / name / "part-0.parquet", row_group_size=250)


def mixture_of(root: pathlib.Path, weights: dict[str, float]) -> fr.Mixture:
    """The sources by weight, as sequences of one token more than the model reads."""
    unit = fr.Packed("tokens", length=LENGTH + 1, separator=0)
    sources = {
        name: (fr.ParquetDataset(root / name, unit=unit, shuffle=True, seed=7), weight)
        for name, weight in weights.items()
    }
    return fr.Mixture(sources, global_batch_size=GLOBAL_BATCH)


class Model(torch.nn.Module):
    """Embeddings, one causal attention layer that keeps documents apart, and the next token's logits."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.token = torch.nn.Embedding(TOKENS, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.top = torch.nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
        hidden = self.token(tokens)
        query, key, value = self.qkv(hidden).chunk(3, dim=-1)
        is_own = document[:, :, None] == document[:, None, :]
        seen = is_own & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        return self.top(hidden + functional.scaled_dot_product_attention(query, key, value, attn_mask=seen))


def train(root: pathlib.Path, checkpoint: pathlib.Path, weights: dict[str, float], steps: int) -> float:
    """Train up to so many steps of the job, from the checkpoint if there is one; return the last loss."""
    torch.manual_seed(0)
    loader = fr.Loader(mixture_of(root, weights), threads=1, audit=checkpoint.with_suffix(".audit"))
    model: torch.nn.Module = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])
        done = saved["done"]
    parallel = DistributedDataParallel(model) if dist.is_initialized() else model
    loss = torch.tensor(0.0)
    while done < steps:
        for batch in loader:
            tokens, document = batch["tokens"].long(), batch["document"]
            logits = parallel(tokens[:, :-1], document[:, :-1])
            # The first token of the next document is nobody's to foretell.
            targets = torch.where(document[:, 1:] == document[:, :-1], tokens[:, 1:], -1)
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if not dist.is_initialized() or dist.get_rank() == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
                torch.save({**state, "data": batch.state_dict()}, checkpoint.with_suffix(".new"))
                checkpoint.with_suffix(".new").replace(checkpoint)
            if done == steps:
                break
    return float(loss.detach())


def main() -> None:
    """Train by the command line; under torchrun on all its ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--books", type=float, default=0.0, help="the weight of the third source")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    if is_first and not (given.directory / "books").exists():
        write_sources(given.directory)
    if dist.is_initialized():
        dist.barrier()
    weights = {"web": 0.7, "code": 0.3} | ({"books": given.books} if given.books else {})
    loss = train(given.directory, given.directory / "checkpoint.pt", weights, given.steps)
    print(f"loss {loss:.4f} after {given.steps} steps")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
