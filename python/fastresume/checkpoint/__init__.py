"""The whole job in one atomic checkpoint: model, optimizer, scheduler, data and random state.

>>> import torch
>>> from fastresume.checkpoint import Checkpointer
>>> model = torch.nn.Linear(3, 1)
>>> checkpointer = Checkpointer("checkpoints", keep=3)
>>> checkpointer.restore(model=model, loader=loader)  # nothing is there yet
>>> checkpointer.save(1000, model=model, loader=loader)
>>> checkpointer.restore(model=model, loader=loader).step
1000
"""

from fastresume.checkpoint.checkpointer import Checkpointer
from fastresume.checkpoint.directory import Entry
from fastresume.checkpoint.manifest import Manifest, Record
from fastresume.checkpoint.randomness import Randomness
from fastresume.checkpoint.ranks import CheckpointError
from fastresume.checkpoint.restore import Restored

__all__ = ["CheckpointError", "Checkpointer", "Entry", "Manifest", "Randomness", "Record", "Restored"]
