"""The ranks of a job that is saved and restored: what fails on one of them fails on all."""

from __future__ import annotations

from fastresume._core import FastresumeError
from fastresume.agreement.peers import Peers


class CheckpointError(FastresumeError):
    """A save or a restore failed on some rank; all ranks raise it, naming that rank and its error."""


class Ranks(Peers):
    """The ranks of a job, which save and restore it together; see `Peers`.

    Args:
        group: the ranks; None for the default group.
        timeout_seconds: how long a rank waits for the others.

    Examples:
        >>> Ranks(None, 60).lead("open", lambda: 3)
        3
    """

    failed = CheckpointError
