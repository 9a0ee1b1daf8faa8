"""What `plan()` says before anything is read: rows decoded, memory, and advice."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.jobs import make, parallel
from support.strategies import Dataset

ROWS = 103


def quiet_plan(dataset: fr.ParquetDataset, workers: int = 0) -> fr.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return dataset.plan(workers)


def test_ranks_with_windows_of_their_own_decode_each_row_once(small_dataset: Dataset) -> None:
    plan = make(small_dataset, 5, shuffle=True, block_rows=5, window_rows=5).plan()
    assert (plan.rows_decoded, plan.advice) == (ROWS, ())
    assert plan.rows_decoded_per_row == ROWS / (ROWS - plan.dropped_rows)
    assert plan.windows >= ROWS // 5


@pytest.mark.parametrize(("workers", "ways"), [(0, 2), (4, 8)])
def test_time_order_is_decoded_by_all_and_the_advice_says_so(
    small_dataset: Dataset, workers: int, ways: int
) -> None:
    for order in ({}, {"shuffle": True, "block_rows": 5, "window_rows": 20}):
        dataset = make(small_dataset, 1, lanes=1, **order, **parallel(0, 2))
        with pytest.warns(UserWarning, match=f"fewer workers, or name more lanes \\(a multiple of {ways}\\)"):
            plan = dataset.plan(workers)
        assert plan.rows_decoded_per_row > ways / 2
        assert repr(plan).endswith(plan.advice[0])


def test_a_window_that_ranks_share_is_decoded_by_each_and_the_advice_names_a_setting(
    small_dataset: Dataset,
) -> None:
    dataset = make(small_dataset, 2, shuffle=True, **parallel(0, 4))
    plan = quiet_plan(dataset)
    assert (plan.windows, plan.rows_decoded) == (1, 4 * ROWS)
    assert "smaller window_rows" in plan.advice[0]
    assert "fewer lanes" not in plan.advice[0]
    more = quiet_plan(make(small_dataset, 2, shuffle=True, lanes=8, **parallel(0, 4)))
    assert "fewer lanes" in more.advice[0]
    assert more.rows_decoded == 4 * ROWS, "lanes of one rank share what it decodes"


def window_bytes(plan: fr.Plan) -> int:
    """With the number of each row, and what lies in pieces that are not full."""
    return plan.window_rows * (plan.row_bytes + 8) + plan.window_rows * plan.row_bytes // 8


def bunch_bytes(plan: fr.Plan) -> int:
    """Of a window: what its batches of four rows take beside these, and one that is open before."""
    fields, bundles = 7, 3  # numbers of 8, 4 and 1 bytes
    segments = -(-plan.blocks // plan.windows) + 1
    one = 512 + 256 * fields + segments * 128 * (1 + 2 * bundles)
    return (-(-plan.window_rows // 4) + 1) * one


def dictionary_bytes(dataset: Dataset, plan: fr.Plan) -> int:
    """Of the dictionaries that parts of a row group share: no more are kept than its rows take."""
    files = [pq.read_metadata(file) for file in dataset.files]
    groups = [file.row_group(group).num_rows for file in files for group in range(file.num_row_groups)]
    return max(groups) * plan.row_bytes // 8 * 9


def of_footers(dataset: fr.ParquetDataset) -> tuple[int, int]:
    """What is kept of footers, and what a thread has beside that while it opens a file."""
    cursor, spec = dataset._shared_cursor.cursor, dataset._spec
    bound = spec.planned_reader(spec.pass_from(cursor, 1)).memory_bound(1)
    return bound.footer_bytes, bound.opening_bytes


def test_memory_is_a_window_for_each_lane_and_worker_of_a_rank(small_dataset: Dataset) -> None:
    arguments = {"shuffle": True, "block_rows": 10, "window_rows": 20}
    made = make(small_dataset, 4, **arguments)
    one = made.plan()
    shared = dictionary_bytes(small_dataset, one) + of_footers(made)[0]
    batch = 4 * (one.row_bytes + 8)
    assert one.bytes_per_rank == window_bytes(one) + bunch_bytes(one) + batch + shared
    arguments |= {"block_rows": 4, "window_rows": 12}
    four = quiet_plan(make(small_dataset, 4, lanes=4, **arguments))
    assert four.bytes_per_rank == 4 * (window_bytes(four) + bunch_bytes(four)) + batch + shared
    time_order = quiet_plan(make(small_dataset, 4, lanes=1, **arguments), workers=3)
    assert time_order.bytes_per_rank == 3 * (window_bytes(four) + bunch_bytes(four) + shared) + batch


def test_short_lanes_have_the_windows_that_they_share_open_as_well(small_dataset: Dataset) -> None:
    arguments = {"shuffle": True, "block_rows": 10, "window_rows": 20}
    made = make(small_dataset, 4, lanes=4, **arguments)
    plan = quiet_plan(made)
    assert (plan.windows, 2 * plan.window_rows > 103 // 4) == (6, True)
    held = 6 * (window_bytes(plan) + bunch_bytes(plan)) + 4 * (plan.row_bytes + 8)
    assert plan.bytes_per_rank == held + dictionary_bytes(small_dataset, plan) + of_footers(made)[0]


def test_a_thread_has_a_matrix_or_the_lists_and_strings_of_a_segment(tmp_path: Path) -> None:
    columns = {"a": pa.array(range(50), pa.int64()), "b": pa.array(range(50), pa.int64())}
    pq.write_table(pa.table(columns), tmp_path / "flat.parquet", row_group_size=20)
    fixed = 3 * (1 << 20) + 4 * 20 * 8 + (4 << 20)  # pages, a dictionary as it is delivered, Brotli's window

    def of_thread(batch_size: int = 5, **arguments: object) -> int:
        made = fr.ParquetDataset(tmp_path, batch_size=batch_size, tail="pad", **arguments)  # type: ignore[arg-type]
        return quiet_plan(made).bytes_per_thread - of_footers(made)[1]

    assert of_thread() == fixed, "numbers are decoded where they stay"
    gaps, matrix, many = 2 * 2 * 576, fr.stack("a", "b", name="m"), (4 << 20) // 16 + 1
    assert of_thread(columns=matrix, nulls="mask") == fixed, "or until their batch is ended"
    assert of_thread(many - 1, columns=matrix) == fixed
    assert of_thread(many, columns=matrix) == fixed + 20 * 2 * 16 + gaps
    assert of_thread(many, columns=matrix, nulls="mask") == fixed + 20 * 2 * 18 + gaps
    # Both are put together, and taken apart again when a batch is ended.
    assert of_thread(shuffle=True) == fixed + 20 * (2 * 16 + 32) + gaps + 5 * 16
    assert of_thread(shuffle=True, nulls="mask") == fixed + 20 * (2 * 18 + 32) + gaps + 5 * 18
    assert of_thread(shuffle=True, columns=["a"]) == fixed + 20 * (2 * 8 + 32), "one is alone"

    (tmp_path / "flat.parquet").unlink()
    pq.write_table(pa.table({"t": ["x" * 100] * 50}), tmp_path / "text.parquet", use_dictionary=False)
    made = fr.ParquetDataset(tmp_path, batch_size=5)
    plan = quiet_plan(made)
    assert plan.row_bytes >= 108
    pages = 3 * (1 << 20) + 4 * 50 * plan.row_bytes + (4 << 20)
    decoded = 50 * 2 * plan.row_bytes + 5 * plan.row_bytes
    assert plan.bytes_per_thread == decoded + pages + of_footers(made)[1]
    assert repr(plan).count("per decoding thread") == 1


def test_a_rank_has_the_strips_of_columns_of_which_matrices_are_made_last(tmp_path: Path) -> None:
    columns = {"a": pa.array(range(50), pa.int64()), "b": pa.array(range(50), pa.int64())}
    pq.write_table(pa.table(columns), tmp_path / "flat.parquet", row_group_size=20)

    def of_rank(batch_size: int = 5, **arguments: object) -> int:
        return quiet_plan(
            fr.ParquetDataset(tmp_path, batch_size=batch_size, tail="pad", **arguments)
        ).bytes_per_rank  # type: ignore[arg-type]

    # The rows of a strip, of a batch that begins in it, and what lies between columns.
    matrix, strips = fr.stack("a", "b", name="m"), (3 + 5) * 16 + 8 * (3 * 16 // 8)
    assert of_rank(columns=matrix) == of_rank() + strips
    assert of_rank(columns=["*", "!a", fr.stack("a", name="m")]) == of_rank(), (
        "one column is decoded where it stays"
    )
    many = (4 << 20) // 16 + 1
    assert of_rank(many, columns=matrix) == of_rank(many)


def test_a_window_that_padding_makes_large_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1]] * 3000}), tmp_path / "x.parquet")
    small = fr.ParquetDataset(tmp_path, batch_size=5, shuffle=True)
    assert quiet_plan(small).advice == ()
    large = fr.ParquetDataset(tmp_path, batch_size=5, shuffle=True, columns=["*", fr.col("x").pad(50_000)])
    assert quiet_plan(large).advice == ("a window of 3,000 rows takes 1.1 GiB: name a smaller window_rows",)


def test_a_plan_for_more_than_any_memory_is_a_plan(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 2**40, tail="pad", lanes=1, **parallel(0, 1000))
    plan = quiet_plan(dataset, workers=64)
    assert (plan.steps, plan.padded_rows) == (1, 2**40 * 1000 - ROWS)
    with pytest.raises(ValueError, match="no memory for batches of"):
        next(iter(dataset))


def test_large_cells_are_in_what_a_plan_states_wherever_footers_tell_of_them(tmp_path: Path) -> None:
    mib = 1 << 20

    def stated(cells: list[bytes | None], **how: Any) -> int:
        table = pa.table({"b": pa.array(cells, pa.binary())})
        options = {"row_group_size": 100, "use_dictionary": False, **how}
        pq.write_table(table, tmp_path / "x.parquet", **options)
        plan = quiet_plan(fr.ParquetDataset(tmp_path, batch_size=5, nulls="mask"))
        return plan.bytes_per_rank + plan.bytes_per_thread

    small: list[bytes | None] = [b"small"] * 1000
    usual, large = stated(small), bytes(8 * mib)
    # What is decoded in one go and the batch of it, both while they grow; the page, stored and decompressed,
    # and twice as much for Brotli.
    assert usual + 7 * 7 * mib < stated([*small, large]) < usual + 11 * 8 * mib
    assert stated([None] * 1000 + [large]) > stated([None] * 1000) + 7 * 7 * mib
    assert stated([*small, large], use_dictionary=True) > usual + 7 * 7 * mib
    dense = [bytes(20_000)] * 100  # some longer rows are no large cells, but all batches may be of these
    kept = 100 * 20_020 // 8 * 9  # of their dictionaries
    assert usual + 5 * 20_000 < stated(small + dense) < usual + 10 * mib + kept


def test_cells_of_one_length_may_make_large_pages(tmp_path: Path) -> None:
    """What a thread has of a page, as it is stored and decompressed: pages end where 1024 rows do."""
    rows, length = 200, 1 << 15

    def of_thread(columns: str) -> int:
        cells = pa.array([bytes([row]) * length for row in range(rows)], pa.binary(length))
        pq.write_table(pa.table({"b": cells, "x": range(rows)}), tmp_path / "x.parquet", use_dictionary=False)
        return quiet_plan(fr.ParquetDataset(tmp_path, batch_size=1, columns=columns)).bytes_per_thread

    assert of_thread("b") > of_thread("x") + 2 * (rows * length - (1 << 20))
