"""What all ranks of a job have to say and do alike, whoever of them it comes from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed

from fastresume import _core
from fastresume.peers import Peers, described

Value = TypeVar("Value")
Result = TypeVar("Result")


class Agreement(Peers):
    """What the ranks of a job agree on; see `Peers`.

    Args:
        group: the ranks; None for the default group.

    Raises:
        FastresumeError: at each question, if it was made before the process group, so that this rank would
            answer for itself alone, or ranks don't answer since an earlier question broke off.

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
        self.check()
        if self._group is None:
            return number
        told = torch.tensor([number], dtype=torch.int64)
        self._talk(partial(collective, told, group=self._group, **how))
        return int(told)

    def together(self, work: Callable[[], Value], join: Callable[[list[Value]], Result]) -> Result:
        """What rank 0 makes of each rank's work, in the order of ranks, on all ranks.

        Raises:
            FastresumeError: on all ranks, if work or join raised on one; there it has the cause. What is no
                `Exception`, as a Ctrl-C, is raised as it is where it came from.
        """
        self.check()
        done: tuple[str | None, Any]
        cause: BaseException | None = None
        try:
            done = None, work()
        except BaseException as error:  # noqa: BLE001  (raised below, on all ranks)
            done, cause = (described(error), None), error
        found = self.gathered(done)
        made: tuple[str | None, Any] = None, None
        if found is not None:
            failed = [f"rank {rank}: {text}" for rank, (text, _) in enumerate(found) if text is not None]
            try:
                made = ("; ".join(failed), None) if failed else (None, join([value for _, value in found]))
            except BaseException as error:  # noqa: BLE001  (raised below, on all ranks)
                made, cause = (f"rank 0: {described(error)}", None), error
        shares = None if found is None else [made] * self.world_size
        text, result = self.share_of(shares)
        if text is not None:
            if cause is not None and not isinstance(cause, Exception):
                raise cause
            raise _core.FastresumeError(text) from cause
        given: Result = result
        return given

    def check(self) -> None:
        """Refuses to ask alone in a job of several ranks, or ranks that don't answer.

        Raises:
            FastresumeError: if it was made before the process group, or an earlier question broke off.
        """
        super().check()
        if self._lost is not None:
            raise _core.FastresumeError(f"ranks don't answer since an earlier call: {self._lost}")
