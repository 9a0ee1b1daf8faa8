"""Law 11 for arguments: what is wrong with one is said when it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fastresume as fr
from fastresume.options.attributes import METHODS_OF_BATCHES
from fastresume.options.hints import OF_DATASETS, OF_LOADER, OF_MIXTURES
from fastresume.testing import assert_exact_resume
from support.each_of import each_of
from support.jobs import make
from support.refusals import assert_message, open_dataset, refused, write
from support.strategies import Dataset

pytestmark = pytest.mark.law(11)


@each_of("size", [0, -1, np.int64(0), -(2**70)])
@each_of("name", ["batch_size", "global_batch_size"])
def test_a_batch_of_no_rows_is_refused(path: Path, name: str, size: int) -> None:
    with refused(ValueError, f"{name} must be at least 1", size):
        fr.ParquetDataset(write(path), **{name: size})


@each_of("size", [True, False, 2.0, "10", [10], np.float64(10), np.True_, torch.tensor(1.5)])
def test_a_batch_size_that_is_no_integer_is_refused(path: Path, size: Any) -> None:
    with refused(TypeError, "batch_size", size):
        open_dataset(write(path), batch_size=size)


@pytest.mark.parametrize("size", [2**53, 2**70])
def test_a_batch_size_that_is_too_large_is_refused_as_that(path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=str(size)) as caught:
        open_dataset(write(path), batch_size=size)
    assert "at least" not in str(caught.value)


@each_of("size", [np.int64(10), np.uint8(10), np.array(10), torch.tensor(10)])
def test_a_batch_size_may_be_any_kind_of_integer(path: Path, size: Any) -> None:
    dataset = open_dataset(write(path), batch_size=size)
    assert type(dataset.batch_size) is int
    assert len(list(dataset)) == 3


def test_the_batch_size_must_be_given_once(path: Path) -> None:
    write(path)
    source = fr.ParquetDataset(path)
    for use in (
        iter,
        len,
        fr.ParquetDataset.peek,
        fr.ParquetDataset.plan,
        lambda made: next(iter(fr.Loader(made))),
    ):
        with refused(TypeError, "batch_size", "global_batch_size", "source of a Mixture"):
            use(source)
    with refused(TypeError, "batch_size", "global_batch_size"):
        fr.ParquetDataset(path, batch_size=10, global_batch_size=10)


def test_a_dataset_that_gives_no_batch_is_refused(path: Path) -> None:
    with refused(ValueError, "30 rows", "31"):
        open_dataset(write(path), batch_size=31)
    with refused(ValueError, "30 rows", "32"):
        open_dataset(write(path), batch_size=16, rank=0, world_size=2)
    with refused(ValueError, "0 rows"):
        open_dataset(write(path, rows=0), batch_size=1)


@pytest.mark.parametrize("columns", ["nope", ["row", "nope"], "nope*"])
def test_a_column_that_does_not_exist_is_named_with_those_that_do(path: Path, columns: Any) -> None:
    with refused(fr.DataError, "'nope", "row, half", path):
        open_dataset(write(path), columns=columns)


def test_no_column_at_all_is_refused(path: Path) -> None:
    with refused(ValueError, "column"):
        open_dataset(write(path), columns=[])


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ({"matrix": ["row", "half"]}, ["'matrix'", "'row' is int64", "'half' is float32"]),
        ({"matrix": "nope"}, ["'matrix'", "'nope'", "row, half"]),
        ({"half": "row"}, ["'half'", "two tensors"]),
    ],
)
def test_a_stack_that_can_not_be_is_refused(path: Path, stack: Any, words: list[str]) -> None:
    ((name, members),) = stack.items()
    parts = [members] if isinstance(members, str) else members
    with pytest.raises(ValueError, match=r"stack|tensors") as caught:
        open_dataset(write(path), columns=["*", fr.stack(*parts, name=name)])
    assert_message(str(caught.value), *words)


@each_of(
    ("name", "value"),
    [
        ("paths", 5),
        ("paths", None),
        ("paths", b"x.parquet"),
        ("paths", [5]),
        ("columns", 5),
        ("columns", [5]),
        ("columns", {"half": "h"}),
        ("columns", fr.col("half") > 0),
        ("columns", [fr.col("half") > 0]),
        ("nulls", {"half": "mask"}),
        ("rank", "0"),
        ("rank", 0.0),
        ("rank", True),
        ("world_size", "1"),
        ("world_size", 1.0),
        ("world", 5),
    ],
)
def test_an_argument_of_another_type_is_named(path: Path, name: str, value: Any) -> None:
    arguments = {"paths": write(path), name: value}
    if name in ("rank", "world_size"):
        arguments = {"rank": 0, "world_size": 1, **arguments}
    with refused(TypeError, name):
        open_dataset(**arguments)


@each_of("name", sorted(OF_DATASETS))
def test_an_argument_that_there_is_not_says_what_to_write(path: Path, name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^ParquetDataset has no argument {name}=(: write |, and needs none: )"
    ) as caught:
        fr.ParquetDataset(write(path), batch_size=10, **{name: None})
    assert str(caught.value).endswith(OF_DATASETS[name].removeprefix("nothing: "))


@each_of("name", sorted(OF_LOADER))
def test_an_argument_that_a_loader_has_not_says_what_to_write(path: Path, name: str) -> None:
    dataset = open_dataset(write(path), batch_size=10)
    with pytest.raises(
        TypeError, match=rf"^Loader has no argument {name}=(: write |, and needs none: )"
    ) as caught:
        fr.Loader(dataset, **{name: None})
    assert str(caught.value).endswith(OF_LOADER[name].removeprefix("nothing: "))


@each_of("name", sorted(OF_MIXTURES))
def test_an_argument_that_a_mixture_has_not_says_what_to_write(path: Path, name: str) -> None:
    source = fr.ParquetDataset(write(path))
    with pytest.raises(
        TypeError, match=rf"^Mixture has no argument {name}=(: write |, and needs none: )"
    ) as caught:
        fr.Mixture({"web": (source, 1.0)}, batch_size=10, **{name: None})
    assert str(caught.value).endswith(OF_MIXTURES[name].removeprefix("nothing: "))


@each_of("name", sorted(METHODS_OF_BATCHES))
def test_an_attribute_that_a_batch_has_not_says_what_to_write(path: Path, name: str) -> None:
    batch = open_dataset(write(path), batch_size=10).peek()
    with pytest.raises(AttributeError, match=f"a Batch has no attribute '{name}': write "):
        getattr(batch, name)


def test_arguments_without_their_names_are_refused_with_a_name_to_write(path: Path) -> None:
    with pytest.raises(TypeError, match=r"takes only paths by position, found 32 too: .* as batch_size=32$"):
        fr.ParquetDataset(write(path), 32)  # type: ignore[misc]  # what people write
    with pytest.raises(TypeError, match=r"^Loader takes only dataset by position, found 'cpu' too: "):
        fr.Loader(open_dataset(write(path), batch_size=10), "cpu")  # type: ignore[misc]  # what people write
    with pytest.raises(TypeError, match=r"only name by position, .*: write fr\.Bins\('tokens', cost=4096\)$"):
        fr.Bins("tokens", 4096)  # type: ignore[misc]  # what people write
    with pytest.raises(TypeError, match=r"lacks length: write fr\.Packed\('tokens', length=128\)$"):
        fr.Packed("tokens", 128)  # type: ignore[call-arg, arg-type]  # what people write


PUBLIC = (
    *(getattr(fr, name) for name in fr.__all__ if isinstance(getattr(fr, name), type)),
    *(fr.training.Evaluator, fr.training.Preemption, fr.training.Accumulation),
    *(fr.checkpoint.Checkpointer, fr.kafka.KafkaDataset),
)
DATA_ALONE = {
    "Condition",
    "DataError",
    "FastresumeError",
    "FilterReport",
    "Plan",
    "SourceError",
    "StateError",
}


def test_no_method_answers_a_call_that_does_not_fit_in_pythons_own_words() -> None:
    seen = []
    for kind in PUBLIC:
        for name in ("__init__", *(name for name in dir(kind) if not name.startswith("_"))):
            method = getattr(kind, name)
            module = getattr(method, "__module__", None) or ""
            if kind.__name__ in DATA_ALONE or not callable(method) or not module.startswith("fastresume"):
                continue
            takes = {one.kind for one in inspect.signature(method).parameters.values()}
            if takes & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
                continue
            bound = () if inspect.ismethod(method) else (object(),)
            with pytest.raises(TypeError, match=r"has no argument no_such_name=(; |: )"):
                method(*bound, no_such_name=1)
            with pytest.raises(TypeError, match=r"takes .*, found 9 too"):
                method(*bound, *[9] * 30)
            seen.append(f"{kind.__name__}.{name}")
    assert {"Column.clip", "Jagged.to_padded", "Batch.to", "World.of", "Split.__init__", "Loader.peek"} < set(
        seen
    )


ROOMS = (fr, fr.distributed, fr.intervals, fr.maxcompute, fr.sources, fr.testing, fr.training)


def test_no_function_answers_a_call_that_does_not_fit_in_pythons_own_words() -> None:
    named = (getattr(room, name) for room in ROOMS for name in getattr(room, "__all__", ()))
    functions = {one for one in named if inspect.isfunction(one) and one.__module__.startswith("fastresume.")}
    takes_any = {fr.col, fr.stack, fr.distributed.open}
    for one in (*(functions - takes_any), fr.kafka.JSON, fr.kafka.Avro, fr.kafka.ArrowIPC):
        with pytest.raises(TypeError, match=r"has no argument no_such_name=(; |: )"):
            one(no_such_name=1)
        with pytest.raises(TypeError, match=r"takes .*, found 9 too"):
            one(*[9] * 30)
    assert {fr.training.accumulate, fr.distributed.check_same, fr.cu_seqlens, fr.sources.lance} < functions


def test_signatures_name_the_arguments_that_there_are_and_no_others() -> None:
    for taker in (fr.ParquetDataset, fr.ParquetDataset.map, fr.Loader, fr.Mixture):
        kinds = {one.kind for one in inspect.signature(taker).parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, taker


def test_a_table_in_memory_is_no_path() -> None:
    with pytest.raises(
        TypeError, match=r"^paths must name files, found a DataFrame: write it to a Parquet file first"
    ):
        fr.ParquetDataset(pd.DataFrame({"a": [1]}), batch_size=1)


def test_an_argument_that_nobody_knows_is_named_with_one_like_it(path: Path) -> None:
    with pytest.raises(TypeError, match="has no argument batch_sizes=: did you mean batch_size="):
        fr.ParquetDataset(write(path), batch_sizes=10)
    with pytest.raises(TypeError, match="has no argument xyz=; there are paths, batch_size"):
        fr.ParquetDataset(write(path), batch_size=10, xyz=10)


OF_SOURCES_GROWTH_AND_DAMAGE = {
    "storage_options",
    "credentials",
    "read_bytes",
    "cache",
    "on_change",
    "bad_rows",
    "unit",
}


def test_a_dataset_has_few_keyword_arguments_besides_those_of_sources_growth_and_damage() -> None:
    kinds = {
        name: parameter.kind for name, parameter in inspect.signature(fr.ParquetDataset).parameters.items()
    }
    named = {name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY}
    assert len(named - OF_SOURCES_GROWTH_AND_DAMAGE) <= 15
    assert len(kinds) <= 24


def test_loader_arguments_are_checked(path: Path) -> None:
    dataset = open_dataset(write(path))
    for name in ("threads", "prefetch_bytes"):
        with refused(ValueError, name, -1):
            fr.Loader(dataset, **{name: -1})
        with refused(TypeError, name, 1.5):
            fr.Loader(dataset, **{name: 1.5})
    with pytest.raises(TypeError, match="num_workers"):
        fr.Loader(dataset, num_workers=None)  # type: ignore[arg-type]
    with refused(TypeError, "ParquetDataset", "list"):
        fr.Loader([dataset])  # type: ignore[arg-type]


@each_of(("rank", "world_size"), [(2, 2), (5, 2), (-1, 2), (0, 0), (0, -1)])
def test_a_rank_outside_of_its_world_is_refused(path: Path, rank: int, world_size: int) -> None:
    words = (world_size,) if world_size < 1 else (rank, world_size)
    with refused(ValueError, *words):
        open_dataset(write(path), rank=rank, world_size=world_size)


@pytest.mark.parametrize(
    ("rank", "world_size", "words"),
    [
        ("2", "2", ["RANK", "from 0 to 1", "'2'"]),
        ("-1", "2", ["RANK", "from 0 to 1", "'-1'"]),
        ("0", "0", ["WORLD_SIZE", "'0'"]),
        ("one", "2", ["RANK", "'one'"]),
        ("0", "two", ["WORLD_SIZE", "'two'"]),
        ("0", "", ["WORLD_SIZE", "''"]),
        ("0.0", "2", ["RANK", "'0.0'"]),
        ("1", None, ["RANK", "1", "WORLD_SIZE"]),
        (None, "2", ["RANK", "2", "WORLD_SIZE"]),
    ],
)
def test_a_wrong_rank_in_the_environment_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, rank: str | None, world_size: str | None, words: list[str]
) -> None:
    write(path)
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    with refused(ValueError, *words):
        open_dataset(path)


def test_rank_and_world_size_come_together(path: Path) -> None:
    write(path)
    for arguments in ({"rank": 0}, {"world_size": 1}):
        with refused(TypeError, "rank", "world_size"):
            open_dataset(path, **arguments)
    with refused(TypeError, "world"):
        open_dataset(path, rank=0, world_size=1, world=fr.World(0, 1))


@each_of(
    ("call", "said"),
    [
        (lambda dataset: fr.Loader(fr.ParquetDataset), r"found the class ParquetDataset: call it"),
        (lambda dataset: fr.Loader(["a.parquet"]), r"KafkaDataset or Mixture, found list: write fr\.Loader"),
        (lambda dataset: fr.Loader(dataset.peek()), r"found Batch: write for batch in fr\.Loader\(dataset\)"),
        (lambda dataset: fr.Loader({"web": dataset}), r"found dict: write fr\.Loader\(fr\.Mixture"),
        (lambda dataset: dataset.reset(epoch=5), r"^dataset\.reset has no argument epoch=; it takes none"),
        (lambda dataset: fr.Loader(dataset).reset(epoch=5), r"^loader\.reset has no argument epoch="),
        (lambda dataset: dataset.peek(3), r"^dataset\.peek takes no argument, found 3 too"),
        (lambda dataset: fr.Loader(dataset).peek(3), r"^loader\.peek takes no argument, found 3 too"),
        (assert_exact_resume, r"found ParquetDataset: write lambda: "),
    ],
)
def test_a_call_that_is_not_as_it_should_be_is_told_how_to_write_it(
    small_dataset: Dataset, call: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        call(make(small_dataset))


@each_of(
    ("name", "value", "said"),
    [
        ("LOCAL_WORLD_SIZE", "abc", "LOCAL_WORLD_SIZE is not a whole number: 'abc'"),
        ("LOCAL_WORLD_SIZE", "0", "LOCAL_WORLD_SIZE must be at least 1, found '0'"),
        ("FASTRESUME_CHECK_RANKS", "banana", "FASTRESUME_CHECK_RANKS is not a whole number: 'banana'"),
        ("FASTRESUME_CHECK_RANKS", "2", "FASTRESUME_CHECK_RANKS must be from 0 to 1, found '2'"),
    ],
)
def test_a_variable_of_the_environment_that_says_nothing_is_refused(
    small_dataset: Dataset, name: str, value: str, said: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        with pytest.raises(ValueError, match=said):
            fr.Loader(make(small_dataset))


def test_every_argument_of_a_dataset_has_words_where_a_loader_is_given_it() -> None:
    of_dataset, of_loader = (set(inspect.signature(of).parameters) for of in (fr.ParquetDataset, fr.Loader))
    assert of_dataset - of_loader - {"paths"} <= set(OF_LOADER)
    assert OF_LOADER["on_iter"] == "ParquetDataset(paths, on_iter='restart')"
    assert OF_LOADER["num_shards"] == "ParquetDataset(paths, world=(rank, world_size))"
    assert (OF_LOADER["workers"], OF_LOADER["num_threads"]) == ("num_workers=", "threads=")
