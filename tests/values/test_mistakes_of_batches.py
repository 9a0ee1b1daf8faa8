"""Mistakes with batches and `Jagged` values: each is refused in words that say what to write."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import ChainDataset

import fastresume as fr
from fastresume.sources import Segment
from support.refusals import Call, each_refused

VALUES, OFFSETS = torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3])
ANY: Any = fr
FLAGS = torch.tensor([True, False])


def jagged(*parts: Any, **more: Any) -> fr.Jagged:
    return fr.Jagged(*(parts or (VALUES, OFFSETS)), **more)


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., fr.ParquetDataset]:
    pq.write_table(pa.table({"x": range(20), "l": [[1], [2, 3]] * 10}), tmp_path / "rows.parquet")
    return lambda **how: fr.ParquetDataset(tmp_path, **{"batch_size": 5, "world": (0, 1), **how})


def test_calls_of_others_say_what_to_write(rows: Callable[..., fr.ParquetDataset]) -> None:
    dataset: Any = rows()
    batch, one = dataset.peek(), ANY.Jagged(VALUES, OFFSETS)
    each_refused(
        (
            (
                lambda: batch.to(dtype=torch.float16),
                TypeError,
                r"dtype=: write columns=\[fr\.col\(name\)\.cast",
            ),
            (lambda: batch.to("cpu", torch.float16), TypeError, r"batch\[name\]\.to\(torch\.float16\)"),
            (lambda: one.to("cpu", torch.float16), TypeError, r"jagged\.values\.to\(torch\.float16\)"),
            (lambda: one.to_padded(4, padding_value=1), TypeError, "padding_value=: write value="),
            (lambda: one.pad(8), AttributeError, r"write \.to_padded\(length\)"),
            (
                lambda: ANY.col("t").tokenize(),
                AttributeError,
                r"batch\[name\]\.to_strings\(\) for dataset\.map",
            ),
            (lambda: dataset.sample(5), AttributeError, r"write \.read_rows\(\[\.\.\.\]\)"),
            (lambda: ANY.Loader(dataset).pin_memory, AttributeError, r"fr\.Loader\(dataset, device='cuda'\)"),
            (lambda: one.to_padded(0), ValueError, r"room for 0: write to_padded\(value=0\)"),
            (
                lambda: one.to_padded(1),
                ValueError,
                r"room for 1: write fr\.col\(name\)\.pad\(1, truncate='head'\)",
            ),
            (
                lambda: one.to_padded(1, truncate="head"),
                TypeError,
                r"truncate=: write fr\.col\(name\)\.pad\(length",
            ),
            (lambda: one.to_padded(-100), ValueError, r"found -100: write to_padded\(value=-100\)"),
            (ANY.Loader.start, TypeError, "is of an object, and was called on its class: make one first"),
            (ANY.ParquetDataset.peek, TypeError, "called on its class"),
            (lambda: one.to_padded_tensor(0), AttributeError, r"write \.to_padded\(value=0\)"),
            (lambda: one.unbind, AttributeError, r"write list\(jagged\)"),
            (lambda: ANY.Jagged(VALUES, lengths=3), TypeError, r"write offsets=torch\.tensor\(\[0, \*len"),
            (lambda: setattr(batch, "label", VALUES), AttributeError, r"write batch\['label'\] = "),
            (lambda: setattr(batch, "step", 5), AttributeError, "^batch.step can't be set"),
            (lambda: ANY.Schema({"x": 1}), TypeError, r"found \{'x': 1\}: write dataset\.schema"),
            (ANY.Condition, TypeError, r"write fr\.col\(name\) > 0"),
            (ANY.Batch, TypeError, r"write dataset\.peek\(\)"),
            (lambda: torch.nn.Linear(1, 1)(batch), TypeError, r"torch's linear .* write batch\['name'\]$"),
            (lambda: ANY.Batch({}), TypeError, r"given dict\(batch\): see docs/reference/frameworks\.md"),
            (lambda: batch | {"y": VALUES}, TypeError, r"write batch\.update\(tensors\)"),
            (lambda: {"y": VALUES} | batch, TypeError, r"write batch\.update\(tensors\)"),
            (
                lambda: dataset.batch_of_row(70),
                TypeError,
                r"lacks row_number: write dataset\.batch_of_row\(0,",
            ),
        )
    )
    assert one.to_padded(value=0).shape == (2, 2)
    assert dict(batch) | {"y": VALUES}


def test_statistics_are_a_mapping_and_name_what_there_is(rows: Callable[..., fr.ParquetDataset]) -> None:
    stats = fr.Loader(rows()).stats()
    assert dict(stats) == {**stats} == stats.as_dict()
    assert "rows" in stats
    assert list(stats) == list(stats.as_dict())
    with pytest.raises(KeyError, match="no statistic 'zzz'; there are: batches, rows, bytes"):
        stats["zzz"]


def test_a_plan_is_a_mapping_and_names_what_there_is(rows: Callable[..., fr.ParquetDataset]) -> None:
    for dataset in (rows(), rows(shuffle=True), fr.Mixture({"a": (rows(), 1)}, batch_size=2, world=(0, 1))):
        plan = dataset.plan()
        assert dict(plan) == {**plan} == plan.as_dict()
        assert plan["steps"] == plan.steps == json.loads(json.dumps(plan.as_dict()))["steps"]
        assert list(plan) == list(plan.as_dict())
    with pytest.raises(KeyError, match="a plan has no 'zzz'; there are: epoch, order"):
        plan["zzz"]
    with pytest.raises(AttributeError, match=r"a Plan has no attribute 'items': write \.as_dict\(\)"):
        plan.items()  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match="a Plan has no attribute 'total_bytes'; there are: epoch, order"
    ):
        plan.total_bytes  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_copy_of_live_statistics_stays_as_it_was(
    rows: Callable[..., fr.ParquetDataset], num_workers: int, tmp_path: Path
) -> None:
    loader = fr.Loader(rows(), num_workers=num_workers)
    iterator = iter(loader)
    next(iterator)
    stats = loader.stats()
    torch.save({"stats": stats}, tmp_path / "stats.pt")
    made = [copy.copy(stats), copy.deepcopy(stats), pickle.loads(pickle.dumps(stats))]
    made += [torch.load(tmp_path / "stats.pt")["stats"], copy.copy(made[0])]
    next(iterator)
    assert stats.batches == stats["batches"] == 2
    for one in made:
        assert isinstance(one, fr.Stats)
        assert one.batches == one["batches"] == one.as_dict()["batches"] == 1
        assert repr(one).startswith("Stats(batches=1, rows=5")
        with pytest.raises(AttributeError, match=r"a Stats has no attribute 'items': write \.as_dict\(\)"):
            one.items()
        with pytest.raises(AttributeError, match=r"'throughput'; there are: batches, rows.*, eta_seconds"):
            one.throughput  # noqa: B018
    with pytest.raises(KeyError, match="no statistic 'zzz'"):
        made[0]["zzz"]
    loader.close()


def test_rows_that_are_none_are_refused_when_they_are_made() -> None:
    inner = jagged()
    each_refused(
        (
            (lambda: jagged([7, 8], OFFSETS), TypeError, r"found \[7, 8\]: write torch\.as_tensor\(values\)"),
            (lambda: jagged(VALUES, [0, 1, 3]), TypeError, r"found \[0, 1, 3\]: write torch\.as_tensor\(off"),
            (lambda: jagged(torch.tensor(7), OFFSETS), ValueError, r"write values\.reshape\(1\)"),
            (lambda: jagged(VALUES, OFFSETS.float()), TypeError, r"float32: write offsets\.long\(\)"),
            (
                lambda: jagged(VALUES, OFFSETS[None]),
                ValueError,
                r"\[B \+ 1\], found \[1, 3\]: write offsets=",
            ),
            (lambda: jagged(VALUES, OFFSETS[:0]), ValueError, r"found \[0\]: write offsets="),
            (lambda: jagged(VALUES, OFFSETS[1:]), ValueError, "begin at 0, found 1: write offsets="),
            (lambda: jagged(VALUES, OFFSETS[:2]), ValueError, "end at the number of its values, 3, found 1"),
            (
                lambda: jagged(VALUES, torch.tensor([0, 2, 1, 3])),
                ValueError,
                "found 1 after 2 at row 1: write",
            ),
            (lambda: jagged(inner, OFFSETS), ValueError, "end at the number of its values, 2, found 3"),
            (lambda: jagged(kind="strings"), ValueError, "kind must be 'list' or 'string' or 'binary'"),
            (
                lambda: jagged(kind="string"),
                TypeError,
                r"bytes \(uint8\), found torch\.int64: write kind='list'",
            ),
            (lambda: jagged(valid=[True, False]), TypeError, "valid of a Jagged must be a tensor of bool"),
            (
                lambda: jagged(valid=FLAGS[:1]),
                ValueError,
                r"valid of a Jagged must be bool \[2\], found \[1\]",
            ),
            (lambda: jagged(values_valid=FLAGS), ValueError, r"values_valid of a Jagged must be bool \[3\]"),
        )
    )
    assert jagged(inner, torch.tensor([0, 0, 2])).to_list() == [[], [[7], [8, 9]]]


def test_what_rows_are_not_says_what_to_write() -> None:
    rows: Any = jagged()
    each_refused(
        (
            (lambda: rows == 3, TypeError, r"write jagged\.values == 3"),
            (lambda: rows != jagged(), TypeError, r"torch\.equal\(a\.values, b\.values\)"),
            (lambda: rows > 3, TypeError, r"write jagged\.values == 3"),
            *(
                (call, TypeError, r"write jagged\.values / 255 .* jagged\.to_padded\(\) / 255 .*\.fixed\(k\)")
                for call in (
                    lambda: rows / 255,
                    lambda: rows % 2,
                    lambda: 2**rows,
                    lambda: -rows,
                    lambda: abs(rows),
                    lambda: torch.tensor(2) * rows,
                )
            ),
            (lambda: torch.log(rows), TypeError, r"log takes no Jagged, .* write jagged\.to_padded\(\)"),
            (lambda: torch.stack([rows, rows]), TypeError, r"stack takes no Jagged, .* jagged\.values"),
            (lambda: torch.nn.Embedding(9, 2)(rows), TypeError, r"embedding takes no Jagged"),
            (
                lambda: rows[:, :-1],
                TypeError,
                r"write jagged\.to_padded\(\)\[:, :-1\], or fr\.col\(name\)\.pad",
            ),
            (lambda: rows[..., 0], TypeError, r"write jagged\.to_padded\(\)\[\.\.\., 0\]"),
            (lambda: rows[::2, None], TypeError, r"write jagged\.to_padded\(\)\[::2, None\]"),
            (lambda: 2 * rows, TypeError, "no arithmetic"),
            (lambda: rows[[0, 1]], TypeError, r"found \[0, 1\]: write jagged\.take\(indices\)"),
            (lambda: rows[0, 1], TypeError, r"found \(0, 1\): write jagged\[0\]\[1\]"),
            (lambda: rows[FLAGS], TypeError, r"mask\.nonzero\(\)"),
            (lambda: rows[True], TypeError, "found True"),
            (lambda: rows["x"], TypeError, "found 'x'"),
            (lambda: rows[1.0], TypeError, r"found 1\.0"),
            (lambda: rows.take([0, 1]), TypeError, r"found \[0, 1\]: write torch\.tensor\(\[0, 1\]\)"),
            (
                lambda: rows.take(FLAGS),
                TypeError,
                r"bool \[2\]: write jagged\.take\(mask\.nonzero\(\)\.squeeze",
            ),
            (lambda: rows.take(torch.tensor([0.0])), TypeError, r"float32 \[1\]: write .*indices\.long\(\)"),
            (
                lambda: rows.take(torch.tensor([0, 5])),
                IndexError,
                r"row 5 of 2 rows: indices are in \[0, 2\)",
            ),
            (lambda: rows.take(torch.tensor([-1])), IndexError, "row -1 of 2 rows"),
            (lambda: rows.to_padded(10, value="x"), TypeError, "value must be a number .*found 'x'"),
            (lambda: rows.to_padded("x"), TypeError, "length must be an integer, found 'x'"),
            (lambda: rows.to(torch.float16), TypeError, r"found torch\.float16: write jagged\.values\.to\("),
            (lambda: rows.to("gpu"), ValueError, "must be 'cpu', 'cuda' or 'cuda:INDEX', found 'gpu'"),
            (lambda: np.asarray(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: torch.from_dlpack(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: torch.as_tensor(rows), TypeError, r"no array, .* write jagged\.to_padded\(\)"),
            (lambda: rows.sum, AttributeError, r"write \.values\.sum, of the values of all rows"),
            (lambda: rows.index_select(0, OFFSETS), AttributeError, r"write \.take\(rows\)"),
            (lambda: rows.chunk(2), AttributeError, r"write jagged\[2:5\] for some rows"),
            (lambda: rows.repeat(2), AttributeError, r"write \.take\(rows\), which may name a row twice"),
            (lambda: torch.nn.EmbeddingBag(9, 3)(rows), TypeError, "include_last_offset=True"),
            (lambda: rows.decode, AttributeError, r"write \.to_strings\(\)"),
            (lambda: rows.float, AttributeError, r"write \.values\.float\(\), or columns="),
            (
                lambda: delattr(rows, "values"),
                AttributeError,
                r"can't be changed, found del \.values: write del batch\['name'\]",
            ),
        )
    )
    bag = torch.nn.EmbeddingBag(10, 3, include_last_offset=True)
    assert bag(rows.values, rows.offsets).shape == (2, 3)
    assert rows[np.int64(1)].tolist() == rows[torch.tensor(1)].tolist() == [8, 9]
    assert rows in [rows, jagged]
    assert rows.to_padded(value=np.float32(4)).tolist() == [[7, 4], [8, 9]]


def test_what_a_batch_is_not_says_what_to_write(rows: Callable[..., fr.ParquetDataset]) -> None:
    batch: Any = rows().peek()
    long, masked = torch.rand(500), rows().map(lambda batch: batch.mask(torch.rand(500), "why") or batch)
    each_refused(
        (
            (lambda: batch[long > 0], TypeError, r"write \{name: batch\[name\]\[rows\] for name in batch\}"),
            (lambda: batch[np.array([0, 1])], TypeError, r"found array\(\[0, 1\]\): write \{name: "),
            (lambda: batch.to(long), TypeError, r"index, found <Tensor float32 \[500\]>"),
            (lambda: fr.Loader(rows(), device=long), TypeError, r"index, found <Tensor float32 \[500\]>"),  # type: ignore[arg-type]
            (masked.peek, TypeError, r"a bool for each row, found <Tensor float32 \[500\]>"),
            (lambda: batch.generator(1), TypeError, r"found 1 too: write batch\.generator\(draw=1\)"),
            (lambda: batch.to("cuda:99"), fr.FastresumeError, "device='cuda:99', but "),
            (lambda: batch["l"].to("cuda:99"), fr.FastresumeError, "device='cuda:99', but "),
            (lambda: batch.generator(device="cuda:99"), fr.FastresumeError, "device='cuda:99', but "),
            (lambda: batch.to("mps:7"), fr.FastresumeError, "device='mps:7', but "),
            (lambda: batch == batch.to("cpu"), TypeError, r"torch\.equal\(a\['name'\], b\['name'\]\)"),
            (lambda: batch != batch.to("cpu"), TypeError, r"a\.cursor == b\.cursor"),
            (lambda: batch.__setitem__(3, VALUES), TypeError, r"found 3: write batch\['name'\] = tensor"),
            (
                lambda: batch[["x", "l"]],
                TypeError,
                r"'l'\]: write \{name: batch\[name\] for name in names}",
            ),
            (lambda: batch["x", "l"], TypeError, "or columns= of the dataset"),
            (lambda: batch.copy, AttributeError, r"write copy\.copy\(batch\), or dict\(batch\)"),
            (lambda: batch.float, AttributeError, r"write batch\['name'\]\.float, of one tensor"),
            (lambda: batch.generator(device="gpu"), ValueError, "'cuda:INDEX', found 'gpu'"),
            (lambda: batch.generator(device=None), TypeError, "device must be a torch.device"),
            (lambda: batch.to("gpu"), ValueError, "'cuda:INDEX', found 'gpu'"),
        )
    )
    assert {name: batch[name] for name in ["x", "l"]}.keys() == {"x", "l"}
    assert batch is not None
    assert (batch == 3) is False


def test_rows_of_no_pass_have_no_place_that_code_may_ask_for(rows: Callable[..., fr.ParquetDataset]) -> None:
    batch = rows().read_rows([1])
    for name in ("epoch", "step", "global_step", "batches_left", "cursor", "cursor_before"):
        assert not hasattr(batch, name)
        with pytest.raises(fr.FastresumeError, match="read by their numbers"):
            getattr(batch, name)
    for call in (batch.state_dict, batch.row_seeds, batch.generator):
        with pytest.raises(fr.FastresumeError, match="read by their numbers"):
            call()
    assert dict(inspect.getmembers(batch))["num_rows"] == 1
    assert hasattr(rows().peek(), "step")


def test_settings_of_what_is_made_already_are_refused(rows: Callable[..., fr.ParquetDataset]) -> None:
    dataset: Any = rows()
    loader: Any = fr.Loader(dataset)
    batch: Any = dataset.peek()

    def setting(of: Any, name: str, value: Any) -> tuple[Call, type[Exception], str]:
        written = rf"changes nothing in a {type(of).__name__} .*: write {type(of).__name__}\(\.\.\., {name}="
        return lambda: setattr(of, name, value), AttributeError, written

    each_refused(
        (
            setting(loader, "num_workers", 1),
            setting(loader, "threads", 2),
            setting(loader, "audit", "log"),
            (
                lambda: setattr(loader, "devise", "cuda"),
                AttributeError,
                r"write Loader\(\.\.\., device='cuda'\)",
            ),
            (
                lambda: setattr(loader, "batch_size", 9),
                AttributeError,
                r"write ParquetDataset\(paths, batch_size",
            ),
            (lambda: setattr(loader, "drop_last", True), AttributeError, "write tail='drop'"),
            (
                lambda: setattr(loader, "step", 9),
                AttributeError,
                r"already: it is batch\.step, of the last batch",
            ),
            (lambda: setattr(loader, "files", []), AttributeError, r"already: it is loader\.dataset\.files$"),
            (
                lambda: setattr(dataset, "device", "cuda"),
                AttributeError,
                r"write fr\.Loader\(dataset, device=",
            ),
            (lambda: setattr(dataset, "steps", 9), AttributeError, r"it is dataset\.plan\(\)\.steps$"),
            (lambda: setattr(batch, "device", "cpu"), AttributeError, r"write batch\['name'\]\.device"),
            (lambda: setattr(batch, "files", []), AttributeError, r"write dataset\.files$"),
            (
                lambda: setattr(batch, "valid", FLAGS),
                AttributeError,
                r"write batch\.mask\(rows, reason\), in",
            ),
            setting(dataset, "shuffle", True),
            setting(dataset, "seed", 9),
            setting(dataset, "batch_size", 20),
            setting(fr.Mixture({"a": (dataset, 1)}, batch_size=5, world=(0, 1)), "stop", "all"),
            (
                lambda: setattr(dataset, "epoch", 3),
                AttributeError,
                "and needs none: each pass is shuffled again",
            ),
            (
                lambda: fr.Loader(dataset, threads=10**6),
                ValueError,
                "threads must be at most 1024, found 1000000",
            ),
            (lambda: fr.Loader(dataset, num_workers=10**6), ValueError, "num_workers must be at most 1024"),
        )
    )
    dataset.purpose = loader.purpose = "train"  # what nobody else has is its user's

    class Own(fr.ParquetDataset):
        pass

    own: Any = Own(dataset.paths, batch_size=5, world=(0, 1))
    own.seed = 3
    assert (own.seed, loader.purpose, dataset.map(lambda batch: batch).purpose) == (3, "train", "train")


def test_iterators_are_not_copied_and_say_where_states_are(rows: Callable[..., fr.ParquetDataset]) -> None:
    iterator: Any = iter(fr.Loader(rows()))
    each_refused(
        (
            (lambda: copy.copy(iterator), TypeError, r"save loader\.state_dict\(\), and call iter\(loader\)"),
            (lambda: pickle.dumps(iterator), TypeError, "can't be copied or pickled"),
            (lambda: iterator.state_dict(0), AttributeError, r"write loader\.state_dict\(\), or batch\."),
            (lambda: iterator.get_state(0), AttributeError, r"write loader\.state_dict\(\)"),
            (lambda: iterator.load_state_dict({}), AttributeError, r"write loader\.load_state_dict\(state\)"),
        )
    )
    assert len(list(iterator)) == 4


def test_rows_of_a_jagged_are_not_searched(rows: Callable[..., fr.ParquetDataset]) -> None:
    lists: Any = rows().peek()["l"]
    each_refused(
        (
            (lambda: 3 in lists, TypeError, r"\(jagged\.values == 3\)\.any\(\)"),
            (lambda: "a" in lists, TypeError, r"in jagged\.to_strings\(\)"),
        )
    )


def test_texts_are_no_bools(rows: Callable[..., fr.ParquetDataset], tmp_path: Path) -> None:
    dataset: Any = rows()
    loader: Any = fr.Loader(dataset)
    state, checkpointer = dataset.state_dict(), ANY.checkpoint.Checkpointer(tmp_path / "checkpoints")

    def text(call: Call, name: str) -> tuple[Call, type[Exception], str]:
        return call, TypeError, rf"^{name} must be True or False, found 'false'"

    each_refused(
        (
            text(lambda: dataset.load_state_dict(state, reset_epochs="false"), "reset_epochs"),
            text(lambda: dataset.load_state_dict(state, "false"), "reset_epochs"),
            text(lambda: loader.load_state_dict(state, check_same="false"), "check_same"),
            text(lambda: ANY.Loader(dataset, static="false"), "static"),
            text(lambda: checkpointer.save(1, loader=loader, pin="false"), "pin"),
            text(lambda: checkpointer.save(1, loader=loader, wait="false"), "wait"),
            text(lambda: checkpointer.restore(loader=loader, partial="false"), "partial"),
            text(lambda: checkpointer.restore(loader=loader, required="false"), "required"),
            text(lambda: checkpointer.restore(loader=loader, random="false"), "random"),
            text(lambda: ANY.col("x").cast(torch.float32, rounding="false"), "rounding"),
            text(lambda: dataset.peek().to("cpu", "false"), "non_blocking"),
        )
    )


def test_a_group_is_a_process_group_also_where_there_is_none(
    rows: Callable[..., fr.ParquetDataset], tmp_path: Path
) -> None:
    state, words = rows().state_dict(), "group must be a torch.distributed.ProcessGroup or None"
    each_refused(
        (
            (lambda: ANY.distributed.check_same(state, group=5), TypeError, f"{words}, found 5"),
            (
                lambda: ANY.distributed.open(tmp_path, batch_size=2, group=(0, 2)),
                TypeError,
                rf"{words}, found \(0, 2\): world=\(rank, world_size\)",
            ),
            (
                lambda: ANY.distributed.open(tmp_path, 32),
                TypeError,
                r"found 32 too: write fr\.distributed\.open\(paths, batch_size=n\)",
            ),
        )
    )


def test_sources_and_weights_of_a_mixture_that_is_made_are_refused(
    rows: Callable[..., fr.ParquetDataset],
) -> None:
    mixture: Any = fr.Mixture({"a": (rows(), 1), "b": (rows(seed=1), 1)}, batch_size=2)
    written = r"write a new Mixture\({name: \(dataset, weight\), ...}\), which takes the state of this one"
    names = ("weights", "shares", "sources", "datasets")
    each_refused(tuple((partial(setattr, mixture, name, {}), AttributeError, written) for name in names))


def test_calls_that_mean_another_object_say_which(rows: Callable[..., fr.ParquetDataset]) -> None:
    dataset: Any = rows()
    mixture: Any = fr.Mixture({"a": (rows(), 1)}, batch_size=5, world=(0, 1))
    batch = dataset.peek()
    each_refused(
        (
            (lambda: dataset.plan(num_workers=2), TypeError, "no argument num_workers=: write workers="),
            (lambda: mixture.plan(num_workers=2), TypeError, "no argument num_workers=: write workers="),
            (
                lambda: dataset.peek(5),
                TypeError,
                r"found 5 too: write dataset\.peek\(\), or dataset\.read_rows",
            ),
            (
                lambda: dataset.map(dict, dict),
                TypeError,
                r"one function: write dataset\.map\(function\)\.map",
            ),
            (lambda: dataset.load_state_dict(None), fr.StateError, "found None: a new job loads none"),
            (
                lambda: dataset.load_state_dict(48),
                fr.StateError,
                r"found 48: pass what batch\.state_dict\(\) ret",
            ),
            (lambda: mixture.sources["a"], TypeError, r"write mixture\.datasets\['a'\]"),
            (lambda: mixture.sources.items, AttributeError, r"write mixture\.datasets\.items\(\)"),
            (lambda: mixture.datasets["b"], KeyError, r"a Mixture has no source 'b'; there are: \['a'\]"),
            (lambda: mixture["b"], TypeError, r"write mixture\.datasets\['a'\]"),
            (
                lambda: ANY.Mixture({"a": ("x.parquet", 2)}, batch_size=5),
                TypeError,
                r"found str: write \{'a': \(fr\.ParquetDataset\('x\.parquet'\), 2\)\}",
            ),
            (
                lambda: ANY.Mixture({"a": (fr.Loader(dataset), 2)}, batch_size=5),
                TypeError,
                r"found Loader: write loader\.dataset",
            ),
            (lambda: ANY.Mixture(datasets={}), TypeError, r"datasets=: write the first argument, \{name: \("),
            (lambda: fr.Loader(ANY.Loader(dataset)), TypeError, "give the dataset to one loader only"),
            (lambda: ANY.Loader(iter(dataset)), TypeError, r"write fr\.Loader\(dataset\), without iter\(\)"),
            (lambda: batch.__delitem__("z"), KeyError, "no tensor 'z' in the batch; there are: x, l"),
        )
    )
    assert pickle.loads(pickle.dumps(mixture)).datasets.keys() == {"a"}


def test_calls_of_loaders_and_cursors_say_what_to_write(
    rows: Callable[..., fr.ParquetDataset], tmp_path: Path
) -> None:
    dataset: Any = rows()
    loader: Any = fr.Loader(dataset)
    state = dataset.state_dict()
    text = state["fastresume"]
    cursor: Any = fr.Cursor.from_state(state)
    mixture: Any = fr.Mixture({"a": (rows(), 1)}, batch_size=5, world=(0, 1))
    load, of = dataset.load_state_dict, fr.Cursor.from_state
    newer = {"fastresume": text.replace('"fastresume":1', '"fastresume":9')}
    (tmp_path / "log.txt").write_text("")
    offsets = {f"{tmp_path}/rows.parquet:0": 3}
    from_offsets: Any = fr.Cursor.from_offsets
    each_refused(
        (
            (
                lambda: load(state, strict=False),
                TypeError,
                "^dataset.load_state_dict has no argument strict=",
            ),
            (
                lambda: loader.load_state_dict(state, strict=False),
                TypeError,
                "^loader.load_state_dict .* strict=",
            ),
            (
                lambda: dataset.state_dict("x.json"),
                TypeError,
                "^dataset.state_dict takes no argument, found 'x.js",
            ),
            (lambda: loader.state_dict("x.json"), TypeError, "^loader.state_dict takes no argument"),
            (
                lambda: dataset.batch_at(0, 0, rank=1),
                TypeError,
                r"no argument rank=: write world=\(rank, world_s",
            ),
            (lambda: loader.batch_at(0, 0, index=1), TypeError, r"no argument index=: write step="),
            (
                lambda: load(dataset.state_dict),
                fr.StateError,
                r"the function state_dict: call it, as state_dict",
            ),
            (lambda: load(loader), fr.StateError, r"write what its state_dict\(\) returns"),
            (lambda: load(text), fr.StateError, r"write \{'fastresume': text\}"),
            (lambda: load(json.dumps(state)), fr.StateError, r"json\.loads\(\.\.\.\) first"),
            (lambda: load({"fastresume": ""}), fr.StateError, "an empty text under the key 'fastresume'"),
            (lambda: load(newer), fr.StateError, "version 9, .*: upgrade fastresume"),
            (lambda: fr.Cursor(state), TypeError, r"found \{.*: write Cursor\.from_state\(state\)"),  # type: ignore[arg-type]
            (lambda: cursor.step, AttributeError, r"write batch\.step, of the last batch"),
            (lambda: cursor.state_dict, AttributeError, r"write \.to_state\(\)"),
            (lambda: dataset.weights, AttributeError, r"write mixture\.shares"),
            (lambda: mixture.watermark, AttributeError, "write mixture.watermark of a Mixture with a Kafka"),
            (lambda: cursor.remaining(loader), TypeError, r"found Loader\(.*: write loader\.dataset"),
            (lambda: cursor.remaining("data"), TypeError, r"found 'data': .* fr\.ParquetDataset\(paths"),
            (
                lambda: from_offsets(dataset, offsets),
                TypeError,
                r"write Cursor\.from_offsets\(offsets, dataset\)",
            ),
            (lambda: from_offsets(offsets, 3), TypeError, "one ParquetDataset, found 3: "),
            (
                lambda: dataset + mixture,
                TypeError,
                r"a ParquetDataset can't be added to Mixture.*: write .*\[path, other\].*fr\.Mixture",
            ),
            (
                lambda: fr.Loader(ChainDataset([dataset, dataset])),
                TypeError,
                r"found ChainDataset: .*\[path, other\].*fr\.Mixture",
            ),  # type: ignore[arg-type]
            (
                lambda: fr.Loader(dataset, audit=tmp_path / "log.txt"),
                fr.SourceError,
                "it is a file, and audit= takes a dir",
            ),
            (
                lambda: next(iter(dataset.map(lambda _: {}))),
                ValueError,
                "returned an empty dict: .* Write filter=",
            ),
        )
    )
    assert of(of(state)) == of(json.loads(json.dumps(state)))


def test_what_sources_of_a_mixture_were_made_with_besides_is_told(
    rows: Callable[..., fr.ParquetDataset],
) -> None:
    with pytest.warns(UserWarning, match="^source") as warned:
        fr.Mixture(
            {"a": (rows(world=(0, 2), batch_size=4), 1), "b": (rows(shuffle=True, tail="short"), 1)},
            batch_size=4,
            world=(0, 1),
        )
    world, size, tail = (str(one.message) for one in warned)
    assert world.startswith("source 'a' was made for World(rank=0, world_size=2), and the mixture is for")
    assert size.startswith("source 'b' has batch_size=5, which a mixture does not ask: write batch_size= of")
    assert tail.startswith("source 'b' has tail='short', which a mixture does not ask: write tail= of")


class Rows:
    """A source of rows, as its author may write it."""

    parts: Any = (("a", 20),)

    def snapshot(self) -> str:
        return "first"

    def segments(self) -> list[Any]:
        return [Segment(*part) for part in self.parts]

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("x", pa.int64(), nullable=False)])

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        return pa.table({"x": pa.array(range(start, stop), pa.int64())})


def with_parts(*parts: Any) -> Rows:
    made = Rows()
    made.parts = parts
    return made


def changed(**parts: Any) -> Any:
    return type("Changed", (Rows,), parts)()


def test_what_a_source_lacks_or_has_otherwise_is_named() -> None:
    def opened(source: object) -> fr.ArrowDataset:
        return fr.ArrowDataset(source, batch_size=5, world=(0, 1))

    lacks = type("Lacks", (), {name: vars(Rows)[name] for name in ("snapshot", "segments", "schema")})()
    begun = type("Begun", (), {name: vars(Rows)[name] for name in ("segments", "read")})()
    state = opened(Rows()).state_dict()
    open_file = changed(connection=property(lambda self: None))
    open_file.held = threading.Lock()
    spawned = {"num_workers": 1, "multiprocessing_context": "spawn"}
    each_refused(
        (
            (lambda: opened(Rows), TypeError, r"source is the class Rows: call it, as Rows\(\.\.\.\)"),
            (
                lambda: opened(changed(snapshot="v1")),
                TypeError,
                r"snapshot of a Changed must be a method, found 'v1'",
            ),
            (lambda: opened(lacks), TypeError, r"this Lacks has no read: write def read\(self"),
            (
                lambda: opened(begun),
                TypeError,
                r"this Begun has no snapshot and no schema: write def snapshot",
            ),
            (lambda: opened(with_parts()), ValueError, r"segments\(\) returned none"),
            (lambda: opened(with_parts(("a", -1))), ValueError, "rows of the Segment 'a' must be at least 0"),
            (lambda: opened(with_parts(("a", 1.5))), TypeError, "rows of the Segment 'a' must be an integer"),
            (lambda: opened(with_parts((1, 20))), TypeError, "name of a Segment must be a string"),
            (
                lambda: opened(changed(snapshot=lambda self: "second")).load_state_dict(state),
                fr.StateError,
                r"or what snapshot\(\) returns of a source of rows",
            ),
            (
                lambda: next(iter(fr.Loader(opened(open_file), **spawned))),  # type: ignore[arg-type]
                pickle.PicklingError,
                "the source, a Changed, can't be sent to a worker process",
            ),
        )
    )
    assert len(opened(with_parts(("a", np.int64(20))))) == 4
