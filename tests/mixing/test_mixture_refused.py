"""What is no mixture, and states of other data, are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.mixtures import mixture, source


@pytest.mark.parametrize(
    ("sources", "kind", "words"),
    [
        ({}, TypeError, ["a Mixture takes names", "(dataset, 0.7)"]),
        ([1], TypeError, ["a Mixture takes names"]),
        ({"web": 1}, TypeError, ["source 'web' must be a dataset and its weight"]),
        ({"web": ("data", 1)}, TypeError, ["source 'web' must be a ParquetDataset, an Arrow", "found str"]),
    ],
)
def test_what_is_no_mixture_is_refused(sources: Any, kind: type[Exception], words: Sequence[str]) -> None:
    with pytest.raises(kind) as caught:
        fr.Mixture(sources, batch_size=2)
    assert all(word in str(caught.value) for word in words)


def test_mistakes_with_a_mixture_say_what_to_write(root: Path) -> None:
    weights = {"web": 0.5, "code": 0.5}
    two = mixture(root, weights)
    with pytest.raises(ValueError, match="stop must be 'first' or 'all' or a number of rows, found 'last'"):
        mixture(root, weights, stop="last")
    few = {"few": (source(root, "web", rows=[[0, 1]]), 1), "code": (source(root, "code"), 1)}
    with pytest.raises(ValueError, match=r"tail is 'drop'\. stop='first' ends a pass after the 1 row of 'f"):
        fr.Mixture(few, batch_size=8, world=(0, 1))
    assert len(fr.Mixture(few, batch_size=8, world=(0, 1), stop="all")) > 0
    with pytest.raises(AttributeError, match=r"no attribute 'read_rows': write mixture.datasets\[name\]"):
        two.read_rows([0])
    with pytest.raises(
        fr.StateError, match=r"of a mixture, and this is one dataset: load it into the Mixture$"
    ):
        two.datasets["web"].load_state_dict(two.state_dict())


def test_what_a_mixture_does_not_know_is_refused_by_name(root: Path) -> None:
    web = source(root, "web")
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"web": (web, 0)}, {}, "source 'web': a weight must be a number above 0, and below"),
        ({"web": (web, float("nan"))}, {}, "a weight must be a number above 0"),
        ({"web": (web.map(lambda batch: batch), 1)}, {}, r"map the Mixture"),
        ({"web": (web, 1)}, {"stop": "last"}, "stop"),
        ({"web": (web, 1)}, {"stages": [(10, {"code": 1})]}, "a stage names 'code'; the sources are web"),
        ({"web": (web, 1)}, {"stages": [(0, {"web": 1})]}, "the rows of a stage must be at least 1"),
    ]
    for sources, how, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            fr.Mixture(sources, batch_size=2, world=(0, 1), **how)
    two = fr.Mixture(
        {"web": (web, 3), "code": (source(root, "code"), 1)}, stages=[(9, {"web": 1})], batch_size=2
    )
    flat = r'multiplied, as \{"all/web": \(web, 0\.375\), "all/code": \(code, 0\.125\)\}'
    with pytest.raises(TypeError, match=flat):
        fr.Mixture({"all": (two, 0.5)}, batch_size=2)  # type: ignore[dict-item]
    with pytest.raises(AttributeError, match="a batch of one has no sources"):
        _ = web.read_rows([1]).source
    with pytest.raises(
        TypeError, match="one of batch_size and global_batch_size must be given, found neither"
    ):
        next(iter(web))


def test_all_differences_between_the_sources_tensors_are_in_one_error(root: Path) -> None:
    web = source(root, "web")
    code = source(
        root, "code", columns=["*", "!flag", fr.col("x").cast(torch.float32), fr.col("tokens").pad(8)]
    )
    with pytest.raises(ValueError, match="must have the same tensors") as caught:
        fr.Mixture({"web": (web, 1), "code": (code, 1)}, batch_size=2)
    for words in ("'flag' is in 'web', and not in 'code'", "'x' is int32 [B]", "float32 [B]", "'tokens' is"):
        assert words in str(caught.value)


def test_a_state_of_other_data_is_refused_by_the_sources_name(root: Path, tmp_path: Path) -> None:
    made = mixture(root, {"web": 1, "code": 1})
    state = next(iter(made)).state_dict()
    other = {"web": (source(root, "books"), 1), "code": (source(root, "code"), 1)}
    with pytest.raises(fr.StateError, match="source 'web': the state is of another dataset"):
        fr.Mixture(other, batch_size=20, world=(0, 1)).load_state_dict(state)
    alone = source(root, "web", batch_size=10, rank=0, world_size=1)
    with pytest.raises(fr.StateError):
        alone.load_state_dict(state)
    with pytest.raises(fr.StateError, match="the state is of one dataset"):
        made.load_state_dict(alone.state_dict())


def test_matrices_of_columns_in_another_order_are_refused_and_other_columns_are_told(tmp_path: Path) -> None:
    """Rows of both sources are one matrix: of one, features would be in the places of others."""
    for name, columns in {"one": ("x1", "x2"), "turned": ("x2", "x1"), "other": ("x1", "x9")}.items():
        pq.write_table(pa.table(dict.fromkeys(columns, [1.0] * 4)), tmp_path / f"{name}.parquet")

    def mixed(other: str) -> fr.Mixture:
        sources = {
            name: (fr.ParquetDataset(tmp_path / f"{name}.parquet", columns=fr.stack("x*", name="x")), 1)
            for name in ("one", other)
        }
        return fr.Mixture(sources, batch_size=2, world=(0, 1))

    with pytest.raises(ValueError, match=r"column 0 of 'x' is 'x1' in 'one', and 'x2' in 'turned': name the"):
        mixed("turned")
    with pytest.warns(UserWarning, match="column 1 of 'x' is 'x2' in 'one', and 'x9' in 'other': the schema"):
        mixed("other")


def test_rows_that_come_by_two_sources_side_by_side_are_logged(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def logged(**how: Any) -> bool:
        caplog.clear()
        sources = {"a": (source(root, "web"), 1), "b": (source(root, "web", **how), 1)}
        fr.Mixture(sources, batch_size=2, world=(0, 1))
        return "'a' and 'b' are the same rows in one order: each row comes by both" in caplog.text

    assert logged()
    assert not logged(shuffle=True)
    assert not logged(rows=[[0, 9]])


def test_options_of_sources_that_a_mixture_does_not_ask_are_logged(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for option, value in (("tail", "short"), ("on_iter", "restart")):
        web = source(root, "web", **{option: value})
        fr.Mixture({"web": (web, 1)}, batch_size=2, world=(0, 1))
        assert f"source 'web' has {option}='{value}', which a mixture does not ask" in caplog.text
