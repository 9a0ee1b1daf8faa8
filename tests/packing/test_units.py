"""Packed sequences and bins hold each token and each row once, in any order, after any resume."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import fastresume as fr
from support.documents import Oracle, documents, opened, units_of, write
from support.jobs import FEW
from support.profile import one_in


@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_every_token_is_in_one_sequence_or_counted_as_dropped(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=3))
    files = [
        documents(data.draw(st.integers(0, 99)), rows, data.draw(st.sampled_from((7, 90)))) for rows in sizes
    ]
    total = sum(sizes)
    directory = write(
        tmp_path_factory.mktemp("packed"),
        files,
        row_group_size=data.draw(st.sampled_from((1, 17, 1000))),
        data_page_size=data.draw(st.sampled_from((1, 64, 1 << 20))),
        data_page_version=data.draw(st.sampled_from(("1.0", "2.0"))),
    )
    length = data.draw(st.sampled_from((1, 8, 50)))
    separator, rest = data.draw(st.sampled_from((None, -5))), data.draw(st.sampled_from(("drop", "pad")))
    chosen = data.draw(st.none() | st.sets(st.integers(0, total - 1), min_size=1))
    oracle = Oracle(files, length, separator, rest, chosen)
    how: dict[str, Any] = (
        {} if chosen is None else {"rows": fr.Intervals([[row, row + 1] for row in sorted(chosen)])}
    )
    if data.draw(st.booleans()):
        how |= {"shuffle": True, "block_rows": 4, "window_rows": data.draw(st.sampled_from((4, 40)))}
    unit = fr.Packed("tokens", length=length, separator=separator, rest=rest)
    if not oracle.units:
        with pytest.raises(ValueError, match="no batch would come from 0 sequences"):
            opened(directory, unit, tail="short", **how)
        return
    dataset = opened(directory, unit, tail="short", **how)
    found = [unit for batch in dataset for unit in units_of(batch)]
    if "shuffle" in how:
        assert sorted(found) == sorted(oracle.units)
    else:
        assert found == oracle.units
    assert dataset.num_rows == len(oracle.units)
    assert dataset.plan().dropped_tokens == oracle.dropped


@pytest.mark.law(1)
@pytest.mark.parametrize("order", [{}, {"shuffle": True, "block_rows": 8, "window_rows": 64}], ids=str)
@pytest.mark.parametrize("page_bytes", [100, 1 << 20])
def test_sequences_of_pages_of_any_size_have_all_tokens(
    tmp_path: Path, order: dict[str, Any], page_bytes: int
) -> None:
    files = [documents(6, 500, 90), documents(7, 130, 90)]
    how: dict[str, Any] = {"row_group_size": 300, "data_page_size": page_bytes, "write_batch_size": 16}
    directory = write(tmp_path / "data", files, compression="zstd", **how)
    dataset = opened(directory, fr.Packed("tokens", "labels", length=20, separator=-5), tail="short", **order)
    batches = list(dataset)
    for step in (0, len(batches) // 2, len(batches) - 1):
        again = dataset.batch_at(epoch=0, step=step)
        assert torch.equal(again["labels"], batches[step]["labels"])
    found = [unit for batch in batches for unit in units_of(batch)]
    assert sorted(found) == sorted(Oracle(files, 20, -5, "drop").units)


def test_columns_are_packed_alike(tmp_path: Path) -> None:
    files = [documents(1, 200, 90)]
    directory = write(tmp_path / "data", files)
    dataset = opened(directory, fr.Packed("tokens", "labels", length=33, separator=-9), tail="short")
    assert list(dataset.schema) == ["tokens", "labels", "document", "position"]
    assert dataset.schema["tokens"].shape == ("B", 33)
    for batch in dataset:
        tokens, labels = batch["tokens"], batch["labels"]
        assert isinstance(tokens, torch.Tensor)
        assert isinstance(labels, torch.Tensor)
        assert (tokens.dtype, labels.dtype) == (torch.int32, torch.int64)
        assert torch.equal(labels, torch.where(tokens == -9, tokens, tokens + 1).long())


@pytest.mark.law(2)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("unit", [fr.Packed("tokens", length=16), fr.Bins("tokens", cost=30)], ids=repr)
@pytest.mark.parametrize("how", [{}, {"lanes": 3}, {"tail": "pad"}], ids=str)
def test_resume_after_every_batch_equals_no_interruption(
    tmp_path: Path, shuffle: bool, unit: Any, how: dict[str, Any]
) -> None:
    directory = write(tmp_path / "data", [documents(2, 300, 40), documents(3, 150, 40)], row_group_size=64)
    order: dict[str, Any] = {"shuffle": True, "block_rows": 8, "window_rows": 32} if shuffle else {}

    def contents(batch: fr.Batch) -> Any:
        values = {
            name: value.tolist() if isinstance(value, torch.Tensor) else value.to_list()
            for name, value in batch.items()
        }
        rows = batch.rows()
        return values, rows.to_list() if isinstance(rows, fr.Jagged) else rows.tolist(), batch.valid.tolist()

    whole = [(contents(batch), batch.state_dict()) for batch in opened(directory, unit, **order, **how)]
    assert len(whole) > 10
    for number in range(0, len(whole) - 1, one_in(8)):
        dataset = opened(directory, unit, **order, **how)
        dataset.load_state_dict(whole[number][1])
        assert [contents(batch) for batch in dataset] == [each for each, _ in whole[number + 1 :]]
        assert contents(dataset.batch_at(epoch=0, step=number, state=whole[number][1])) == whole[number][0]


@pytest.mark.law(1)
@pytest.mark.parametrize("unit", [fr.Packed("tokens", length=16), fr.Bins("cost", cost=30)], ids=repr)
def test_other_ranks_and_workers_go_on_where_others_stood(tmp_path: Path, unit: Any) -> None:
    files = [documents(4, 400, 30), documents(5, 90, 30)]
    directory = write(tmp_path / "data", files, row_group_size=50)
    seen: Counter[Any] = Counter()
    state = None

    def take(batch: fr.Batch) -> None:
        if isinstance(unit, fr.Packed):
            seen.update(str(unit) for unit in units_of(batch))
        else:
            seen.update(batch.rows().tolist())

    for world_size, steps in ((1, 3), (3, 4), (2, 5)):
        for rank in range(world_size):
            dataset = opened(directory, unit, rank=rank, world_size=world_size, shuffle=True, block_rows=4)
            if state is not None:
                dataset.load_state_dict(state)
            for _, batch in zip(range(steps), iter(dataset)):  # noqa: B905  (so many)
                take(batch)
                after = batch.state_dict()
        state = after
    loaded = opened(directory, unit, lanes=2, batch_size=2, shuffle=True, tail="short")
    loaded.load_state_dict(state)
    for batch in DataLoader(loaded, batch_size=None, num_workers=2):
        take(batch)
    assert set(seen.values()) == {1}
    if isinstance(unit, fr.Packed):
        assert sorted(seen) == sorted(str(each) for each in Oracle(files, 16, None, "drop").units)
    else:
        assert sorted(seen) == list(range(490))


@pytest.mark.parametrize("how", [{"threads": 0}, {"threads": 3}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize(
    "unit", [fr.Packed("tokens", length=16), fr.Bins("tokens", cost=30, rows=4)], ids=repr
)
def test_a_loader_delivers_the_same(tmp_path: Path, how: dict[str, Any], unit: Any) -> None:
    directory = write(tmp_path / "data", [documents(6, 300, 40)], row_group_size=64)
    lanes = {"lanes": 2, "batch_size": 4}
    plain = [batch["tokens"] for batch in opened(directory, unit, **lanes)]
    with fr.Loader(opened(directory, unit, **lanes), **how) as loader:
        found = [batch["tokens"] for batch in loader]
        assert loader.stats().rows > 0
    if "threads" in how:
        for own, other in zip(found, plain, strict=True):
            if isinstance(own, torch.Tensor):
                assert torch.equal(own, other)  # type: ignore[arg-type]
            else:
                assert own.to_list() == other.to_list()  # type: ignore[union-attr]
    assert len(found) == len(plain)


@FEW
@given(data=st.data())
def test_bins_are_consecutive_rows_of_a_row_group_that_cost_no_more(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows, group = data.draw(st.integers(1, 200)), data.draw(st.sampled_from((1, 13, 1000)))
    files = [documents(data.draw(st.integers(0, 99)), rows, 40)]
    directory = write(tmp_path_factory.mktemp("bins"), files, row_group_size=group)
    cost, most = data.draw(st.sampled_from((1, 12, 100))), data.draw(st.sampled_from((None, 1, 3)))
    expected: list[list[int]] = []
    for row, document in enumerate(files[0]):
        length = len(document or ())
        last = expected[-1] if expected and row % group else []
        spent = sum(len(files[0][other] or ()) for other in last)
        if last and spent + length <= cost and len(last) < (most or rows):
            last.append(row)
        else:
            expected.append([row])
    name = data.draw(st.sampled_from(("tokens", "cost")))
    found = []
    for batch in opened(directory, fr.Bins(name, cost=cost, rows=most), tail="short"):
        offsets = batch.unit_offsets.tolist()
        assert (batch.unit_offsets.dtype, offsets[0], offsets[-1]) == (torch.int64, 0, batch.num_rows)
        numbers = batch.rows().tolist()
        found += [numbers[begin:end] for begin, end in itertools.pairwise(offsets)]
        assert batch["tokens"].to_list() == [files[0][row] for row in numbers]  # type: ignore[union-attr]
        assert batch["text"].to_strings() == [f"0 {row}" for row in numbers]  # type: ignore[union-attr]
    assert found == expected


def test_packed_sources_are_mixed_by_sequences(tmp_path: Path) -> None:
    files = [[documents(7, 200, 60)], [documents(8, 100, 60)]]
    sources = {}
    oracles = []
    for name, own, weight in (("web", files[0], 3), ("code", files[1], 1)):
        unit = fr.Packed("tokens", length=32)
        directory = write(tmp_path / name, own)
        sources[name] = (fr.ParquetDataset(directory, unit=unit, shuffle=fr.Shuffle(block_rows=2)), weight)
        oracles.append({str(each) for each in Oracle(own, 32, None, "drop").units})
    mixture = fr.Mixture(sources, batch_size=4, world=(0, 1))
    seen: Counter[tuple[int, str]] = Counter()
    states = []
    for batch in mixture:
        seen.update(
            (source, str(each)) for source, each in zip(batch.source.tolist(), units_of(batch), strict=True)
        )
        assert Counter(batch.source.tolist()) == {0: 3, 1: 1}
        states.append(batch.state_dict())
    assert set(seen.values()) == {1}
    assert all(each in oracles[source] for source, each in seen)
    again = fr.Mixture(sources, batch_size=4, world=(0, 1))
    again.load_state_dict(states[4])
    rest = [each for batch in again for each in units_of(batch)]
    assert rest == [
        each
        for batch in list(fr.Mixture(sources, batch_size=4, world=(0, 1)))[5:]
        for each in units_of(batch)
    ]


def test_attention_sees_where_documents_end() -> None:
    document = torch.tensor([[0, 0, 1, 2], [0, 0, 0, 0], [0, 1, -1, -1]], dtype=torch.int32)
    assert fr.cu_seqlens(document).tolist() == [0, 2, 3, 4, 8, 9, 10, 12]
    assert fr.cu_seqlens(document).dtype == torch.int32
    tokens = torch.tensor([[5, 6, 7]], dtype=torch.int32)
    position = torch.tensor([[0, 1, 0, 1]], dtype=torch.int32)
    for other in (document[0], [[0, 0]], document.long(), tokens, position, document.flip(1)):
        with pytest.raises(ValueError, match=r"batch\['document'\]"):
            fr.cu_seqlens(other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"int32 \[B, length\], found int64 \[3, 4\]$"):
        fr.cu_seqlens(document.long())


@pytest.mark.parametrize(
    "columns", [None, "tokens", ["tokens"], fr.col("tokens").cast(torch.int64)], ids=repr
)
def test_null_and_empty_lists_have_no_tokens(tmp_path: Path, columns: Any) -> None:
    directory = write(tmp_path / "data", [[[1, 2], None, [], [3]]])
    dataset = opened(directory, fr.Packed("tokens", length=3, separator=0), batch_size=1, columns=columns)
    (batch,) = dataset
    assert batch["tokens"].tolist() == [[1, 2, 0]]
    assert dataset.plan().dropped_tokens == 2


def test_each_column_may_have_a_separator_of_its_own_which_is_no_part_of_a_state(tmp_path: Path) -> None:
    lists = [[number, 0] for number in range(20)]
    pq.write_table(pa.table({"tokens": lists, "labels": lists}), tmp_path / "a.parquet")

    def read(separator: Any, state: Any = None) -> list[Any]:
        unit = fr.Packed("tokens", "labels", length=6, separator=separator)
        dataset = opened(tmp_path, unit, batch_size=1)
        if state is not None:
            dataset.load_state_dict(state)
        return list(dataset)

    own, same = read({"labels": -100, "tokens": 7}), read(7)
    for batch, other in zip(own, same, strict=True):
        assert batch["tokens"].tolist() == other["tokens"].tolist()
        ends = torch.cat([batch["document"].diff(dim=1) != 0, torch.ones(1, 1, dtype=torch.bool)], dim=1)
        assert torch.equal(batch["labels"], other["labels"].masked_fill(ends, -100))
    assert [batch["labels"].tolist() for batch in own[3:]] == [
        batch["labels"].tolist() for batch in read({"labels": -100, "tokens": 7}, same[2].state_dict())
    ]
    unit = fr.Packed("tokens", "labels", length=6, separator={"labels": -100, "tokens": 7})
    assert repr(unit) == "fr.Packed('tokens', 'labels', length=6, separator={'tokens': 7, 'labels': -100})"
    assert pickle.loads(pickle.dumps(unit)) == unit


@pytest.mark.parametrize("separator", [70_000, -1, 2**63])
def test_a_separator_that_the_column_can_not_hold_is_refused(tmp_path: Path, separator: int) -> None:
    table = pa.table({"tokens": pa.array([[1, 2], [3]], pa.list_(pa.uint16()))})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(
        ValueError, match=rf"separator={separator} does not fit 'tokens', which is torch.uint16"
    ):
        fr.ParquetDataset(tmp_path, batch_size=1, unit=fr.Packed("tokens", length=2, separator=separator))


@pytest.mark.parametrize("columns", ["*", ["tokens", "label"], [fr.col("label"), "tokens"]], ids=repr)
def test_columns_that_sequences_would_leave_out_are_refused(tmp_path: Path, columns: Any) -> None:
    pq.write_table(pa.table({"tokens": [[1, 2], [3]], "label": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"fr.Packed\('tokens', length=2\) would leave out 'label'"):
        fr.ParquetDataset(tmp_path, batch_size=1, columns=columns, unit=fr.Packed("tokens", length=2))


@pytest.mark.filterwarnings("default:fr.Packed drops")
def test_many_dropped_tokens_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [[1] * 97, [2] * 3]}), tmp_path / "a.parquet")

    def made(length: int, **how: Any) -> fr.ParquetDataset:
        return fr.ParquetDataset(tmp_path, batch_size=1, unit=fr.Packed("tokens", length=length, **how))

    with pytest.warns(UserWarning, match=r"fr.Packed drops 4 of 100 tokens.*rest='pad'") as contents:
        made(6)
    assert contents[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(6, rest="pad")
        made(7)  # two tokens of a hundred
