"""DDP: `torchrun --nproc-per-node 2 with_ddp.py`. Kill it and start it again on as many ranks as you like."""

import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fastresume as fr

dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
device = f"cuda:{dist.get_node_local_rank()}" if torch.cuda.is_available() else "cpu"
columns = ["label", fr.stack("i_*", name="inputs")]
dataset = fr.ParquetDataset("data/*.parquet", global_batch_size=512, shuffle=True, columns=columns)
loader = fr.Loader(dataset, device=device)
model = DistributedDataParallel(torch.nn.Linear(len(dataset.schema["inputs"].columns), 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
checkpoint = pathlib.Path("checkpoint.pt")
if checkpoint.exists():
    saved = torch.load(checkpoint, map_location=device)
    model.load_state_dict(saved["model"])
    loader.load_state_dict(saved["data"], check_same=True)  # an error on all ranks if they differ
for _ in range(loader.epoch, 3):
    for batch in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"]).backward()
        optimizer.step()
        if dist.get_rank() == 0:  # in lockstep, the state of one rank is that of all
            torch.save({"model": model.state_dict(), "data": batch.state_dict()}, "unfinished.pt")
            pathlib.Path("unfinished.pt").replace(checkpoint)
