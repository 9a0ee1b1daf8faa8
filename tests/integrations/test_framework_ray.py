"""Ray Train on a cluster of nodes: a worker and a node are killed, and every row comes exactly once."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastresume.cli import main
from support.frameworks import marks_of
from support.rehearsal import write_data

pytestmark = marks_of("ray")

ROOT = Path(__file__).resolve().parents[2]
ROWS = 9600  # twenty steps of 480: no tail on three workers, nor on two


@pytest.mark.timeout(900)
def test_a_worker_and_a_node_are_killed_and_every_row_comes_exactly_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulthandler.cancel_dump_traceback_later()  # a busy machine takes minutes to start all processes of Ray
    write_data(tmp_path, ROWS)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "python")]),
        "OMP_NUM_THREADS": "1",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # a report takes as long
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30",  # so long does it wait for the lost node
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    program = f"from support.ray_job import main; main({str(ROOT / 'examples/with_ray.py')!r})"
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    said = found.stdout + found.stderr
    assert found.returncode == 0, said[-5000:]
    assert said.index("killed: a worker") < said.index("killed: a node and its 1 worker")

    assert main(["audit", str(tmp_path / "audit"), "--passes", "2"]) == 0
    report = capsys.readouterr().out
    # Of a life whose end no checkpoint has, the report may have a line, too.
    kept = [line for line in report.splitlines() if f"finished: {ROWS} rows, each exactly once" in line]
    assert {"  pass 0", "  pass 1"} == {line.partition(":")[0] for line in kept}, report
    assert any(" on 3 ranks, " in line and line.endswith(" on 2 ranks") for line in kept), report
    assert "PROVEN: 2 finished passes, every row delivered exactly once" in report
