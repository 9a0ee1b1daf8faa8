"""The proof, from delivery logs alone, that every row of every finished pass was delivered exactly once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from fastresume.audit.history import History
from fastresume.audit.log_format import Records, Start, read_log
from fastresume.audit.mixture_history import MixtureHistory
from fastresume.audit.report import Declared, Report


def audit(directory: Path, declared: Sequence[Declared] = ()) -> Report:
    """Proves what the logs in a directory show.

    Raises:
        OSError: if the directory or a file in it can't be read.
    """
    report = Report()
    starts: list[Start] = []
    parts: list[Records] = []
    ranges = 0
    for path in sorted(path for path in directory.iterdir() if path.match("rank-*.log")):
        found, records, damage = read_log(path)
        parts.append(records.moved(len(starts), ranges))
        starts += found
        ranges += len(records.ranges)
        if damage is not None:
            report.problem(damage, ["from there on it does not count: is there a copy of the file?"])
    report.logs = len(parts)
    jobs: dict[str, list[int]] = defaultdict(list)
    mixed: list[int] = []
    for index, start in enumerate(starts):
        state = json.loads(start.cursor)
        if "mixture" in state["order"]:
            mixed.append(index)
            continue
        jobs[json.dumps([state["dataset"], state["order"], state["selection"]])].append(index)
    if starts:
        names = [column.name for column in fields(Records)]
        records = Records(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
        histories: list[History] = []
        for named, members in sorted(jobs.items()):
            histories.append(History(directory, named, starts, members, records, declared))
        histories.sort(key=lambda history: history.extent)
        for history in histories:
            history.go_on_from([other for other in histories if other is not history])
        for history in histories:
            history.tell()
            report.add(history.report)
        if mixed:
            of_mixtures = MixtureHistory(directory, starts, mixed, records, declared)
            of_mixtures.tell()
            report.add(of_mixtures.report)
    return report
