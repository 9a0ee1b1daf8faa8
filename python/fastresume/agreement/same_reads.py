"""Whether ranks read the same."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed

import fastresume._core as _core
from fastresume.agreement import attendance
from fastresume.agreement.attendance import named
from fastresume.agreement.same_state import ranks_by
from fastresume.amounts import plural
from fastresume.messages import MOST_NAMED, warn
from fastresume.options.world import World, from_environment

_log = logging.getLogger("fastresume")

CHECK_RANKS = "FASTRESUME_CHECK_RANKS"
"""The environment variable that turns the comparison of ranks off, if it is 0."""

_OFF = (
    "a dataset that a rank reads alone takes world=(0, 1), and has a state of its own; "
    f"{CHECK_RANKS}=0 in the environment turns this comparison off"
)
"""The end of its errors."""

PLACE = "place"
"""By this word ranks say where they begin: it is named only if they read the same otherwise."""

_POLL_SECONDS = 0.02


_numbers = itertools.count()
"""Of the datasets of this process that are compared, in the order in which they are read first."""


def place_in_words(cursor: _core.Cursor) -> str:
    """Where reading begins: other places have other words."""
    state = hashlib.blake2b(cursor.to_json().encode(), digest_size=4).hexdigest()
    rows = plural(cursor.consumed_rows(), "row")
    return f"epoch {cursor.epoch}, step {cursor.steps}, {rows} consumed, state {state}"


class SameReads:
    """Whether the ranks of the default process group read the same of a dataset: asked with its first batch.

    Each rank writes what it reads to the process group's store, and looks at what the others have written.
    That is no collective: no rank waits for long for one that does not read, and none of the training's is
    met. A rank that waited in vain looks again with later batches, so that the one that comes last is not the
    only one to know. Ranks that begin again in the middle of a pass are asked who else does.

    Args:
        world: the dataset's. One of fewer ranks than the process group, as the data axis of a device mesh
            has, is never compared.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = os.getpid()
        self._is_over = False
        self._is_on = from_environment(CHECK_RANKS, least=0, most=1) != 0
        self._asked: _Asked | None = None

    def check(self, reads: Callable[[], Mapping[str, object]], begins: str | None = None) -> None:
        """Refuses to read what other ranks don't.

        Args:
            reads: what this rank reads, by the words that the error says it with.
            begins: where an iterator begins in the middle of a pass; None with its later batches.

        Raises:
            FastresumeError: naming the ranks that differ, and in what; those that read as the same rank; or
                both numbers of ranks, if the process group has too few to read all.
        """
        if self._is_over and begins is not None and self._asked is not None:
            self._is_over, self._asked = False, self._asked.again(reads(), begins)
        if self._is_over:
            return
        if self._asked is None:
            group = World.of_default_group()
            if group is None and self._world.world_size > 1:
                return  # it may still be made
            # The store is of the process that made the group: a fork of it must not speak there.
            is_asked = self._is_on and self._process == os.getpid() and self._world.world_size > 1
            if is_asked and group is not None and 1 < group.world_size < self._world.world_size:
                raise _core.FastresumeError(
                    f"the dataset reads as rank {self._world.rank} of {self._world.world_size}, and the "
                    f"process group has {group.world_size} ranks: no rank reads the shares of the others. "
                    f"Leave world= out; {_OFF}"
                )
            if group is None or group.world_size != self._world.world_size or not is_asked:
                self._is_over = True
                return
            self._asked = _Asked(group, self._world.rank, reads(), next(_numbers))
        try:
            self._is_over = self._asked.agree()
        except _core.FastresumeError:
            raise
        except RuntimeError as error:
            _log.warning("the process group's store can't tell whether the ranks read the same: %s", error)
            self._is_over = True

    def __reduce__(self) -> tuple[Any, ...]:
        return SameReads, (self._world,)


