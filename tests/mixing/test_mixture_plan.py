"""What `plan()` of a mixture says before anything is read: memory, rows decoded, and advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
import fastresume.plan as of_plans
from fastresume.amounts import in_units
from support.mixtures import WEIGHTS, mixture, source


def test_in_file_order_each_row_is_decoded_once(root: Path) -> None:
    for lanes in (1, 4):
        plan = mixture(root, WEIGHTS, lanes=lanes).plan()
        assert (plan.rows_decoded, plan.rows_decoded_per_row) == (plan.steps * plan.batch_size, 1.0)
        assert plan.advice == ()
        assert "  decoded  1.00 rows per row delivered" in repr(plan)


def test_more_lanes_sources_and_windows_take_more_memory(root: Path) -> None:
    def bytes_of(names: list[str], window_rows: int | None, lanes: int) -> int:
        how: dict[str, Any] = (
            {} if window_rows is None else {"shuffle": True, "block_rows": 8, "window_rows": window_rows}
        )
        sources = {name: (source(root, name, **how), 1) for name in names}
        plan = fr.Mixture(sources, batch_size=16, lanes=lanes).plan()
        assert plan.bytes_per_thread > 0
        assert f"  memory   {in_units(plan.bytes_per_rank)} of decoded rows per rank" in repr(plan)
        return plan.bytes_per_rank

    few = ["web", "code"]
    for window_rows in (None, 16):
        assert bytes_of(few, window_rows, 1) < bytes_of([*few, "books"], window_rows, 1)
        assert bytes_of(few, window_rows, 1) < bytes_of(few, window_rows, 8)
    assert bytes_of(few, 16, 1) < bytes_of(few, 64, 1)


def test_windows_that_ranks_share_are_decoded_by_each_and_the_advice_says_so(root: Path) -> None:
    order: dict[str, Any] = {"shuffle": True, "block_rows": 8, "window_rows": 256}
    sources = {name: (source(root, name, **order), weight) for name, weight in WEIGHTS.items()}
    ranks = [fr.Mixture(sources, batch_size=20, world=(rank, 4)) for rank in range(4)]
    plans = [made.plan() for made in ranks]
    for plan in plans:
        assert plan.rows_decoded_per_row > 1.5
        assert plan.advice[0].endswith("name fewer lanes, or a smaller window_rows of shuffled sources")
    next(iter(ranks[0]))
    assert ranks[0].plan().rows_decoded <= plans[0].rows_decoded


def test_lanes_that_hold_much_are_advised_against(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = mixture(root, WEIGHTS, lanes=4)
    bound = made.plan().bytes_per_rank
    monkeypatch.setattr(of_plans, "LARGE_BYTES", bound - 1)
    assert made.plan().advice[0].startswith("each of 4 lanes holds rows of 3 sources, ")
    monkeypatch.setattr(of_plans, "LARGE_BYTES", bound)
    assert made.plan().advice == ()


@pytest.mark.parametrize("unit", [fr.Packed("tokens", length=4), fr.Bins("tokens", cost=12)])
def test_a_mixture_of_units_states_memory_and_the_rows_that_they_are_made_of(
    tmp_path: Path, unit: fr.Packed | fr.Bins
) -> None:
    sources = {}
    for name, rows in (("web", 20_000), ("code", 10_000)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"tokens": [[1, 2, 3]] * rows}), tmp_path / name / "a.parquet")
        sources[name] = (fr.ParquetDataset(tmp_path / name, unit=unit), rows)
    plan = fr.Mixture(sources, batch_size=4).plan()
    assert plan.bytes_per_rank > 0 < plan.bytes_per_thread
    # Around the first batches, lists up to the next anchors of the index are decoded again.
    assert 30_000 <= plan.rows_decoded < 36_000
    assert plan.rows_decoded_per_row == pytest.approx(plan.rows_decoded / 30_000, rel=0.01)
    many = fr.Mixture(sources, batch_size=4, lanes=4).plan()
    assert many.bytes_per_rank > plan.bytes_per_rank
    assert f"  memory   {in_units(plan.bytes_per_rank)} of decoded rows per rank" in repr(plan)
