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
from fastresume.columns.expression import Column, col
from fastresume.columns.stack import Stack, stack
from fastresume.dataset import ParquetDataset
from fastresume.filter.condition import Condition
from fastresume.filter.resolve import FilterReport
from fastresume.loader import Loader
from fastresume.options.rows import Intervals, Split
from fastresume.options.topology import World
from fastresume.plan import Plan
from fastresume.reading.monitor.stats import Stats
from fastresume.state.cursor import Cursor

__all__ = [
    "Batch",
    "Column",
    "Condition",
    "Cursor",
    "DataError",
    "FastresumeError",
    "Field",
    "FilterReport",
    "Intervals",
    "Jagged",
    "Loader",
    "ParquetDataset",
    "Plan",
    "Schema",
    "SourceError",
    "Split",
    "Stack",
    "StateError",
    "Stats",
    "World",
    "__version__",
    "col",
    "distributed",
    "intervals",
    "stack",
    "testing",
    "training",
]


def __dir__() -> list[str]:
    return sorted(__all__)


logging.getLogger("fastresume").addHandler(logging.NullHandler())  # silent, unless somebody listens
