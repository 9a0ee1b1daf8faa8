"""A server of Iceberg's REST protocol on loopback, over a catalog in SQLite: as much as readers ask for."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

TOKEN = "token-0123456789abcdef"  # noqa: S105  (of this server alone)
"""What the server asks of its clients."""

SEPARATOR = "\x1f"
"""Stands between the parts of a namespace in paths."""


class RestServer:
    """The server of a catalog.

    Attributes:
        uri: where it listens.
        asked: the paths that it was asked for.
        failure: the status and body that it answers, to whatever comes; None where it answers as it should.
        tells: what it tells of the store of its tables.
    """

    def __init__(self, uri: str, catalog: Catalog) -> None:
        self.uri = uri
        self.asked: list[str] = []
        self.failure: tuple[int, str] | None = None
        self.tells: dict[str, str] = {}
        self._catalog = catalog

    def answer(self, path: str, authorization: str | None) -> tuple[int, str]:
        """The status and body of a request."""
        self.asked.append(path)
        if authorization != f"Bearer {TOKEN}":
            return 401, _failure(401, "NotAuthorizedException", "no such token")
        if self.failure is not None and path != "/v1/config":
            return self.failure
        if path == "/v1/config":
            return 200, json.dumps({"defaults": {}, "overrides": {}})
        words = path.removeprefix("/v1/").split("/")
        if len(words) != 4 or (words[0], words[2]) != ("namespaces", "tables"):
            return 404, _failure(404, "NoSuchEndpointException", f"no such endpoint: {path}")
        name = (*unquote(words[1]).split(SEPARATOR), unquote(words[3]))
        try:
            table = self._catalog.load_table(name)
        except NoSuchTableError:
            return 404, _failure(404, "NoSuchTableException", f"Table does not exist: {'.'.join(name)}")
        metadata = json.loads(table.metadata.model_dump_json())
        return 200, json.dumps(
            {"metadata-location": table.metadata_location, "metadata": metadata, "config": self.tells}
        )


def _failure(status: int, kind: str, message: str) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": status}})


@contextlib.contextmanager
def serving_catalog(catalog: Catalog) -> Iterator[RestServer]:
    """A server of a catalog, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = served.answer(urlsplit(self.path).path, self.headers.get("Authorization"))
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = RestServer(f"http://127.0.0.1:{server.server_port}", catalog)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
