"""What is raised when a checkpoint can't be written or read."""

from __future__ import annotations

from fastresume._core import FastresumeError


class CheckpointError(FastresumeError):
    """A save or a restore failed on some rank; all ranks raise it, naming that rank and its error."""
