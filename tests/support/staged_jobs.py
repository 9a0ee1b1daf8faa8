"""A mixture whose passes differ in length, to train on: stages of 6, 10 and 14 batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from support.rehearsal import SCALE

LENGTHS = (6, 10, 14)
"""The batches of the passes."""

SIZE = 8
"""Rows of a global batch."""


def write_sources(directory: Path) -> None:
    """Write `web.parquet` and `code.parquet`: a label, and the inputs `i_0` (its number) and `i_1`."""
    for place, name in enumerate(("web", "code")):
        numbers = place * 1000 + np.arange(400)
        columns = {
            "label": (numbers % 5).astype(np.float32),
            "i_0": (numbers / SCALE).astype(np.float32),
            "i_1": (numbers % 7).astype(np.float32),
        }
        pq.write_table(pa.table(columns), directory / f"{name}.parquet", row_group_size=64)


def mixture(directory: str | Path = ".", **how: Any) -> fr.Mixture:
    """The mixture of the files in a directory."""
    columns = ["*", "!i_*", fr.stack("i_*", name="inputs")]
    web, code = (
        fr.ParquetDataset(Path(directory) / f"{name}.parquet", columns=columns) for name in ("web", "code")
    )
    stages = [(LENGTHS[0] * SIZE, {"web": 1}), (LENGTHS[1] * SIZE, {"web": 1, "code": 1})]
    sources = {"web": (web, 2), "code": (code, 1)}
    return fr.Mixture(sources, global_batch_size=SIZE, stages=stages, stop=LENGTHS[2] * SIZE, **how)


def loader(**how: Any) -> fr.Loader:
    """A loader of the mixture of the files in the present directory."""
    return fr.Loader(mixture(**how), threads=1)


def steps(directory: Path, rank: int = 0, world_size: int = 1) -> list[list[int]]:
    """The numbers of each step of the three passes, as the mixture itself has them."""
    read = mixture(directory, rank=rank, world_size=world_size)
    batches = [batch for _ in LENGTHS for batch in read]
    return [(batch["inputs"][:, 0].double() * SCALE).round().long().tolist() for batch in batches]
