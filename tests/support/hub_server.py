"""A server that answers as the Hugging Face hub does, and another one where its large files lie."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_right"  # noqa: S105  (of a server of ours)
PAGE = 3
"""So many entries of a tree are in one answer."""


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Hub:
    """Repositories in memory, by name and revision, each a dict of paths and bytes.

    Attributes:
        large_bytes: files of so many bytes and more lie elsewhere.
        expires_after: a signed address is good for so many requests.
        asked: what was asked: "tree", "resolve" or "content", each with a path.
        leaks: requests with a token that came to where large files lie.
        links_to: which hub the links are of: mirrors pass on those of the hub itself.
        tells_tags: whether an answer that leads elsewhere has the tag of what is there.
    """

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], dict[str, bytes]] = {}
        self.is_private = False
        self.large_bytes = 0
        self.expires_after = 1 << 60
        self.tells_tags = True
        self.faults: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.leaks = 0
        self._signatures = itertools.count()
        self._uses: dict[str, int] = {}
        self._hub = _Server(self, _HubHandler)
        self._elsewhere = _Server(self, _ContentHandler)
        self.links_to = self.endpoint

    @property
    def endpoint(self) -> str:
        """The address of the hub."""
        return f"http://127.0.0.1:{self._hub.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """What reaches it."""
        return {"endpoint": self.endpoint, "token": TOKEN}

    def put_tree(self, name: str, directory: Path, prefix: str = "", revision: str = "main") -> str:
        """Puts all files below a directory; gives the address of the tree."""
        files = self.repositories.setdefault((name, revision), {})
        for path in directory.rglob("*"):
            if path.is_file():
                files[f"{prefix}{path.relative_to(directory)}"] = path.read_bytes()
        return f"hf://datasets/{name}/{prefix}".rstrip("/")

    def signed(self, content: bytes) -> str:
        """A new address of what lies elsewhere."""
        signature = f"secret-signature-{next(self._signatures)}"
        self._uses[signature] = 0
        return f"http://127.0.0.1:{self._elsewhere.server_port}/{_hash(content)}?signature={signature}"

    def content(self, hashed: str, signature: str) -> bytes | None:
        """What lies at a signed address, unless it has expired."""
        self._uses[signature] = self._uses.get(signature, self.expires_after) + 1
        if self._uses[signature] > self.expires_after:
            return None
        every = (content for files in self.repositories.values() for content in files.values())
        return next((content for content in every if _hash(content) == hashed), None)

    def close(self) -> None:
        self._hub.close()
        self._elsewhere.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: Hub, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.hub = hub
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_range(self, content: bytes, tag: str) -> None:
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        covered = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self.answer(206, {"Content-Range": covered, "ETag": f'"{tag}"'}, part)

    def log_message(self, *_: object) -> None:
        pass


class _HubHandler(_Handler):
    def do_GET(self) -> None:
        hub = self.server.hub
        if hub.faults:
            self.answer(hub.faults.pop(), {"Retry-After": "0"})
            return
        if hub.is_private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return
        url = urlsplit(self.path)
        parts = url.path.lstrip("/").split("/")
        kind = "tree" if parts[0] == "api" else "resolve"
        if kind == "tree":
            parts = parts[1:]
        repository, action, revision = "/".join(parts[1:3]), parts[3], unquote(parts[4])
        path = unquote("/".join(parts[5:]))
        assert (parts[0], action) == ("datasets", kind)
        hub.asked.append((kind, path))
        files = hub.repositories.get((repository, revision))
        if files is None:
            self.answer(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        elif kind == "tree":
            self._tree(files, path, parse_qs(url.query))
        elif path not in files:
            self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            self._resolve(files[path])

    def _tree(self, files: dict[str, bytes], path: str, query: dict[str, list[str]]) -> None:
        inside = {name: files[name] for name in sorted(files) if not path or name.startswith(f"{path}/")}
        if not inside:
            self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
            return
        entries: dict[str, dict[str, object]] = {}
        for name, content in inside.items():
            start = len(path) + 1 if path else 0
            directories = [name[:at] for at in range(start, len(name)) if name[at] == "/"]
            for directory in directories:
                entries[directory] = {"type": "directory", "oid": "0", "size": 0, "path": directory}
            if not directories or query["recursive"] == ["true"]:
                entry: dict[str, object] = {"type": "file", "size": len(content), "path": name}
                is_large = len(content) >= self.server.hub.large_bytes
                entry["oid"] = f"git-{_hash(content)}"
                if is_large:
                    entry["lfs"] = {"oid": _hash(content), "size": len(content), "pointerSize": 134}
                entries[name] = entry
        if query["recursive"] != ["true"]:
            entries = {name: entry for name, entry in entries.items() if "/" not in name[len(path) + 1 :]}
        first = int(query.get("cursor", ["0"])[0])
        every = list(entries.values())
        headers = {}
        if len(every) > first + PAGE:
            place = urlsplit(self.path).path
            more = f"recursive={query['recursive'][0]}&cursor={first + PAGE}"
            headers["Link"] = f'<{self.server.hub.links_to}{place}?{more}>; rel="next"'
        self.answer(200, headers, json.dumps(every[first : first + PAGE]).encode())

    def _resolve(self, content: bytes) -> None:
        hub = self.server.hub
        if len(content) < hub.large_bytes:
            self.answer_range(content, f"git-{_hash(content)}")
            return
        headers = {"Location": hub.signed(content)}
        if hub.tells_tags:
            headers |= {"X-Linked-ETag": f'"{_hash(content)}"', "X-Linked-Size": str(len(content))}
        self.answer(302, headers)


class _ContentHandler(_Handler):
    def do_GET(self) -> None:
        hub, url = self.server.hub, urlsplit(self.path)
        hashed = url.path.lstrip("/")
        hub.asked.append(("content", hashed))
        hub.leaks += "Authorization" in self.headers
        content = hub.content(hashed, parse_qs(url.query)["signature"][0])
        if content is None:
            self.answer(403, {}, b"<Error>Request has expired</Error>")
        else:
            self.answer_range(content, f"of-another-kind-{quote(hashed)}")


@contextlib.contextmanager
def serving_hub() -> Iterator[Hub]:
    """A hub that runs inside of the block."""
    hub = Hub()
    try:
        yield hub
    finally:
        hub.close()
