"""A round of a stream, for the audit, as a state describes it: its rows, and which round it may follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastresume.audit.order import Dataset
from fastresume.sources.part import groups


class Stretches(Dataset):
    """The rows of a round: those of partitions, one after another."""

    def _place(self, file: int, group: int) -> str:
        is_whole = self.groups[file + 1] - self.groups[file] == 1
        return f"{self.files[file]}: " if is_whole else super()._place(file, group)


@dataclass(frozen=True)
class StreamRound:
    """A round of a stream.

    Args:
        number: of the pass that it is.
        topics: their names.
        parts: of each partition, where the round begins: offset, row of the message, token of the row. Then
            of each generation where it ends, and how many rows it has.
        gaps: offsets that were gone before they were read: (partition, first, end).
        rows: the rows, by partition.
    """

    number: int
    topics: tuple[str, ...]
    parts: Mapping[str, tuple[int, ...]]
    gaps: tuple[tuple[str, int, int], ...]
    rows: Dataset

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """The round that the state of a stream has.

        Raises:
            ValueError, TypeError, KeyError, IndexError: if it is none.
        """
        topics = tuple(str(name) for name, _ in described["topics"])
        count = (len(described["parts"][0]) - 4) // 3
        parts = dict[str, tuple[int, ...]]()
        no_tokens = [[0] * (count + 1)] * len(described["parts"])
        for (topic, number, *each), tokens in zip(
            described["parts"], described.get("tokens", no_tokens), strict=True
        ):
            found = [*each[:2], tokens[0]]
            for generation in range(count):
                offset, row, rows = each[3 * generation + 2 : 3 * generation + 5]
                found += [offset, row, tokens[generation + 1], rows]
            parts[f"{topics[topic]}:{number}"] = tuple(map(int, found))
        names, counts = list[str](), list[int]()
        for generation in range(count):
            for part, numbers in parts.items():
                begin = numbers[4 * generation - (generation > 0) :][:3]
                *end, rows = numbers[4 * generation + 3 : 4 * generation + 7]
                if rows < 0 or begin > tuple(end):
                    raise ValueError(f"partition {part} ends before it begins")
                if rows:
                    names.append(f"{part}@{'.'.join(map(str, begin if begin[2] else begin[:2]))}")
                    counts.append(rows)
        of_groups = [groups(rows) for rows in counts]
        starts = np.cumsum([0, *(rows for each in of_groups for rows in each)]).astype(np.int64)
        first_groups = np.cumsum([0, *map(len, of_groups)])
        whole = np.array([[0, starts[-1]]], np.int64)
        gaps = tuple(
            (f"{topics[topic]}:{of}", first, end) for topic, of, first, end in described.get("gaps", [])
        )
        rows_of = Stretches(tuple(names), first_groups, starts, whole)
        return cls(int(described["number"]), topics, parts, gaps, rows_of)

    def follows(self, before: StreamRound) -> bool:
        """Whether it begins where another round ends, or after what was removed between."""
        return self.number == before.number + 1 and not any(self.misses(before))

    def misses(self, before: StreamRound) -> Iterator[str]:
        """What is between the end of a round and the beginning of this one, and is in no gap."""
        for part, numbers in before.parts.items():
            end, begin = numbers[-4:-1], self.parts.get(part, ())[:3]
            place = end
            for of, first, after in sorted(self.gaps):
                place = (after, 0, 0) if (of, first) == (part, place[0]) else place
            if begin != place:
                texts = (".".join(map(str, place[: 3 if any(place[2:]) else 2])) for place in (end, begin))
                yield "{}: the round before ends at {}, and this one begins at {}".format(part, *texts)

    def grows(self, before: StreamRound) -> bool:
        """Whether it is another round with more rows after its own, or that round itself."""
        same = ((numbers, self.parts.get(part, ())) for part, numbers in before.parts.items())
        return self.number == before.number and all(new[: len(old)] == old for old, new in same)
