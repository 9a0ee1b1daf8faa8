"""Delta tables: what `deltalake` writes, and commits that only other writers make."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyroaring
from deltalake import DeltaTable, write_deltalake

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def append(root: Path, table: pa.Table, **options: Any) -> None:
    write_deltalake(str(root), table, mode="append", **options)


def commit(root: Path, actions: Iterable[dict[str, Any]]) -> None:
    """Write the next commit of a table's log by hand."""
    log = root / "_delta_log"
    version = len(list(log.glob("*.json")))
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def adds(root: Path, version: int) -> list[dict[str, Any]]:
    lines = (root / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def delete_rows(root: Path, add: dict[str, Any], rows: list[int]) -> None:
    """Delete rows of a file by a deletion vector inside of the log, as Spark does."""
    bits = struct.pack("<IQI", 1681511377, 1, 0) + pyroaring.BitMap(rows).serialize()
    vector = {
        "storageType": "i",
        "pathOrInlineDv": in_z85(bits),
        "sizeInBytes": len(bits),
        "cardinality": len(rows),
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    commit(
        root,
        [
            {"commitInfo": {"operation": "DELETE", "timestamp": 1}},
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
            {"add": {**add, "deletionVector": vector}},
        ],
    )


def in_z85(content: bytes) -> str:
    content += b"\0" * (-len(content) % 4)
    digits = []
    for at in range(0, len(content), 4):
        number = int.from_bytes(content[at : at + 4], "big")
        digits += [DIGITS[number // 85**power % 85] for power in range(4, -1, -1)]
    return "".join(digits)


def told_by_deltalake(root: Path, names: list[str], **options: Any) -> list[dict[str, Any]]:
    """The rows that `deltalake` itself reads."""
    return DeltaTable(str(root), **options).to_pyarrow_table(columns=names).to_pylist()
