"""MaxCompute's storage API, as pyodps speaks it: sessions, and rows by their numbers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import fastresume._core as _core
from fastresume.maxcompute.account import Account, Signer
from fastresume.maxcompute.address import Address
from fastresume.maxcompute.package import odps
from fastresume.maxcompute.scan import Scan, expired
from fastresume.rebuilt import Rebuilt
from fastresume.sources.patience import FINAL, Patience

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("fastresume")

Result = TypeVar("Result")

_MOST_BATCH_ROWS = 20_000
"""The service gives no larger batches."""

_MOST_POLLS = 1800
"""After this many looks, some half an hour, a session that is still being made is given up."""

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 1.0

_AT_ONCE = 8
"""The most sessions that are opened at the same time."""

_PASSING = (408, 425, 429)
_REFUSED = (401, 403)

COMPRESSIONS = {"lz4": "LZ4_FRAME", "zstd": "ZSTD", None: "UNCOMPRESSED"}


class _RefusedError(Exception):
    """The service says that a request is wrong.

    Args:
        status: the status of the answer.
        text: what it says.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        is_named = any(word in text.lower() for word in ("session", "expire"))
        self.is_of_session = status in (404, 410) or is_named


class Client(Rebuilt):
    """The sessions and rows of tables. Used by several threads at once, and after a fork.

    Args:
        account: who asks.
        quota: the name of the quota that the requests count for; None for the project's default.
        compression: that of answers, a key of `COMPRESSIONS`.
        tunnel_endpoint: where the storage API is; the service tells if it is None.
    """

    def __init__(
        self, account: Account, quota: str | None, compression: str | None, tunnel_endpoint: str | None
    ) -> None:
        self._account = account
        self._quota = quota
        self._compression = compression
        self._tunnel_endpoint = tunnel_endpoint
        self._rebuild()

    _REBUILT = ("_process", "_lock", "_clients")

    def _rebuild(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str | None, str], Any] = {}

    def log_in(self) -> None:
        """Looks for keys, and where the service is.

        Raises:
            ValueError: if there are none.
            SourceError: if who has them is away for two minutes.
        """
        patience = Patience()
        while True:
            try:
                self._account.keys()
                self._account.endpoint  # noqa: B018  (it raises)
                return
            except OSError as error:
                if not patience.waits(error):
                    raise _core.SourceError(str(error)) from None

    def opened(self, address: Address, columns: Sequence[str] | None) -> Scan:
        """A new session over the rows of an address.

        Args:
            address: the table, or its partitions.
            columns: the columns that are read, which may be those of partitions; None for all of the table.

        Raises:
            SourceError: if the service does not make one.
        """
        table = self._asked(f"can't look up {address.of_table}", lambda: self._table(address))
        of_partitions = [column.name for column in table.table_schema.partitions]
        changed, version = self._changed(address, table)
        api = odps("odps.apis.storage_api")
        request = api.TableBatchScanRequest(
            split_options=api.SplitOptions.get_default_options(api.SplitOptions.SplitMode.ROW_OFFSET),
            required_data_columns=[name for name in columns or () if name not in of_partitions],
            required_partition_columns=[name for name in columns or () if name in of_partitions],
            required_partitions=list(address.partitions),
        )
        what = f"can't open a session of {address.text}"
        made = self._asked(what, lambda: self._client(address).create_read_session(request))
        found = self.session(address, made.session_id)
        if found is None:
            raise _core.SourceError(f"{what}: {made.session_id} ended before it began")
        return found._replace(changed=changed, version=version)

    def session(self, address: Address, session: str, refresh: bool = False) -> Scan | None:
        """A session that was opened before, once it is ready; None if it has ended.

        Raises:
            SourceError: if the service does not tell.
        """
        api = odps("odps.apis.storage_api")
        request = api.SessionRequest(session_id=session, refresh=refresh)
        what = f"can't look up the session {session} of {address.text}"

        def ask() -> Any:
            return self._client(address).get_read_session(request)

        for poll in range(_MOST_POLLS):
            found = self._asked(what, ask, may_be_gone=True)
            if found is None:
                return None
            status = found.session_status
            if status == api.SessionStatus.NORMAL:
                return _scan(address, session, found)
            if status == api.SessionStatus.EXPIRED:
                return None
            if status != api.SessionStatus.INIT:
                raise _core.SourceError(f"{what}: its status is {getattr(status, 'name', status)}")
            time.sleep(min(_FIRST_POLL_SECONDS * 2 ** min(poll, 10), _LONGEST_POLL_SECONDS))
        raise _core.SourceError(f"{what}: it is not ready after {_MOST_POLLS} looks")

    def rows(self, scan: Scan, start: int, stop: int) -> list[pa.RecordBatch]:
        """The rows `[start, stop)` of a session; the first of them if the answer ends early.

        Raises:
            SourceError: if the session has ended.
            OSError: for what may pass.
            RuntimeError: for what seldom passes.
        """
        api = odps("odps.apis.storage_api")
        request = api.ReadRowsRequest(
            session_id=scan.session,
            row_index=start,
            row_count=stop - start,
            max_batch_rows=min(stop - start, _MOST_BATCH_ROWS),
            compression=api.Compression[COMPRESSIONS[self._compression]],
        )
        found: list[pa.RecordBatch] = []
        count = 0
        try:
            reader = self._client(scan.address).read_rows_arrow(request)
            while (batch := reader.read()) is not None:
                found.append(batch)
                count += batch.num_rows
                if count > stop - start:
                    break  # who counts them says so
        except Exception as error:  # noqa: BLE001  (of three packages)
            if count:
                _log.debug("rows of %s broke off at %d of %d", scan.segment, count, stop - start)
                return found
            fault = self._fault(error)
            if isinstance(fault, _RefusedError):
                if self.session(scan.address, scan.session) is None:
                    raise _core.SourceError(expired(scan.address, scan.named)) from None
                fault = RuntimeError(str(fault))
            raise fault from None
        return found

    def each(self, work: Callable[[Address], Result], addresses: Sequence[Address]) -> list[Result]:
        """What work makes of each address, several at once."""
        if len(addresses) == 1:
            return [work(addresses[0])]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(work, addresses))

    def _client(self, address: Address) -> Any:
        """What asks for the rows of a table."""
        if self._process != os.getpid():
            self._rebuild()
        key = address.project, address.schema, address.table
        with self._lock:
            if key not in self._clients:
                service = odps().ODPS(
                    account=Signer(self._account),
                    project=address.project,
                    endpoint=self._account.endpoint,
                    logview_host=self._account.endpoint,  # else it asks for one, which is not needed
                    overwrite_global=False,
                )
                table = service.get_table(address.table, schema=address.schema)
                self._clients[key] = odps("odps.apis.storage_api").StorageApiArrowClient(
                    service, table, rest_endpoint=self._tunnel_endpoint, quota_name=self._quota
                )
            return self._clients[key]

    def _table(self, address: Address) -> Any:
        table = self._client(address).table
        table.reload()
        return table

    def _changed(self, address: Address, table: Any) -> tuple[int | None, int | None]:
        """When the rows were changed last, in seconds since 1970, and the version that they have."""
        errors = odps("odps.errors")

        def partition(name: str) -> int | None:
            found = table.get_partition(name.replace("/", ","))
            found.reload()
            return _seconds(found.last_data_modified_time)

        try:
            if address.partitions:
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    times = list(pool.map(partition, address.partitions))
                changed = None if None in times else max(time for time in times if time is not None)
            else:
                changed = _seconds(table.last_data_modified_time)
            version = table.cdc_latest_version if table.is_transactional else None
        except (errors.ODPSError, OSError, ValueError) as error:
            # Then only the number of rows and the columns are compared.
            _log.info("%s: when it was changed last is not known: %s", address.text, type(error).__name__)
            return None, None
        return changed, None if version is None or version < 0 else int(version)

    def _asked(self, what: str, ask: Callable[[], Any], may_be_gone: bool = False) -> Any:
        """What the service answers, in the end; None if that is no session of it any more, and that may be.

        Raises:
            SourceError: if it refuses, or is away for two minutes.
        """
        patience = Patience()
        while True:
            try:
                return ask()
            except Exception as error:  # noqa: BLE001  (of three packages)
                fault = self._fault(error)
            if isinstance(fault, _RefusedError) and fault.is_of_session and may_be_gone:
                return None
            if isinstance(fault, (*FINAL, _RefusedError)) or not patience.waits(fault):
                raise _core.SourceError(f"{what}: {fault}") from None

    def _fault(self, error: Exception) -> Exception:
        """What went wrong, by what helps: waiting (OSError), little (RuntimeError), nothing (others)."""
        errors, urllib3 = odps("odps.errors"), odps_http()
        text = self._account.without_secrets(error)
        status = getattr(error, "status_code", None)
        if isinstance(error, errors.ODPSError) and status is not None:
            if status in _REFUSED:
                self._account.forget()
                return RuntimeError(f"{status} {text}")
            if status in _PASSING or status >= 500:
                return OSError(f"{status} {text}")
            return _RefusedError(status, text)
        if isinstance(error, (OSError, urllib3.HTTPError, errors.InternalServerError)):
            return OSError(f"{type(error).__name__}: {text}")
        if isinstance(error, (ImportError, _core.SourceError, _core.DataError)):
            return error
        return RuntimeError(f"{type(error).__name__}: {text}")


def odps_http() -> Any:
    """The errors of connections that pyodps lets through."""
    import urllib3.exceptions

    return urllib3.exceptions


def _seconds(time: Any) -> int | None:
    return None if time is None else int(time.timestamp())


def _scan(address: Address, session: str, found: Any) -> Scan:
    """What a session is, as the service tells."""
    columns = [*(found.data_schema.data_columns or ()), *(found.data_schema.partition_columns or ())]
    rows = found.record_count
    if not isinstance(rows, int) or rows < 0:
        raise _core.SourceError(f"the session {session} of {address.text} does not tell how many rows it has")
    expires = found.expiration_time
    return Scan(
        address,
        session,
        session,
        rows,
        tuple((column.name, column.type) for column in columns),
        None if not expires else float(expires) / 1000,
    )
