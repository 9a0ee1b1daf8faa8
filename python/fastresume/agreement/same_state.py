"""A check that all ranks load the same state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch.distributed

import fastresume._core as _core
from fastresume.agreement.attendance import in_call, named
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import check_group, check_others, has_process_group
from fastresume.state.cursor import Cursor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_ALONE = "a rank that loads alone leaves check_same out"


@takes_no_other("fr.distributed.check_same")
def check_same(state: Mapping[str, Any] | Cursor, group: ProcessGroup | None = None) -> Cursor:
    """The cursor in a state, if all ranks of a process group have the same one: one small collective.

    All ranks call it before they load: with a stale file, one rank would deliver rows twice. A fault on one
    rank is an error on all. Without a process group, it only reads the state.

    Args:
        state: what `load_state_dict` takes; its text may differ in spaces and keys' order.
        group: the process group; None for the default one.

    Raises:
        TypeError: if `group` is no process group.
        StateError: on all ranks, naming those that differ or whose state can't be read, and what they have.
        FastresumeError: if a rank is lost or late; without a process group, if the environment (`torchrun`)
            names several ranks.

    Examples:
        >>> check_same(loader.state_dict())
        Cursor(epoch=0, consumed_rows=0 of 100 (0.0%), step=0, sequential, dataset=...)
    """
    check_group(group)
    check_others("check_same", _ALONE)
    cursor, found = _read(state)
    if has_process_group():
        texts = [""] * torch.distributed.get_world_size(group)
        with in_call("check_same", group, f"; {_ALONE}"):
            torch.distributed.all_gather_object(texts, found, group=group)
        _compare(texts)
    if cursor is None:
        raise _core.StateError(found)
    return cursor


def _read(state: Mapping[str, Any] | Cursor) -> tuple[Cursor | None, str]:
    """The cursor and its text, or None and the error: the other ranks wait for this one."""
    try:
        cursor = Cursor.from_state(state)
    except _core.StateError as error:
        return None, f"unreadable: {error}"
    return cursor, cursor._core.to_json()


def _compare(texts: list[str]) -> None:
    by_text = ranks_by(enumerate(texts))
    if len(by_text) > 1:
        each = (f"{named(ranks)}: {_in_words(text)}" for text, ranks in by_text.items())
        raise _core.StateError("ranks have states that differ: " + "; ".join(each))


def ranks_by(texts: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """The ranks that say each text."""
    by_text: dict[str, list[int]] = {}
    for rank, text in texts:
        by_text.setdefault(text, []).append(rank)
    return by_text


def _in_words(text: str) -> str:
    return text if text.startswith("unreadable: ") else repr(Cursor(_core.Cursor.parse(text)))
