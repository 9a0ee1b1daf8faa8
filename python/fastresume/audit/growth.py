"""What a state was before files came behind those that it knew.

A state does not say which dataset it was made of. So it is told as it was then, and looked for among the
states of datasets that are the first files of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fastresume.audit.log_format import state_hash
from fastresume.audit.order import Dataset

State = Mapping[str, Any]
"""A parsed state."""


def before_growth(state: State) -> Iterator[State]:
    """What a state may have been: of as many rows in fewer files first, then before each time that rows came.

    Dataset and selection are those of now, but for the number of rows.
    """
    at = dict(state)
    yield at
    while at.get("generations"):
        *generations, (end, cuts) = at["generations"]
        if cuts != len(at["cuts"]):
            return  # batches were delivered since
        at |= {"dataset": {**at["dataset"], "rows": end}, "generations": generations}
        if not at["cuts"] and at["consumed"] == [[0, end]]:
            # It stood between two passes, and went back into the one that was done.
            at |= {"epoch": at["epoch"] + 1, "consumed": [], "generations": []}
        yield dict(at)


def hash_in(state: State, fingerprint: str, selection: str | None) -> int:
    """The hash of a state as if it were of another dataset and selection."""
    told = {**state, "dataset": {**state["dataset"], "fingerprint": fingerprint}, "selection": selection}
    told = {key: value for key, value in told.items() if key not in ("check", "first_epoch")}
    if not told.get("generations"):
        told.pop("generations", None)
    return state_hash(json.dumps(told, sort_keys=True, separators=(",", ":")))


def is_beginning(older: Dataset, newer: Dataset) -> bool:
    """Whether a dataset is the first files of another one, of which the same rows are selected."""
    files, starts = len(older.files), len(older.starts)
    names = zip(older.files, newer.files, strict=False)
    if files >= len(newer.files) or not all(f"/{later}".endswith(f"/{name}") for name, later in names):
        return False
    selected = np.minimum(newer.selected, older.starts[-1])
    return (
        np.array_equal(older.groups, newer.groups[: files + 1])
        and np.array_equal(older.starts, newer.starts[:starts])
        and np.array_equal(older.selected, selected[selected[:, 0] < selected[:, 1]])
    )
