"""Rows that are no Parquet files: what `fr.ArrowDataset` reads, and how to add a source of rows.

See docs/how-to/add-a-source.md.
"""

from fastresume.sources.lance_rows import lance
from fastresume.sources.paimon_rows import paimon
from fastresume.sources.row_source import ArrowStream, RowSource, Segment

__all__ = ["ArrowStream", "RowSource", "Segment", "lance", "paimon"]
