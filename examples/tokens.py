"""A small token model over documents: killed and resumed, it ends at the loss of one that never was.

Each row is a document, a list of tokens. A transform cuts every document at random (the same cut after any
resume, as it draws from the batch), and a causal model of one attention layer learns the next token.
"""

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.nn import functional

import fastresume as fr

TOKENS, LONGEST, ROWS = 64, 32, 3000


def write_documents(path: pathlib.Path) -> None:
    """Write documents that count upwards in strides of their own, so that there is something to learn."""
    random = np.random.default_rng(2)
    documents = []
    for _ in range(ROWS):
        start, stride, length = random.integers(0, TOKENS), random.integers(1, 4), random.integers(8, 60)
        documents.append((start + stride * np.arange(length)) % TOKENS)
    pq.write_table(pa.table({"tokens": pa.array(documents, pa.list_(pa.int32()))}), path, row_group_size=500)


def crop(batch: fr.Batch) -> dict[str, torch.Tensor]:
    """Some tokens of each document, from a place that its row draws: inputs, and targets padded by -1."""
    tokens = batch["tokens"]
    room = (tokens.lengths - LONGEST - 1).clamp(min=0)
    starts = batch.row_seeds().remainder(room + 1)
    places = starts[:, None] + torch.arange(LONGEST + 1)
    is_there = places < tokens.lengths[:, None]
    flat = (tokens.offsets[:-1, None] + places).clamp(max=len(tokens.values) - 1)
    cropped = torch.where(is_there, tokens.values[flat].long(), -1)
    return {"inputs": cropped[:, :-1].clamp(min=0), "targets": cropped[:, 1:].contiguous()}


class Model(torch.nn.Module):
    """Embeddings, one causal attention layer, and the next token's logits."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.token = torch.nn.Embedding(TOKENS, width)
        self.place = torch.nn.Embedding(LONGEST, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.top = torch.nn.Linear(width, TOKENS)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.token(inputs) + self.place.weight[: inputs.shape[1]]
        query, key, value = self.qkv(hidden).chunk(3, dim=-1)
        return self.top(hidden + functional.scaled_dot_product_attention(query, key, value, is_causal=True))


def train(data: pathlib.Path, checkpoint: pathlib.Path, steps: int | None = None) -> float:
    """Train two passes, from the checkpoint if there is one, and for so many steps; return the last loss."""
    torch.manual_seed(0)
    dataset = fr.ParquetDataset(data, batch_size=64, shuffle=True, seed=3)
    loader, model = fr.Loader(dataset.map(crop)), Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])
    loss = torch.tensor(0.0)
    for _ in range(loader.epoch, 2):
        for batch in loader:
            logits = model(batch["inputs"])
            loss = functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if steps is not None and batch.epoch * len(loader) + batch.step + 1 == steps:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "data": batch.state_dict()}, checkpoint)
                return loss.item()  # as if it were killed here
    return loss.item()


with tempfile.TemporaryDirectory() as directory:
    documents = pathlib.Path(directory, "documents.parquet")
    write_documents(documents)
    whole = train(documents, pathlib.Path(directory, "never-saved.pt"))
    killed = train(documents, pathlib.Path(directory, "checkpoint.pt"), steps=60)
    resumed = train(documents, pathlib.Path(directory, "checkpoint.pt"))

print(f"killed after step 60 at a loss of {killed:.6f}")
print(f"the last loss: {resumed:.6f} resumed, {whole:.6f} never interrupted")
assert resumed == whole
