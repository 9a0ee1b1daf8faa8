"""Is it the batch or the machine? A loss that is not finite is computed again, from the files on.

`loader.replay(1)` reads the last batch anew and changes nothing. Then there are three answers:

- the batch is not the one that was trained on: memory or disk changed it, so don't trust this machine;
- the batch is the same, but its loss is finite now: the arithmetic went wrong once, so don't trust it either;
- the loss is the same again: it is the data (or the model). The rows are named, and left out from now on.

The three happen here: a row with a huge value, a bit that flips in a batch, one that flips in a sum.
"""

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr

ROWS, BAD_ROW = 960, 707


def write_data(directory: pathlib.Path) -> None:
    random = np.random.default_rng(1)
    columns = {f"i_{i}": random.normal(size=ROWS).astype(np.float32) for i in range(4)}
    columns["i_2"][BAD_ROW] = 3e38  # its square is not finite
    columns["label"] = random.normal(size=ROWS).astype(np.float32)
    pq.write_table(pa.table(columns), directory / "part-0.parquet", row_group_size=100)


def losses_of(model: torch.nn.Module, batch: fr.Batch) -> torch.Tensor:
    """Return the loss of each row."""
    return (model(batch["inputs"]).squeeze(1) - batch["label"]).square()


def verdict(loader: fr.Loader, model: torch.nn.Module, batch: fr.Batch) -> tuple[str, list[int]]:
    """Say what was wrong in the step of a batch, before the optimizer made it; and which rows are bad."""
    (again,) = loader.replay(1)
    if not all(torch.equal(again[name].view(torch.int32), batch[name].view(torch.int32)) for name in batch):
        return "machine: the batch in memory is not what the files hold", []
    losses = losses_of(model, again)
    if losses.isfinite().all():
        return "machine: the same batch has a finite loss now", []
    bad = again.rows()[~losses.isfinite().numpy()]
    places = ", ".join(
        f"row {row} of row group {group} of {pathlib.Path(path).name}"
        for path, group, row in loader.dataset.locate(bad)
    )
    return f"data: {places}", bad.tolist()


def train(data: pathlib.Path, flip_batch_at: int = -1, flip_sum_at: int = -1) -> list[str]:
    """Train one pass and return what was found; a bit flips in the batch or in the sum of a step."""
    torch.manual_seed(0)
    dataset = fr.ParquetDataset(
        data, batch_size=32, shuffle=True, seed=3, columns=["label", fr.stack("i_*", name="inputs")]
    )
    loader, model = fr.Loader(dataset), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found, skipped = [], []
    for batch in loader:
        if batch.step == flip_batch_at:
            batch["inputs"].view(torch.int32)[5, 1] ^= 1 << 30
        losses = losses_of(model, batch)
        if batch.step == flip_sum_at:
            losses[3] = torch.inf
        if not losses.isfinite().all() or losses.detach().max() > 1e6:
            what, bad = verdict(loader, model, batch)
            found.append(f"step {batch.step}: {what}")
            skipped += bad
            continue  # a real job would end here if it is the machine
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    assert loader.epoch == 1, "nothing moved the cursor"
    if skipped:  # from the next job on: the dataset without them
        without = fr.ParquetDataset(
            data,
            batch_size=32,
            rows=~fr.Intervals([[row, row + 1] for row in skipped]),
            columns=["label", fr.stack("i_*", name="inputs")],
        )
        found.append(f"left out from now on: {dataset.num_rows - without.num_rows} row")
    return found


with tempfile.TemporaryDirectory() as name:
    write_data(pathlib.Path(name))
    for flips in ({}, {"flip_batch_at": 6}, {"flip_sum_at": 9}):
        print(flips or "no bit flips", *train(pathlib.Path(name), **flips), sep="\n  ")
