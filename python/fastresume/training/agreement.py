"""What all ranks of a job have to say and do alike, whoever of them it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed

from fastresume import _core

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Value = TypeVar("Value")
Result = TypeVar("Result")


class Agreement:
    """The ranks of a job, with a gloo group of their own: no collective of the training meets theirs.

    All ranks make it together, and call its methods in the same order. Alone, without a process group, the
    same is said without talking.

    Args:
        group: the ranks; None for the default group.

    Example:
        >>> Agreement().any(True), Agreement().of_lead(3)
        (True, 3)
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        distributed = torch.distributed
        self._group: Any = None
        self.rank, self.world_size = 0, 1
        if distributed.is_available() and distributed.is_initialized():
            members = sorted(distributed.get_process_group_ranks(group))
            self.rank, self.world_size = members.index(distributed.get_rank()), len(members)
            self._lead = members[0]
            if self.world_size > 1:
                self._group = distributed.new_group(members, backend="gloo", use_local_synchronization=True)

    def any(self, flag: bool) -> bool:
        """Whether any rank says yes: one collective of one number."""
        return bool(self._number(int(flag), torch.distributed.all_reduce, op=torch.distributed.ReduceOp.MAX))

    def of_lead(self, number: int) -> int:
        """What rank 0 says: one collective of one number."""
        return self._number(number, torch.distributed.broadcast, src=getattr(self, "_lead", 0))

    def _number(self, number: int, collective: Callable[..., object], **how: Any) -> int:
        if self._group is None:
            return number
        told = torch.tensor([number], dtype=torch.int64)
        collective(told, group=self._group, **how)
        return int(told)

    def together(self, work: Callable[[], Value], join: Callable[[list[Value]], Result]) -> Result:
        """What rank 0 makes of each rank's work, in the order of ranks, on all ranks.

        Raises:
            FastresumeError: on all ranks, if work or join raised on one; there it has the cause.
        """
        done: tuple[str | None, Any]
        cause: Exception | None = None
        try:
            done = None, work()
        except Exception as error:  # noqa: BLE001  (raised below, on all ranks)
            done, cause = (_told(error), None), error
        found = self._gather(done)
        made: tuple[str | None, Any] = None, None
        if found is not None:
            failed = [f"rank {rank}: {text}" for rank, (text, _) in enumerate(found) if text is not None]
            try:
                made = ("; ".join(failed), None) if failed else (None, join([value for _, value in found]))
            except Exception as error:  # noqa: BLE001  (raised below, on all ranks)
                made, cause = (f"rank 0: {_told(error)}", None), error
        text, result = self._tell(made)
        if text is not None:
            raise _core.FastresumeError(text) from cause
        given: Result = result
        return given

    def _gather(self, value: Any) -> list[Any] | None:
        if self._group is None:
            return [value]
        found = [None] * self.world_size if self.rank == 0 else None
        torch.distributed.gather_object(value, found, dst=self._lead, group=self._group)
        return found

    def _tell(self, value: Any) -> Any:
        if self._group is None:
            return value
        told = [value]
        torch.distributed.broadcast_object_list(told, src=self._lead, group=self._group)
        return told[0]

    def __repr__(self) -> str:
        return f"Agreement(rank {self.rank} of {self.world_size})"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
