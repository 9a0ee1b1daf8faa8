"""The cursor as text (§5), and states that are merged."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from support.oracle.intervals import Interval, intervals_of, positions_of
from support.oracle.lanes import rank_batches, replay


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON text with sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def checked(fields: Mapping[str, Any]) -> str:
    """Return the canonical text of a cursor: its fields and `check`, the CRC-32 of the text without it."""
    without = {key: value for key, value in fields.items() if key != "check"}
    return canonical({**without, "check": f"{zlib.crc32(canonical(without).encode('ascii')):08x}"})


def offsets_consumed(offsets: Mapping[str, Any], rows: int) -> tuple[int, list[Interval]]:
    """Return (passes done, consumed intervals) that a state `{"path:start": last_row}` says of `rows` rows.

    Both numbers are row numbers over the whole dataset: a slice began at `start`, and `last_row` of it was
    the last row consumed, `start - 1` if none was. Whatever no slice covers remains. A fully consumed state
    is a finished pass. A key without ':' says nothing, but for the reserved `__epochs_completed__`.
    """
    epoch = offsets.get("__epochs_completed__", 0)
    if type(epoch) is not int or epoch < 0:
        raise ValueError(f"__epochs_completed__: {epoch!r} is no number of passes")
    consumed: list[Interval] = []
    for key, last in offsets.items():
        if ":" not in key:
            continue
        digits = key.rpartition(":")[2]
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"{key!r}: {digits!r} is no row number")
        start = int(digits)
        if type(last) is not int or not 0 <= start <= last + 1 <= rows:
            raise ValueError(f"{key!r}: {last!r} is no row from {start - 1} to {rows - 1}")
        consumed.append((start, last + 1))
    found = intervals_of(positions_of(consumed))
    return (epoch + 1, []) if rows and found == [(0, rows)] else (epoch, found)


def merge(states: Sequence[str]) -> str:
    """Return the state of a job whose ranks were out of step: `states[r]` is that of rank r.

    From each is taken what that rank itself was given in the last cut, up to its own `done`. States that do
    not belong together are a ValueError.
    """
    if not states:
        raise ValueError("no states to merge")
    fields = [json.loads(state) for state in states]
    for key in ("fastresume", "dataset", "order", "selection", "first_epoch", "epoch", "consumed"):
        for other in fields:
            if other[key] != fields[0][key]:
                raise ValueError(f"{key} differs: {fields[0][key]!r} and {other[key]!r}")
    counted = {other["earlier_batches"] for other in fields if "earlier_batches" in other}
    if len(counted) > 1:
        raise ValueError(f"earlier_batches differs: {sorted(counted)}")
    if all(other == fields[0] for other in fields):
        return states[0]
    longest = max((other["cuts"] for other in fields), key=len)
    *before, (lanes, groups, rows, _) = longest
    dones = []
    for other in fields:
        *others_before, last = other["cuts"] if len(other["cuts"]) == len(longest) else [*other["cuts"], None]
        if others_before != before or (last is not None and last[:3] != [lanes, groups, rows]):
            raise ValueError(f"cuts differ: {longest!r} and {other['cuts']!r}")
        dones.append(0 if last is None else last[3])
    total = fields[0]["dataset"]["rows"]
    left = replay(total, fields[0]["consumed"], before)
    gone = set(range(total)) - set(left)
    for rank, done in enumerate(dones):
        for batch in rank_batches(left, lanes, groups, rows, rank, len(states))[:done]:
            gone.update(batch)
    epoch, consumed = fields[0]["epoch"], intervals_of(gone)
    if consumed == [(0, total)]:
        epoch, consumed = epoch + 1, []
    steps = sum(cut[3] for cut in before) + max(dones)
    earlier = {"earlier_batches": counted.pop() + steps} if counted else {}
    return checked({**fields[0], **earlier, "epoch": epoch, "consumed": consumed, "cuts": []})
