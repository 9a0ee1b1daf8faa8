"""Addresses of web servers that give no Parquet: the error says what was found, and what to write instead."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of
from support.web_server import Request, serving_web

PAGE = "<!doctype html><title>Sign in</title>" + "<p>Sign in to read this.</p>" * 100


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """The server of `python -m http.server`."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[str]:
    """The address of a server of whole files: a Parquet file, a directory and a page."""
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "d" / "a.parquet")
    (tmp_path / "page.html").write_text(PAGE)
    handler = functools.partial(_Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _refused(address: str, kind: type[Exception]) -> str:
    with pytest.raises(kind, match=re.escape(address)) as raised:
        list(fr.ParquetDataset(address, batch_size=10))
    assert len(str(raised.value)) < 500, raised.value
    return str(raised.value)


FOUND = {
    "a file": ("/d/a.parquet", "it knows no Range requests", "such as nginx, or download the files"),
    "a directory": ("/d/", "a page of HTML was given for a directory", "name each file"),
    "a directory without its slash": ("/d", "it may be a login, an error or a directory", "name the file"),
    "no path": ("", "a web server lists no directories", "name each file"),
    "a page": ("/page.html", "a page of HTML was given", "open the address in a browser"),
    "no file": ("/d/b.parquet", "the server has no such file", "name each file"),
}


@each_of("what", FOUND)
def test_a_server_of_whole_files_is_told_by_what_it_gives(plain: str, what: str) -> None:
    path, found, instead = FOUND[what]
    message = _refused(plain + path, fr.SourceError)
    assert found in message
    assert instead in message
    assert "Generic" not in message


def test_a_page_that_is_served_in_parts_is_no_file() -> None:
    def login(request: Request) -> None:
        kind = {"Content-Type": "text/html; charset=utf-8"}
        if request.command == "HEAD":
            request.say(200, {**kind, "Content-Length": str(len(PAGE))})
            return
        start, end = request.range[0], min(request.range[1], len(PAGE))
        covered = f"bytes {start}-{end - 1}/{len(PAGE)}"
        request.say(206, {**kind, "Content-Range": covered}, PAGE.encode()[start:end])

    with serving_web(b"") as server:
        server.heads = server.answers = login
        message = _refused(server.address, fr.DataError)
    assert "it looks like a page of HTML: a login or an error came instead of the file" in message
