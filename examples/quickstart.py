"""The example of the README: it makes its own data, or takes `data/*.parquet` with `label`, `i_0`, `i_1`, ...

Kill it at any moment and start it again: it continues after the last step that was saved.
"""

import os
import pathlib
import signal
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr

if not pathlib.Path("data").exists():
    pathlib.Path("data").mkdir()
    inputs = np.random.default_rng(0).normal(size=(100_000, 3)).astype(np.float32)
    columns = {"label": inputs.sum(1), "i_0": inputs[:, 0], "i_1": inputs[:, 1], "i_2": inputs[:, 2]}
    pq.write_table(pa.table(columns), "data/part-0.parquet")

dataset = fr.ParquetDataset(
    "data/*.parquet", batch_size=512, shuffle=True, columns=["label", fr.stack("i_*", name="inputs")]
)
loader = fr.Loader(dataset)
model = torch.nn.Linear(len(dataset.schema["inputs"].columns), 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
checkpoint = pathlib.Path("checkpoint.pt")
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    loader.load_state_dict(saved["data"])  # also on other ranks, or with another batch size

for epoch in range(loader.epoch, 3):  # the epochs that are left
    for batch in loader:  # the batches that are left of this epoch
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"])
        loss.backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "data": batch.state_dict()}, "unfinished.pt")
        pathlib.Path("unfinished.pt").replace(checkpoint)
        print(f"epoch {epoch}, step {batch.step}: loss {loss:.4f}")
        if "--die" in sys.argv and (epoch, batch.step) == (0, 100):
            os.kill(os.getpid(), signal.SIGKILL)
