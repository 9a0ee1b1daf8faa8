"""FSDP2 and torch.distributed.checkpoint: `torchrun --nproc-per-node 2 with_fsdp2.py`, again on any ranks."""

import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard

import fastresume as fr
from fastresume.integrations.dcp import ResumeState

device = "cuda" if torch.cuda.is_available() else "cpu"
mesh = dist.init_device_mesh(device, (fr.World.detect().world_size,))
how = {"global_batch_size": 512, "shuffle": True, "columns": ["label", fr.stack("i_*", name="inputs")]}
loader = fr.Loader(dataset := fr.ParquetDataset("data/*.parquet", world=mesh, **how), device=device)
model = fully_shard(torch.nn.Linear(len(dataset.schema["inputs"].columns), 1).to(device), mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
state = {"model": model, "data": ResumeState(loader)}
if saved := sorted(pathlib.Path("checkpoints").glob("*/.metadata")):  # only what is whole has this file
    dcp.load(state, checkpoint_id=saved[-1].parent)

for _ in range(loader.epoch, 3):
    for batch in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"]).backward()
        optimizer.step()
        state["data"].trained(batch)
        dcp.save(state, checkpoint_id=f"checkpoints/{batch.epoch:03}-{batch.step:08}")
