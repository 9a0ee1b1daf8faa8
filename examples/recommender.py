"""A small recommender over jagged features: killed and resumed, it ends at the loss of one that never was.

Each row is a visit: the items that were seen and the words of a query (lists of any length), three numbers,
and whether something was bought. The lists go into EmbeddingBags as they lie in memory: values and offsets.
"""

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr

ITEMS, WORDS, ROWS = 500, 200, 6000


def write_visits(path: pathlib.Path) -> None:
    """Write visits whose outcome depends on what was seen."""
    random = np.random.default_rng(1)
    taste = random.normal(size=ITEMS)
    seen = [random.integers(0, ITEMS, random.integers(0, 20)) for _ in range(ROWS)]
    asked = [random.integers(0, WORDS, random.integers(1, 6)) for _ in range(ROWS)]
    liking = np.array([taste[items].sum() for items in seen])
    columns = {
        "bought": pa.array((liking > 0).astype(np.float32)),
        "items": pa.array(seen, pa.list_(pa.int32())),
        "words": pa.array(asked, pa.list_(pa.int32())),
        **{f"n_{i}": random.normal(size=ROWS).astype(np.float32) for i in range(3)},
    }
    pq.write_table(pa.table(columns), path, row_group_size=1000)


class Recommender(torch.nn.Module):
    """Bags of embeddings and numbers, into one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.items = torch.nn.EmbeddingBag(ITEMS, 16, mode="sum", include_last_offset=True)
        self.words = torch.nn.EmbeddingBag(WORDS, 8, mode="mean", include_last_offset=True)
        self.top = torch.nn.Linear(16 + 8 + 3, 1)

    def forward(self, batch: fr.Batch) -> torch.Tensor:
        items, words = batch["items"], batch["words"]  # of int32, as a bag wants its offsets then, too
        bags = [self.items(items.values, items.offsets.int()), self.words(words.values, words.offsets.int())]
        return self.top(torch.cat([*bags, batch["numbers"]], dim=1)).squeeze(1)


def train(data: pathlib.Path, checkpoint: pathlib.Path, steps: int | None = None) -> float:
    """Train two passes, from the checkpoint if there is one, and for so many steps; return the last loss."""
    torch.manual_seed(0)
    dataset = fr.ParquetDataset(
        data, batch_size=256, shuffle=True, seed=7, columns=["*", "!n_*", fr.stack("n_*", name="numbers")]
    )
    loader, model = fr.Loader(dataset), Recommender()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])
    loss = torch.tensor(0.0)
    for _ in range(loader.epoch, 2):
        for batch in loader:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch), batch["bought"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if steps is not None and batch.epoch * len(loader) + batch.step + 1 == steps:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "data": batch.state_dict()}, checkpoint)
                return loss.item()  # as if it were killed here
    return loss.item()


with tempfile.TemporaryDirectory() as directory:
    visits = pathlib.Path(directory, "visits.parquet")
    write_visits(visits)
    whole = train(visits, pathlib.Path(directory, "never-saved.pt"))
    killed = train(visits, pathlib.Path(directory, "checkpoint.pt"), steps=31)
    resumed = train(visits, pathlib.Path(directory, "checkpoint.pt"))

print(f"killed after step 31 at a loss of {killed:.6f}")
print(f"the last loss: {resumed:.6f} resumed, {whole:.6f} never interrupted")
assert resumed == whole
