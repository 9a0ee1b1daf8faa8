"""The example of the README, over `data/*.parquet` with a `label` and inputs `i_0`, `i_1`, ..., all float32.

Kill it at any moment and start it again: it goes on after the last step that was saved.
"""

import pathlib

import torch

import fastresume as fr

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
    loader.load_state_dict(saved["data"])  # on other ranks or with another batch size, too

for _ in range(loader.epoch, 3):  # the passes that are left
    for batch in loader:  # the batches that are left of this pass
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"]).backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "data": batch.state_dict()}, "unfinished.pt")
        pathlib.Path("unfinished.pt").replace(checkpoint)
