"""What ranks have to agree on."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch.distributed

from fastresume import _core
from fastresume.cursor import Cursor
from fastresume.world import World, has_process_group

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_log = logging.getLogger("fastresume")

CHECK_RANKS = "FASTRESUME_CHECK_RANKS"
"""The environment variable that turns the comparison of ranks off, if it is 0."""

WAIT_SECONDS = 10.0
"""So long a rank waits for the others before it goes on, and compares what they read later."""

_POLL_SECONDS = 0.02

_NAMED = 8
"""An error names no more ranks than these."""


def check_same(state: Mapping[str, Any] | Cursor, group: ProcessGroup | None = None) -> Cursor:
    """The cursor in a state, if all ranks of a process group have the same one: one small collective.

    All ranks call it, before they load: a stale file on one of them would let that one deliver rows twice.
    What is wrong on one is an error on all. Alone, without a process group, it only reads the state.

    Args:
        state: what `load_state_dict` takes; its text may differ in spaces and keys' order.
        group: the process group; None for the default one.

    Raises:
        StateError: on all ranks, naming those that differ or whose state can't be read, and what they have.

    Example:
        >>> check_same(loader.state_dict())
        Cursor(epoch=0, consumed_rows=0 of 100 (0.0%), step=0, sequential, dataset=...)
    """
    cursor, found = _read(state)
    if has_process_group():
        texts = [""] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(texts, found, group=group)
        _compare(texts)
    if cursor is None:
        raise _core.StateError(found)
    return cursor


def _read(state: Mapping[str, Any] | Cursor) -> tuple[Cursor | None, str]:
    """The cursor and its text, or none and what is wrong with it: the other ranks wait for this one."""
    try:
        cursor = Cursor.from_state(state)
    except _core.StateError as error:
        return None, f"unreadable: {error}"
    return cursor, cursor._core.to_json()


def _compare(texts: list[str]) -> None:
    by_text = _ranks_by(enumerate(texts))
    if len(by_text) > 1:
        each = (f"{_named(ranks)}: {_told(text)}" for text, ranks in by_text.items())
        raise _core.StateError("ranks have states that differ: " + "; ".join(each))


def _ranks_by(texts: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    by_text: dict[str, list[int]] = {}
    for rank, text in texts:
        by_text.setdefault(text, []).append(rank)
    return by_text


def _named(ranks: list[int]) -> str:
    more = ", ..." if len(ranks) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} " + ", ".join(map(str, ranks[:_NAMED])) + more


def _told(text: str) -> str:
    return text if text.startswith("unreadable: ") else repr(Cursor(_core.Cursor.parse(text)))


_numbers = itertools.count()
"""Of the datasets of this process that are compared, in the order in which they are read first."""


class SameRanks:
    """Whether the ranks of the default process group read the same of a dataset: asked with its first batch.

    Each rank writes what it reads to the process group's store, and looks at what the others have written.
    That is no collective: no rank waits for long for one that does not read, and none of the training's is
    met. A rank that waited in vain looks again with later batches, so that the one that comes last is not the
    only one to know.

    Args:
        world: the dataset's; another one than the process group's is never compared.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = os.getpid()
        self._is_over = False
        self._asked: _Asked | None = None

    def check(self, reads: Callable[[], Mapping[str, object]]) -> None:
        """Refuses to read what other ranks don't.

        Args:
            reads: what this rank reads, by the words that the error says it with.

        Raises:
            FastresumeError: naming the ranks that differ, and in what.
        """
        if self._is_over:
            return
        if self._asked is None:
            group = World.of_default_group()
            if group is None and self._world.world_size > 1:
                return  # it may still be made
            # The store is of the process that made the group: a fork of it must not speak there.
            is_of_group = group == self._world and self._process == os.getpid()
            if not is_of_group or self._world.world_size == 1 or os.environ.get(CHECK_RANKS) == "0":
                self._is_over = True
                return
            self._asked = _Asked(self._world, reads())
        try:
            self._is_over = self._asked.agree()
        except _core.FastresumeError:
            raise
        except RuntimeError as error:
            _log.warning("the process group's store can't tell whether the ranks read the same: %s", error)
            self._is_over = True

    def __reduce__(self) -> tuple[Any, ...]:
        return SameRanks, (self._world,)


class _Asked:
    """What this rank wrote to the store about one dataset, and what it makes of the others' words."""

    def __init__(self, world: World, reads: Mapping[str, object]) -> None:
        self._store: Any = torch.distributed.distributed_c10d._get_default_store()
        self._world, self._place = world, f"fastresume/{next(_numbers)}/"
        text = json.dumps(reads, default=str)
        self._mine = self._place + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        # Whoever is counted by the last one is counted by the one before it.
        self._to_write: list[Callable[[], Any]] = [
            lambda: self._store.add(self._place, 1),
            lambda: self._store.add(self._mine, 1),
            lambda: self._store.set(f"{self._place}rank {world.rank}", text),
        ]
        self._ends: float | None = None
        self._times = 0

    def agree(self) -> bool:
        """Whether all ranks read the same; False if some have not begun to."""
        while self._to_write:
            self._to_write.pop()()  # once, whatever a signal handler raises
        self._times += 1
        if self._times > 1 and self._times & (self._times - 1):
            return False  # once they were waited for, only batches 2, 4, 8... ask
        if self._ends is None:
            self._ends = time.monotonic() + WAIT_SECONDS
        while True:
            begun, same = self._store.add(self._place, 0), self._store.add(self._mine, 0)
            if begun > same:
                self._refuse()
            if same >= self._world.world_size:
                return True
            if time.monotonic() > self._ends:
                break
            time.sleep(_POLL_SECONDS)
        if self._times == 1:
            late = [rank for rank in range(self._world.world_size) if not self._has_begun(rank)]
            _log.warning(
                "%s: not one batch was asked for after %.0f s, so this rank goes on, and compares later what "
                "they read; a dataset that some ranks read alone takes rank=0, world_size=1",
                _named(late),
                WAIT_SECONDS,
            )
        return False

    def _has_begun(self, rank: int) -> bool:
        return bool(self._store.check([f"{self._place}rank {rank}"]))

    def _refuse(self) -> None:
        there = [rank for rank in range(self._world.world_size) if self._has_begun(rank)]
        by_text = _ranks_by((rank, self._store.get(f"{self._place}rank {rank}").decode()) for rank in there)
        found = [(ranks, json.loads(text)) for text, ranks in by_text.items()]
        differ = [key for key in found[0][1] if len({str(reads[key]) for _, reads in found}) > 1]
        each = [
            f"{_named(ranks)}: " + ", ".join(f"{key} {reads[key]}" for key in differ)
            for ranks, reads in found[:_NAMED]
        ]
        raise _core.FastresumeError(
            f"the ranks do not read the same: {'; '.join(each)}{'; ...' if len(found) > _NAMED else ''}. "
            "List the files once, and give each rank this list; a dataset that a rank reads alone takes "
            f"rank=0, world_size=1; {CHECK_RANKS}=0 in the environment turns this comparison off"
        )
