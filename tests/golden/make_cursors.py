"""Writes cursors.json: cursors of many shapes, by the oracle alone, and what each of them means.

A cursor that was ever written must be read for ever, so entries are added here and never changed: with a new
version of the format, the old entries stay in the file as they are, and this program writes the new ones.

    python tests/golden/make_cursors.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support import oracle  # noqa: E402  (it is found by the line above)

FINGERPRINT = "5f1c0e2b9a7d48336c01d2e4f5a6b798"

LIVES: dict[str, tuple[int, list[tuple[dict[str, int], int]]]] = {
    # name: rows, and the lives of the job: its topology and the steps that it did
    "before the first batch": (103, [({"world_size": 1, "workers": 0, "batch_size": 10}, 0)]),
    "after one batch": (103, [({"world_size": 1, "workers": 0, "batch_size": 10}, 1)]),
    "a rank after most of a pass": (103, [({"world_size": 1, "workers": 0, "batch_size": 10}, 9)]),
    "after the last batch": (103, [({"world_size": 1, "workers": 0, "batch_size": 10}, 10)]),
    "in the third pass": (103, [({"world_size": 2, "workers": 0, "batch_size": 5}, 27)]),
    "eight ranks": (5000, [({"world_size": 8, "workers": 0, "batch_size": 16}, 21)]),
    "workers in the middle of a round": (500, [({"world_size": 2, "workers": 4, "batch_size": 3}, 30)]),
    "workers in the tail": (500, [({"world_size": 3, "workers": 4, "batch_size": 7}, 22)]),
    "more lanes than rows": (7, [({"world_size": 1, "workers": 4, "batch_size": 2}, 2)]),
    "lanes named": (777, [({"world_size": 2, "workers": 0, "batch_size": 12, "lanes": 6}, 11)]),
    "lanes and groups named": (
        777,
        [({"world_size": 2, "workers": 2, "batch_size": 6, "lanes": 24, "groups": 4}, 29)],
    ),
    "time order": (777, [({"world_size": 4, "workers": 2, "batch_size": 5, "lanes": 1}, 13)]),
    "another world size with the same lanes": (
        600,
        [
            ({"world_size": 4, "workers": 0, "batch_size": 3}, 17),
            ({"world_size": 2, "workers": 0, "batch_size": 6, "lanes": 4}, 9),
        ],
    ),
    "four topologies": (
        2000,
        [
            ({"world_size": 4, "workers": 2, "batch_size": 8}, 13),
            ({"world_size": 3, "workers": 0, "batch_size": 11}, 7),
            ({"world_size": 5, "workers": 4, "batch_size": 6}, 19),
            ({"world_size": 1, "workers": 0, "batch_size": 1}, 1),
        ],
    ),
    "a topology that was come back to": (
        300,
        [
            ({"world_size": 2, "workers": 0, "batch_size": 7}, 4),
            ({"world_size": 3, "workers": 0, "batch_size": 5}, 3),
            ({"world_size": 2, "workers": 0, "batch_size": 7}, 5),
        ],
    ),
    "a topology of which nothing was done": (
        300,
        [
            ({"world_size": 2, "workers": 0, "batch_size": 7}, 4),
            ({"world_size": 3, "workers": 2, "batch_size": 5}, 0),
        ],
    ),
    "a resize across the end of a pass": (
        300,
        [
            ({"world_size": 2, "workers": 0, "batch_size": 7}, 20),
            ({"world_size": 3, "workers": 2, "batch_size": 5}, 4),
        ],
    ),
    "twenty resizes": (
        1000,
        [
            ({"world_size": 1 + i % 4, "workers": i % 3, "batch_size": 1 + i % 5}, 2 + i % 4)
            for i in range(20)
        ],
    ),
}

STATED: dict[str, tuple[int, dict[str, Any]]] = {
    # name: rows, and fields that no job of ours begins with (imported, reset, or very large)
    "imported intervals": (1000, {"consumed": [[0, 100], [250, 333], [999, 1000]]}),
    "imported intervals, and a cut of the rest": (
        1000,
        {"consumed": [[0, 100], [250, 333]], "cuts": [[4, 2, 5, 31]], "epoch": 4},
    ),
    "imported intervals, and two cuts": (
        1000,
        {"consumed": [[10, 11]], "cuts": [[6, 3, 2, 40], [2, 1, 9, 13]], "epoch": 1, "first_epoch": 1},
    ),
    "epochs counted anew": (40, {"epoch": 7, "first_epoch": 7, "cuts": [[1, 1, 3, 2]]}),
    "the largest epoch but one": (40, {"epoch": 2**53 - 2, "first_epoch": 2**53 - 2, "cuts": [[1, 1, 3, 2]]}),
    "lanes beyond the rows": (9, {"cuts": [[4096, 4096, 2, 3]]}),
    "a dataset of one row": (1, {"epoch": 3}),
}

SHUFFLED = {"seed": 17, "block_rows": 131072, "window_rows": 524288}

ADDED: dict[str, tuple[int, dict[str, int] | None, list[tuple[dict[str, Any], int]]]] = {
    # name: rows, the order (None is sequential), and the lives of the job
    "shuffled, before the first batch": (
        103,
        SHUFFLED,
        [({"world_size": 1, "workers": 0, "batch_size": 10}, 0)],
    ),
    "shuffled, in the second pass": (103, SHUFFLED, [({"world_size": 2, "workers": 2, "batch_size": 5}, 13)]),
    "shuffled, the largest seed and the smallest sizes": (
        103,
        {"seed": 2**53 - 1, "block_rows": 1, "window_rows": 1},
        [({"world_size": 1, "workers": 0, "batch_size": 10}, 4)],
    ),
    "shuffled, the largest sizes": (
        103,
        {"seed": 0, "block_rows": 2**53 - 1, "window_rows": 2**53 - 1},
        [({"world_size": 3, "workers": 0, "batch_size": 6, "lanes": 9}, 4)],
    ),
    "shuffled, three topologies": (
        2000,
        {"seed": 0, "block_rows": 10, "window_rows": 95},
        [
            ({"world_size": 4, "workers": 2, "batch_size": 8}, 13),
            ({"world_size": 3, "workers": 0, "batch_size": 11}, 7),
            ({"world_size": 5, "workers": 4, "batch_size": 6, "lanes": 1}, 19),
        ],
    ),
    "a rest to be shared": (
        103,
        None,
        [({"world_size": 3, "workers": 0, "batch_size": 7, "tail": "short"}, 4)],
    ),
    "a rest to be padded": (
        103,
        None,
        [({"world_size": 4, "workers": 2, "batch_size": 5, "lanes": 8, "groups": 2, "tail": "pad"}, 5)],
    ),
    "a rest to be padded, after others": (
        103,
        SHUFFLED,
        [
            ({"world_size": 2, "workers": 0, "batch_size": 7, "tail": "pad"}, 3),
            ({"world_size": 1, "workers": 0, "batch_size": 60, "tail": "short"}, 1),
            ({"world_size": 1, "workers": 0, "batch_size": 50, "tail": "pad"}, 0),
        ],
    ),
    "a rest that was cut once more": (
        103,
        None,
        [
            ({"world_size": 4, "workers": 0, "batch_size": 20, "tail": "short"}, 1),
            ({"world_size": 2, "workers": 3, "batch_size": 1, "tail": "short"}, 4),
        ],
    ),
    "after a rest that was padded": (
        103,
        SHUFFLED,
        [({"world_size": 4, "workers": 0, "batch_size": 5, "tail": "pad"}, 6)],
    ),
    "a pass of one padded batch": (
        3,
        None,
        [({"world_size": 4, "workers": 0, "batch_size": 5, "tail": "pad"}, 2)],
    ),
}
"""Lives beside those of the first version's first release, which knew neither shuffling nor tails."""

