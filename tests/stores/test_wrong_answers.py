"""A server that answers nonsense, or not at all: one clear error, and nobody waits for ever."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.web_server import Request, WebServer, serving_web

ROWS = 40_000


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """A file of some row groups, whose footer is not all that the first read of it brings."""
    path = tmp_path / "a.parquet"
    table = pa.table({"id": pa.array(range(ROWS))})
    pq.write_table(table, path, row_group_size=ROWS // 4, compression="none", use_dictionary=False)
    with serving_web(path.read_bytes()) as server:
        yield server


def _read(server: WebServer) -> list[int]:
    dataset = fr.ParquetDataset(server.address, batch_size=1000)
    return [row for batch in dataset for row in batch["id"].tolist()]


def _covered(request: Request, **differs: int) -> dict[str, str]:
    start, end = request.range
    found = {"first": start, "last": end - 1, "size": len(request.server.content), **differs}
    return {"Content-Range": f"bytes {found['first']}-{found['last']}/{found['size']}"}


def _no_range(request: Request) -> None:
    request.say(200, {}, request.server.content)


def _another_range(request: Request) -> None:
    start, end = request.range
    body = request.server.content[start - 1 : end - 1]
    request.say(206, _covered(request, first=start - 1, last=end - 2), body)


def _range_beyond_all_numbers(request: Request) -> None:
    request.say(206, _covered(request, last=2**64 - 1, size=2**64 - 1), b"x")


def _too_short(request: Request) -> None:
    start, end = request.range
    request.say(206, _covered(request), request.server.content[start : end - 7])


def _too_long(request: Request) -> None:
    start, end = request.range
    request.say(206, _covered(request), request.server.content[start:end] + b"more")


def _another_size(request: Request) -> None:
    start, end = request.range
    size = len(request.server.content) + 5
    request.say(206, _covered(request, size=size), request.server.content[start:end])


def _a_page_without_end(request: Request) -> None:
    request.say(403, {}, b"<html>" + b"long word " * 100_000)


@pytest.mark.parametrize(
    "answer",
    [
        _no_range,
        _another_range,
        _range_beyond_all_numbers,
        _too_short,
        _too_long,
        _another_size,
        _a_page_without_end,
    ],
)
@pytest.mark.parametrize("begins", ["at once", "after the footer"])
def test_a_wrong_answer_is_one_error_of_the_file(web: WebServer, answer: object, begins: str) -> None:
    assert _read(web) == list(range(ROWS))
    if begins == "at once":
        web.answers = answer  # type: ignore[assignment]
        with pytest.raises(fr.SourceError, match=web.address) as raised:
            _read(web)
    else:
        dataset = fr.ParquetDataset(web.address, batch_size=1000)
        web.answers = answer  # type: ignore[assignment]
        with pytest.raises(fr.SourceError, match=web.address) as raised:
            list(dataset)
    assert len(str(raised.value)) < 3000


def _pass(dataset: fr.ParquetDataset) -> None:
    list(dataset)


def _loader(dataset: fr.ParquetDataset) -> None:
    with fr.Loader(dataset) as loader:
        list(loader)


def _rows(dataset: fr.ParquetDataset) -> None:
    dataset.read_rows([ROWS // 2])


@pytest.mark.parametrize("reads", [_pass, _loader, _rows])
def test_ctrl_c_does_not_wait_for_a_server_that_does_not_answer(
    web: WebServer, reads: Callable[[fr.ParquetDataset], None]
) -> None:
    dataset = fr.ParquetDataset(web.address, batch_size=1000)
    web.goes_on.clear()
    ctrl_c = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    begun = time.monotonic()
    ctrl_c.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            reads(dataset)
    finally:
        ctrl_c.cancel()
    assert time.monotonic() - begun < 15, "a request that gets no answer takes 20 s"
    web.goes_on.set()
    assert [row for batch in dataset for row in batch["id"].tolist()] == list(range(ROWS))


def test_a_server_that_is_busy_is_given_the_time_that_it_asks_for(web: WebServer) -> None:
    asked: list[float] = []

    def busy(request: Request) -> None:
        asked.append(time.monotonic())
        web.answers = None
        request.say(429, {"Retry-After": "2"})

    web.answers = busy
    assert _read(web) == list(range(ROWS))
    assert time.monotonic() - asked[0] >= 2
