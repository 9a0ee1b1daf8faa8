"""Ray Train: `python with_ray.py` on a Ray cluster; kill workers and nodes: it goes on, on what is left.

The files hold floats i_1, i_2 and so on, and a float label; of others, name those two groups in `columns=`.
"""

import pathlib
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import fastresume as fr

EVERY = 2  # steps from one report to the next


def train(config):
    columns = ["label", fr.stack("i_*", name="inputs")]
    dataset = fr.ParquetDataset(config["data"], global_batch_size=480, shuffle=True, columns=columns)
    loader = fr.Loader(dataset, audit=config["audit"])
    bare = torch.nn.Linear(len(dataset.schema["inputs"].columns), 1)
    model = prepare_model(bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if saved := ray.train.get_checkpoint():
        with saved.as_directory() as directory:
            state = torch.load(pathlib.Path(directory, "state.pt"))
        bare.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["data"])
    for _ in range(loader.epoch, 2):
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["inputs"]).squeeze(1), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch.step % EVERY and batch.cursor.epoch == batch.epoch:
                continue  # all workers report, at each EVERY-th step and at the end of a pass
            checkpoint = None
            with tempfile.TemporaryDirectory() as directory:
                if dataset.world.rank == 0:
                    state = {"model": bare.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(state | {"data": batch.state_dict()}, pathlib.Path(directory, "state.pt"))
                    checkpoint = Checkpoint.from_directory(directory)
                ray.train.report({"loss": loss.item()}, checkpoint=checkpoint)


if __name__ == "__main__":
    here = pathlib.Path.cwd()  # which all nodes see
    kept = {"checkpoint_config": CheckpointConfig(num_to_keep=2), "storage_path": str(here / "ray")}
    TorchTrainer(
        train,
        train_loop_config={"data": str(here / "data/*.parquet"), "audit": str(here / "audit")},
        scaling_config=ScalingConfig(num_workers=(1, 3)),
        run_config=RunConfig(name="job", failure_config=FailureConfig(max_failures=10), **kept),
    ).fit()
