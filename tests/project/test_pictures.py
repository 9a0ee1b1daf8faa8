"""The pictures are what the programs beside them draw, of what the library does today."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


@cache
def program(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(PICTURES / f"{name}.py")))


@pytest.mark.parametrize("name", sorted(path.stem for path in PICTURES.glob("*.py")))
def test_a_picture_is_what_its_program_draws(name: str) -> None:
    shown = (PICTURES / f"{name}.svg").read_text()
    assert shown == program(name).picture(), f"python docs/pictures/{name}.py draws it again"


def test_the_life_of_a_cursor_shows_each_row_once() -> None:
    picture = program("cursor_over_ranks")
    taken = [row for rows, _ in picture.lives() for row in rows]
    assert sorted(taken) == list(range(picture.ROWS))


def test_the_windows_of_a_shuffle_hold_whole_blocks() -> None:
    picture = program("shuffle_windows")
    order, rows = picture.order(), picture.BLOCK * picture.PER_WINDOW
    assert sorted(order) == list(range(picture.BLOCKS * picture.BLOCK))
    for start in range(0, len(order), rows):
        blocks = {row // picture.BLOCK for row in order[start : start + rows]}
        assert len(blocks) == picture.PER_WINDOW


def test_the_bound_on_memory_grows_far_less_than_the_data() -> None:
    picture = program("memory_bound")
    (small, first), *_, (large, last) = picture.bounds()
    assert large > 15 * small
    assert sum(last.values()) < 1.1 * sum(first.values())
