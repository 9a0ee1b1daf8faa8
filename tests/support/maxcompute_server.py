"""A server that answers as MaxCompute does where pyodps asks it: tables, sessions, rows by their numbers."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

KEYS = {"access_id": "an-access-id", "access_key": "a-secret-key"}
TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("ms"): "datetime",
    pa.timestamp("ns"): "timestamp",
}


def written(of: pa.DataType) -> str:
    """A type as the service writes it."""
    if pa.types.is_map(of):
        return f"map<{written(of.key_type)},{written(of.item_type)}>"
    if pa.types.is_list(of):
        return f"array<{written(of.value_type)}>"
    if pa.types.is_struct(of):
        return f"struct<{','.join(f'{each.name}:{written(each.type)}' for each in of)}>"
    if pa.types.is_decimal(of):
        return f"decimal({of.precision},{of.scale})"
    return TYPES[of]


@dataclass
class Stored:
    """A table: its partitions, "" for a table without, and when each was changed last."""

    partitions: dict[str, pa.Table]
    changed: dict[str, int] = field(default_factory=dict)
    version: int | None = None


@dataclass
class Session:
    """Rows in the order of a session."""

    rows: pa.Table
    polls: int
    expires: float
    is_over: bool = False


class Request(BaseHTTPRequestHandler):
    """A request, and ways to answer it."""

    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, status: int, body: bytes | str, kind: str = "application/json") -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status: int, code: str, message: str) -> None:
        self.say(status, json.dumps({"Code": code, "Message": message, "RequestId": "1"}))

    def begin(self) -> None:
        """Begin an answer in chunks."""
        self.send_response_only(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Tear the connection down, so that the other side sees a reset."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.server.service.answer(self, self.rfile.read(length))

    do_POST = do_PUT = do_GET  # noqa: N815  (as the base class names them)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """The server of a service."""

    daemon_threads = True
    service: MaxCompute

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of readers that have gone."""


Fault = Callable[[Request, pa.Table, "MaxCompute"], bool]
"""Answers a request for rows in another way; False if it leaves that to the server."""


