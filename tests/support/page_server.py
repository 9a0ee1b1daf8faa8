"""A server that lists objects page by page, as every kind of store does, with a wrong page among them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PAGES = 3
NAMES = [[f"data/part-{page}-{number}.parquet" for number in range(2)] for page in range(PAGES)]
"""The names of each page. All of them have the same content."""


@dataclass(frozen=True)
class Listed:
    """What a page tells.

    Attributes:
        names: of objects.
        token: what asks for the next page; none of the last.
        is_truncated: whether more follows, where a store says so.
    """

    names: list[str]
    token: str | None
    is_truncated: bool


def _s3(listed: Listed, size: int) -> bytes:
    time = "2026-11-28T12:00:00.000Z"
    objects = "".join(
        f"<Contents><Key>{name}</Key><Size>{size}</Size><LastModified>{time}</LastModified>"
        f"<ETag>&quot;1&quot;</ETag></Contents>"
        for name in listed.names
    )
    token = f"<NextContinuationToken>{listed.token}</NextContinuationToken>" if listed.token else ""
    more = str(listed.is_truncated).lower()
    return f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{objects}</ListBucketResult>".encode()


_TAG = "<ETag>&quot;1&quot;</ETag>"

TELLS = {
    "no-tags": ("", ".000Z", None),
    "empty-tags": ("<ETag></ETag>", ".000Z", None),
    "empty-tags-in-both": ("<ETag/>", ".000Z", ""),
    "tags-listed": (_TAG, ".000Z", None),
    "tags-answered": ("", ".000Z", '"1"'),
    "milliseconds": ("", ".123Z", None),
    "weak-tags": (_TAG, ".000Z", 'W/"1"'),
}
"""What a store tells of objects: the tag in listings, the end of the time there, and the tag of answers."""


def _azure(listed: Listed, size: int) -> bytes:
    objects = "".join(
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>Sat, 28 Nov 2026 12:00:00 GMT</Last-Modified>"
        f"<Etag>1</Etag><Content-Length>{size}</Content-Length><Content-Type>x</Content-Type></Properties></Blob>"
        for name in listed.names
    )
    marker = listed.token or ""
    return (
        f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{objects}</Blobs>"
        f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
    ).encode()


def _hub(listed: Listed, size: int) -> bytes:
    return json.dumps(
        [{"type": "file", "oid": "1", "size": size, "path": name} for name in listed.names]
    ).encode()


_RIGHT = {"s3": _s3, "gs": _s3, "az": _azure, "hf": _hub}


def _listed(page: int) -> Listed:
    is_last = page == PAGES - 1
    return Listed(NAMES[page], None if is_last else f"t{page + 1}", not is_last)


WRONG: dict[str, Callable[[Callable[[Listed], bytes], int], bytes]] = {
    "an-error": lambda right, page: b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
    "html": lambda right, page: b"<!DOCTYPE html><html><body>Sign in<br></body></html>",
    "json-object": lambda right, page: b'{"error": "busy"}',
    "nothing": lambda right, page: b"",
    "cut": lambda right, page: right(_listed(page))[:-9],
    "another-root": lambda right, page: b"<ListAllMyBucketsResult></ListAllMyBucketsResult>",
    "the-token-before": lambda right, page: right(Listed(NAMES[page], "t1", is_truncated=True)),
    "the-names-before": lambda right, page: right(
        Listed(NAMES[0], _listed(page).token, _listed(page).is_truncated)
    ),
    "names-elsewhere": lambda right, page: right(Listed(["other/a.parquet"], None, is_truncated=False)),
    "no-token": lambda right, page: right(Listed(NAMES[page], None, is_truncated=True)),
}
"""What stands in the place of the second page. Only S3 and GCS say beside the token that more follows."""


class PageServer(ThreadingHTTPServer):
    """A server of a store's kind; the bucket, or the owner of a repository, says what is wrong.

    Args:
        kind: the scheme of the store's addresses.
        content: the bytes of each object.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, kind: str, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kind, self.content = kind, content
        self.asked: Counter[tuple[str, int]] = Counter()

    @property
    def options(self) -> dict[str, str]:
        """What reaches it."""
        endpoint = f"http://127.0.0.1:{self.server_port}"
        return {
            "s3": {"endpoint_url": endpoint, "region": "x", "skip_signature": "true"},
            "gs": {"base_url": endpoint, "skip_signature": "true"},
            "az": {"endpoint": f"{endpoint}/account", "account_name": "account", "skip_signature": "true"},
            "hf": {"endpoint": endpoint},
        }[self.kind]

    def address(self, wrong: str) -> str:
        """The directory of all objects."""
        return f"hf://datasets/{wrong}/name/data" if self.kind == "hf" else f"{self.kind}://{wrong}/data"

    def page(self, wrong: str, page: int) -> bytes:
        """The body of a page."""
        if wrong in TELLS:
            tag, time_end, _ = TELLS[wrong]
            body = _RIGHT[self.kind](_listed(page), len(self.content))
            return body.replace(_TAG.encode(), tag.encode()).replace(b".000Z", time_end.encode())
        self.asked[wrong, page] += 1
        right = lambda listed: _RIGHT[self.kind](listed, len(self.content))  # noqa: E731
        mends = {"mends": "an-error", "mends-html": "html"}.get(wrong)
        if page == 1 and mends is not None and self.asked[wrong, page] == 1:
            return WRONG[mends](right, page)
        return WRONG[wrong](right, page) if page == 1 and wrong in WRONG else right(_listed(page))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PageServer

    def do_HEAD(self) -> None:
        self._answer(404, {})

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = unquote(url.path).strip("/").split("/")
        kind = self.server.kind
        wrong = parts[{"s3": 0, "gs": 0, "az": 1, "hf": 2 if parts[0] == "api" else 1}[kind]]
        is_list = (parts[0] == "api") if kind == "hf" else ("list-type" in query or "comp" in query)
        if not is_list:
            self._object(wrong)
            return
        if query.get("recursive") == "false":
            self._answer(404, {"X-Error-Code": "EntryNotFound"})
            return
        below = query.get("prefix", "data/") if kind != "hf" else "/".join(parts[6:]) + "/"
        if below != "data/":
            self._answer(200, {}, _RIGHT[kind](Listed([], None, is_truncated=False), 0))
            return
        token = next(
            (query[name] for name in ("continuation-token", "marker", "cursor") if name in query), "t0"
        )
        page = int(token.removeprefix("t"))
        body = self.server.page(wrong, page)
        if wrong == "trickles" and page == 1:
            self._trickle(body)
            return
        self._answer(200, self._links(url.path, wrong, page), body)

    def _links(self, path: str, wrong: str, page: int) -> dict[str, str | None]:
        """What leads to the next page, where no body tells it."""
        token = _listed(page).token
        if page == 1:
            token = {"the-token-before": "t1", "names-elsewhere": None}.get(wrong, token)
        return {"Link": f'<{path}?recursive=true&cursor={token}>; rel="next"'} if token else {}

    def _object(self, wrong: str) -> None:
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = self.server.content[int(first) : int(last) + 1]
        covered = f"bytes {first}-{int(first) + len(part) - 1}/{len(self.server.content)}"
        tag = TELLS[wrong][2] if wrong in TELLS else '"1"'
        self._answer(206, {"Content-Range": covered, "ETag": tag}, part)

    def _trickle(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(1)

    def _answer(self, status: int, headers: dict[str, str | None], body: bytes = b"") -> None:
        self.send_response(status)
        own = {"ETag": '"1"', "Last-Modified": "Sat, 28 Nov 2026 12:00:00 GMT"}
        for name, value in {**own, **headers, "Content-Length": str(len(body))}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving_pages(kind: str, content: bytes) -> Iterator[PageServer]:
    """A server that runs inside of the block."""
    server = PageServer(kind, content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
