"""Lightning: kill it, and start it again; with `torchrun`, on as many ranks as you like."""

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

import fastresume as fr
from fastresume.integrations.lightning import ResumeCallback

columns = ["label", fr.stack("i_*", name="inputs")]
dataset = fr.ParquetDataset("data/*.parquet", global_batch_size=512, shuffle=True, columns=columns)
loader = fr.Loader(dataset)


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(len(dataset.schema["inputs"].columns), 1)

    def training_step(self, batch):
        return torch.nn.functional.mse_loss(self.linear(batch["inputs"]).squeeze(1), batch["label"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


saving = ModelCheckpoint("checkpoints", save_last=True, every_n_train_steps=1)
trainer = Trainer(max_epochs=3, callbacks=[ResumeCallback(loader), saving], logger=False)
trainer.fit(Model(), loader, ckpt_path="last")
