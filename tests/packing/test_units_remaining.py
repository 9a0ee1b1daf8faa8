"""What remains of a pass of units is the rows that are in units which are not delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.amounts import plural
from fastresume.buffers import of_runs
from support.documents import Oracle, documents, opened, units_of, write
from support.jobs import FEW

SHUFFLE = {"shuffle": True, "block_rows": 3, "window_rows": 9}


def numbers(dataset: fr.ParquetDataset) -> list[int]:
    """The numbers of the rows that remain."""
    return of_runs(dataset.remaining().rows(dataset.num_file_rows)).tolist()  # type: ignore[no-any-return]


@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_they_are_the_rows_of_the_sequences_that_come_after(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = [documents(data.draw(st.integers(0, 99)), data.draw(st.integers(1, 120)), 40) for _ in range(2)]
    directory = write(tmp_path_factory.mktemp("left"), files, row_group_size=17)
    length, rest = data.draw(st.sampled_from((1, 9, 50))), data.draw(st.sampled_from(("drop", "pad")))
    chosen = data.draw(st.none() | st.sets(st.integers(0, sum(map(len, files)) - 1), min_size=1))
    oracle = Oracle(files, length, None, rest, chosen)
    unit = fr.Packed("tokens", length=length, rest=rest)
    how: dict[str, Any] = SHUFFLE if data.draw(st.booleans()) else {}
    if chosen is not None:
        how = {**how, "rows": fr.Intervals([[row, row + 1] for row in sorted(chosen)])}
    if not oracle.units:
        return
    dataset = opened(directory, unit, batch_size=2, tail="short", lanes=data.draw(st.integers(1, 2)), **how)
    taken = data.draw(st.integers(0, len(dataset) - 1))
    done = [unit for _, batch in zip(range(taken), dataset, strict=False) for unit in units_of(batch)]
    left = list(oracle.units)
    for each in done:
        left.remove(each)
    expected = sorted({row for _, _, _, rows in left for row in rows})
    assert numbers(dataset) == expected
    cursor = fr.Cursor.from_state(dataset.state_dict())
    by_group = [
        (path, group, row)
        for path, group, rows in cursor.remaining(dataset)
        for s, e in rows
        for row in range(s, e)
    ]
    assert by_group == dataset.locate(expected)
    # Read as rows, no token that was left is lost.
    again = fr.ParquetDataset(
        directory,
        rows=dataset.remaining(),
        batch_size=1,
        columns=["tokens"],
        nulls="mask",
        world=(0, 1),
    )
    found = {token for batch in again for token in batch["tokens"].values.tolist()}  # type: ignore[union-attr]
    assert {
        token for tokens, document, _, _ in left for token, d in zip(tokens, document, strict=True) if d >= 0
    } <= found


@pytest.mark.filterwarnings("ignore:the pass ends here")
@pytest.mark.filterwarnings("ignore:.* rows are decoded per row delivered")
@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_they_are_the_rows_of_the_bins_that_come_after(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = [documents(data.draw(st.integers(0, 99)), data.draw(st.integers(1, 120)), 40) for _ in range(2)]
    directory = write(tmp_path_factory.mktemp("left"), files, row_group_size=17)
    count = sum(map(len, files))
    chosen = data.draw(st.none() | st.sets(st.integers(0, count - 1), min_size=1))
    how: dict[str, Any] = SHUFFLE if data.draw(st.booleans()) else {}
    if chosen is not None:
        how = {**how, "rows": fr.Intervals([[row, row + 1] for row in sorted(chosen)])}
    unit = fr.Bins("tokens", cost=data.draw(st.sampled_from((1, 60, 500))))
    first = opened(directory, unit, 2, tail="short", lanes=data.draw(st.integers(1, 2)), **how)
    left, state = set(range(count)) if chosen is None else set(chosen), first.state_dict()
    bins = sum(len(batch.unit_offsets) - 1 for batch in first)
    for lanes, world_size in ((1, 1), (2, 1), (2, min(2, bins))):
        datasets = [
            opened(directory, unit, 2, tail="short", lanes=lanes, rank=rank, world_size=world_size, **how)
            for rank in range(world_size)
        ]
        for dataset in datasets:
            dataset.load_state_dict(state)
        assert numbers(datasets[0]) == sorted(left)
        plan = datasets[0].plan()
        steps = data.draw(st.integers(0, plan.steps))
        if steps == plan.steps:
            assert len(list(datasets[0])) == steps
            break
        for dataset in datasets:
            for done, batch in zip(range(steps), dataset, strict=False):
                assert left >= set(batch.rows().tolist())
                left -= set(batch.rows().tolist())
                assert dataset.plan().steps == plan.steps - done - 1
        state = datasets[0].state_dict()
        assert numbers(datasets[0]) == sorted(left)
        assert f"{plural(plan.steps - steps, 'batch', 'batches')} left" in repr(datasets[0])


@pytest.mark.filterwarnings("ignore:.* rows are decoded per row delivered")
@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_in_a_mixture_they_are_the_rows_of_the_units_that_come_after(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("left")
    is_packed, sources = data.draw(st.booleans()), {}
    for name in ("web", "code")[: data.draw(st.integers(1, 2))]:
        rows = data.draw(st.integers(8, 60))  # the tokens of a row are all equal, and tell it
        files = [[[len(sources) * 1000 + row] * (row * 7 % 9 + 1) for row in range(rows)]]
        write(root / name, files, row_group_size=data.draw(st.integers(3, 20)))
        unit = fr.Packed("tokens", length=8) if is_packed else fr.Bins("tokens", cost=16)
        order = SHUFFLE if data.draw(st.booleans()) else {}
        dataset = fr.ParquetDataset(root / name, unit=unit, columns=["tokens"], nulls="mask", **order)
        sources[name] = (dataset, data.draw(st.integers(1, 4)))
    size, stop = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(("first", "all")))
    mixture = fr.Mixture(sources, batch_size=size, stop=stop, tail="short", world=(0, 1))
    batches = list(mixture)
    tokens = [set((b["tokens"] if is_packed else b["tokens"].values).flatten().tolist()) for b in batches]
    for step in {0, len(batches) // 2, len(batches) - 2} - {-1, len(batches) - 1}:
        found = {
            (["web", "code"].index(Path(path).parent.name) * 1000) + first + row
            for path, group, rows in batches[step].cursor.remaining(mixture)
            for first in [sum(pq.read_metadata(path).row_group(g).num_rows for g in range(group))]
            for row in of_runs(rows).tolist()
        }
        assert found == set().union(*tokens[step + 1 :])
