"""What a file says of itself: its columns, its rows, and what its columns take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fastresume.bench import storage


@dataclass(frozen=True)
class FileFacts:
    """The facts of one file.

    Args:
        names: its columns.
        num_rows, row_groups: how many there are.
        nulls: the columns that may have nulls: by the footer, or of Arrow's files by what is in them.
        stored: the bytes of each column in the file; of Arrow's its share by what values take in memory.
    """

    names: list[str]
    num_rows: int
    row_groups: int
    nulls: set[str]
    stored: dict[str, float]

    @classmethod
    def of(cls, path: str, storage_options: Mapping[str, str]) -> Self:
        """The facts of a Parquet file by its footer, or of an Arrow file by reading all its batches."""
        with storage.opened(path, storage_options) as file:
            if not storage.is_arrow(path):
                return cls._of_footer(file.metadata)
            names = list(file.schema_arrow.names)
            rows, groups, nulls, taken = 0, 0, set(), dict.fromkeys(names, 0)
            for batch in file.iter_batches(names):
                rows, groups = rows + batch.num_rows, groups + 1
                for name, column in zip(names, batch.columns, strict=True):
                    taken[name] += column.nbytes
                    nulls |= {name} if column.null_count else set()
        whole = max(1, sum(taken.values()))
        size = storage.size_bytes(path, storage_options)
        return cls(names, rows, groups, nulls, {name: size * part / whole for name, part in taken.items()})

    @classmethod
    def _of_footer(cls, footer: Any) -> Self:
        nulls: set[str] = set()
        stored: dict[str, float] = {}
        for group in range(footer.num_row_groups):
            if footer.row_group(group).num_rows == 0:
                continue
            for number in range(footer.num_columns):
                chunk = footer.row_group(group).column(number)
                name, _, _ = chunk.path_in_schema.partition(".")
                # A name may contain a dot itself.
                name = chunk.path_in_schema if chunk.path_in_schema in footer.schema.names else name
                stored[name] = stored.get(name, 0) + chunk.total_compressed_size
                statistics = chunk.statistics
                known = statistics is not None and statistics.has_null_count
                may_be_null = footer.schema.column(number).max_definition_level > 0
                if statistics.null_count > 0 if known else may_be_null:
                    nulls.add(name)
        names = footer.schema.to_arrow_schema().names
        return cls(names, footer.num_rows, footer.num_row_groups, nulls, stored)