COUNTED = ("shuffled, in the second pass", "shuffled, three topologies", "after a rest that was padded")
"""Those that are also told with the batches before the pass."""

CUTS = [[1, 1, 1], [1, 1, 4], [2, 1, 3], [6, 3, 2], [8, 2, 5]]
"""What is left is planned under each of these, and under the cursor's own last cut."""


def live(rows: int, shuffle: dict[str, int] | None, lives: list[tuple[dict[str, Any], int]]) -> str:
    """Return the last state of a job with these lives."""
    order = None if shuffle is None else {**shuffle, "group_rows": (rows,)}
    state = None
    for topology, steps in lives:
        job = oracle.OracleJob(rows, fingerprint=FINGERPRINT, order=order, **topology)
        if state is not None:
            job.load(state)
        for _ in range(steps):
            job.step()
        state = job.state()
    assert state is not None
    return state


def cursors() -> Iterator[tuple[str, int, str]]:
    """Give the name, the rows and the text of each cursor."""
    for name, (rows, lives) in LIVES.items():
        yield name, rows, uncounted(live(rows, None, lives))
    for name, (rows, fields) in STATED.items():
        job = oracle.OracleJob(rows, 1, 0, 1, fingerprint=FINGERPRINT)
        yield name, rows, uncounted(oracle.checked({**json.loads(job.state()), **fields}))
    for name, (rows, shuffle, lives) in ADDED.items():
        yield name, rows, uncounted(live(rows, shuffle, lives))
    for name in COUNTED:
        rows, shuffle, lives = ADDED[name]
        yield f"{name}, counted", rows, live(rows, shuffle, lives)


def uncounted(text: str) -> str:
    """Return a state as releases wrote it that did not count the batches before a pass."""
    fields = json.loads(text)
    del fields["earlier_batches"]
    return oracle.checked(fields)


def plan(rows: int, fields: dict[str, Any], cut: list[int]) -> dict[str, Any]:
    """Tell how the pass goes on under a cut: batches to come, the rest after them, the first of them."""
    *before, last = fields["cuts"] or [[*cut, 0]]
    done = last[3] if last[:3] == cut else 0
    left = oracle.replay(rows, fields["consumed"], before if done else fields["cuts"])
    batches = oracle.global_batches(left, *cut)
    size = cut[0] * cut[2] // cut[1]
    to_come = batches[done:]
    return {
        "cut": cut,
        "batches": len(to_come),
        "rest": len(left) % size,
        "next": oracle.intervals_of(to_come[0]) if to_come else [],
    }


def golden() -> list[dict[str, Any]]:
    """Tell what every cursor means."""
    entries = []
    for name, rows, text in cursors():
        fields = json.loads(text)
        left = oracle.replay(rows, fields["consumed"], fields["cuts"])
        own = [cut[:3] for cut in fields["cuts"][-1:]]
        entries.append(
            {
                "name": name,
                "text": text,
                "rows": rows,
                "fingerprint": FINGERPRINT,
                "epoch": fields["epoch"],
                "first_epoch": fields["first_epoch"],
                "steps": sum(cut[3] for cut in fields["cuts"]),
                "remaining": oracle.intervals_of(left),
                "plans": [plan(rows, fields, cut) for cut in own + [cut for cut in CUTS if cut not in own]],
            }
        )
    return entries


def as_text(entries: list[dict[str, Any]]) -> str:
    """Return the file's text: one entry a line, so that a change shows which one."""
    return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n"


if __name__ == "__main__":
    (HERE / "cursors.json").write_text(as_text(golden()))
