"""A job at the moment of a save: what the loop may change afterwards is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint import staging

from fastresume.checkpoint import compatibility, leaves
from fastresume.checkpoint.job import JobParts
from fastresume.checkpoint.leaves import Leaf
from fastresume.checkpoint.randomness import Randomness


@dataclass(frozen=True)
class JobSnapshot:
    """What one rank has to save.

    Attributes:
        step: as the user counts them.
        names: of the parts.
        state: what goes through `torch.distributed.checkpoint`.
        cursor: the place in the data, or None.
        terms: what is compared when a job resumes.
        extra: plain values of the user's.
        metrics: the evaluation of this step.
        pinned: whether it stays.
        randomness: the random generators of this process.
        of_one: the leaves that all ranks take from one rank.
    """

    step: int
    names: tuple[str, ...]
    state: dict[str, Any]
    cursor: dict[str, Any] | None
    terms: dict[str, Any]
    extra: dict[str, Any]
    metrics: dict[str, float]
    pinned: bool
    randomness: Randomness
    of_one: frozenset[str]

    @classmethod
    def of(
        cls,
        step: int,
        parts: JobParts,
        accumulation: int,
        metrics: dict[str, float],
        pinned: bool,
        stage: Stage | None,
    ) -> JobSnapshot:
        """This moment; with a stage, of copies."""
        state = parts.state()
        return cls(
            step,
            parts.names,
            state if stage is None else stage.copy(state),
            parts.cursor(),
            compatibility.of(parts, accumulation),
            parts.plain(),
            metrics,
            pinned,
            Randomness.now(),
            parts.of_one(),
        )

    def leaves(self, ranks: int) -> dict[str, Leaf]:
        """The summary of each leaf for the other ranks, from every byte of it; empty if there are none."""
        if ranks == 1:
            return {}
        named = ((leaves.name_of(path), value) for path, value in leaves.leaves(self.state))
        return {name: Leaf.of(value, ranks, name in self.of_one) for name, value in named}


class Stage:
    """Memory for copies of a job's tensors, which the next save uses again."""

    def __init__(self) -> None:
        is_cuda = torch.cuda.is_available()
        self._stager: Any = (
            staging.DefaultStager(
                staging.StagingOptions(
                    use_pinned_memory=is_cuda,
                    use_shared_memory=False,
                    use_async_staging=False,
                    use_non_blocking_copy=is_cuda,
                )
            )
            if hasattr(staging, "DefaultStager")
            else staging.BlockingAsyncStager()  # torch before 2.9
        )

    def copy(self, state: dict[str, Any]) -> dict[str, Any]:
        """Copies of all tensors on the CPU; good until the next call."""
        found: dict[str, Any] = self._stager.stage(state)
        return found

    def close(self) -> None:
        """Lets go of the memory."""
        if hasattr(self._stager, "close"):
            self._stager.close()
