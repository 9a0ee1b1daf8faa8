"""Parquet straight into PyTorch training batches, with exact and elastic resume.

>>> import fastresume as fr
>>> dataset = fr.ParquetDataset("data/*.parquet", batch_size=32)
>>> for batch in fr.Loader(dataset):
...     train(batch["label"])
...     save({"data": batch.state_dict()})
"""

import logging
import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from fastresume._core import DataError, FastresumeError, SourceError, StateError, __version__

_IS_COMMAND = (
    os.path.basename((getattr(sys, "argv", None) or [""])[0]) == "fastresume"  # noqa: PTH119
    or ("-m", "fastresume") in pairwise(sys.orig_argv)
)
"""Whether this process is the command `fastresume`. Torch takes seconds to import, and `--help` needs
none of it: there a name is imported when it is asked for. Everywhere else all are here at once."""

if TYPE_CHECKING or not _IS_COMMAND:
    from fastresume import distributed, intervals, maxcompute, sources, testing, training
    from fastresume.arrow_dataset import ArrowDataset
    from fastresume.batch.batch import Batch
    from fastresume.batch.jagged import Jagged
    from fastresume.batch.schema import Field, Schema
    from fastresume.columns.column import Column, col
    from fastresume.columns.stack import Stack, stack
    from fastresume.dataset import ParquetDataset
    from fastresume.filter.condition import Condition
    from fastresume.filter.resolve import FilterReport
    from fastresume.loader import Loader
    from fastresume.mixture import Mixture
    from fastresume.options.bad_rows import MaskBadRows
    from fastresume.options.cache import Cache
    from fastresume.options.rows import Intervals, Shuffle, Split
    from fastresume.options.units import Bins, Packed
    from fastresume.options.world import World
    from fastresume.packing.attention import cu_seqlens
    from fastresume.plan import Plan
    from fastresume.reading.monitor.stats import Stats
    from fastresume.state.cursor import Cursor

__all__ = [
    "ArrowDataset",
    "Batch",
    "Bins",
    "Cache",
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
    "MaskBadRows",
    "Mixture",
    "Packed",
    "ParquetDataset",
    "Plan",
    "Schema",
    "Shuffle",
    "SourceError",
    "Split",
    "Stack",
    "StateError",
    "Stats",
    "World",
    "__version__",
    "col",
    "cu_seqlens",
    "distributed",
    "intervals",
    "maxcompute",
    "sources",
    "stack",
    "testing",
    "training",
]

_HOMES = {
    "ArrowDataset": "arrow_dataset",
    "Batch": "batch.batch",
    "Bins": "options.units",
    "Cache": "options.cache",
    "Column": "columns.column",
    "Condition": "filter.condition",
    "Cursor": "state.cursor",
    "Field": "batch.schema",
    "FilterReport": "filter.resolve",
    "Intervals": "options.rows",
    "Jagged": "batch.jagged",
    "Loader": "loader",
    "MaskBadRows": "options.bad_rows",
    "Mixture": "mixture",
    "Packed": "options.units",
    "ParquetDataset": "dataset",
    "Plan": "plan",
    "Schema": "batch.schema",
    "Shuffle": "options.rows",
    "Split": "options.rows",
    "Stack": "columns.stack",
    "Stats": "reading.monitor.stats",
    "World": "options.world",
    "col": "columns.column",
    "cu_seqlens": "packing.attention",
    "stack": "columns.stack",
}
"""Where each name comes from that the command has not imported yet."""

_ROOMS = ("checkpoint", "integrations", "kafka")
"""What is imported when it is asked for, as `fr.kafka`."""

if not TYPE_CHECKING:

    def __getattr__(name):
        """The public name, imported."""
        from importlib import import_module

        if name in _HOMES:
            found = getattr(import_module(f"fastresume.{_HOMES[name]}"), name)
        elif name in (*__all__, *_ROOMS):
            found = import_module(f"fastresume.{name}")
        else:
            from fastresume._core import nearest
            from fastresume.options.attributes import OF_NAMES

            near = None if name.startswith("_") else nearest(name, __all__)
            hint = "" if near is None else f": did you mean fr.{near}?"
            hint = f": write {OF_NAMES[name]}" if name in OF_NAMES else hint
            message = f"module 'fastresume' has no attribute {name!r}{hint}"
            # Of `from fastresume import name` Python would say in its own words that there is none.
            is_import = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
            raise (ImportError if is_import and name in OF_NAMES else AttributeError)(message)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted((*__all__, *_ROOMS))


logging.getLogger("fastresume").addHandler(logging.NullHandler())  # silent, unless the user adds a handler
