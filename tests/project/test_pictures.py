"""The pictures are what the programs beside them draw, of what the library does today."""

from __future__ import annotations

import re
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.each_of import each_of

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


@cache
def program(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(PICTURES / f"{name}.py")))


@each_of("name", sorted(path.stem for path in PICTURES.glob("*.py")))
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


def test_the_picture_of_a_killed_job_has_each_row_in_one_place() -> None:
    picture = program("kill_and_resume")
    lines = picture.KEPT.read_text().splitlines()
    assert len(lines) == len(picture.WAITS)
    parts = [part for life in picture.lives(lines) for lane in life for part in lane]
    parts.sort(key=lambda part: part.start)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == picture.BATCHES * picture.GLOBAL_BATCH


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.law(3)
def test_the_picture_of_a_killed_job_shows_what_such_a_job_prints() -> None:
    picture = program("kill_and_resume")
    kept, lines = picture.KEPT.read_text().splitlines(), picture.record()
    killed, resumed = picture.steps_of(lines)[1:3]
    assert picture.KILL_AT <= killed < resumed == killed + 1
    number = re.compile(r"(step |loss )[\d.]+")
    assert [number.sub(r"\1", line) for line in lines] == [number.sub(r"\1", line) for line in kept]
