"""A test of many cases runs each of them, and fails with the first that does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from support.each_of import chosen, each_of
from support.profile import one_in


def test_every_pair_of_cases_has_a_directory_of_its_own(tmp_path: Path) -> None:
    seen = []

    @each_of("one", "ab")
    @each_of("two, three", [(1, 2), (3, 4)])
    def check(tmp_path: Path, path: Path, one: str, two: int, three: int) -> None:
        assert not list(tmp_path.iterdir())
        assert path.parent == tmp_path
        path.write_text("not there for the next one")
        seen.append((one, two, three))

    check(tmp_path=tmp_path, path=tmp_path / "x")
    assert seen == [("a", 1, 2), ("a", 3, 4), ("b", 1, 2), ("b", 3, 4)]


def test_a_case_that_fails_is_told_and_the_test_fails() -> None:
    @each_of("number", [1, 2, 3])
    def check(number: int) -> None:
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        check()
    assert caught.value.__notes__ == ["case 1: {'number': 2}"]


def test_no_case_is_refused() -> None:
    with pytest.raises(AssertionError, match="no case is no test"):
        each_of("number", [])


def test_of_three_that_vary_every_pair_comes_in_the_run_of_a_change() -> None:
    axes = [range(2), range(3), range(1), range(5)]
    found = list(chosen(axes))
    assert len(found) == 30 // one_in(2)
    for one, other in itertools.combinations(range(4), 2):
        pairs = {(case[one], case[other]) for case in found}
        assert pairs == set(itertools.product(axes[one], axes[other]))
    assert len(list(chosen([range(9), range(4)]))) == 36
