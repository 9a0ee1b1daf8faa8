"""Law 11 for messages: whatever names and values are in one, it stays short, and holds no password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import _core
from fastresume.checkpoint import Checkpointer
from fastresume.intervals import max_merge, remaining
from fastresume.messages import bounded, bounds_messages
from support.each_of import each_of
from support.refusals import open_dataset, write

pytestmark = pytest.mark.law(11)

MOST = 2100
"""The most characters of a message, with the words that tell how many were left out."""

LONG = {
    "one word": "x" * 200_000,
    "many words": "é " * 100_000,
    "many names": ", ".join(f"c_{number}" for number in range(40_000)),
    "quotes": "'" * 200_000,
    "no text": "\udc80" * 200_000,
}

WRONG: dict[str, Callable[[Path, str], object]] = {
    "paths": lambda path, long: open_dataset(long),
    "a list of paths": lambda path, long: open_dataset([path, long]),
    "an address": lambda path, long: open_dataset(f"s3://{long}"),
    "a pattern": lambda path, long: open_dataset(f"/no/*/{long}"),
    "a pattern that can't be read": lambda path, long: open_dataset(f"{path.parent}/***{long}"),
    "batch_size": lambda path, long: open_dataset(path, batch_size=long),
    "columns": lambda path, long: open_dataset(path, columns=[long]),
    "columns of no strings": lambda path, long: open_dataset(path, columns=[long.encode("utf-8", "ignore")]),
    "stack": lambda path, long: open_dataset(
        path, columns=[fr.stack("row", name=long), fr.stack("row", name=long)]
    ),
    "stack of a column": lambda path, long: open_dataset(path, columns=fr.stack(long, name="s")),
    "nulls": lambda path, long: open_dataset(path, nulls=long),
    "nulls of names": lambda path, long: open_dataset(path, nulls={long: "mask"}),
    "pad": lambda path, long: open_dataset(path, columns=fr.col(long).pad(3)),
    "pad of nothing": lambda path, long: open_dataset(path, columns=fr.col("row").pad(long)),
    "truncate": lambda path, long: open_dataset(path, columns=fr.col("row").pad(3, truncate=long)),
    "cast": lambda path, long: open_dataset(path, columns=fr.col(long).cast(torch.int8)),
    "cast to nothing": lambda path, long: open_dataset(path, columns=fr.col("row").cast(long)),
    "hash": lambda path, long: open_dataset(path, columns=fr.col(long).hash(3)),
    "dictionary": lambda path, long: open_dataset(path, columns=fr.col(long).codes()),
    "alias": lambda path, long: open_dataset(path, columns=fr.col(long).alias("other")),
    "optional": lambda path, long: open_dataset(path, optional=3 * [long, 3]),
    "partitions": lambda path, long: open_dataset(path, columns=fr.col(long).from_path()),
    "decimals": lambda path, long: open_dataset(path, columns=fr.col("row").decimal(long)),
    "fixed": lambda path, long: open_dataset(path, columns=fr.col(long).fixed(3)),
    "on_iter": lambda path, long: open_dataset(path, on_iter=long),
    "tail": lambda path, long: open_dataset(path, tail=long),
    "rows": lambda path, long: open_dataset(path, rows=long),
    "rank": lambda path, long: open_dataset(path, rank=long, world_size=2),
    "world": lambda path, long: open_dataset(path, world=long),
    "a filter": lambda path, long: open_dataset(path, filter=long),
    "a filter's column": lambda path, long: open_dataset(path, filter=fr.col(long) == 1),
    "a filter's text": lambda path, long: open_dataset(path, filter=fr.col("row") == long),
    "a filter's texts": lambda path, long: open_dataset(path, filter=fr.col("row").isin(9 * [long])),
    "a filter's term": lambda path, long: open_dataset(path, filter=[("row", long, 3)]),
    "a filter's list": lambda path, long: fr.col("row") == [long],
    "a filter's join": lambda path, long: (fr.col("row") == 1) & long,
    "a name of a column": lambda path, long: fr.col([long, 3]),
    "a state": lambda path, long: open_dataset(path).load_state_dict(long),
    "a state of other keys": lambda path, long: open_dataset(path).load_state_dict({long: 3}),
    "a state of no JSON": lambda path, long: open_dataset(path).load_state_dict({"fastresume": long}),
    "a state with more": lambda path, long: open_dataset(path).load_state_dict({"fastresume": "", long: ""}),
    "a state of objects": lambda path, long: open_dataset(path).load_state_dict({"fastresume": {long: {1}}}),
    "a state of another version": lambda path, long: open_dataset(path).load_state_dict(
        {"fastresume": '{"version":"' + long.replace("\udc80", "x") + '"}'}
    ),
    "states": lambda path, long: fr.Cursor.merge(long),
    "offsets": lambda path, long: fr.Cursor.from_offsets({f"{long}:0": 3}, open_dataset(path)),
    "offsets of no number": lambda path, long: fr.Cursor.from_offsets(
        {f"{path}:{long}": 3}, open_dataset(path)
    ),
    "counts": lambda path, long: max_merge([{long: "x"}]),
    "counts of no numbers": lambda path, long: remaining(long, 3),
    "rows to read": lambda path, long: open_dataset(path).read_rows(long),
    "rows to find": lambda path, long: open_dataset(path).locate([long]),
    "a function": lambda path, long: open_dataset(path).map(long),
    "a tensor": lambda path, long: next(iter(open_dataset(path)))[long],
    "tensors": lambda path, long: next(iter(open_dataset(path))).to_keyed_jagged_tensor([long]),
    "a device": lambda path, long: fr.Loader(open_dataset(path), device=long),
    "a start method": lambda path, long: fr.Loader(
        open_dataset(path), num_workers=1, multiprocessing_context=long
    ),
    "a split": lambda path, long: fr.Split(long, 1),
    "buckets": lambda path, long: fr.col("row").hash(long),
    "a size": lambda path, long: fr.col("row").pad(3, value=long),
    "a side": lambda path, long: fr.col("row").pad(3, side=long),
    "a world": lambda path, long: fr.World(long, 1),
    "best": lambda path, long: Checkpointer(path.parent / "a", best=long),
    "the best of a mode": lambda path, long: Checkpointer(path.parent / "a", best=("loss", long)),
    "extra": lambda path, long: Checkpointer(path.parent / "a").save(1, extra={(long,): 1}),
    "a step": lambda path, long: Checkpointer(path.parent / "a").restore(step=long),
    "a score": lambda path, long: fr.training.Evaluator(
        open_dataset(path, on_iter="restart", tail="pad"), long
    ),
    "a metric": lambda path, long: fr.training.Evaluator(
        open_dataset(path, on_iter="restart", tail="pad"), lambda model, batch: {}, metrics={long: 3}
    ),
    "what a score gave": lambda path, long: fr.training.Evaluator(
        open_dataset(path, on_iter="restart", tail="pad"),
        lambda model, batch: {long: torch.zeros(3)},
    ).run(torch.nn.Identity()),
    "signals": lambda path, long: fr.training.Preemption(signals=long),
    "metrics": lambda path, long: Checkpointer(path.parent / "a").save(1, metrics={long: "x"}),
}


@each_of("wrong", WRONG)
@each_of("long", LONG)
def test_a_message_about_something_long_is_short(path: Path, wrong: str, long: str) -> None:
    with pytest.raises((TypeError, ValueError, KeyError, IndexError, fr.FastresumeError)) as caught:
        WRONG[wrong](write(path), LONG[long])
    assert len(str(caught.value)) <= MOST
    assert repr(caught.value).count("characters left out") < 20


TAKEN_AS_IT_IS = (
    *("columns", "stack of a column", "nulls", "pad", "pad of nothing", "cast to nothing", "alias", "fixed"),
    *("on_iter", "tail", "rank", "world", "a filter", "a name of a column", "a state", "a function"),
    *("a split", "buckets", "a size", "a side", "a world", "best", "a score"),
)
"""Those of `WRONG` that hand the value on, and make no text of it."""


@each_of("wrong", TAKEN_AS_IT_IS)
def test_a_tensor_given_by_mistake_is_its_type_and_shape_in_the_message(path: Path, wrong: str) -> None:
    given: Any = torch.randn(100, 8)
    with pytest.raises((TypeError, ValueError, fr.FastresumeError)) as caught:
        WRONG[wrong](write(path), given)
    assert len(str(caught.value)) < 400
    assert "tensor(" not in str(caught.value)


NAME = "c" * 200_000


def names(path: Path, values: Any, **how: Any) -> Path:
    """Write a file of one column whose name has 200,000 characters."""
    pq.write_table(pa.table({NAME: values}), path, **how)
    return path


OF_COLUMNS: dict[str, Callable[[Path], object]] = {
    "a null": lambda path: next(iter(open_dataset(names(path, [None] * 10 + [1]), batch_size=1))),
    "another column": lambda path: open_dataset(names(path, [1]), columns="other"),
    "a cast that does not fit": lambda path: next(
        iter(open_dataset(names(path, [300]), batch_size=1, columns=fr.col(NAME).cast(torch.int8)))
    ),
    "two of them in a stack": lambda path: open_dataset(names(path, ["a"]), columns=fr.stack(NAME, name="s")),
    "a filter": lambda path: open_dataset(names(path, [1]), filter=fr.col(NAME) == "a"),
    "a page that is damaged": lambda path: next(iter(open_dataset(damaged(path), batch_size=1))),
    "a tensor": lambda path: next(iter(open_dataset(names(path, [1]), batch_size=1)))["other"],
    "another type in another file": lambda path: open_dataset(
        [names(path, [1]), names(path.with_name("other.parquet"), ["a"])], batch_size=1
    ),
}


def damaged(path: Path) -> Path:
    content = bytearray(names(path, np.arange(10_000), compression="zstd").read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(content)
    return path


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
@each_of("wrong", OF_COLUMNS)
def test_a_message_about_a_column_with_a_long_name_is_short_and_names_it(path: Path, wrong: str) -> None:
    with pytest.raises((TypeError, ValueError, KeyError, fr.FastresumeError)) as caught:
        OF_COLUMNS[wrong](path)
    message = str(caught.value)
    assert len(message) <= MOST
    assert "cccc...(" in message
    assert "characters left out)...cccc" in message


@given(st.text(max_size=5000), st.text(max_size=5))
def test_any_message_is_short_and_one_of_200_characters_stays(start: str, part: str) -> None:
    message = bounded(start + part * 1000)
    assert len(message) <= MOST + 8 * MOST * ("\ud800" <= max(start + part, default="") <= "\udfff")
    short = (start + part)[:200]
    if ":/" not in short:
        assert bounded(short) == short.encode(errors="backslashreplace").decode()


def test_errors_of_a_users_own_function_keep_their_messages() -> None:
    @bounds_messages
    def call(function: Callable[[str], object]) -> object:
        return function("x" * 10_000)

    def fail(text: str) -> object:
        raise ValueError(text)

    with pytest.raises(ValueError, match=r"^x{10000}$"):
        call(fail)


SECRET = "hunter2"  # noqa: S105  (it is none)
ADDRESSES = [
    f"s3://key:{SECRET}@bucket/data",
    f"s3:/key:{SECRET}@bucket/data",
    f"https://{SECRET}@host/data",
    f"ftp://user:a/{SECRET}@host/data",
]
OF_PATHS: dict[str, Callable[[Path, str], object]] = {
    "paths": lambda path, address: open_dataset(address),
    "a Path": lambda path, address: open_dataset(Path(address)),
    "a list of paths": lambda path, address: open_dataset([path, address]),
    "a pattern": lambda path, address: open_dataset(f"{address}/*.parquet"),
    "checkpoints": lambda path, address: Checkpointer(address),
    "checkpoints in a Path": lambda path, address: Checkpointer(Path(address)),
    "a log": lambda path, address: fr.Loader(open_dataset(path), audit=address),
    "a manifest's cache": lambda path, address: open_dataset(path, cache=fr.Cache(manifest=address)),
    "a cache of data": lambda path, address: open_dataset(path, cache=fr.Cache(data=address)),
    "offsets": lambda path, address: fr.Cursor.from_offsets({f"{address}:0": 3}, open_dataset(path)),
}


@pytest.mark.parametrize("what", OF_PATHS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_refused_without_its_password(
    path: Path, monkeypatch: pytest.MonkeyPatch, what: str, address: str
) -> None:
    monkeypatch.chdir(path.parent)
    write(path)
    with pytest.raises((ValueError, fr.FastresumeError)) as caught:
        OF_PATHS[what](path, address)
    message = str(caught.value)
    assert "***@" in message
    assert SECRET not in message
    assert SECRET not in repr(caught.value)
    assert sorted(path.parent.iterdir()) == [path], "something was made of the address"


def test_the_core_bounds_what_python_does() -> None:
    assert (
        _core.bounded("x" * 1000)
        == bounded("x" * 1000)
        == f"{'x' * 200}...(600 characters left out)...{'x' * 200}"
    )


def test_a_message_that_is_bounded_twice_counts_all_that_is_left_out(tmp_path: Path) -> None:
    text = "é " * 3000
    assert "...(4000 characters left out)..." in bounded(text)
    assert bounded(bounded(text)) == bounded(text)
    assert "...(4200 characters left out)..." in bounded("a b " * 25 + bounded(text) + "a b " * 25)


def test_a_reason_that_many_columns_have_is_said_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"word_{number}": ["a"] for number in range(30)}), tmp_path / "x.parquet")
    with pytest.raises(fr.DataError) as caught:
        open_dataset(tmp_path, batch_size=1, columns=fr.col("*").cast(torch.float32))
    message = str(caught.value)
    assert message.count("takes no column of type string") == 1
    assert "'word_0', 'word_1', " in message
    assert " and 10 more: " in message
    assert "left out" not in message


def test_an_error_says_as_values_what_a_program_asks(tmp_path: Path) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    table = {"x": [1, 2], "u": [1, 2], "d": pa.array([1, 2], pa.decimal128(30, 2))}
    pq.write_table(pa.table(table), path)
    unsigned = pa.array([1, 2], pa.uint64())
    pq.write_table(pa.table({"x": [1.5, 2.5], "u": unsigned, "y": [1, 2]}), other)
    state = open_dataset(path, columns="x", batch_size=1).state_dict()
    of_state: dict[str, dict[str, Any]] = {
        "dataset": {"paths": other},
        "order": {"shuffle": True},
        "selection of rows": {"rows": [[0, 1]]},
    }
    for differs_in, options in of_state.items():
        given = {"paths": path, "columns": "x", "batch_size": 1, **options}
        with pytest.raises(fr.StateError) as foreign:
            open_dataset(**given).load_state_dict(state)
        assert foreign.value.differs_in == differs_in
    for remedy, name in {"decimal": "d", "floats": "x", "integers": "u", "optional": "y", None: "z"}.items():
        with pytest.raises(fr.DataError) as refused:
            open_dataset(path if name == "d" else tmp_path, columns=name, batch_size=1)
        assert refused.value.remedy == remedy
    with pytest.raises(fr.SourceError) as missing:
        open_dataset(tmp_path / "none.parquet")
    assert missing.value.is_missing
    assert (fr.StateError().differs_in, fr.DataError().remedy) == (None, None)
    assert not fr.SourceError().is_missing
