"""Weights: numbers of any kind, exact where they can be, and told where they are rounded."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastresume as fr
from support.mixtures import source


def two(root: Path, web: Any, code: Any, **how: Any) -> fr.Mixture:
    """A mixture of two sources with these weights."""
    sources = {"web": (source(root, "web"), web), "code": (source(root, "code"), code)}
    return fr.Mixture(sources, batch_size=4, world=(0, 1), **how)


def whole(mixture: fr.Mixture) -> list[int]:
    """The integers that its weights became."""
    return mixture._spec.last[1].weights


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((np.int64(2), 1), [2, 1]),
        ((np.float32(0.7), np.float32(0.3)), [7, 3]),
        ((np.float64(0.7), np.array(0.3)), [7, 3]),
        ((np.float16(0.5), np.array(1, np.uint8)), [1, 2]),
        ((65_535, 1), [65_535, 1]),
        ((2 * 10**200, 10**200), [2, 1]),
        ((2**60 * 3, 2**60 * 7), [3, 7]),
    ],
)
def test_weights_are_numbers_of_any_kind_and_stay_exact(
    root: Path, weights: Sequence[Any], expected: list[int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture = two(root, *weights)
    assert whole(mixture) == expected
    assert mixture.plan().rounded == {}


@pytest.mark.parametrize("wrong", [np.bool_(True), np.array([1, 2]), "1", np.float32("nan"), 10**400, None])
def test_what_is_no_weight_is_refused(root: Path, wrong: Any) -> None:
    with pytest.raises(ValueError, match="source 'web': a weight must be a number above 0"):
        two(root, wrong, 1)


def test_stages_and_ends_are_numbers_of_any_kind(root: Path) -> None:
    stages = [(np.int32(8), {"web": np.float32(1)}), (np.array(4), {"code": np.int8(1)})]
    mixture = two(root, 1, 1, stop=np.int64(12), stages=stages)
    assert [mixture._spec.blends[number].stop for number in range(3)] == [8, 4, 12]


def test_integers_that_make_too_many_places_are_told_with_what_became_of_them(root: Path) -> None:
    with pytest.warns(UserWarning, match=r"rounded to parts of 32768: 'code' has .* for .*; 'web' has"):
        mixture = two(root, 100_000, 3)
    plan = mixture.plan()
    assert whole(mixture) == [32_767, 1]
    assert plan.rounded == {"web": 100_000 / 100_003, "code": 3 / 100_003}
    assert "rounded from 0.003000%" in repr(plan)


def test_thirds_are_logged_and_a_share_that_is_far_off_is_a_warning(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, logger="fastresume"):
        warnings.simplefilter("error")
        mixture = two(root, 1 / 3, 2 / 3)
    assert "the weights are rounded to parts of 65536" in caplog.text
    assert mixture.plan().rounded.keys() == {"web", "code"}
    with pytest.warns(UserWarning, match=r"'code' has 0.001526% for 0.001000%"):
        two(root, 0.99999, 0.00001)


def test_many_sources_open_and_a_stage_shares_its_period(root: Path) -> None:
    web = source(root, "web")
    weights = np.random.default_rng(1).random(200)
    sources = {f"s{number}": (web, weight) for number, weight in enumerate(weights)}
    with (
        pytest.warns(UserWarning, match="and 192 more"),
        pytest.warns(UserWarning, match="sources 's0' and 's1' are one dataset"),
    ):
        mixture = fr.Mixture(sources, batch_size=64, world=(0, 1))
    batch = next(iter(mixture))
    mixture.load_state_dict(batch.state_dict())
    assert next(iter(mixture)).step == 1