class MaxCompute:
    """Tables in memory, and sessions over them.

    Attributes:
        polls: for so many looks a session is still being made.
        keeps_order: whether a new session has the order of the one before.
        lives_seconds: how long a session lives.
        tokens: the tokens that are good; None if none is asked for.
        fault: what happens to a request for rows.
        refuses: statuses with which the next requests of a kind are answered: "session", "open", "rows".
        credentials: what it answers where `ALIBABA_CLOUD_CREDENTIALS_URI` points.
        asked: what was asked: a kind, and the parameters.
    """

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str, str], Stored] = {}
        self.sessions: dict[str, Session] = {}
        self.polls = 0
        self.keeps_order = False
        self.lives_seconds = 86400.0
        self.tokens: set[str] | None = None
        self.fault: Fault | None = None
        self.refuses: dict[str, list[int]] = {}
        self.credentials: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refreshed = threading.Event()
        self._lock = threading.Lock()
        self._server = Server(("127.0.0.1", 0), Request)
        self._server.service = self

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def put(
        self, table: str, rows: pa.Table | dict[str, pa.Table], project: str = "shop", schema: str = "default"
    ) -> str:
        """Put a table; gives the address of all of its partitions."""
        parts = rows if isinstance(rows, dict) else {"": rows}
        self.tables[project, schema, table] = Stored(parts, dict.fromkeys(parts, 1_700_000_000))
        name = table if schema == "default" else f"{schema}.{table}"
        return f"odps://{project}/tables/{name}/{'&'.join(parts)}".rstrip("/")

    def stored(self, table: str, project: str = "shop", schema: str = "default") -> Stored:
        return self.tables[project, schema, table]

    def expire(self) -> None:
        """End all sessions that there are."""
        for session in self.sessions.values():
            session.is_over = True

    def kinds(self, kind: str) -> list[dict[str, str]]:
        """The parameters of all requests of a kind."""
        return [parameters for asked, parameters in self.asked if asked == kind]

    @contextlib.contextmanager
    def serving(self) -> Iterator[MaxCompute]:
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, request: Request, body: bytes) -> None:
        parts = urlsplit(request.path)
        names = [unquote(name) for name in parts.path.strip("/").split("/")]
        asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if names == ["credentials"]:
            request.say(200, json.dumps(self.credentials))
            return
        given = request.headers.get("Authorization", "")
        if not given.startswith(f"ODPS {KEYS['access_id']}:"):
            request.refuse(401, "Unauthorized", f"the signature {given} is none")
            return
        if names[:1] == ["projects"]:
            self._describe(request, names, asked)
            return
        if names[0] in ("tenants", "logview"):
            request.refuse(404, "NoSuchObject", f"there is no {names[0]}")
            return
        token = request.headers.get("authorization-sts-token")
        if self.tokens is not None and token not in self.tokens:
            request.refuse(403, "NoPermission", f"the token {token} has expired")
            return
        _, _, _, _, project, _, schema, _, table, kind, *rest = *names, ""
        session = rest[0] if kind == "sessions" else asked["session_id"]
        what = "rows" if kind == "data" else "session" if session else "open"
        with self._lock:
            self.asked.append(
                (what, {**asked, "session": session, "encoding": request.headers["Accept-Encoding"]})
            )
            status = self.refuses[what].pop(0) if self.refuses.get(what) else 0
        if status:
            request.refuse(status, "Refused", f"refused with {status}")
        elif (project, schema, table) not in self.tables:
            request.refuse(404, "NoSuchTable", f"there is no table {table}")
        elif what == "open":
            self._open(request, self.tables[project, schema, table], json.loads(body))
        elif what == "session":
            self._look(request, session, asked)
        else:
            self._rows(request, session, asked)

    def _describe(self, request: Request, names: list[str], asked: dict[str, str]) -> None:
        """What the older interface says of a project's storage API, of tables and of partitions."""
        if names[2:] == ["tunnel"]:
            request.say(200, f"127.0.0.1:{self._server.server_port}", "text/plain")
            return
        if names[2:] == ["logs"]:
            request.say(200, "")
            return
        schema = names[3] if names[2] == "schemas" else asked.get("curr_schema", "default")
        stored = self.tables.get((names[1], schema, names[-1]))
        with self._lock:
            self.asked.append(("table", asked))
        if stored is None:
            request.refuse(404, "NoSuchTable", f"there is no table {names[-1]}")
            return
        if partition := asked.get("partition"):
            name = "/".join(each.strip().replace("'", "") for each in partition.split(","))
            if name not in stored.partitions:
                request.refuse(404, "NoSuchPartition", f"there is no partition {name}")
                return
            found = json.dumps({"lastModifiedTime": stored.changed[name]})
            request.say(
                200, f"<Partition><Schema><![CDATA[{found}]]></Schema></Partition>", "application/xml"
            )
            return
        first = next(iter(stored.partitions))
        columns = [
            {"name": each.name, "type": written(each.type)} for each in stored.partitions[first].schema
        ]
        keys = [{"name": level.split("=")[0], "type": "string"} for level in first.split("/") if level]
        version = {"Transactional": "true", "cdc_latest_version": str(stored.version)}
        found = json.dumps(
            {
                "columns": columns,
                "partitionKeys": keys,
                "lastModifiedTime": max(stored.changed.values()),
                "Reserved": json.dumps({} if stored.version is None else version),
            }
        )
        text = f"<Table><Name>{names[-1]}</Name><Schema format='Json'><![CDATA[{found}]]></Schema></Table>"
        request.say(200, text, "application/xml")

    def _open(self, request: Request, stored: Stored, asked: dict[str, list[str]]) -> None:
        named = asked["RequiredPartitions"] or list(stored.partitions)
        if missing := [name for name in named if name not in stored.partitions]:
            request.refuse(404, "NoSuchPartition", f"there is no partition {missing[0]}")
            return
        each = []
        for name in named:
            rows = stored.partitions[name]
            wanted = rows.select(asked["RequiredDataColumns"] or rows.column_names)
            for column in asked["RequiredPartitionColumns"]:
                value = dict(level.split("=") for level in name.split("/"))[column]
                wanted = wanted.append_column(column, pa.array([value] * len(rows), pa.string()))
            each.append(wanted)
        rows = pa.concat_tables(each)
        with self._lock:
            number = len(self.sessions)
            name = f"20260101{number:04}session"
            places = list(range(rows.num_rows))
            random.Random(0 if self.keeps_order else number + 1).shuffle(places)
            self.sessions[name] = Session(rows.take(places), self.polls, time.time() + self.lives_seconds)
        self._tell(request, name, 202 if self.polls else 201)

    def _look(self, request: Request, name: str, asked: dict[str, str]) -> None:
        session = self.sessions.get(name)
        if session is None:
            request.refuse(404, "NoSuchObject", f"there is no session {name}")
            return
        if asked.get("session_refresh") == "true" and not session.is_over:
            session.expires = time.time() + 86400.0
            self.refreshed.set()
        session.polls -= 1
        self._tell(request, name, 200)

    def _tell(self, request: Request, name: str, status: int) -> None:
        session = self.sessions[name]
        is_ready = session.polls <= 0
        found = {
            "SessionId": name,
            "SessionType": "batch_read",
            "SessionStatus": "EXPIRED" if session.is_over else "NORMAL" if is_ready else "INIT",
            "ExpirationTime": int(session.expires * 1000),
        }
        if is_ready:
            columns = [
                {"Name": each.name, "Type": written(each.type), "Comment": "", "Nullable": True}
                for each in session.rows.schema
            ]
            found |= {
                "RecordCount": session.rows.num_rows,
                "SplitsCount": -1,
                "DataSchema": {"DataColumns": columns, "PartitionColumns": []},
                "SupportedDataFormat": [{"Type": "ARROW", "Version": "V5"}],
            }
        request.say(status, json.dumps(found))

    def _rows(self, request: Request, name: str, asked: dict[str, str]) -> None:
        session = self.sessions.get(name)
        if session is None or session.is_over:
            request.refuse(400, "InvalidArgument", f"the session {name} has expired")
            return
        rows = session.rows.slice(int(asked["row_index"]), int(asked["row_count"]))
        if self.fault is None or not self.fault(request, rows, self):
            self.give(request, rows)

    def give(self, request: Request, rows: pa.Table, end: str = "whole") -> None:
        """Give rows as a stream of messages.

        It ends "whole", "at a message" without the word of its end, "in a message", with a "reset", or
        dribbles ("slowly").
        """
        parts = messages(
            rows,
            request.headers["Accept-Encoding"],
            int(parse_qs(urlsplit(request.path).query)["max_batch_rows"][0]),
        )
        request.begin()
        if end == "whole":
            for part in parts:
                request.chunk(part)
        elif end == "slowly":
            for part in parts:
                for start in range(0, len(part), max(len(part) // 3, 1)):
                    request.chunk(part[start : start + max(len(part) // 3, 1)])
                    time.sleep(0.001)
        else:
            kept = parts[: max(len(parts) // 2, 1)]
            for part in kept:
                request.chunk(part)
            if end != "at a message":
                request.chunk(parts[len(kept)][: len(parts[len(kept)]) // 2])
            if end == "reset":
                request.reset()
                return
        request.end()


def messages(rows: pa.Table, compression: str | None, most: int) -> list[bytes]:
    """The messages of an Arrow stream: the schema, batches, and the end."""
    codec = {"LZ4_FRAME": "lz4", "ZSTD": "zstd"}.get(compression or "")
    sink = pa.BufferOutputStream()
    ends = [0]
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
        ends.append(sink.tell())
        for batch in rows.combine_chunks().to_batches(most):
            stream.write_batch(batch)
            ends.append(sink.tell())
    content = sink.getvalue().to_pybytes()
    ends.append(len(content))
    return [content[start:end] for start, end in itertools.pairwise(ends)]
