"""The cut that arguments name: lanes, groups, and rows per lane and batch."""

from __future__ import annotations

from fastresume.arguments import nearest

Cut = tuple[int, int, int]
"""Lanes, groups, and rows per lane and batch."""


def cut_of(batch_size: int, world_size: int, workers: int, lanes: int | None, groups: int | None) -> Cut:
    """The cut of a job.

    Args:
        batch_size: rows per rank and step.
        world_size: how many ranks there are.
        workers: how many loader workers each rank has; 1 without any.
        lanes: what the user named; None for one per rank and group.
        groups: what the user named; None for one per worker, or one where `lanes` is 1.

    Raises:
        ValueError: for numbers that do not divide; names the nearest that do.
    """
    if groups is None:
        groups = 1 if lanes == 1 else workers
    ways = world_size * groups
    if lanes == 1:
        if groups > 1:
            raise ValueError(
                f"lanes=1 is one stretch of the order per batch: groups must be 1, found {groups}"
            )
        return 1, 1, batch_size * world_size
    if groups % workers:
        raise ValueError(
            f"groups {groups} is not a multiple of {workers} workers; {nearest(groups, workers)}"
        )
    if lanes is None:
        lanes = ways
    if lanes % ways:
        raise ValueError(
            f"lanes {lanes} is not a multiple of {ways} (world_size {world_size} times groups {groups}); "
            + nearest(lanes, ways)
        )
    rows, rest = divmod(batch_size * ways, lanes)
    if rest:
        each = lanes // ways
        raise ValueError(
            f"batch_size {batch_size} is not a multiple of {each}, the lanes that a rank has in each group "
            f"(lanes {lanes}, world_size {world_size}, groups {groups}); {nearest(batch_size, each)}"
        )
    return lanes, groups, rows
