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
from fastresume.batch.batch import Batch
from fastresume.batch.jagged import Jagged
from fastresume.batch.schema import Field, Schema
from fastresume.dataset import ParquetDataset
from fastresume.filter.expression import Column, Expression, column
from fastresume.filter.resolve import FilterReport
from fastresume.loader import Loader
from fastresume.options.columns import Hash, Pad
from fastresume.options.rows import Split
from fastresume.options.topology import World
from fastresume.plan import Plan
from fastresume.reading.monitor.stats import Stats
from fastresume.state.cursor import Cursor

__all__ = [
    "Batch",
    "Column",
    "Cursor",
    "DataError",
    "Expression",
    "FastresumeError",
    "Field",
    "FilterReport",
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

logging.getLogger("fastresume").addHandler(logging.NullHandler())  # silent, unless the user adds a handler
