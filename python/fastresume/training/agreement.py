"""Agreement among all ranks of a job: questions with the same answer on every rank."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed

from fastresume.agreement.peers import Peers


class Agreement(Peers):
    """Questions that the ranks of a job answer together; see `Peers`.

    Args:
        group: the ranks; None for the default group.

    Raises:
        FastresumeError: at each question, if it was made before the process group, so that this rank would
            answer alone. Also if a rank is lost or late, or ranks don't answer since an earlier question was
            interrupted.

    Examples:
        >>> Agreement().any(True), Agreement().of_lead(3)
        (True, 3)
    """

    def any(self, flag: bool) -> bool:
        """Whether any rank passes True: one collective of one number."""
        return bool(self._number(int(flag), torch.distributed.ReduceOp.MAX))

    def of_lead(self, number: int) -> int:
        """The number that rank 0 passes: one collective of one number."""
        # Of a broadcast some ranks are done before all have come, and would be taken for missing.
        return self._number(number if self.rank == 0 else 0, torch.distributed.ReduceOp.SUM)

    def _number(self, number: int, op: Any) -> int:
        self.check()
        if self._group is None:
            return number
        shared = torch.tensor([number], dtype=torch.int64)
        reduce = partial(torch.distributed.all_reduce, shared, op=op, group=self._group)
        with self._in_call("is_due"):
            self._answer("is_due", lambda: self._talk(reduce))
        return int(shared)
