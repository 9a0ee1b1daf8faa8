"""The ranks of a job, in a gloo group of their own: no collective of the training meets theirs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch.distributed

from fastresume import _core
from fastresume.world import has_process_group

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Peers:
    """This rank, and what the ranks say to each other.

    All ranks make it together, and call its methods in the same order. Alone, without a process group, the
    same is said without talking; but what was made before the process group of several ranks is of no use
    after it. The lead is rank 0.

    Args:
        group: the ranks; None for the default group.
        timeout_seconds: how long a rank waits for the others; None for torch's default.

    Example:
        >>> Peers().gathered("a"), Peers().share_of(["b"])
        (['a'], 'b')
    """

    def __init__(self, group: ProcessGroup | None = None, timeout_seconds: float | None = None) -> None:
        distributed = torch.distributed
        self._group: Any = None
        self._lead = 0
        self._lost: str | None = None
        self.rank, self.world_size = 0, 1
        self._is_before_group = not has_process_group()
        if not self._is_before_group:
            members = sorted(distributed.get_process_group_ranks(group))
            self.rank, self.world_size = members.index(distributed.get_rank()), len(members)
            self._lead = members[0]
            if self.world_size > 1:
                self._group = distributed.new_group(
                    members,
                    timeout=None if timeout_seconds is None else timedelta(seconds=timeout_seconds),
                    backend="gloo",
                    use_local_synchronization=True,
                )

    def check(self) -> None:
        """Refuses to act alone in a job of several ranks.

        Raises:
            FastresumeError: if it was made before the process group.
        """
        if self._is_before_group and has_process_group() and torch.distributed.get_world_size() > 1:
            raise _core.FastresumeError(
                f"made before init_process_group, and used after it with "
                f"{torch.distributed.get_world_size()} ranks: make it after"
            )

    def gathered(self, one: Any) -> list[Any] | None:
        """On the lead, what each rank says, in the order of ranks; None on the others."""
        self.check()
        if self._group is None:
            return [one]
        found = [None] * self.world_size if self.rank == 0 else None
        self._talk(partial(torch.distributed.gather_object, one, found, dst=self._lead, group=self._group))
        return found

    def share_of(self, shares: list[Any] | None) -> Any:
        """What the lead says to this rank: it has one thing to say for each rank, the others have None."""
        self.check()
        if self._group is None:
            return shares[0] if shares is not None else None
        share = [None]
        scatter = torch.distributed.scatter_object_list
        self._talk(partial(scatter, share, shares, src=self._lead, group=self._group))
        return share[0]

    def _talk(self, say: Callable[[], object]) -> None:
        """A collective; when it breaks off, `_lost` tells why."""
        try:
            say()
        except BaseException as error:
            # Whoever did not get this far is now one message behind: nothing more can be said in this group.
            self._lost = described(error)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank {self.rank} of {self.world_size})"


def described(error: BaseException) -> str:
    """The kind of an error and its text, for other ranks."""
    return f"{type(error).__name__}: {error}"
