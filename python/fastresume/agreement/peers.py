"""The ranks of a job, in a gloo group of their own, apart from the collectives of the training.

A step that the ranks take together fails on all of them, with the same message. Where an error arose, it is
shown once, with its traceback. An unexpected error is the cause of what is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch.distributed

import fastresume._core as _core
from fastresume.agreement.attendance import Attendance, described, lost, named
from fastresume.agreement.same_state import ranks_by
from fastresume.messages import bounded
from fastresume.options.world import check_group, has_process_group

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")
R = TypeVar("R")

_OURS = (_core.StateError, _core.DataError, _core.SourceError)
_PLAIN = (_core.FastresumeError, TypeError, ValueError)
"""Errors that explain themselves: they keep their type on every rank."""

_NAMED = 4
"""The most ranks whose failures an error names."""


@dataclass(frozen=True)
class _Failure:
    """What a rank tells the others about an error."""

    kind: str
    text: str
    is_of_all: bool = False


class Peers:
    """This rank, what the ranks tell each other, and what they do together.

    All ranks make it together, and call its methods in the same order. Without a process group it does the
    same alone. An object that was made before the process group of several ranks can't be used after it. The
    lead is rank 0.

    Args:
        group: the ranks; None for the default group.
        timeout_seconds: how long a rank waits for the others; None for that of the default group.
        made: what is made, for the warning of ranks that do not come.

    Raises:
        TypeError: if `group` is none.

    Examples:
        >>> Peers().gathered("a"), Peers().share_of(["b"])
        (['a'], 'b')
        >>> Peers().together("count", lambda: 3, sum)
        3
    """

    failed: ClassVar[type[_core.FastresumeError]] = _core.FastresumeError
    """The exception that is raised on all ranks for an error that does not keep its type."""

    def __init__(
        self,
        group: ProcessGroup | None = None,
        timeout_seconds: float | None = None,
        made: str = "the start of the ranks' agreement",
    ) -> None:
        distributed = torch.distributed
        self._group: Any = None
        self._lead = 0
        self._lost: str | None = None
        self._attendance: Attendance | None = None
        self.rank, self.world_size = 0, 1
        check_group(group, "write torch.distributed.new_group(ranks), or leave it out for all ranks")
        self._is_before_group = not has_process_group()
        if not self._is_before_group:
            members = sorted(distributed.get_process_group_ranks(group))
            self.rank, self.world_size = members.index(distributed.get_rank()), len(members)
            self._lead = members[0]
            if self.world_size > 1:
                self._attendance = Attendance("Peers", members)
                timeout = None if timeout_seconds is None else timedelta(seconds=timeout_seconds)
                try:
                    with self._attendance.at(made):
                        self._group = distributed.new_group(
                            members,
                            timeout=timeout or _timeout_of_all(),
                            backend="gloo",
                            use_local_synchronization=True,
                        )
                except Exception as error:
                    raise self.failed(
                        f"not all of {len(members)} ranks are here, and they make it together: "
                        f"{described(error)}"
                    ) from error

    def check(self, step: str = "") -> None:
        """Refuses to act alone in a job of several ranks, or with ranks that don't answer.

        Args:
            step: the step, for the error.

        Raises:
            FastresumeError: if it was made before the process group; `failed`, if an earlier call was
                interrupted.
        """
        if self._is_before_group and has_process_group() and torch.distributed.get_world_size() > 1:
            raise _core.FastresumeError(
                f"made before init_process_group, and used after it with "
                f"{torch.distributed.get_world_size()} ranks: make it after"
            )
        if self._lost is not None:
            prefix = f"{step}: " if step else ""
            raise self.failed(f"{prefix}ranks don't answer since an earlier call: {self._lost}")

    def each(self, step: str, work: Callable[[], T], join: Callable[[list[T]], list[R]]) -> R:
        """Does work on every rank, joins the results on rank 0, and returns to each rank its joined result.

        Args:
            step: the step, for the error.
            work: called on every rank; its result goes to rank 0.
            join: called on rank 0 with all results in the order of ranks; returns one result for each rank.

        Raises:
            FastresumeError: if it was made before the process group.
            Exception: `failed` on all ranks, if work or join raised anywhere, or a rank is lost or late. A
                TypeError, ValueError or error of ours keeps its type. What is no `Exception`, such as a
                Ctrl-C, is raised unchanged where it came from.
        """
        self.check(step)
        with self._in_call(step):
            return self._each(step, work, join)

    def _each(self, step: str, work: Callable[[], T], join: Callable[[list[T]], list[R]]) -> R:
        done: T | _Failure
        raised: list[BaseException] = []
        try:
            done = work()
        except BaseException as error:  # noqa: BLE001  (sent to all ranks, and raised below)
            done = self._failure(error)
            raised.append(error)
        gathered = self._answer(step, partial(self.gathered, (step, done)))
        shares: list[Any] | None = None
        if gathered is not None:
            results = [one for _, one in gathered]
            failures = {rank: one for rank, one in enumerate(results) if isinstance(one, _Failure)}
            if other := next((rank for rank, (called, _) in enumerate(gathered) if called != step), None):
                text = (
                    f"rank 0 calls {step}, and rank {other} {gathered[other][0]}: all of them call the same"
                )
                failures = {0: _Failure(self.failed.__name__, text, is_of_all=True)}
            if not failures:
                try:
                    shares = join(results)
                except BaseException as error:  # noqa: BLE001  (sent to all ranks, and raised below)
                    failures = {0: self._failure(error, of_all=True)}
                    raised.append(error)
            if failures:
                shares = [failures] * self.world_size
        share = self._answer(step, partial(self.share_of, shares))
        if isinstance(share, dict) and share and all(isinstance(one, _Failure) for one in share.values()):
            self._raise(step, share, raised)
        result: R = share
        return result

    def together(self, step: str, work: Callable[[], T], join: Callable[[list[T]], R]) -> R:
        """Does work on every rank; all of them get what rank 0 makes of the results; see `each`."""
        return self.each(step, work, lambda results: [join(results)] * self.world_size)

    def lead(self, step: str, work: Callable[[], R]) -> R:
        """Does work on rank 0 alone, and returns its result to all ranks; see `each`."""
        return self.together(step, lambda: None, lambda _: work())

    def all(self, step: str, work: Callable[[], T]) -> T:
        """Does work on every rank, and returns to each its own result, once all have finished; see `each`."""
        found: list[T] = []
        self.together(step, lambda: found.append(work()), lambda _: None)
        return found[0]

    def _in_call(self, step: str) -> AbstractContextManager[None]:
        """While this rank is in it, the others are waited for."""
        return nullcontext() if self._attendance is None else self._attendance.at(step)

    def _answer(self, step: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            raise self.failed(lost(step, str(self._lost))) from error

    def _failure(self, error: BaseException, of_all: bool = False) -> _Failure:
        kind = next((name for name, one in self._kinds().items() if isinstance(error, one)), "")
        return _Failure(kind, bounded(str(error)) if kind else described(error), of_all and kind != "")

    def _kinds(self) -> dict[str, type[Exception]]:
        """Errors that keep their type, subclasses first."""
        return {one.__name__: one for one in (*_OURS, self.failed, *_PLAIN)}

    def _raise(self, step: str, failures: dict[int, _Failure], raised: list[BaseException]) -> None:
        """Raises the failure; on the rank where it arose, with its traceback."""
        own = raised.pop() if raised else None
        by_text = ranks_by((rank, one.text) for rank, one in sorted(failures.items()))
        is_of_all = any(one.is_of_all for one in failures.values())
        message = "; ".join(
            text if is_of_all or len(ranks) == self.world_size else f"{named(ranks)}: {text}"
            for text, ranks in list(by_text.items())[:_NAMED]
        )
        kind = next(iter(failures.values())).kind
        error = self._kinds().get(kind, self.failed)(message if kind else f"{step}: {message}")
        try:
            if own is None:
                raise error
            if not isinstance(own, Exception):
                raise own
            if not self._failure(own).kind:
                raise error from own
            if str(own) == str(error):
                raise own
            raise error.with_traceback(own.__traceback__) from own.__cause__
        finally:
            del own, error  # else this frame, which is in their tracebacks, would hold on to them

    def gathered(self, one: Any) -> list[Any] | None:
        """What each rank passes, in the order of ranks, on the lead; None on the others."""
        self.check()
        if self._group is None:
            return [one]
        found = [None] * self.world_size if self.rank == 0 else None
        self._talk(partial(torch.distributed.gather_object, one, found, dst=self._lead, group=self._group))
        return found

    def share_of(self, shares: list[Any] | None) -> Any:
        """This rank's share: the lead passes one for each rank, the others pass None."""
        self.check()
        if self._group is None:
            return shares[0] if shares is not None else None
        share = [None]
        scatter = torch.distributed.scatter_object_list
        self._talk(partial(scatter, share, shares, src=self._lead, group=self._group))
        return share[0]

    def _talk(self, say: Callable[[], object]) -> None:
        """Runs a collective; if it is interrupted, `_lost` says why."""
        try:
            say()
        except BaseException as error:
            # A rank that did not get this far has now missed a message: this group can't be used any more.
            self._lost = described(error)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank {self.rank} of {self.world_size})"


def _timeout_of_all() -> timedelta:
    """How long the default process group's ranks wait for each other."""
    c10d: Any = torch.distributed.distributed_c10d
    group = c10d._get_default_group()
    options = getattr(group._get_backend(group._device_types[0]), "options", None)
    # A store that a program made itself has its own, which is shorter.
    timeout: timedelta = getattr(options, "_timeout", None) or c10d._get_default_store().timeout
    return timeout
