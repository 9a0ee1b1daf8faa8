"""A real S3 server on loopback, for tests."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3

OPTIONS = {
    "aws_access_key_id": "testing",
    "aws_secret_access_key": "testing",
    "region": "us-east-1",
}
"""Options of every store here, but for the address of the server."""


class S3Server:
    """A server with buckets in memory; `options` reach it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.options = {**OPTIONS, "endpoint_url": self.endpoint}
        self._client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=OPTIONS["region"],
            aws_access_key_id=OPTIONS["aws_access_key_id"],
            aws_secret_access_key=OPTIONS["aws_secret_access_key"],
        )

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Puts an object; the bucket is made where there is none."""
        self._client.create_bucket(Bucket=bucket)
        self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object."""
        self._client.delete_object(Bucket=bucket, Key=key)

    def get(self, bucket: str, key: str) -> bytes:
        """The bytes of an object."""
        content: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def put_tree(self, bucket: str, directory: Path, prefix: str = "") -> str:
        """Puts all files below a directory; gives the address of the tree."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.put(bucket, f"{prefix}{path.relative_to(directory)}", path.read_bytes())
        return f"s3://{bucket}/{prefix}".rstrip("/")


def serving() -> Iterator[S3Server]:
    """A server that runs until the generator is closed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert server.poll() is None, "the server did not start"
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield S3Server(port)
    finally:
        server.kill()
        server.wait()
