"""The tail: what happens to the rows after the last whole global batch of a pass."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from fastresume.options.checks import one_of

Tail: TypeAlias = Literal["drop", "short", "pad"]
"""What a user may choose."""

TailOfPass: TypeAlias = Literal["drop", "short", "pad", "carry"]
"""What a pass may have: a stream carries the rows to its next round."""


def checked_tail(tail: Tail) -> Tail:
    """The policy.

    Raises:
        ValueError: if it is none.
    """
    return one_of("tail", tail, get_args(Tail))
