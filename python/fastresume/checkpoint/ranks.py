"""The ranks of a job that is saved and restored: what fails on one of them fails on all."""

from __future__ import annotations

from fastresume.checkpoint.failure import CheckpointError
from fastresume.peers import Peers


class Ranks(Peers):
    """The ranks of a job, which save and restore it together; see `Peers`.

    Args:
        group: the ranks; None for the default group.
        timeout_seconds: how long a rank waits for the others.

    Example:
        >>> Ranks(None, 60).lead("open", lambda: 3)
        3
    """

    failed = CheckpointError
