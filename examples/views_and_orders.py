"""A recommender over two datasets by weight; its users are embedded in bins of equal cost.

Views are many and say little, orders are few and say much: three rows of ten are orders, whatever is stored.
The mixture is killed and goes on with other weights. Then each user comes once, in bins: as many users as
have 2,000 items together, so that a batch costs the same, however long the histories are.
"""

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.nn import functional

import fastresume as fr

ITEMS = 500


def write(path: pathlib.Path, rows: int, noise: float, seed: int) -> fr.ParquetDataset:
    """Write histories of items, and whether each was liked; return them as a dataset."""
    random = np.random.default_rng(seed)
    taste = np.random.default_rng(0).normal(size=ITEMS)
    seen = [random.integers(0, ITEMS, random.integers(1, 60)) for _ in range(rows)]
    liking = np.array([taste[items].sum() for items in seen]) + noise * random.normal(size=rows)
    columns = {"items": pa.array(seen, pa.list_(pa.int32())), "liked": (liking > 0).astype(np.float32)}
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return fr.ParquetDataset(path, shuffle=True, seed=seed)


def mixture_of(orders: float) -> fr.Mixture:
    """Both datasets, with so large a share of orders."""
    return fr.Mixture({"views": (views, 1 - orders), "orders": (bought, orders)}, batch_size=200, stop="all")


with tempfile.TemporaryDirectory() as directory:
    views = write(pathlib.Path(directory, "views.parquet"), 8000, noise=9.0, seed=1)
    bought = write(pathlib.Path(directory, "orders.parquet"), 1500, noise=1.0, seed=2)
    torch.manual_seed(0)
    table, top = (
        torch.nn.EmbeddingBag(ITEMS, 16, mode="sum", include_last_offset=True),
        torch.nn.Linear(16, 1),
    )
    optimizer = torch.optim.Adam([*table.parameters(), *top.parameters()], lr=0.02)
    state, losses, orders = None, [], []
    for share in (0.3, 0.6):  # "killed" after 20 steps; then orders count twice as much
        loader = fr.Loader(mixture_of(share))
        if state is not None:
            loader.load_state_dict(state)
        for batch, _ in zip(loader, range(20), strict=False):
            users = table(batch["items"].values, batch["items"].offsets.int())
            loss = functional.binary_cross_entropy_with_logits(top(users).squeeze(1), batch["liked"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            orders.append(int(batch.source.sum()))
            state = batch.state_dict()

    path = pathlib.Path(directory, "orders.parquet")
    bins = fr.ParquetDataset(path, batch_size=1, unit=fr.Bins("items", cost=2000), tail="short")
    costs, embedded = [], []
    for batch in bins:
        embedded.append(table(batch["items"].values, batch["items"].offsets.int()).detach())
        costs.append(int(batch["items"].lengths.sum()))

print(
    f"loss {losses[0]:.3f}, then {losses[-1]:.3f}; orders in a batch: {orders[0]}, then {orders[-1]} of 200"
)
print(f"{sum(map(len, embedded))} users in {len(costs)} bins of at most {max(costs)} items")
