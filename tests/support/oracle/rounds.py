"""Rounds of a stream: which rows of which partition are in which, slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def rounds(rows: Mapping[int, Sequence[int]], of_batch: int, round_rows: int) -> list[list[int]]:
    """The rows of each round, in order, of partitions that are all there from the beginning.

    A round takes rows from all partitions in turn, one each, until it has as many whole global batches as it
    may have. What makes no whole global batch is in none.
    """
    left = {partition: list(each) for partition, each in sorted(rows.items())}
    found = []
    while (total := sum(map(len, left.values()))) >= of_batch:
        wanted = min(total, round_rows) // of_batch * of_batch
        taken: dict[int, list[int]] = {partition: [] for partition in left}
        while wanted:
            # Those with fewest rows come first when not all can have one more.
            for partition in sorted(left, key=lambda one: (len(left[one]) + len(taken[one]), one)):
                if wanted and left[partition]:
                    taken[partition].append(left[partition].pop(0))
                    wanted -= 1
        found.append([row for partition in sorted(taken) for row in taken[partition]])
    return found
