"""What is read in one session: rows of a table, in an order that is the session's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import fastresume._core as _core
from fastresume.maxcompute.address import Address


class Scan(NamedTuple):
    """The rows of an address, as one session numbers them.

    Attributes:
        named: the session whose order it is: segments and states have its name.
        session: the session that is asked; another one than `named` by the user's word alone.
        rows: how many there are.
        columns: their names, and their types as the service writes them.
        expires: when the session ends unless it is refreshed, in seconds since 1970; None if nothing tells.
        changed: when the rows were changed last, in seconds since 1970; None if that is not known.
        version: the version of the rows, of tables that have one.
    """

    address: Address
    named: str
    session: str
    rows: int
    columns: tuple[tuple[str, str], ...]
    expires: float | None = None
    changed: int | None = None
    version: int | None = None

    @property
    def segment(self) -> str:
        """The name of the rows' segment, as TorchEasyRec's offsets write it."""
        return f"{self.address.text}#{self.named}"

    @property
    def in_state(self) -> list[Any]:
        """What a state has of it."""
        return [self.named, self.rows, self.changed, self.version]


def resumed(
    address: Address,
    in_state: list[Any],
    found: Scan | None,
    same_order: bool,
    new: Callable[[], Scan],
) -> Scan:
    """The rows of an address in the order that a state tells.

    Args:
        address: the table, or its partitions.
        in_state: what the state has of them; see `Scan.in_state`.
        found: the session that it names, if that is still there.
        same_order: the user's word that a new session of the same rows has the same order.
        new: opens a new session.

    Raises:
        SourceError: if the session has ended; it says what can be done.
    """
    named, *facts = [*in_state, None, None, None][:4]
    if found is not None:
        return found._replace(changed=facts[1], version=facts[2])
    if not same_order:
        raise _core.SourceError(expired(address, named))
    made = new()
    own = (made.rows, made.changed, made.version)
    differ = [
        f"{what} {then}, now {now}"
        for what, then, now in zip(("rows:", "last change:", "version:"), facts, own, strict=True)
        if then is not None and now is not None and then != now
    ]
    if differ:
        raise _core.SourceError(
            f"the session {named} of {address.text} has ended, and the rows have changed since it began "
            f"({'; '.join(differ)}): same_order=True can't hold. Begin a job without the state"
        )
    return made._replace(named=named)


def expired(address: Address, named: str) -> str:
    """What to say of a session that has ended."""
    return (
        f"the session {named} of {address.text} has ended, and with it the order of its rows: a new session "
        "may have another one. If you know that the unchanged table gives the same order again, load the "
        "state with fr.maxcompute.open(..., same_order=True). Else begin a job without the state"
    )
