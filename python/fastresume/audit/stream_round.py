"""A round of a stream, for the audit, as a state describes it: its rows, and which round it may follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastresume.audit.order import Dataset


class Stretches(Dataset):
    """The rows of a round: those of partitions, one after another."""

    def _place(self, file: int, _group: int) -> str:
        return f"{self.files[file]}: "


@dataclass(frozen=True)
class StreamRound:
    """A round of a stream.

    Args:
        number: of the pass that it is.
        topics: their names.
        parts: of each partition, the offset and the row of a message where the round begins, then of each
            generation where it ends, and how many rows it has.
        gaps: offsets that were gone before they were read: (partition, first, end).
        rows: the rows, by partition.
    """

    number: int
    topics: tuple[str, ...]
    parts: Mapping[str, tuple[int, ...]]
    gaps: tuple[tuple[str, int, int], ...]
    rows: Dataset

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """The round that the state of a stream has.

        Raises:
            ValueError, TypeError, KeyError, IndexError: if it is none.
        """
        topics = tuple(str(name) for name, _ in told["topics"])
        parts = {
            f"{topics[topic]}:{number}": tuple(map(int, numbers)) for topic, number, *numbers in told["parts"]
        }
        names, counts = list[str](), list[int]()
        for generation in range((len(told["parts"][0]) - 4) // 3):
            for part, numbers in parts.items():
                begin = numbers[:2] if generation == 0 else numbers[3 * generation - 1 : 3 * generation + 1]
                *end, rows = numbers[3 * generation + 2 : 3 * generation + 5]
                if rows < 0 or begin > tuple(end):
                    raise ValueError(f"partition {part} ends before it begins")
                if rows:
                    names.append(f"{part}@{begin[0]}.{begin[1]}")
                    counts.append(rows)
        starts = np.cumsum([0, *counts]).astype(np.int64)
        whole = np.array([[0, starts[-1]]], np.int64)
        gaps = tuple((f"{topics[topic]}:{of}", first, end) for topic, of, first, end in told.get("gaps", []))
        rows_of = Stretches(tuple(names), np.arange(len(names) + 1), starts, whole)
        return cls(int(told["number"]), topics, parts, gaps, rows_of)

    def follows(self, before: StreamRound) -> bool:
        """Whether it begins where another round ends, or after what was removed between."""
        return self.number == before.number + 1 and not any(self.misses(before))

    def misses(self, before: StreamRound) -> Iterator[str]:
        """What is between the end of a round and the beginning of this one, and is in no gap."""
        for part, numbers in before.parts.items():
            end, begin = numbers[-3:-1], self.parts.get(part, ())[:2]
            place = end
            for of, first, after in sorted(self.gaps):
                place = (after, 0) if (of, first) == (part, place[0]) else place
            if begin != place:
                yield f"{part}: the round before ends at {end}, and this one begins at {begin}"

    def grows(self, before: StreamRound) -> bool:
        """Whether it is another round with more rows after its own, or that round itself."""
        same = ((numbers, self.parts.get(part, ())) for part, numbers in before.parts.items())
        return self.number == before.number and all(new[: len(old)] == old for old, new in same)
