"""Rows of MaxCompute tables as a source of rows."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.maxcompute.arrow_types import field_of
from fastresume.maxcompute.client import Client
from fastresume.maxcompute.keeper import Keeper
from fastresume.maxcompute.scan import Scan, resumed
from fastresume.rebuilt import Rebuilt
from fastresume.sources.row_source import Segment
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("fastresume")


class MaxComputeSource(Rebuilt):
    """The rows of MaxCompute tables: a `RowSource`, which `fr.maxcompute.open` makes.

    Each address is a segment, in the order of one session of the service. The session is part of what the
    rows are: a state names it, and `load_state_dict` of the dataset asks for it again.

    Threads and forks: several threads may read. A pickle holds no credentials, unless a worker process
    starts from it: elsewhere they are found in the environment again.
    """

    def __init__(
        self,
        scans: Sequence[Scan],
        client: Client,
        same_order: bool = False,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        self._scans = list(scans)
        self._client = client
        self._same_order = same_order
        self._paths = dict(paths or {})
        first = self._scans[0]
        for scan in self._scans:
            if scan.columns != first.columns:
                raise _core.DataError(
                    f"{scan.address.text} has other columns than {first.address.text}: name those of both, "
                    f"as fr.maxcompute.open(..., columns=[...]). Found {dict(scan.columns)}, expected "
                    f"{dict(first.columns)}"
                )
        self._schema = arrow().schema([field_of(name, written) for name, written in first.columns])
        self._rebuild()

    _REBUILT = ("_expires", "_keeper", "_process")

    def _rebuild(self) -> None:
        self._expires = {scan.session: scan.expires for scan in self._scans}
        self._keep()

    @property
    def paths(self) -> dict[str, str]:
        """Segments by how offsets name them: `fr.Cursor.from_offsets(offsets, dataset, paths=)`."""
        return dict(self._paths)

    def snapshot(self) -> str:
        """What the rows are; sessions are in the names of the segments."""
        return "rows of MaxCompute"

    def segments(self) -> list[Segment]:
        """An address each, with its session: `odps://project/tables/table/pt=1#session`."""
        return [Segment(scan.segment, scan.rows) for scan in self._scans]

    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        """Rows of a segment: the first of them if the service's answer ends early."""
        if self._process != os.getpid():
            self._keep()
        batches = self._client.rows(self._scans[segment], start, stop)
        if not batches:
            return self._schema.empty_table().select(columns)
        found = arrow().Table.from_batches(batches)
        return found.select([name for name in columns if name in found.column_names])

    def session(self) -> dict[str, list[Any]]:
        """What a state has of the sessions, by a short hash of each address."""
        return {scan.address.key: scan.in_state for scan in self._scans}

    def in_session(self, session: Mapping[str, list[Any]]) -> MaxComputeSource:
        """The same rows in the sessions that a state names.

        Raises:
            SourceError: if one has ended; it says what can be done.
        """

        def of(scan: Scan) -> Scan:
            in_state = session.get(scan.address.key)
            if in_state is None or in_state == scan.in_state:
                return scan
            found = self._client.session(scan.address, in_state[0])
            return resumed(scan.address, in_state, found, self._same_order, lambda: scan)

        scans = [of(scan) for scan in self._scans]
        return MaxComputeSource(scans, self._client, self._same_order, self._paths)

    def _keep(self) -> None:
        self._process = os.getpid()
        self._keeper = Keeper(self, MaxComputeSource._first_end, MaxComputeSource._refresh)

    def _first_end(self) -> float | None:
        return min((expires for expires in self._expires.values() if expires is not None), default=None)

    def _refresh(self) -> None:
        for scan in self._scans:
            try:
                found = self._client.session(scan.address, scan.session, refresh=True)
            except _core.SourceError as error:
                _log.warning("%s", error)  # it is tried again
                continue
            if found is None:
                _log.warning("the session %s of %s has ended", scan.session, scan.address.text)
            self._expires[scan.session] = None if found is None else found.expires

    def __repr__(self) -> str:
        rows = sum(scan.rows for scan in self._scans)
        return f"MaxComputeSource({plural(len(self._scans), 'segment')}, {plural(rows, 'row')})"
