"""A mixture whose sources are renamed at a restart is one job; another mixture beside it is another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.audit.log_format import START
from support.audits import assert_proven, bodies, found_in, log_of, write_bodies
from support.killed_ranks import Pipes, go, run_ranks

Files = Mapping[str, str]

CRAWL, WEB = {"crawl": "crawl", "code": "code"}, {"web": "crawl", "code": "code"}
SWAPPED = {"crawl": "code", "code": "crawl"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, rows in {"crawl": 120, "code": 60, "held": 40}.items():
        write(tmp_path, name, rows)
    return tmp_path


def write(root: Path, name: str, rows: int, day: int = 0) -> None:
    (root / name).mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": range(rows)}), root / name / f"{day}.parquet", row_group_size=20)


def mixture(root: Path, files: Files, **how: Any) -> fr.Mixture:
    """A mixture of sources by the names of their files, whose first one has twice the weight."""
    order: dict[str, Any] = {"shuffle": True, "seed": 3, "on_change": "append"}
    sources = {
        name: (fr.ParquetDataset(root / of, **order), 1 + (of == "crawl")) for name, of in files.items()
    }
    return fr.Mixture(sources, **{"batch_size": 5, "rank": 0, "world_size": 1, "tail": "short", **how})


def run(made: fr.Mixture, root: Path, steps: int, state: Any = None) -> dict[str, str]:
    """So many batches, each logged; the last but one led to the state that is returned."""
    if state is not None:
        made.load_state_dict(state)
    states = [made.state_dict()]
    for _, batch in zip(range(steps), fr.Loader(made, threads=0, audit=root / "logs"), strict=False):
        states.append(batch.state_dict())
    return states[-2] if len(states) > 1 else states[-1]


RENAMED: dict[str, str | None] = {"crawl": "web"}
FINISH = 1000


def test_a_job_that_goes_on_under_a_new_name_is_proven(root: Path) -> None:
    state = run(mixture(root, CRAWL), root, 8)
    state = run(mixture(root, WEB, renamed=RENAMED), root, 3, state)
    run(mixture(root, WEB, renamed=RENAMED, batch_size=6), root, FINISH, state)
    said = assert_proven(root / "logs", 2)
    assert "mixture of code, web (before: crawl): 3 logs" in said
    assert "web: pass 0 finished: 120 rows, each exactly once" in said
    assert "  crawl: " not in said


@pytest.mark.processes
def test_ranks_that_are_killed_and_go_on_under_a_new_name_are_proven(root: Path) -> None:
    saved = root / "state.json"

    def rank_process(files: Files, how: dict[str, Any], rank: int, pipes: Pipes) -> None:
        made = mixture(root, files, rank=rank, **how)
        if saved.exists():
            made.load_state_dict(json.loads(saved.read_text()))
        go(fr.Loader(made, threads=0, audit=root / "logs"), saved, rank, pipes, passes=1)

    two = {"world_size": 2}
    run_ranks(partial(rank_process, CRAWL, two), 2, 8)
    run_ranks(partial(rank_process, WEB, {"renamed": RENAMED, **two}), 2, 4)
    run_ranks(partial(rank_process, WEB, {"renamed": RENAMED, "world_size": 3}), 3, None)
    assert_proven(root / "logs", 2)


def test_names_that_change_places_and_sources_that_grow_are_proven(root: Path) -> None:
    state = run(mixture(root, CRAWL), root, 8)
    write(root, "crawl", 30, day=1)
    renamed = {"crawl": "code", "code": "crawl"}
    state = run(mixture(root, SWAPPED, renamed=renamed), root, 6, state)
    # The script keeps the line, and another source has another name now.
    third = {"code": "crawl", "git": "code"}
    renamed = {"crawl": "git"}
    run(mixture(root, third, renamed=renamed, stages=[(30, {"git": 1})], stop="all"), root, FINISH, state)
    assert_proven(root / "logs", 0, or_more=True)


def test_a_state_under_the_old_name_can_be_declared(root: Path) -> None:
    state = run(mixture(root, CRAWL), root, 8)
    log_of(root / "logs", 0).unlink()
    run(mixture(root, WEB, renamed=RENAMED), root, FINISH, state)
    assert "web: 24 of these rows on trust" in assert_proven(root / "logs", 2, state)


def of_start(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Forge the start of the log under the new name."""
    path = log_of(root / "logs", 0, 1)
    first, *rest = bodies(path)
    found = json.loads(first[1:])
    change(found)
    write_bodies(path, [bytes([START]) + json.dumps(found).encode(), *rest])


