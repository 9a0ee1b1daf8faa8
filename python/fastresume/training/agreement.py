"""What all ranks of a job have to say and do alike, whoever of them it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed

from fastresume import _core
from fastresume.peers import Peers

Value = TypeVar("Value")
Result = TypeVar("Result")


class Agreement(Peers):
    """What the ranks of a job agree on; see `Peers`.

    Args:
        group: the ranks; None for the default group.

    Example:
        >>> Agreement().any(True), Agreement().of_lead(3)
        (True, 3)
    """

    def any(self, flag: bool) -> bool:
        """Whether any rank says yes: one collective of one number."""
        return bool(self._number(int(flag), torch.distributed.all_reduce, op=torch.distributed.ReduceOp.MAX))

    def of_lead(self, number: int) -> int:
        """What rank 0 says: one collective of one number."""
        return self._number(number, torch.distributed.broadcast, src=self._lead)

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
        found = self.gathered(done)
        made: tuple[str | None, Any] = None, None
        if found is not None:
            failed = [f"rank {rank}: {text}" for rank, (text, _) in enumerate(found) if text is not None]
            try:
                made = ("; ".join(failed), None) if failed else (None, join([value for _, value in found]))
            except Exception as error:  # noqa: BLE001  (raised below, on all ranks)
                made, cause = (f"rank 0: {_told(error)}", None), error
        text, result = self.share_of(None if found is None else [made] * self.world_size)
        if text is not None:
            raise _core.FastresumeError(text) from cause
        given: Result = result
        return given


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
