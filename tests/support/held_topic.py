"""A topic in memory, as a stream asks brokers: many histories of it take seconds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from fastresume.kafka.client import Message, Topic
from fastresume.kafka.place import Part
from support.kafka_broker import DOCUMENTS


class HeldTopic:
    """Messages of partitions, with holes between their offsets. They come in any order of the partitions."""

    in_flight_bytes = 1

    def __init__(self, seed: int, partitions: Sequence[Sequence[pa.Table]]) -> None:
        self._draw = random.Random(seed)
        self._messages: dict[Part, list[Message]] = {}
        self._ends: dict[Part, int] = {}
        for number, tables in enumerate(partitions):
            part, offset = Part("rows", number), 0
            self._messages[part] = []
            for table in tables:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, DOCUMENTS) as writer:
                    writer.write_table(table)
                value = sink.getvalue().to_pybytes()
                self._messages[part].append(Message(part, offset, 1_000 + offset, value))
                offset += self._draw.choice([1, 1, 1, 4])
            self._ends[part] = offset

    def topics(self) -> dict[str, Topic]:
        """The topic."""
        return {"rows": Topic("id", tuple(self._ends))}

    def bounds(self, parts: Iterable[Part]) -> dict[Part, tuple[int, int]]:
        """Nothing is removed, and nothing comes."""
        return {part: (0, self._ends[part]) for part in parts}

    def fetch(
        self, wanted: Mapping[Part, tuple[int, int]], _ahead_bytes: int | None = None
    ) -> Iterator[list[Message]]:
        """Some messages of a partition at a time."""
        left = {
            part: [one for one in self._messages[part] if begin <= one.offset < end]
            for part, (begin, end) in wanted.items()
        }
        while parts := [part for part, messages in left.items() if messages]:
            part, count = self._draw.choice(parts), self._draw.randint(1, 4)
            yield left[part][:count]
            del left[part][:count]

    def wait_in_words(self) -> str:
        """Nobody is waited for."""
        return "in memory"

    def close(self) -> None:
        """There are no connections."""
