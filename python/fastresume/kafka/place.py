"""Places in a topic: a partition, and a row of a message in it."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A partition of a topic.

    Examples:
        >>> str(Part("clicks", 3))
        'clicks:3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


class Place(NamedTuple):
    """A row of a partition: the offset of a message, and the row in it.

    Attributes:
        offset: of the message.
        row: of the message.
        tokens: of packed sequences, how many tokens of the row come before it.

    Examples:
        >>> Place(1200, 3) < Place(1200, 3, 17) < Place(1201)
        True
    """

    offset: int
    row: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        return f"{self.offset}.{self.row}" + (f".{self.tokens}" if self.tokens else "")
