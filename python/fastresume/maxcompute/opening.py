"""From an address to a source of rows: sessions that rank 0 opens for all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed

import fastresume._core as _core
from fastresume.agreement.peers import Peers
from fastresume.maxcompute.account import Account, Credentials
from fastresume.maxcompute.address import Address, addresses_of
from fastresume.maxcompute.client import COMPRESSIONS, Client
from fastresume.maxcompute.package import odps
from fastresume.maxcompute.scan import Scan, resumed
from fastresume.maxcompute.source import MaxComputeSource
from fastresume.options.checks import quoted
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World, check_group, has_process_group
from fastresume.sources.schema import arrow
from fastresume.state.cursor import KEY, Cursor
from fastresume.state.offsets import EPOCHS_COMPLETED
from fastresume.state.session import session_of, sessions_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@takes_no_other("fr.maxcompute.open")
def open(  # noqa: A001  (fr.maxcompute.open, as users call it)
    address: str | Sequence[str],
    *,
    credentials: Credentials = None,
    quota: str | None = "pay-as-you-go",
    columns: Sequence[str] | None = None,
    by_partition: bool = False,
    same_order: bool = False,
    state: Mapping[str, Any] | Cursor | None = None,
    compression: Literal["lz4", "zstd"] | None = "lz4",
    endpoint: str | None = None,
    tunnel_endpoint: str | None = None,
    group: ProcessGroup | None = None,
) -> MaxComputeSource:
    """The rows of MaxCompute tables, for `fr.ArrowDataset`. It needs pyodps and pyarrow.

    Each session of the service numbers the rows of a table in its own way. Rank 0 opens a session for each
    address and tells the others: all ranks call it together. A state names the sessions. A dataset that loads
    it asks for them again. Sessions live a day or so, and are refreshed as long as the process lives.

    Args:
        address: "odps://project/tables/[schema.]table/pt=1&pt=2"; several have commas between them, or are a
            list. Without partitions it is the whole table. Levels of partitions are "ds=1/hour=2".
        credentials: `{"access_id": ..., "access_key": ..., "sts_token": ...}`, or a function that returns
            that, with "expiration" in seconds since 1970 or as ISO text: it is called again before. None
            looks where TorchEasyRec does: `ODPS_CONFIG_FILE_PATH`, `ALIBABA_CLOUD_...`,
            `~/.odps_config.ini`.
        quota: the name of the quota that requests count for; None for the project's own.
        columns: the columns to read; those of partitions may be among them. None for all of the table.
        by_partition: open a session for each partition, so that their rows come in the order in which
            partitions are named.
        same_order: your word that a new session of an unchanged table numbers its rows as the one before.
            Then a state whose session has ended loads, if the number of rows, the columns, the time of the
            last change and the version are the same.
        state: a state, or TorchEasyRec's offsets: its sessions are asked for, and no new ones are opened.
        compression: how rows are sent: "lz4", "zstd" or None.
        endpoint: where the service is, if neither the credentials nor `ODPS_ENDPOINT` tell.
        tunnel_endpoint: where the storage API is; the service tells if it is None.
        group: the ranks; None for the default process group.

    Raises:
        ValueError, TypeError: for an address that is none, no credentials, or ranks without a process group.
        SourceError: if the service refuses, is away for two minutes, or a session of `state` has ended.
        DataError: if tables have other columns than the first, or types that can't be delivered.
        ImportError: if pyodps or pyarrow is not installed.

    No credentials are in an error, log, state or `repr`.

    Examples:
        >>> source = open("odps://shop/tables/clicks/ds=20260101")  # doctest: +SKIP
        >>> dataset = fr.ArrowDataset(source, batch_size=512)  # doctest: +SKIP
    """
    odps()
    arrow()
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression must be 'lz4', 'zstd' or None, found {quoted(compression)}")
    if columns is not None and (isinstance(columns, str) or not all(isinstance(one, str) for one in columns)):
        raise TypeError(f"columns must be a list of names, found {quoted(columns)}")
    named = addresses_of(address)
    each = [one for address in named for one in (address.each_partition() if by_partition else [address])]
    if len({one.text for one in each}) < len(each):
        raise ValueError("a partition is named twice, in two addresses")
    sessions, paths = _sessions(state, named, by_partition)
    client = Client(Account(credentials, endpoint), quota, compression, tunnel_endpoint)

    def scan(of: Address) -> Scan:
        def anew() -> Scan:
            return client.opened(of, columns)

        if of.key not in sessions:
            return anew()
        return resumed(of, sessions[of.key], client.session(of, sessions[of.key][0]), same_order, anew)

    def scans() -> list[Scan]:
        client.log_in()
        return client.each(scan, each)

    peers = _peers(group)
    found = scans() if peers is None else peers.lead("open sessions of MaxCompute", scans)
    return MaxComputeSource(found, client, same_order, paths)


def _peers(group: ProcessGroup | None) -> Peers | None:
    """The ranks that share sessions; None for one alone.

    Raises:
        ValueError: if there are several, and no process group.
    """
    check_group(group)
    if has_process_group():
        return (
            Peers(group, made="fr.maxcompute.open(...)")
            if torch.distributed.get_world_size(group) > 1
            else None
        )
    if (world := World.detect()).world_size > 1:
        raise ValueError(
            f"{world} needs a process group, by which rank 0 tells the others of its sessions: call "
            "torch.distributed.init_process_group before fr.maxcompute.open"
        )
    return None


Sessions = dict[str, list[Any]]
"""What a state has of sessions, by the keys of addresses."""


def _sessions(state: Any, named: list[Address], by_partition: bool) -> tuple[Sessions, dict[str, str]]:
    """The sessions that a state names, and the segments by how offsets name them.

    Raises:
        StateError: if it is no state, or offsets name other numbers of sessions than there are.
    """
    if state is None:
        return {}, {}
    if isinstance(state, Mapping) and KEY not in state and any("#" in str(key) for key in state):
        return _of_offsets(state, named, by_partition)
    cursor = Cursor.from_state(state)._core
    own = session_of(cursor)
    each = [own] if own else list(sessions_of(cursor).values())
    return {key: facts for sessions in each for key, facts in sessions.items()}, {}


def _of_offsets(
    offsets: Mapping[str, Any], named: list[Address], by_partition: bool
) -> tuple[Sessions, dict[str, str]]:
    sessions: dict[str, list[str]] = {}
    for key in offsets:
        path, is_named, session = str(key).rpartition(":")[0].rpartition("#")
        if is_named and key != EPOCHS_COMPLETED and session not in sessions.setdefault(path, []):
            sessions[path].append(session)
    if unknown := sorted(sessions.keys() - {address.text for address in named}):
        raise _core.StateError(f"offsets name {quoted(unknown[0])}, which is none of the addresses")
    of_keys: Sessions = {}
    paths: dict[str, str] = {}
    for address in named:
        each = address.each_partition() if by_partition else [address]
        found = sessions.get(address.text, [])
        if len(found) > len(each):
            hint = "" if by_partition else ": if each partition had its own, write by_partition=True"
            raise _core.StateError(
                f"offsets name {len(found)} sessions of {quoted(address.text)}, which has {len(each)}{hint}"
            )
        # Partitions are read in their order, so the first ones have sessions already.
        for one, session in zip(each, found, strict=False):
            of_keys[one.key] = [session]
            if one.text != address.text:
                paths[f"{address.text}#{session}"] = f"{one.text}#{session}"
    return of_keys, paths
