"""Accelerate: `accelerate launch with_accelerate.py`; again, on as many processes as you like."""

import pathlib

import torch
from accelerate import Accelerator

import fastresume as fr
from fastresume.integrations.accelerate import register

accelerator = Accelerator()
columns = ["label", fr.stack("i_*", name="inputs")]
dataset = fr.ParquetDataset("data/*.parquet", global_batch_size=512, shuffle=True, columns=columns)
model = torch.nn.Linear(len(dataset.schema["inputs"].columns), 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = fr.Loader(dataset, device=accelerator.device)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
resume = register(accelerator, loader)
if saved := sorted(pathlib.Path("checkpoints").glob("*-*")):
    accelerator.load_state(saved[-1])
for _ in range(loader.epoch, 3):
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"]))
        optimizer.step()
        resume.trained(batch)
        accelerator.save_state("checkpoints/draft")
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            pathlib.Path("checkpoints/draft").rename(f"checkpoints/{batch.epoch:03}-{batch.step:08}")
