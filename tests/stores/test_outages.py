"""A store that is away is waited for, by time and not by tries; what can't get better ends soon."""

from __future__ import annotations

import datetime as dt
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import fastresume as fr
from support.fault_proxy import Proxy, proxied
from support.object_server import S3Server
from support.web_server import Request, WebServer, serving_web


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet")
    with serving_web((tmp_path / "a.parquet").read_bytes()) as server:
        yield server


def _with_tls(server: WebServer, directory: Path) -> None:
    """Has a server speak TLS, with a certificate that nobody knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - dt.timedelta(days=1))
    signed = made.not_valid_after(now + dt.timedelta(days=1)).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "both.pem").write_bytes(pem + signed.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "both.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        ("unknown CA", "certificate"),
        ("http on a port of TLS", "the server speaks TLS there: write https://"),
        ("https on a port without", "the server speaks no TLS there: write http://"),
        ("redirects in a circle", "redirect"),
        ("403", "403"),
        ("nobody of that name", "the host 'nobody.invalid' has no address: check its name"),
    ],
)
def test_what_can_not_get_better_ends_within_seconds(
    web: WebServer, tmp_path: Path, why: str, hint: str
) -> None:
    address = web.address
    if "TLS" in why or "CA" in why:
        _with_tls(web, tmp_path)
    if why in ("unknown CA", "https on a port without"):
        address = address.replace("http://", "https://")
    if "nobody" in why:
        address = "http://nobody.invalid/a.parquet"
    if "redirects" in why:
        web.heads = lambda request: request.say(302, {"Location": web.address})
    if why == "403":
        web.heads = lambda request: request.say(403, {})
    web.answers = web.heads
    begun = time.monotonic()
    with pytest.raises(fr.SourceError, match=hint) as raised:
        fr.ParquetDataset(address, batch_size=10)
    # An outage is waited for twice as long: the rest is for a machine that does much besides.
    assert time.monotonic() - begun < 60, "it is asked for a few times at most"
    assert len(str(raised.value)) < 3000


def _away(proxy: Proxy, kind: str, seconds: float) -> None:
    """Has every request fail from the next one on, for so long."""
    begun: list[float] = []

    def fault() -> str | None:
        begun.append(time.monotonic())
        return kind if begun[-1] - begun[0] < seconds else None

    proxy.fault = fault  # type: ignore[method-assign]


@pytest.mark.parametrize("seconds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_every_kind_of_request_survives_an_outage(
    server: S3Server, tree: Path, address: str, seconds: float
) -> None:
    expected = [row for batch in fr.ParquetDataset(tree, batch_size=64) for row in batch["id"].tolist()]

    def passed(case: tuple[str, str]) -> None:
        kind, when = case
        with proxied(server.port) as proxy:
            options = {**server.options, "endpoint_url": proxy.endpoint}
            if when != "read":
                _away(proxy, kind, seconds)
            path = f"{address}/day=0/part-0.parquet" if when == "head" else address
            dataset = fr.ParquetDataset(path, batch_size=64, storage_options=options)
            if when == "read":
                _away(proxy, kind, seconds)
            got = [row for batch in dataset for row in batch["id"].tolist()]
            assert got == expected[: len(got)]
            assert len(got) == (len(expected) if when != "head" else 960)
            assert proxy.injected[kind] > 0

    cases = [(kind, when) for kind in ("503", "reset") for when in ("list", "head", "read")]
    with ThreadPoolExecutor(len(cases)) as threads:
        list(threads.map(passed, cases))


def _busy_until(web: WebServer, seconds: int) -> float:
    """Answers once that it is busy for so long, by a date; gives when it was asked."""
    asked: list[float] = []

    def busy(request: Request) -> None:
        asked.append(time.monotonic())
        web.answers = None
        now = dt.datetime.now(dt.UTC)
        until = now + dt.timedelta(seconds=seconds)
        dates = {"Retry-After": until, "Date": now}
        request.say(503, {name: f"{date:%a, %d %b %Y %H:%M:%S GMT}" for name, date in dates.items()})

    web.answers = busy
    assert [row for batch in fr.ParquetDataset(web.address, batch_size=10) for row in batch["id"].tolist()]
    return asked[0]


def test_a_busy_server_may_name_a_date(web: WebServer) -> None:
    asked = _busy_until(web, 2)
    assert time.monotonic() - asked >= 2


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "RequestTimeout"), (403, "RequestTimeTooSkewed"), (425, ""), (400, "ExpiredToken"), (401, "")],
)
def test_faults_of_the_moment_have_many_names(web: WebServer, status: int, code: str) -> None:
    asked: list[int] = []

    def fault(request: Request) -> None:
        asked.append(status)
        web.answers = None
        request.say(status, {}, f"<Error><Code>{code}</Code></Error>".encode())

    web.answers = fault
    dataset = fr.ParquetDataset(web.address, batch_size=10)
    assert sum(batch.num_rows for batch in dataset) == 100
    assert asked == [status]
    assert dataset._spec.manifest.stores.counts().retries == 1


def test_an_answer_that_breaks_off_goes_on_where_it_did(tmp_path: Path) -> None:
    table = pa.table({"id": range(400_000)})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    with serving_web((tmp_path / "a.parquet").read_bytes()) as web:
        sizes: list[int] = []

        def cut(request: Request) -> None:
            start, end = request.range
            sizes.append(end - start)
            covered = f"bytes {start}-{end - 1}/{len(web.content)}"
            headers = {"Content-Range": covered, "Content-Length": str(end - start)}
            request.say(206, headers, web.content[start : min(end, start + 500_000)])
            request.close_connection = True

        dataset = fr.ParquetDataset(web.address, batch_size=10_000)
        web.answers = cut
        assert [row for batch in dataset for row in batch["id"].tolist()] == list(range(400_000))
        assert sum(sizes) < 4 * len(web.content), "no byte that came is asked for again"
        assert dataset._spec.manifest.stores.counts().retries >= len(web.content) // 500_000 - 1, (
            "the footer's rest is no part of the first read"
        )
