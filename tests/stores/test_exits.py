"""A process that ends, forks or closes a loader while reads are in flight: at once, as it should."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import fastresume as fr
from support.fault_proxy import proxied
from support.object_server import S3Server

SECONDS = 30
"""Nothing here waits so long, though the store does not answer for longer."""
LONG = 45

AMID_CREDENTIALS = """
import sys, threading, time
import fastresume as fr

called, amid = 0, threading.Event()

def credentials():
    global called
    called += 1
    if called > 10:
        print("amid", flush=True)
        amid.set()
        time.sleep(0.5)  # the interpreter ends meanwhile, and this thread with it
    return {"aws_access_key_id": "a", "aws_secret_access_key": "b"}

address, endpoint, how, threads = sys.argv[1:]
options = {"endpoint_url": endpoint, "region": "us-east-1"}
dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options, credentials=credentials)
loader = fr.Loader(dataset, threads=int(threads))
batches = iter(loader)
next(batches)
amid.wait()
if how == "raise":
    raise RuntimeError("mine")
sys.exit(int(how))
"""


@pytest.mark.parametrize(
    ("how", "threads", "code"),
    [
        pytest.param("0", 2, 0, marks=pytest.mark.slow),
        pytest.param("7", 0, 7, marks=pytest.mark.slow),
        ("raise", 2, 1),
    ],
)
def test_a_process_ends_as_it_would_amid_calls_of_credentials(
    server: S3Server, address: str, how: str, threads: int, code: int
) -> None:
    command = [sys.executable, "-c", AMID_CREDENTIALS, address, server.endpoint, how, str(threads)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "amid" in ended.stdout
    assert ended.returncode == code, ended.stderr
    said = ended.stderr.strip().splitlines()
    assert said == [] if how != "raise" else said[-1] == "RuntimeError: mine", ended.stderr


def test_a_loader_is_closed_amid_a_wait_at_once(server: S3Server, address: str) -> None:
    with proxied(server.port) as proxy:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        dataset = fr.ParquetDataset(address, batch_size=64, storage_options=options, read_bytes=1)
        loader = fr.Loader(dataset, threads=2)
        proxy.delay_seconds = LONG
        loader.start()
        assert proxy.is_delaying.wait(SECONDS)
        began = time.monotonic()
        loader.close()
        assert time.monotonic() - began < SECONDS


def test_an_iterator_goes_on_in_a_forked_child(server: S3Server, address: str) -> None:
    dataset = fr.ParquetDataset(address, batch_size=64, storage_options=server.options)
    batches = iter(dataset)
    got = next(batches)["id"].tolist()
    child = os.fork()
    if child == 0:
        rest = [row for batch in batches for row in batch["id"].tolist()]
        os._exit(0 if got + rest == list(range(5952)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    rest = [row for batch in batches for row in batch["id"].tolist()]
    assert got + rest == list(range(5952))
