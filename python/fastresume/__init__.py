"""Parquet straight into PyTorch training batches, with exact and elastic resume.

>>> import fastresume as fr
>>> dataset = fr.ParquetDataset("data/*.parquet", batch_size=32)
>>> for batch in fr.Loader(dataset):
...     train(batch["label"])
...     save({"data": batch.state_dict()})
"""

import logging

from fastresume import distributed, intervals, testing, training
from fastresume._core import DataError, FastresumeError, SourceError, StateError, __version__
from fastresume.batch import Batch
from fastresume.column_options import Hash, Pad
from fastresume.cursor import Cursor
from fastresume.dataset import ParquetDataset
from fastresume.expression import Column, Expression, column
from fastresume.jagged import Jagged
from fastresume.loader import Loader
from fastresume.plan import Plan
from fastresume.row_options import Split
from fastresume.schema import Field, Schema
from fastresume.stats import Stats
from fastresume.topology import World

__all__ = [
    "Batch",
    "Column",
    "Cursor",
    "DataError",
    "Expression",
    "FastresumeError",
    "Field",
    "Hash",
    "Jagged",
    "Loader",
    "Pad",
    "ParquetDataset",
    "Plan",
    "Schema",
    "SourceError",
    "Split",
    "StateError",
    "Stats",
    "World",
    "__version__",
    "column",
    "distributed",
    "intervals",
    "testing",
    "training",
]

logging.getLogger("fastresume").addHandler(logging.NullHandler())  # silent, unless somebody listens
