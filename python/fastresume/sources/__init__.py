"""Rows that are no Parquet files: what `fr.ArrowDataset` reads, and how to add a source of rows.

See docs/how-to/add-a-source.md.
"""

from fastresume.sources.row_source import ArrowStream, RowSource, Segment

__all__ = ["ArrowStream", "RowSource", "Segment"]