class _Asked:
    """What this rank wrote to the store about one dataset, and what it makes of the others' words.

    Args:
        group: this rank in the process group.
        number: the rank that it reads as: each is one's own.
        reads: what it reads.
        dataset: the number of the dataset in this process.
        begins: where it begins again in the middle of a pass, if it does.
    """

    def __init__(
        self,
        group: World,
        number: int,
        reads: Mapping[str, object],
        dataset: int,
        begins: str | None = None,
    ) -> None:
        self._store: Any = torch.distributed.distributed_c10d._get_default_store()
        self._group, self._number, self._dataset, self._begins = group, number, dataset, begins
        self._place = f"fastresume/{dataset}/" if begins is None else f"fastresume/{dataset}/{begins}/"
        self._distinct, own = f"{self._place}distinct", f"{self._place}number {number}"
        text = json.dumps(reads, default=str)
        self._mine = self._place + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        said = json.dumps([number, text])
        # From the last to the first: a rank that one of them counts is counted by those after it.
        self._to_write: list[Callable[[], Any]] = [
            lambda: self._store.add(self._place, 1),
            lambda: self._store.add(self._mine, 1),
            lambda: self._store.add(self._distinct, int(self._store.add(own, 1) == 1)),
            lambda: self._store.set(f"{self._place}rank {group.rank}", said),
        ]
        self._ends: float | None = None
        self._times = 0

    def again(self, reads: Mapping[str, object], begins: str) -> _Asked:
        """The same rank and dataset, which begins again."""
        return _Asked(self._group, self._number, reads, self._dataset, begins)

    def agree(self) -> bool:
        """Whether all ranks read the same; False if some have not begun to."""
        while self._to_write:
            self._to_write.pop()()  # once, whatever a signal handler raises
        self._times += 1
        if self._times > 1 and self._times & (self._times - 1):
            return False  # once they were waited for, only batches 2, 4, 8... ask
        if self._ends is None:
            self._ends = time.monotonic() + attendance.WAIT_SECONDS
        while True:
            begun = self._store.add(self._place, 0)
            same = min(self._store.add(each, 0) for each in (self._mine, self._distinct))
            if begun > same:
                self._refuse()
            if same >= self._group.world_size:
                return True
            if time.monotonic() > self._ends:
                break
            time.sleep(_POLL_SECONDS)
        ranks = range(self._group.world_size) if self._times == 1 else ()
        if late := [rank for rank in ranks if not self._has_begun(rank)]:
            waited = f"after {attendance.WAIT_SECONDS:.0f} s"
            if self._begins is None:
                warn(
                    f"{named(late)}: not one batch was asked for {waited}, so this rank continues, and "
                    "compares later what they read. It has its own share of the rows: a dataset that some "
                    "ranks read alone takes world=(0, 1)"
                )
            else:
                warn(
                    f"this rank begins again at {self._begins}; {named(late)}: nothing began there {waited}. "
                    "If this rank alone drew a batch before, or loaded a state, its steps are of other "
                    "global batches than theirs. Draw on all ranks, or on none: loader.peek() draws none"
                )
        return False

    def _has_begun(self, rank: int) -> bool:
        return bool(self._store.check([f"{self._place}rank {rank}"]))

    def _refuse(self) -> None:
        there = [rank for rank in range(self._group.world_size) if self._has_begun(rank)]
        said = {rank: json.loads(self._store.get(f"{self._place}rank {rank}")) for rank in there}
        by_number: dict[int, list[int]] = {}
        for rank, (number, _) in said.items():
            by_number.setdefault(number, []).append(rank)
        if twice := [(ranks, number) for number, ranks in by_number.items() if len(ranks) > 1]:
            each = [
                f"{named(ranks)} of the process group read as rank {number} of {self._group.world_size}"
                for ranks, number in twice[:MOST_NAMED]
            ]
            raise _core.FastresumeError(
                f"ranks read the same rows, and no rank reads others: {'; '.join(each)}. Leave world= out, "
                f"or give each rank its number in the process group (RANK, not LOCAL_RANK); {_OFF}"
            )
        by_text = ranks_by((rank, text) for rank, (_, text) in said.items())
        found = [(ranks, json.loads(text)) for text, ranks in by_text.items()]
        differ = [key for key in found[0][1] if len({str(reads[key]) for _, reads in found}) > 1]
        differ = [key for key in differ if key != PLACE] or differ
        each = [
            f"{named(ranks)}: " + ", ".join(f"{key} {reads[key]}" for key in differ)
            for ranks, reads in found[:MOST_NAMED]
        ]
        if {"files", "dataset", "sources"} & set(differ):
            way = (
                "Give every rank all rows, and not files[rank::world_size] or a shard: the ranks divide the "
                "rows themselves. List the files once, if some come meanwhile"
            )
        elif {"rows", "selection"} & set(differ):
            way = "Give every rank the same rows= and filter=: the ranks divide the rows themselves"
        elif differ == [PLACE]:
            way = "Load the same state on every rank, before any rank draws a batch; loader.peek() draws none"
        else:
            way = "Give all ranks the same"
        raise _core.FastresumeError(
            f"the ranks do not read the same: {'; '.join(each)}{'; ...' if len(found) > MOST_NAMED else ''}. "
            f"{way}; {_OFF}"
        )
