"""A web server of one file that answers as a test tells it to."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebServer(ThreadingHTTPServer):
    """A server of one file.

    Args:
        content: the bytes of the file.

    Attributes:
        answers: gives the answer to a request for a range, in place of the right one, if it is set.
        heads: the same for a request without a range.
        goes_on: requests wait for it.
    """

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.answers: Callable[[Request], None] | None = None
        self.heads: Callable[[Request], None] | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    @property
    def address(self) -> str:
        """The address of the file."""
        return f"http://127.0.0.1:{self.server_port}/a.parquet"

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of readers that have gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    @property
    def range(self) -> tuple[int, int]:
        """The first byte that is asked for, and the one behind the last."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert asked is not None
        return int(asked[1]), int(asked[2]) + 1

    def say(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        """Answers with the length of the body, unless the headers have another."""
        self.send_response_only(status)
        for name, value in {"ETag": '"1"', "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.server.goes_on.wait()
        if self.server.heads is not None:
            self.server.heads(self)
            return
        self.say(200, {"Content-Length": str(len(self.server.content))})

    def do_GET(self) -> None:
        self.server.goes_on.wait()
        if self.server.answers is not None:
            self.server.answers(self)
            return
        start, end = self.range
        covered = f"bytes {start}-{end - 1}/{len(self.server.content)}"
        self.say(206, {"Content-Range": covered}, self.server.content[start:end])

    def log_message(self, *_: object) -> None:
        pass


Request = _Handler


@contextlib.contextmanager
def serving_web(content: bytes) -> Iterator[WebServer]:
    """A web server that runs inside of the block."""
    server = WebServer(content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
