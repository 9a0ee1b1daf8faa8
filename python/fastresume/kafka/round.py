"""A round: the rows between fixed places of all partitions, as a state describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import fastresume._core as _core
from fastresume.kafka.place import Part, Place
from fastresume.options.checks import quoted


@dataclass(frozen=True)
class Stretch:
    """The rows of one partition in a round.

    Attributes:
        part: the partition.
        begin: its first row.
        end: where the next stretch begins.
        rows: how many rows it has. Offsets don't tell: messages have any number of rows, and some offsets
            have no message. A row whose tokens are in two rounds counts in both.
    """

    part: Part
    begin: Place
    end: Place
    rows: int

    @property
    def name(self) -> str:
        """What errors and states call it."""
        return f"{self.part}@{self.begin}"

    @property
    def stop(self) -> int:
        """The offset after its last message."""
        return self.end.offset + (self.end.row > 0 or self.end.tokens > 0)


@dataclass(frozen=True)
class Gap:
    """Offsets of a partition that were gone before they were read."""

    part: Part
    first: int
    end: int


Generation = tuple[Stretch, ...]
"""A stretch of each partition, in the order of partitions."""

Topics = tuple[tuple[str, str], ...]
"""Topics, each with the id that the brokers gave it, or "" if they give none."""


@dataclass(frozen=True)
class Round:
    """The rows between fixed places of all partitions.

    Attributes:
        number: of the pass (epoch) that it is.
        topics: the topics, and their ids.
        generations: what it consists of. A second generation is there if other ranks resumed in the middle
            of the round: it fills their last batch.
        watermarks: the watermark before and after the round, in milliseconds since 1970, or None.
        gaps: what was removed before it was read, between the round before and the end of this one.
    """

    number: int
    topics: Topics
    generations: tuple[Generation, ...]
    watermarks: tuple[int | None, int | None] = (None, None)
    gaps: tuple[Gap, ...] = ()

    @classmethod
    def empty(cls, topics: Topics, places: Mapping[Part, Place]) -> Self:
        """A round without a row, before anything was read."""
        each = (Stretch(part, place, place, 0) for part, place in sorted(places.items()))
        return cls(0, topics, (tuple(each),))

    @property
    def begins(self) -> dict[Part, Place]:
        """Where it begins in each partition."""
        return {one.part: one.begin for one in self.generations[0]}

    @property
    def ends(self) -> dict[Part, Place]:
        """Where what follows begins in each partition."""
        return {one.part: one.end for one in self.generations[-1]}

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches that have rows, in the order in which their rows are numbered."""
        return [one for generation in self.generations for one in generation if one.rows]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(one.rows for one in self.stretches)

    def grown(self, more: Generation, gaps: tuple[Gap, ...]) -> Round:
        """The same round with more rows after its own; its watermark is not known."""
        known = self.ends
        new = [one for one in more if one.part not in known]
        before = []
        for generation in self.generations:
            added = (Stretch(one.part, one.begin, one.begin, 0) for one in new)
            before.append(tuple(sorted((*generation, *added), key=lambda one: one.part)))
        watermarks = (self.watermarks[0], None)
        return Round(self.number, self.topics, (*before, more), watermarks, (*self.gaps, *gaps))

    def text(self) -> str:
        """The round as JSON, for a state."""
        names = [name for name, _ in self.topics]
        parts, tokens = [], []
        for stretches in zip(*self.generations, strict=True):
            first = stretches[0]
            numbers = [names.index(first.part.topic), first.part.partition, *first.begin[:2]]
            for one in stretches:
                numbers += [*one.end[:2], one.rows]
            parts.append(numbers)
            tokens.append([first.begin.tokens, *(one.end.tokens for one in stretches)])
        state: dict[str, object] = {"number": self.number, "parts": parts, "topics": self.topics}
        if any(map(any, tokens)):
            state["tokens"] = tokens
        state["watermarks"] = self.watermarks
        if self.gaps:
            state["gaps"] = [
                (names.index(gap.part.topic), gap.part.partition, gap.first, gap.end) for gap in self.gaps
            ]
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The round that a state describes.

        Raises:
            StateError: if it is none.
        """
        try:
            state = json.loads(text)
        except ValueError as cause:
            raise _core.StateError(f"damaged state: its round is {quoted(text)} ({cause})") from None
        return cls.of(state)

    @classmethod
    def of(cls, state: Any) -> Self:
        """The round that JSON in a state describes.

        Raises:
            StateError: if it is none.
        """
        try:
            return cls._of(state)
        except (KeyError, IndexError, TypeError, ValueError) as cause:
            raise _core.StateError(f"damaged state: its round is {quoted(state)} ({cause})") from None

    @classmethod
    def _of(cls, state: dict[str, Any]) -> Self:
        topics = tuple((str(name), str(id_)) for name, id_ in state["topics"])
        count = (len(state["parts"][0]) - 4) // 3
        generations: list[list[Stretch]] = [[] for _ in range(count)]
        no_tokens = [[0] * (count + 1)] * len(state["parts"])
        for numbers, tokens in zip(state["parts"], state.get("tokens", no_tokens), strict=True):
            topic, partition, offset, row, *ends = numbers
            part, begin = Part(topics[topic][0], int(partition)), Place(int(offset), int(row), int(tokens[0]))
            if len(ends) != 3 * count or len(tokens) != count + 1:
                raise ValueError(f"partition {part} has {len(ends)} numbers, expected {3 * count}")
            for number, generation in enumerate(generations):
                end_offset, end_row, rows = map(int, ends[3 * number : 3 * number + 3])
                end = Place(end_offset, end_row, int(tokens[number + 1]))
                if end < begin or min(rows, *tokens) < 0:
                    raise ValueError(f"partition {part} ends before it begins")
                generation.append(Stretch(part, begin, end, rows))
                begin = end
        before, after = state["watermarks"]
        gaps = (
            Gap(Part(topics[topic][0], int(of)), int(first), int(end))
            for topic, of, first, end in state.get("gaps", [])
        )
        of_round = tuple(map(tuple, generations))
        return cls(int(state["number"]), topics, of_round, (before, after), tuple(gaps))
