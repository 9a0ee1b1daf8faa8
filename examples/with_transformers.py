"""The Trainer of Transformers: kill it, and start it again; with `torchrun`, on as many ranks as you like.

The files hold floats i_1, i_2 and so on, and a float label; of others, name those two groups in `columns=`.
"""

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import fastresume as fr
from fastresume.integrations.transformers import ResumeCallback


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 1)

    def forward(self, inputs, label):
        return {"loss": torch.nn.functional.mse_loss(self.linear(inputs).squeeze(1), label)}


kept = {"save_steps": 1, "ignore_data_skip": True, "report_to": "none"}
arguments = TrainingArguments("checkpoints", num_train_epochs=3, **kept)
columns = ["label", fr.stack("i_*", name="inputs")]
dataset = fr.ParquetDataset("data/*.parquet", global_batch_size=512, shuffle=True, columns=columns)
resume = ResumeCallback(fr.Loader(dataset))
trainer = Trainer(Model(len(dataset.schema["inputs"].columns)), arguments, callbacks=[resume])
trainer.get_train_dataloader = lambda: resume.dataloader
trainer.train(resume_from_checkpoint=get_last_checkpoint("checkpoints"))
