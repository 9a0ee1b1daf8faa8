"""Law 3 in earnest: ranks of a gloo group, killed with SIGKILL, go on in other numbers, also under torchrun.

`make soak` does hundreds of such kills, under the program itself too.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

import fastresume as fr
from support.audits import found_in
from support.elastic import ElasticJob, Kill

pytestmark = pytest.mark.processes


@pytest.mark.law(3)
def test_ranks_that_are_killed_go_on_in_other_numbers_and_give_each_row_once(tmp_path: Path) -> None:
    job = ElasticJob(tmp_path / "job", seed=5)
    for world_size in (4, 2, 8, 1, 3):
        job.live(world_size, job.kill_of(world_size), workers=world_size == 2)
    job.live(3)
    assert job.kills == 5
    job.assert_each_row_once()


@pytest.mark.law(3)
def test_a_batch_that_a_rank_died_before_it_had_comes_again_on_all(tmp_path: Path) -> None:
    job = ElasticJob(tmp_path / "job", seed=9)
    job.live(2, Kill((1,), 4, lag=True))
    assert [len(job.entries("0000", rank)) for rank in range(2)] == [5, 4], "with what they began at"
    job.live(3)
    assert job.kills == 1
    job.assert_each_row_once()


@pytest.mark.slow
@pytest.mark.law(3)
def test_torchrun_starts_ranks_again_where_the_job_stood(tmp_path: Path) -> None:
    job = ElasticJob(tmp_path / "job", seed=6)
    job.live(3, Kill((1,), 4))
    job.launch(2, [Kill((1,), 3)], program=False)
    assert job.kills == 2
    job.assert_each_row_once()


@pytest.mark.slow
def test_both_judges_see_that_a_state_was_ahead_of_the_ranks(tmp_path: Path) -> None:
    job = ElasticJob(tmp_path / "job", seed=7)
    job.live(2, Kill((0, 1), 6))
    topology, saved = job.lives[0][1], tmp_path / "job" / "state.json"
    dataset = fr.ParquetDataset(job.data.directory, world=(0, 2), **job.arguments(topology))
    dataset.load_state_dict(json.loads(saved.read_text()))
    ahead = list(islice(dataset, 2))[-1]  # a rank may have been given one batch more than was saved
    saved.write_text(json.dumps(ahead.state_dict()))
    job.live(3)
    assert "problem: pass 0 was finished, but the logs do not show how" in found_in(job.directory / "audit")
    with pytest.raises(AssertionError, match=r"a state that life 0 never had|that not all ranks had reached"):
        job.assert_as_the_oracle_says()


def test_the_oracle_sees_that_a_rank_was_given_other_rows(tmp_path: Path) -> None:
    job = ElasticJob(tmp_path / "job", seed=8)
    job.live(2)
    job.assert_each_row_once()
    log = tmp_path / "job" / "lives" / "0000-1.jsonl"
    lines = log.read_text().split("\n")
    lines[3] = json.dumps({**json.loads(lines[3]), "rows": json.loads(lines[4])["rows"]})
    log.write_text("\n".join(lines))
    with pytest.raises(AssertionError, match=r"\(0, 3, 1\)"):
        job.assert_as_the_oracle_says()
