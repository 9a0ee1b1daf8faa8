"""The whole job in one atomic checkpoint: model, optimizer, scheduler, data and random state.

>>> from fastresume.checkpoint import Checkpointer
>>> checkpointer = Checkpointer("checkpoints", keep=3)
>>> restored = checkpointer.restore(model=model, optimizer=optimizer, loader=loader)
>>> checkpointer.save(1000, model=model, optimizer=optimizer, loader=loader)
"""

from fastresume.checkpoint.checkpointer import Checkpointer
from fastresume.checkpoint.failure import CheckpointError
from fastresume.checkpoint.history import Entry
from fastresume.checkpoint.manifest import Manifest, Record
from fastresume.checkpoint.randomness import Randomness
from fastresume.checkpoint.restoring import Restored

__all__ = ["CheckpointError", "Checkpointer", "Entry", "Manifest", "Randomness", "Record", "Restored"]
