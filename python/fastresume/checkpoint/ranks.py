"""Work that all ranks do together: what fails on one of them fails on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastresume import _core
from fastresume.checkpoint.failure import CheckpointError
from fastresume.peers import Peers, described

T = TypeVar("T")
R = TypeVar("R")

_KINDS: dict[str, type[Exception]] = {
    "StateError": _core.StateError,
    "TypeError": TypeError,
    "ValueError": ValueError,
    "CheckpointError": CheckpointError,
}
"""Errors that say what is wrong with an argument or a state: they stay what they are on every rank."""

_NAMED = 4
"""An error tells no more ranks' failures than these."""


@dataclass(frozen=True)
class _Failure:
    """What a rank tells the others of an error."""

    kind: str
    text: str
    is_of_all: bool = False


class Ranks(Peers):
    """The ranks of a job, which do work together; see `Peers`.

    Args:
        group: the ranks; None for the default group.
        timeout_seconds: how long a rank waits for the others.

    Example:
        >>> Ranks(None, 60).together("count", lambda: 3, sum)
        3
    """

    def each(self, step: str, work: Callable[[], T], join: Callable[[list[T]], list[R]]) -> R:
        """Does work on every rank, joins all results on rank 0, and gives every rank its own of the joined.

        Args:
            step: what is being done, for the error.
            work: on every rank; its result goes to rank 0.
            join: on rank 0, of all results in the order of ranks; one result for each rank.

        Raises:
            FastresumeError: if it was made before the process group.
            CheckpointError: on all ranks, if work or join raised anywhere, or a rank is lost or late; a
                StateError, TypeError or ValueError stays one.
        """
        self.check()
        if self._lost is not None:
            raise CheckpointError(f"{step}: ranks don't answer since an earlier call: {self._lost}")
        done: T | _Failure
        error: BaseException | None = None
        try:
            done = work()
        except BaseException as raised:  # noqa: BLE001  (told to all ranks, and raised below)
            done, error = _failure(raised), raised
        gathered = self._answer(step, partial(self.gathered, done))
        shares: list[Any] | None = None
        if gathered is not None:
            failures = {rank: one for rank, one in enumerate(gathered) if isinstance(one, _Failure)}
            if not failures:
                try:
                    shares = join(gathered)
                except BaseException as raised:  # noqa: BLE001  (told to all ranks, and raised below)
                    failures, error = {0: _failure(raised, of_all=True)}, raised
            if failures:
                shares = [failures] * self.world_size
        share = self._answer(step, partial(self.share_of, shares))
        if isinstance(share, dict) and share and all(isinstance(one, _Failure) for one in share.values()):
            self._raise(step, share, error)
        result: R = share
        return result

    def together(self, step: str, work: Callable[[], T], join: Callable[[list[T]], R]) -> R:
        """Does work on every rank, and gives all of them what rank 0 makes of the results; see `each`."""
        return self.each(step, work, lambda results: [join(results)] * self.world_size)

    def lead(self, step: str, work: Callable[[], R]) -> R:
        """Does work on rank 0 alone, and gives its result to all ranks; see `each`."""
        return self.together(step, lambda: None, lambda _: work())

    def all(self, step: str, work: Callable[[], T]) -> T:
        """Does work on every rank, and gives each its own result, once all have done theirs; see `each`."""
        found: list[T] = []
        self.together(step, lambda: found.append(work()), lambda _: None)
        return found[0]

    def _answer(self, step: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            raise CheckpointError(f"{step}: another rank is lost or late: {self._lost}") from error

    def _raise(self, step: str, failures: dict[int, _Failure], own: BaseException | None) -> None:
        told = "; ".join(
            one.text if self.world_size == 1 or one.is_of_all else f"rank {rank}: {one.text}"
            for rank, one in sorted(failures.items())[:_NAMED]
        )
        kind = next(iter(failures.values())).kind
        if own is not None and not isinstance(own, Exception):
            raise own
        if kind in _KINDS:
            raise _KINDS[kind](told) from own
        raise CheckpointError(f"{step}: {told}") from own


def _failure(error: BaseException, of_all: bool = False) -> _Failure:
    kind = next((name for name, one in _KINDS.items() if isinstance(error, one)), "")
    return _Failure(kind, str(error) if kind else described(error), of_all and kind != "")
