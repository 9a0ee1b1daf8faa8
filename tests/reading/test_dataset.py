"""What a dataset is and gives: its files, its schema, and every batch, against the oracle."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.jobs import Job, assert_batch_values, assert_same_batch, parallel
from support.row_files import Write, one_rank
from support.strategies import (
    ROW_NUMBERS,
    TYPES,
    ColumnSpec,
    Dataset,
    DatasetSpec,
    dataset_specs,
    plain_spec,
    written,
)
from support.topologies import topologies

# ------------------------------------------------------------------------------------------------ every batch


@pytest.mark.law(1)
@pytest.mark.law(8)
@given(dataset_specs(min_rows=1), st.data())
def test_every_batch_of_every_rank_is_the_oracles(spec: DatasetSpec, data: st.DataObject) -> None:
    workers = st.sampled_from((0, 0, 1, 2, 3))
    topology = data.draw(topologies(rows=spec.num_rows, named=False, workers=workers))
    with written(spec) as dataset:
        job = Job(dataset, topology)
        steps = job.run_pass()
        delivered = [row for step in steps for batch in step for row in batch]
        assert sorted(delivered + job.oracle.dropped[0]) == list(range(spec.num_rows))
        assert len(steps) == len(job.ranks[0].dataset)
        for _ in range(2):  # and the next pass begins at its start
            job.step()


@pytest.mark.parametrize("fill", ["count", "bits", "extremes"])
def test_every_type_comes_out_bit_for_bit(write_dataset: Write, fill: str) -> None:
    columns = [ColumnSpec(f"c{i}", type_, fill=fill, seed=i) for i, type_ in enumerate(TYPES)]
    dataset = write_dataset(plain_spec([30, 0, 12], [25], columns=columns))
    table = oracle.read_table(dataset.directory)
    batches = list(one_rank(dataset.directory, batch_size=67))
    assert len(batches) == 1
    assert_batch_values(batches[0], table)


def test_each_type_has_torchs_dtype_of_that_name_and_times_are_int64(write_dataset: Write) -> None:
    columns = [ColumnSpec(type_, type_) for type_ in TYPES]
    schema = one_rank(write_dataset(plain_spec([1], columns=columns)).directory).schema
    for type_ in TYPES:
        is_time = type_.startswith(("date", "time"))
        assert schema[type_].dtype == (torch.int64 if is_time else getattr(torch, type_)), type_


def test_columns_that_can_hold_nulls_but_hold_none_are_read(write_dataset: Write) -> None:
    columns = [ColumnSpec("a", nullable=True), ColumnSpec("b", nullable=False)]
    (batch,) = one_rank(write_dataset(plain_spec([9], columns=columns)).directory, batch_size=9)
    assert batch["a"].tolist() == batch["b"].tolist() == list(range(9))


def test_files_and_groups_without_rows_move_no_row_number(write_dataset: Write) -> None:
    dataset = write_dataset(plain_spec([], [0], [3, 0, 0, 2], [0, 0], [], [4], [0]))
    read = one_rank(dataset.directory, batch_size=2)
    assert read.num_rows == 9
    assert len(read.files) == 7
    assert [batch.rows().tolist() for batch in read] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_batch_spans_files_and_groups(write_dataset: Write) -> None:
    dataset = write_dataset(plain_spec(*[[1, 1, 1]] * 5))
    (batch,) = one_rank(dataset.directory, batch_size=15)
    assert batch[ROW_NUMBERS].tolist() == batch.rows().tolist() == list(range(15))


def test_tensors_are_the_users_own(small_dataset: Dataset) -> None:
    dataset = one_rank(small_dataset.directory, batch_size=50)
    first, second = list(dataset)
    for tensor in first.values():
        tensor.zero_()
    again, _ = list(dataset)
    assert again.rows().tolist() == first.rows().tolist()
    assert again[ROW_NUMBERS].tolist() == list(range(50))
    assert second[ROW_NUMBERS].tolist() == list(range(50, 100))


def test_row_numbers_are_int64(small_dataset: Dataset) -> None:
    batch = next(iter(one_rank(small_dataset.directory, batch_size=7)))
    assert batch.rows().dtype == np.int64
    assert batch.rows().shape == (7,)


def test_a_batch_size_over_all_ranks_is_shared_by_them(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, global_batch_size=12, **parallel(1, 4))
    assert (dataset.batch_size, dataset.global_batch_size, len(dataset)) == (3, 12, 103 // 12)
    with pytest.raises(ValueError, match=r"global_batch_size 13 can't be shared .* 4 ranks.* 12 and 16"):
        fr.ParquetDataset(small_dataset.directory, global_batch_size=13, **parallel(1, 4))


# ------------------------------------------------------------------------------------- what it says of itself


def test_the_schema_prints_as_a_table(small_dataset: Dataset) -> None:
    schema = one_rank(small_dataset.directory, columns=["label", "at", fr.stack("i_*", name="dense")]).schema
    assert repr(schema) == "label: bool [B]\nat: int64 [B] timestamp[us]\ndense: float32 [B, 2] i_1, i_2"
    assert list(schema) == ["label", "at", "dense"]
    assert len(schema) == 3
    assert "dense" in schema
    assert "i_1" not in schema


def test_the_schema_is_what_the_batches_are(small_dataset: Dataset) -> None:
    dataset = one_rank(
        small_dataset.directory,
        20,
        columns=[
            "*",
            "!i_*",
            "!c_2",
            "!c_1",
            fr.stack("i_*", name="dense"),
            fr.stack("c_2", "c_1", name="sparse"),
        ],
    )
    for batch in dataset:
        assert list(batch) == list(dataset.schema)
        for name, field in dataset.schema.items():
            assert batch[name].dtype == field.dtype
            assert tuple(batch[name].shape) == tuple(20 if size == "B" else size for size in field.shape)


def test_lengths_and_counts(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, **parallel(1, 2))
    loader = fr.Loader(dataset, threads=1)
    assert dataset.num_rows == 103
    assert len(dataset) == len(loader) == 5
    for epoch in range(2):
        for done, _ in enumerate(loader, start=1):
            left = 5 - done or 5  # after the last batch the next pass is the present one
            assert dataset.batches_left == loader.batches_left == left
            assert dataset.epoch == loader.epoch == epoch + (done == 5)
            assert len(dataset) == len(loader) == 5
    assert loader.epoch == 2


def test_the_reprs_say_what_it_is(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, **parallel(1, 2))
    next(iter(dataset))
    text = (
        "ParquetDataset(3 files, 103 rows, 7 tensors, sequential, batch_size=10, rank 1 of 2, epoch 0, "
        "4 batches left)"
    )
    assert repr(dataset) == text
    loader = fr.Loader(dataset, threads=2, prefetch_bytes=5)
    assert repr(loader) == f"Loader({text}, threads=2, prefetch_bytes=5; {loader.stats()!r})"


def test_the_files_are_opened_when_batches_are_wanted(small_dataset: Dataset) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    datasets = [one_rank(small_dataset.directory, 10) for _ in range(8)]
    iterators = [iter(dataset) for dataset in datasets]
    # One shared cursor each, and no file.
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 8
    del datasets, iterators


def test_a_pickled_or_copied_dataset_goes_on_alone_from_the_cursor_of_the_moment(
    small_dataset: Dataset,
) -> None:
    dataset = one_rank(small_dataset.directory, 10, columns=["row", fr.stack("i_*", name="dense")])
    rest = iter(dataset)
    next(rest)
    copies = [pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)]
    expected = list(rest)
    for other in copies:
        assert repr(other).startswith("ParquetDataset(3 files, 103 rows")
        assert repr(other.schema) == repr(dataset.schema)
        for one, two in zip(expected, other, strict=True):
            assert_same_batch(one, two)
    assert dataset.epoch == 1


@settings(max_examples=20)
@given(data=st.data())
def test_a_batch_keeps_its_cursor_through_what_is_done_to_it(
    small_dataset: Dataset, data: st.DataObject
) -> None:
    dataset = one_rank(small_dataset.directory, 13, columns=["*", "!i_*", fr.stack("i_*", name="dense")])
    batch = next(itertools.islice(dataset, data.draw(st.integers(0, 6)), None))
    changed = batch
    changes = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
        "to": lambda batch: batch.to("cpu"),
        "convert": torch.utils.data.default_convert,
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(changes)), min_size=1, max_size=4)):
        changed = changes[name](changed)
    assert type(changed) is fr.Batch
    assert_same_batch(changed, batch)
    changed["more"] = torch.ones(13)
    del changed["dense"]
    assert changed.state_dict() == batch.state_dict()


def test_a_copied_batch_is_another_mapping(small_dataset: Dataset) -> None:
    batch = next(iter(one_rank(small_dataset.directory, 5)))
    other = copy.copy(batch)
    other["weight"] = torch.ones(5)
    del other["label"]
    assert "weight" not in batch
    assert "label" in batch
    assert other["row"] is batch["row"]
    with pytest.raises(
        TypeError, match=r"keys of a batch are names, found slice\(None, 3, None\): slice its tensors"
    ):
        batch[:3]  # type: ignore[index]
    assert 3 not in batch
    with pytest.raises(KeyError, match="no tensor 'labl' in the batch; there are: row, label"):
        batch["labl"]


def test_a_path_may_begin_at_home_or_be_a_url_of_a_file(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = small_dataset.directory
    monkeypatch.setenv("HOME", str(directory.parent))
    named = one_rank(directory)
    for path in (f"~/{directory.name}", f"file://{directory}", f"file://localhost{directory}"):
        assert one_rank(path).files == named.files
    with pytest.raises(ValueError, match="file:// names a path of this machine"):
        one_rank("file://elsewhere/data")
    assert named.column_names[0] == "row"
    assert set(dir(fr)) == {*fr.__all__, "checkpoint", "integrations", "kafka"}


def test_a_schema_is_pickled_and_copied(small_dataset: Dataset) -> None:
    schema = one_rank(small_dataset.directory).schema
    for made in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema), copy.copy(schema)):
        assert made == schema
        assert repr(made) == repr(schema)


def test_modules_import_what_they_list_and_leave_open_as_it_is() -> None:
    assert {"dcp", "lightning", "transformers"} <= {*dir(fr.integrations)}
    assert fr.integrations.dcp.ResumeState
    with pytest.raises(AttributeError, match="no attribute 'keras'; there are accelerate, dcp, lightning"):
        _ = fr.integrations.keras
    for module in (fr.distributed, fr.maxcompute):
        assert callable(module.open)
        assert "open" not in module.__all__
