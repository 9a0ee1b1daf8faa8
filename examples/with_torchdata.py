"""torchdata's StatefulDataLoader: the state is that of the batch, and the number of workers may change."""

import pathlib

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import fastresume as fr

columns = ["label", fr.stack("i_*", name="inputs")]
dataset = fr.ParquetDataset("data/*.parquet", batch_size=512, shuffle=True, columns=columns)
loader = StatefulDataLoader(dataset, batch_size=None, num_workers=2)
model = torch.nn.Linear(len(dataset.schema["inputs"].columns), 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
checkpoint = pathlib.Path("checkpoint.pt")
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    dataset.load_state_dict(saved["data"])  # into the dataset, and not the StatefulDataLoader

while dataset.epoch < 3:
    for batch in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"]).backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "data": batch.state_dict()}, "unfinished.pt")
        pathlib.Path("unfinished.pt").replace(checkpoint)
