"""True runs of random jobs are proven, and faults that are planted in their logs refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from fastresume.audit.verify import audit
from support.audited_jobs import AuditedJob
from support.audits import text_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:the pass ends here"),
    pytest.mark.filterwarnings("ignore:.*masked as not valid"),
]

PIECES = [pytest.param(range(first, first + 25), marks=pytest.mark.slow) for first in range(0, 2000, 25)]


@pytest.mark.processes
@pytest.mark.parametrize("seeds", [(0, 1, 2, 3, 6), *PIECES], ids=str)
def test_true_runs_are_proven_and_planted_faults_refused(tmp_path: Path, seeds: Sequence[int]) -> None:
    wrong, proven, refused = [], Counter[str](), Counter[str]()
    for seed in seeds:
        directory = tmp_path / str(seed)
        job = AuditedJob(directory, seed)
        job.live_as_processes() if seed % 20 == 6 else job.live()
        if not list(job.logs.glob("rank-*.log")):
            continue
        report = audit(job.logs)
        proven[job.kind] += 1
        if report.problems or (job.ends and job.state and not sum(report.finished) and not job.is_mixture):
            wrong.append(f"seed {seed}, {job.kind}: {text_of(report)}")
        for number, (fault, plant) in enumerate(list(job.faults())):
            if (seed + number) % 5:
                continue
            kept = directory / "kept"
            shutil.copytree(job.logs, kept)
            plant()
            report = audit(job.logs)
            refused[fault] += 1
            if not report.problems:
                wrong.append(f"seed {seed}, {job.kind}, {fault} is proven: {text_of(report)}")
            shutil.rmtree(job.logs)
            kept.rename(job.logs)
        shutil.rmtree(directory)
    print(f"{dict(proven)} proven, {dict(refused)} refused")
    assert not wrong, f"{len(wrong)} are wrong:\n" + "\n".join(wrong[:5])
