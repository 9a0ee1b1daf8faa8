"""The contract of fastresume as slow, obvious Python: what the fast reader must do, to be read and believed.

Nothing here imports fastresume, and nothing here is clever. Rows go through pyarrow; positions are plain
integers in plain lists, walked batch by batch. docs/DESIGN.md is the text; the sections named below (§4, §5)
are its sections.

Positions are rows where the order is sequential and all rows are selected; a shuffled order and a selection
are the sections of these names.
"""

from support.oracle.cursor import checked, merge, offsets_consumed
from support.oracle.intervals import Interval, intervals_of, positions_of, remaining, slice_intervals
from support.oracle.job import OracleJob
from support.oracle.lanes import global_batches, last_part, rank_batches, replay
from support.oracle.order import (
    GAMMA,
    Permutation,
    Shuffled,
    batch_seed,
    blocks_of,
    key,
    mix,
    order_rows,
    row_seed,
    windows_of,
)
from support.oracle.reader import as_numpy, canonical_files, group_rows_of, read_table, same_values
from support.oracle.selection import hash_of_intervals, is_in_split, selection_hash, truth
from support.oracle.values import bounds_of, bucket, cast, padded, xxh64

__all__ = [
    "GAMMA",
    "Interval",
    "OracleJob",
    "Permutation",
    "Shuffled",
    "as_numpy",
    "batch_seed",
    "blocks_of",
    "bounds_of",
    "bucket",
    "canonical_files",
    "cast",
    "checked",
    "global_batches",
    "group_rows_of",
    "hash_of_intervals",
    "intervals_of",
    "is_in_split",
    "key",
    "last_part",
    "merge",
    "mix",
    "offsets_consumed",
    "order_rows",
    "padded",
    "positions_of",
    "rank_batches",
    "read_table",
    "remaining",
    "replay",
    "row_seed",
    "same_values",
    "selection_hash",
    "slice_intervals",
    "truth",
    "windows_of",
    "xxh64",
]
