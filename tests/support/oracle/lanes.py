"""Who takes which positions (§4): lanes, groups, the tail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from support.oracle.intervals import positions_of

Cut = list[int]
"""[lanes, groups, rows per lane and batch, batches done]."""


def slices_per_lane(left: Sequence[int], lanes: int, rows: int) -> int:
    """Return S = R div (L * c): how many slices of `rows` rows every lane gives."""
    return len(left) // (lanes * rows)


def lane_slices(left: Sequence[int], lane: int, lanes: int, rows: int) -> list[list[int]]:
    """Return the S slices of one lane; lane l is the remaining sequence's [l * S * c, (l + 1) * S * c)."""
    slices = slices_per_lane(left, lanes, rows)
    own = list(left[lane * slices * rows : (lane + 1) * slices * rows])
    return [own[i * rows : (i + 1) * rows] for i in range(slices)]


def tail_of(left: Sequence[int], lanes: int, rows: int) -> list[int]:
    """Return the R - L * S * c positions that no lane holds: the end of the remaining sequence."""
    return list(left[lanes * rows * slices_per_lane(left, lanes, rows) :])


def global_batches(left: Sequence[int], lanes: int, groups: int, rows: int) -> list[list[int]]:
    """Return every whole global batch that a cut of the positions `left` gives, in the order of delivery.

    Batch n of the first S * G is slice n div G of each lane in group n mod G, in lane order. After them come
    the whole global batches (c * L / G rows) of the tail, contiguous. A last part of one is `last_part`'s.
    """
    check_cut(lanes, groups, rows)
    slices = slices_per_lane(left, lanes, rows)
    by_lane = [lane_slices(left, lane, lanes, rows) for lane in range(lanes)]
    batches: list[list[int]] = []
    for n in range(slices * groups):
        batch: list[int] = []
        for lane in range(lanes):
            if lane % groups == n % groups:
                batch += by_lane[lane][n // groups]
        batches.append(batch)
    tail, size = tail_of(left, lanes, rows), rows * lanes // groups
    for i in range(len(tail) // size):
        batches.append(tail[i * size : (i + 1) * size])
    return batches


def rank_batches(
    left: Sequence[int], lanes: int, groups: int, rows: int, rank: int, world_size: int
) -> list[list[int]]:
    """Return the batches of one rank, from the lanes that it owns: [rank * L / W, (rank + 1) * L / W).

    Of each whole global batch of the tail it takes its contiguous share. `lanes=1` is time order: every rank
    reads the one lane, and takes its contiguous share of each of its slices.
    """
    check_cut(lanes, groups, rows)
    size = rows * lanes // groups // world_size

    def share(batch: list[int]) -> list[int]:
        return batch[rank * size : (rank + 1) * size]

    slices = slices_per_lane(left, lanes, rows)
    batches: list[list[int]] = []
    if lanes == 1:
        check_divides("world_size", world_size, "rows per global batch", rows)
        batches = [share(batch) for batch in lane_slices(left, 0, 1, rows)]
    else:
        check_divides("world_size * groups", world_size * groups, "lanes", lanes)
        own = range(rank * lanes // world_size, (rank + 1) * lanes // world_size)
        by_lane = {lane: lane_slices(left, lane, lanes, rows) for lane in own}
        for n in range(slices * groups):
            batch = []
            for lane in own:
                if lane % groups == n % groups:
                    batch += by_lane[lane][n // groups]
            batches.append(batch)
    tail = tail_of(left, lanes, rows)
    for i in range(len(tail) // (size * world_size)):
        batches.append(share(tail[i * size * world_size : (i + 1) * size * world_size]))
    return batches


class LastPart(NamedTuple):
    """What the tail policy makes of less than a global batch.

    `step` is the last step, a list a rank, None if there is none; `valid` says of each of its rows whether it
    counts, which one that repeats another does not; `dropped` are the positions that no rank gets.
    """

    step: list[list[int]] | None
    valid: list[list[bool]] | None
    dropped: list[int]


def last_part(rest: Sequence[int], world_size: int, batch_size: int, tail: str = "drop") -> LastPart:
    """Return what becomes of `rest`: less than a global batch, all that is left after the whole ones."""
    r, size = len(rest), world_size * batch_size
    if r >= size:
        raise ValueError(f"a rest of {r} rows is a whole global batch of {size}")
    if tail == "short" and r >= world_size:
        step = [list(rest[k * r // world_size : (k + 1) * r // world_size]) for k in range(world_size)]
        return LastPart(step, [[True] * len(part) for part in step], [])
    if tail == "pad" and r > 0:
        ranks = [range(k * batch_size, (k + 1) * batch_size) for k in range(world_size)]
        step = [[rest[i % r] for i in part] for part in ranks]
        return LastPart(step, [[i < r for i in part] for part in ranks], [])
    if tail not in ("drop", "short", "pad"):
        raise ValueError(f"tail={tail!r}")
    return LastPart(None, None, list(rest))


def left_after(left: Sequence[int], batches: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions of `left` that are in none of the batches."""
    gone = {position for batch in batches for position in batch}
    return [position for position in left if position not in gone]


def replay(rows: int, consumed: Iterable[Sequence[int]], cuts: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions of a pass over `rows` rows still to read: by doing all its batches again."""
    gone = set(positions_of(consumed))
    left = [position for position in range(rows) if position not in gone]
    for lanes, groups, rows_per_lane, done in cuts:
        batches = global_batches(left, lanes, groups, rows_per_lane)
        if done > len(batches):
            raise ValueError(f"{done} batches done in a cut that has {len(batches)}")
        left = left_after(left, batches[:done])
    return left


def check_cut(lanes: int, groups: int, rows: int) -> None:
    """Raise ValueError if these are no numbers of a cut."""
    if min(lanes, groups, rows) < 1:
        raise ValueError(f"lanes {lanes}, groups {groups}, rows {rows}: all must be positive")
    check_divides("groups", groups, "lanes", lanes)


def check_divides(name: str, divisor: int, of: str, number: int) -> None:
    """Raise ValueError that names both numbers if `divisor` does not divide `number`."""
    if number % divisor:
        raise ValueError(f"{name} = {divisor} does not divide {of} = {number}")
