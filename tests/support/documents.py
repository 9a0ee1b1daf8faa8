"""Files of documents, and the sequences that a plain loop cuts them into."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr

Documents = list[list[int] | None]


def write(directory: Path, files: list[Documents], **how: Any) -> Path:
    """Write files of documents, whose tokens tell the row and the place; `labels` are one more each."""
    directory.mkdir(exist_ok=True)
    for number, documents in enumerate(files):
        table = {
            "tokens": pa.array(documents, pa.list_(pa.int32())),
            "labels": pa.array(
                [None if d is None else [t + 1 for t in d] for d in documents], pa.list_(pa.int64())
            ),
            "cost": pa.array([len(d or ()) for d in documents], pa.int16()),
            "text": [f"{number} {row}" for row in range(len(documents))],
        }
        pq.write_table(pa.table(table), directory / f"{number}.parquet", **how)
    return directory


def documents(seed: int, rows: int, longest: int) -> Documents:
    drawn = random.Random(seed)
    lengths = [drawn.choice([0, 1, 2, 5, longest]) if drawn.random() < 0.9 else None for _ in range(rows)]
    return [
        None if n is None else [row * 1000 + place for place in range(n)] for row, n in enumerate(lengths)
    ]


class Oracle:
    """The sequences that files are cut into: tokens, documents, positions, rows."""

    def __init__(
        self,
        files: list[Documents],
        length: int,
        separator: int | None,
        rest: str,
        chosen: set[int] | None = None,
    ) -> None:
        self.units: list[tuple[list[int], list[int], list[int], list[int]]] = []
        self.dropped = 0
        first = 0
        for file in files:
            tokens: list[tuple[int, int, int]] = []  # token, row, place
            for row, document in enumerate(file, first):
                if document and (chosen is None or row in chosen):
                    own = document + ([] if separator is None else [separator])
                    tokens += [(token, row, place) for place, token in enumerate(own)]
            first += len(file)
            while len(tokens) >= length or (tokens and rest == "pad"):
                some, tokens = tokens[:length], tokens[length:]
                rows = list(dict.fromkeys(row for _, row, _ in some))
                filled = length - len(some)
                self.units.append(
                    (
                        [token for token, _, _ in some] + [0] * filled,
                        [rows.index(row) for _, row, _ in some] + [-1] * filled,
                        [place for _, _, place in some] + [0] * filled,
                        rows,
                    )
                )
            self.dropped += len(tokens)


def units_of(batch: fr.Batch) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
    parts = (batch["tokens"].tolist(), batch["document"].tolist(), batch["position"].tolist())
    yield from zip(*parts, batch.rows().to_list(), strict=True)


def opened(directory: Path, unit: Any, batch_size: int = 3, **how: Any) -> fr.ParquetDataset:
    nulls = {"nulls": "mask"} if isinstance(unit, fr.Bins) else {}
    where = {"rank": 0, "world_size": 1, **nulls, **how}
    return fr.ParquetDataset(directory, batch_size=batch_size, unit=unit, **where)
