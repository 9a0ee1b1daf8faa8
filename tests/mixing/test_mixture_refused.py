"""What is no mixture, and states of other data, are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
