"""Serves the folders in a directory as buckets, by as much of S3's protocol as readers ask for.

    python benches/object_server.py DIRECTORY LATENCY_MS

It prints its address, and runs until it is killed. It looks at no signature.
"""

from __future__ import annotations

import asyncio
import bisect
import email.utils
import functools
import itertools
import os
import sys
import urllib.parse
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

PAGE_KEYS = 1000


class Objects:
    """The objects of a server.

    Args:
        directory: its folders are the buckets.
        latency_seconds: how long each answer waits.
    """

    def __init__(self, directory: Path, latency_seconds: float) -> None:
        self._directory = directory
        self._latency_seconds = latency_seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection, one after another."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {
                    name.lower(): value.strip() for name, _, value in (one.partition(":") for one in head[1:])
                }
                await asyncio.sleep(self._latency_seconds)
                address = urllib.parse.urlsplit(target)
                query = urllib.parse.parse_qs(address.query)
                if "list-type" in query:
                    self._list(writer, address.path.strip("/"), query)
                else:
                    await self._give(writer, method, urllib.parse.unquote(address.path), headers.get("range"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _give(self, writer: asyncio.StreamWriter, method: str, path: str, asked: str | None) -> None:
        file = self._directory / path.strip("/")
        if not file.is_file():
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        status = file.stat()
        first, end, kind = 0, status.st_size, "200 OK"
        lines = [f"ETag: {_tag(status.st_mtime_ns, status.st_size)}", "Accept-Ranges: bytes"]
        if asked is not None:
            begin, _, last = asked.removeprefix("bytes=").partition("-")
            if not begin:
                first = max(0, end - int(last))
            else:
                first, end = int(begin), min(end, int(last) + 1) if last else end
            kind = "206 Partial Content"
            lines.append(f"Content-Range: bytes {first}-{end - 1}/{status.st_size}")
        lines += [
            f"Content-Length: {end - first}",
            "Content-Type: application/octet-stream",
            f"Last-Modified: {email.utils.formatdate(status.st_mtime, usegmt=True)}",
        ]
        writer.write("\r\n".join([f"HTTP/1.1 {kind}", *lines, "", ""]).encode())
        if method != "HEAD":
            await writer.drain()
            with file.open("rb") as opened:
                await asyncio.get_running_loop().sendfile(writer.transport, opened, first, end - first)

    def _list(self, writer: asyncio.StreamWriter, bucket: str, query: dict[str, list[str]]) -> None:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        after = max(after, query.get("start-after", [""])[0])
        listed = _listed(self._directory / bucket)
        keys = list(listed)
        first = max(bisect.bisect_right(keys, after), bisect.bisect_left(keys, prefix))
        following = keys[first : first + PAGE_KEYS + 1]
        keys = list(itertools.takewhile(lambda key: key.startswith(prefix), following))
        more = len(keys) > PAGE_KEYS
        contents = [listed[key] for key in keys[:PAGE_KEYS]]
        token = (
            f"<NextContinuationToken>{escape(keys[PAGE_KEYS - 1])}</NextContinuationToken>" if more else ""
        )
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(contents)}</ListBucketResult>"
        ).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)


@functools.cache
def _listed(bucket: Path) -> dict[str, str]:
    """What a listing tells of each object of a bucket, by their keys in order."""
    paths = {path.relative_to(bucket).as_posix(): path for path in bucket.rglob("*") if path.is_file()}
    return {key: _listed(key, paths[key].stat()) for key in sorted(paths)}


def _listed(key: str, status: os.stat_result) -> str:
    changed = datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{status.st_size}</Size>"
        f"<ETag>{escape(_tag(status.st_mtime_ns, status.st_size))}</ETag>"
        f"<LastModified>{changed}</LastModified></Contents>"
    )


def _tag(mtime_ns: int, size: int) -> str:
    return f'"{mtime_ns:x}-{size:x}"'


async def main(directory: Path, latency_ms: int) -> None:
    objects = Objects(directory, latency_ms / 1000)
    # A store has its lists ready: the first one that is asked for takes no longer than others.
    for bucket in directory.iterdir():
        _listed(bucket)
    server = await asyncio.start_server(objects.serve, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
