"""torchtitan: `torchrun --nproc-per-node 2 with_torchtitan.py`; again, on as many ranks as you like.

The files have a column `tokens`: lists of token ids, which are packed into sequences.
"""

from dataclasses import dataclass

from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import TrainingConfig
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

import fastresume as fr


class NoTokenizer(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config): ...

    def __init__(self, **_):
        super().__init__()

    encode = decode = get_vocab_size = None  # the files hold ids already


class ParquetTokens(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        audit: str = "audit"

    def __init__(self, config, *, dp_rank, dp_world_size, local_batch_size, seq_len, **_):
        ranks = {"world": (dp_rank, dp_world_size)}
        how = {"batch_size": local_batch_size, "unit": fr.Packed("tokens", length=seq_len + 1)}
        dataset = fr.ParquetDataset(config.dataset_path, shuffle=True, **how, **ranks)
        self.loader = fr.Loader(dataset, audit=config.audit)
        self.state_dict, self.load_state_dict = self.loader.state_dict, self.loader.load_state_dict

    def __iter__(self):
        while True:  # pass after pass
            for batch in self.loader:
                tokens, first = batch["tokens"].long(), batch["document"] == 0
                place = batch["position"] - batch["position"][:, :1] * first  # from the sequence's start
                yield {"input": tokens[:, :-1], "positions": place[:, :-1]}, tokens[:, 1:]


config = Trainer.Config(
    model_spec=model_registry("debugmodel"),
    tokenizer=NoTokenizer.Config(),
    dataloader=ParquetTokens.Config(dataset_path="data/*.parquet"),
    loss=CrossEntropyLoss.Config(global_vocab_size=2048),
    optimizer=default_adamw(lr=8e-4),
    training=TrainingConfig(local_batch_size=8, global_batch_size=16, seq_len=16, steps=12),
    checkpoint=CheckpointManager.Config(enable=True, interval=1, last_save_model_only=False),
)
config.build().train()