def lose(root: Path, nth: int, at: int) -> None:
    path = log_of(root / "logs", 0, nth)
    found = bodies(path)
    write_bodies(path, found[:at] + found[at + 1 :])


def repeat(root: Path, nth: int, at: int) -> None:
    path = log_of(root / "logs", 0, nth)
    found = bodies(path)
    write_bodies(path, found[: at + 1] + found[at:])


def taken_less(found: dict[str, Any]) -> None:
    """The state under the new name says a batch less than that which was saved."""
    found["cursor"] = found["stage"] = found["cursor"].replace("[1,1,5,7]", "[1,1,5,6]")


FAULTS: dict[str, Callable[[Path], object]] = {
    "no renaming is told": lambda root: of_start(root, lambda told: told.pop("renamed")),
    "another source is told": lambda root: of_start(root, lambda told: told.update(renamed={"code": "web"})),
    "rows come twice": lambda root: of_start(root, taken_less),
    "a batch before it is lost": lambda root: lose(root, 0, 4),
    "a batch after it is lost": lambda root: lose(root, 1, 4),
    "a batch before it comes twice": lambda root: repeat(root, 0, 4),
    "a batch after it comes twice": lambda root: repeat(root, 1, 4),
    "the log before it is lost": lambda root: log_of(root / "logs", 0).unlink(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_around_a_renaming_are_refused(root: Path, fault: str) -> None:
    state = run(mixture(root, CRAWL), root, 8)
    run(mixture(root, WEB, renamed=RENAMED), root, FINISH, state)
    assert_proven(root / "logs", 2)
    FAULTS[fault](root)
    assert "problem: " in found_in(root / "logs")


def test_a_source_that_is_let_go_and_read_anew_is_named(root: Path) -> None:
    state = run(mixture(root, CRAWL), root, 8)
    run(mixture(root, WEB, renamed={"crawl": None}), root, 12, state)
    said = assert_proven(root / "logs", 0)
    assert "note: web has the files of crawl, which was let go: their rows are read again" in said


# ------------------------------------------------------------------------------- another mixture beside it


@pytest.mark.parametrize("on_iter", ["restart", "continue"])
def test_an_evaluation_of_other_files_in_the_directory_is_a_job_of_its_own(root: Path, on_iter: str) -> None:
    evaluated = mixture(root, {"crawl": "held"}, on_iter=on_iter)
    run(mixture(root, CRAWL), root, FINISH)
    for _ in range(2):
        run(evaluated, root, FINISH)
    said = assert_proven(root / "logs", 3 if on_iter == "restart" else 4)
    assert "mixture of crawl, code: 1 log" in said
    assert "mixture of crawl: 2 logs" in said
    assert "note" not in said


def test_a_fault_in_one_of_them_is_found(root: Path) -> None:
    run(mixture(root, CRAWL), root, FINISH)
    run(mixture(root, {"crawl": "held"}, on_iter="restart"), root, FINISH)
    lose(root, 1, 3)
    assert "problem: " in found_in(root / "logs")


def test_a_run_of_the_same_files_from_the_start_is_told_with_what_to_write(root: Path) -> None:
    run(mixture(root, CRAWL), root, 10)
    run(mixture(root, {"crawl": "crawl"}), root, FINISH)
    said = assert_proven(root / "logs", 1)
    assert "10 batches of the first do not count; their sources or weights differ" in said
