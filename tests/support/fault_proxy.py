"""An HTTP proxy between a reader and a real server, which injects faults."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("503", "429", "reset", "truncated", "slow")


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server, and does some of them harm.

    Args:
        port: of the server on this machine.
        share: the share of requests that each kind of fault meets.
        kinds: which kinds of faults there are.
        delay_seconds: how long every answer waits.
    """

    daemon_threads = True

    def __init__(
        self, port: int, share: float = 0.0, kinds: tuple[str, ...] = FAULTS, delay_seconds: float = 0.0
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.share, self.kinds, self.delay_seconds = port, share, kinds, delay_seconds
        self.drawn = random.Random(0)
        self.injected: Counter[str] = Counter()
        self.is_delaying, self._is_closed = threading.Event(), threading.Event()

    @property
    def endpoint(self) -> str:
        """The address to read from."""
        return f"http://127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        """Ends, and lets those go that wait for an answer."""
        self._is_closed.set()
        super().server_close()

    def delay(self, seconds: float) -> None:
        """Lets a request wait, and says that one does."""
        self.is_delaying.set()
        self._is_closed.wait(seconds)

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of those who have gone: a reader that has ended, a server that was killed."""
        if not isinstance(sys.exception(), (ConnectionError, http.client.HTTPException)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def fault(self) -> str | None:
        """What befalls the next request, if anything does."""
        place = self.drawn.random()
        kind = int(place / self.share) if self.share else len(self.kinds)
        return self.kinds[kind] if kind < len(self.kinds) else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        if self.server.delay_seconds:
            self.server.delay(self.server.delay_seconds)
        fault = self.server.fault()
        if fault is not None:
            self.server.injected[fault] += 1
        if fault in ("503", "429", "404", "403"):
            self.send_response(int(fault))
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        with contextlib.closing(behind):
            # The signature is one of the address that the reader asked.
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                behind.putheader(name, value)
            behind.endheaders()
            answer = behind.getresponse()
            body = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
        half = len(body) // 2
        if fault == "truncated" and half:
            self.wfile.write(body[:half])
            self.close_connection = True
            return
        if fault == "slow":
            self.wfile.write(body[:half])
            self.wfile.flush()
            self.server.delay(0.2)
            body = body[half:]
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def proxied(port: int, **how: object) -> Iterator[Proxy]:
    """A proxy that runs inside of the block."""
    proxy = Proxy(port, **how)  # type: ignore[arg-type]
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
