"""Law 11 for jobs with worker processes: however a job ends, nothing is left of it, and nothing is said.

With FASTRESUME_PROFILE=soak hundreds of jobs of each form end, by every start method.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.profile import SOAK
from support.strategies import Dataset, plain_spec

pytestmark = [pytest.mark.law(11), pytest.mark.processes]

QUICK = {
    "again_and_again": 1,
    "told_to_leave": 1,
    "unclosed": 1,
    "whole": 1,
    "in_a_daemon_thread": 1,
    "while_a_daemon_reads_of_workers": 1,
    "hung": 1,
    "hung_in_a_thread": 1,
    "seized": 1,
}
"""How many jobs of each form, started by a fork."""

LONG = {
    "again_and_again": 500,
    "told_to_leave": 200,
    "unclosed": 200,
    "whole": 200,
    "in_a_daemon_thread": 200,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([400]).write(tmp_path_factory.mktemp("ends"))


def faults(data: Dataset, start: str, times: dict[str, int]) -> list[str]:
    jobs = [f"{form}={count}" for form, count in times.items()]
    command = [sys.executable, "-m", "support.worker_ends", str(data.directory), start, "7", *jobs]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found: list[str] = json.loads(ended.stdout)
    return found


@pytest.mark.timeout(36_000 if SOAK else 240)
def test_a_job_that_ends_leaves_no_worker_and_says_nothing(data: Dataset) -> None:
    assert faults(data, "fork", LONG if SOAK else QUICK) == []


@pytest.mark.slow
@pytest.mark.timeout(36_000 if SOAK else 240)
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_it_does_so_where_workers_are_started_anew(data: Dataset, start: str) -> None:
    forms = ("again_and_again", "unclosed", "seized")
    assert faults(data, start, dict.fromkeys(forms, 100 if SOAK else 1)) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("of", ["workers", "threads", "alone"])
def test_a_script_ends_in_silence_while_a_daemon_thread_reads(data: Dataset, of: str) -> None:
    """What it asks for as Python goes is never torn off in the midst of a batch."""
    form = f"while_a_daemon_reads_{of}" if of == "alone" else f"while_a_daemon_reads_of_{of}"
    assert faults(data, "fork", {form: 200}) == []
