"""A job that is started again each day is given each row once, over all days, kills and numbers of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.daily_jobs import A_DAY, DailyJob

pytestmark = [pytest.mark.processes, pytest.mark.law(3)]


@pytest.mark.parametrize(
    ("days", "saves_every"),
    [
        (3, 2),
        pytest.param(10, 1, marks=pytest.mark.slow),
        pytest.param(10, A_DAY, marks=pytest.mark.slow),
    ],
    ids=["three days", "ten days", "ten days with a state a day"],
)
def test_each_row_comes_once_over_the_days(tmp_path: Path, days: int, saves_every: int) -> None:
    job = DailyJob(tmp_path / "job", days, saves_every)
    for _ in range(days):
        job.run_day(kills=job.chance.randint(1, 2))
        job.assert_each_row_once()
    assert job.kills >= days // 2
    assert len({topology.world_size for _, topology in job.lives}) > 1


@pytest.mark.slow
def test_a_day_that_was_not_ended_is_ended_with_the_next_one(tmp_path: Path) -> None:
    job = DailyJob(tmp_path / "job", 7, 1)
    for day in range(6):
        job.run_day(kills=1, ends=day % 3 == 2)
        if day % 3 == 2:
            job.assert_each_row_once()
