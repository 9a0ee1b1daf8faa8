"""A file of something else is told by what it looks like, with what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pytest
import torch

import fastresume as fr
from support.each_of import each_of
from support.refusals import open_dataset, refused, write

pytestmark = pytest.mark.law(11)

TABLE = pa.table({"row": range(1000), "word": ["é"] * 1000})


def stream_of(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)


def database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x int)")


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "a,b\n1,2\n")


def packed(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"), io.BytesIO())


def arrays(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, row=np.arange(99))


def array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.arange(99))


LOOKALIKES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "empty": ("an empty file", lambda path: path.write_bytes(b"")),
    "CSV": ("CSV text", lambda path: pyarrow.csv.write_csv(TABLE, path)),
    "CSV of one short line": ("CSV text", lambda path: path.write_text("a,b\n")),
    "CSV with tabs": ("CSV text", lambda path: path.write_text("row\thalf\n1\t2\n" * 99)),
    "CSV with semicolons": ("CSV text", lambda path: path.write_text("row;half\n1;2\n" * 99)),
    "text": ("text", lambda path: path.write_text("Once upon a time\n" * 99)),
    "JSON": ("JSON", lambda path: path.write_text(json.dumps([{"row": 1}] * 99))),
    "lines of JSON": ("JSON", lambda path: path.write_text('{"row": 1}\n' * 99)),
    "gzip": ("a gzip file", lambda path: path.write_bytes(gzip.compress(b"row\n1\n"))),
    "gzip of Parquet": (
        "a gzip file",
        lambda path: path.write_bytes(gzip.compress(write(path).read_bytes())),
    ),
    "zstd": ("a zstd file", lambda path: path.write_bytes(pa.compress(b"row" * 99, "zstd", asbytes=True))),
    "bzip2": ("a bzip2 file", lambda path: path.write_bytes(bz2.compress(b"row" * 99))),
    "xz": ("an xz file", lambda path: path.write_bytes(lzma.compress(b"row" * 99))),
    "LZ4": ("an LZ4 file", lambda path: path.write_bytes(pa.compress(b"row" * 99, "lz4", asbytes=True))),
    "zip": ("a zip file", zipped),
    "a file of torch": ("a file of torch.save", lambda path: torch.save({"row": 1}, path)),
    "arrays of numpy": ("a file of numpy.savez", arrays),
    "tar": ("a tar archive", packed),
    "numpy": ("an array of numpy", array),
    "pickle": ("a pickle", lambda path: path.write_bytes(pickle.dumps(list(range(99)), 4))),
    "Arrow": ("an Arrow IPC file", lambda path: pyarrow.feather.write_feather(TABLE, str(path))),
    "a stream of Arrow": ("a stream of Arrow IPC", stream_of),
    "Feather 1": (
        "a Feather file of version 1",
        lambda path: path.write_bytes(b"FEA1" + bytes(50) + b"FEA1"),
    ),
    "ORC": ("an ORC file", lambda path: pyarrow.orc.write_table(TABLE, str(path))),
    "Avro": ("an Avro file", lambda path: path.write_bytes(b"Obj\x01" + bytes(99))),
    "HDF5": ("an HDF5 file", lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99))),
    "SQLite": ("an SQLite database", database),
    "Git LFS": (
        "a pointer of Git LFS",
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"),
    ),
    "HTML": ("a page of HTML", lambda path: path.write_text("<!DOCTYPE html><p>403 Forbidden</p>")),
    "HTML in small letters": (
        "a page of HTML",
        lambda path: path.write_text("\n<!doctype html><title>Sign in</title>"),
    ),
    "zeros": ("zeros", lambda path: path.write_bytes(bytes(4096))),
    "a cut": ("Parquet whose end is missing", lambda path: path.write_bytes(write(path).read_bytes()[:-50])),
}


@each_of("kind", LOOKALIKES)
def test_a_file_of_something_else_is_told_by_what_it_looks_like(path: Path, kind: str) -> None:
    looks, make = LOOKALIKES[kind]
    make(path)
    with refused(fr.DataError, f"it looks like {looks}", ": ", path):
        open_dataset(path)


def test_bytes_of_no_known_kind_are_not_guessed(path: Path) -> None:
    path.write_bytes(bytes(range(1, 100)))
    with pytest.raises(fr.DataError, match="expected PAR1") as caught:
        open_dataset(path)
    assert "looks like" not in str(caught.value)
