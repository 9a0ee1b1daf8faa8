"""The interval algebra beside the same logic in plain Python.

Each operation of `fastresume.intervals` runs in turns with a twin of one loop over lists of tuples or dicts,
as one would write it by hand. The twins start from what plain Python has (lists, dicts), ours from int64
arrays, where it takes them; neither pays for the other's form. Results are compared before anything is timed.
A turn of ours has a few calls. The first one finds the caches as the plain loop left them; the next ones find
there what they need, as the plain loop does for most of its time. Both are told. Memory for the result is
there from the calls before.
`make bench-intervals` prints the tables that stand in RESULTS.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fastresume import _core, intervals

Pairs = Sequence[tuple[int, int]]

CALLS = 6
"""So many calls of ours are one turn."""


# ------------------------------------------------------------------------------------------- in plain Python


def coalesced(pairs: Pairs) -> list[tuple[int, int]]:
    """The pairs, sorted and joined where they touch."""
    found: list[tuple[int, int]] = []
    first, reached = 0, 0
    for start, end in sorted(pairs):
        if start < 0 or end < start:
            raise ValueError(f"no interval: [{start}, {end})")
        if start > reached:
            if reached > first:
                found.append((first, reached))
            first, reached = start, end
        elif end > reached:
            reached = end
    if reached > first:
        found.append((first, reached))
    return found


def remaining(consumed: Pairs, total: int) -> list[tuple[int, int]]:
    left = []
    reached = 0
    for start, end in coalesced(consumed):
        if start > reached:
            left.append((reached, start))
        reached = end
    if reached > total:
        raise ValueError(f"an interval ends at {reached}, beyond {total}")
    if reached < total:
        left.append((reached, total))
    return left


def slice_intervals(pairs: Pairs, index: int, count: int, multiple_of: int = 1) -> list[tuple[int, int]]:
    pairs = coalesced(pairs)
    total = sum(end - start for start, end in pairs)
    units = total // multiple_of
    first = units * index // count * multiple_of
    last = total if index + 1 == count else units * (index + 1) // count * multiple_of
    found = []
    counted = 0
    for start, end in pairs:
        if counted >= last:
            break
        after = counted + end - start
        if after > first:
            found.append((start + max(first - counted, 0), end - max(after - last, 0)))
        counted = after
    return found


def max_of_lists(states: Sequence[Sequence[int]]) -> list[int]:
    merged = list(states[0])
    for state in states[1:]:
        pairs = zip(merged, state, strict=True)
        merged = [left if left > right else right for left, right in pairs]  # noqa: FURB136  (half of max's time)
    return merged


def max_of_mappings(states: Sequence[Mapping[str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for state in states:
        for key, value in state.items():
            if key not in merged or value > merged[key]:
                merged[key] = value
    return merged


# -------------------------------------------------------------------------------------------------- measuring


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(name: str, rounds: int, ours: Callable[[], Any], plain: Callable[[], Any]) -> None:
    """Print one row: medians, and the median and range of the ratios of each round."""
    found, expected = ours(), plain()
    if isinstance(found, np.ndarray):
        same = np.array_equal(found, np.array(expected, dtype=np.int64).reshape(found.shape))
    else:
        same = found == expected
    if not same:
        raise SystemExit(f"{name}: the results differ")
    del found, expected
    firsts, others, plains = [], [], []
    for _ in range(rounds):
        firsts.append(seconds(ours))
        others.append(statistics.median(seconds(ours) for _ in range(CALLS - 1)))
        plains.append(seconds(plain))
    cells = [f"{statistics.median(plains) * 1e3:,.0f}"]
    for times in (firsts, others):
        ratios = sorted(slow / fast for fast, slow in zip(times, plains, strict=True))
        cells += [
            f"{statistics.median(times) * 1e3:,.2f}",
            f"{statistics.median(ratios):,.0f} ({ratios[0]:,.0f}-{ratios[-1]:,.0f})",
        ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def print_head(measured: str) -> None:
    print(f"| {measured} | plain Python, ms | first call, ms | ratio | next calls, ms | ratio |")
    print("|---|---|---|---|---|---|")


def measure_sets(count: int, rounds: int) -> None:
    random_numbers = random.Random(17)
    pairs = [(100 * n + random_numbers.randrange(40), 100 * n + 60) for n in range(count)]
    shuffled = random_numbers.sample(pairs, count)
    total = 100 * count
    array, shuffled_array = (np.array(given, dtype=np.int64) for given in (pairs, shuffled))
    print_head(f"{count:,} intervals")
    compare(
        "`remaining`",
        rounds,
        lambda: intervals.remaining(array, total),
        lambda: remaining(pairs, total),
    )
    compare(
        "`remaining`, intervals in any order",
        rounds,
        lambda: intervals.remaining(shuffled_array, total),
        lambda: remaining(shuffled, total),
    )
    for numbers in ((0, 8, 1), (3, 8, 1), (7, 8, 4096), (500, 1024, 4096), (0, 1, 1)):
        compare(
            "`slice_intervals`, slice {} of {}, `multiple_of={}`".format(*numbers),
            rounds,
            lambda numbers=numbers: intervals.slice_intervals(array, *numbers),
            lambda numbers=numbers: slice_intervals(pairs, *numbers),
        )


def measure_states(count: int, entries: int, rounds: int) -> None:
    keys = [f"data/*.parquet:{number}" for number in range(entries)]
    states = list(np.random.default_rng(17).integers(0, 2**40, (count, entries)))
    lists = [state.tolist() for state in states]
    mappings = [dict(zip(keys, state, strict=True)) for state in lists]
    print()
    print_head(f"{count:,} states of {entries:,} offsets")
    compare(
        "`max_merge` of arrays, beside lists",
        rounds,
        lambda: intervals.max_merge(states),
        lambda: max_of_lists(lists),
    )
    compare(
        "`max_merge` of arrays, beside mappings",
        rounds,
        lambda: intervals.max_merge(states),
        lambda: list(max_of_mappings(mappings).values()),
    )
    compare(
        "`max_merge` of mappings, beside mappings",
        rounds,
        lambda: intervals.max_merge(mappings),
        lambda: max_of_mappings(mappings),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--intervals", type=int, default=1_000_000)
    parser.add_argument("--states", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    if not _core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    measure_sets(arguments.intervals, arguments.rounds)
    measure_states(arguments.states, arguments.entries, arguments.rounds)


if __name__ == "__main__":
    main()
