"""The snapshots of Delta tables, as the package `deltalake` reads them."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.options.checks import is_address, quoted
from fastresume.packages import optional
from fastresume.tables import delta_log, lost_commits
from fastresume.tables.failures import fail
from fastresume.tables.snapshot import (
    FileValue,
    Snapshot,
    SnapshotName,
    TableColumn,
    file_value,
    of_readers,
    plain_address,
)

MAPPING = "delta.columnMapping."

TYPES = {
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "date": "date[day]",
    "timestamp": "timestamp[us, UTC]",
    "timestamp_ntz": "timestamp[us]",
}
"""What plain values are called here; others by their own names."""

FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""What a table may ask of its readers."""

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
"""Where the environment says that a store's server is."""

UNPARSED = {"binary"}
"""Types that writers write as text into logs, each in its own way."""

OLD_DATES = '"fromType":"date"'
"""Marks schemas whose columns were widened from days, which are no numbers of microseconds."""


def open_delta(table: object, version: int | None, storage_options: Mapping[str, str] | None) -> Snapshot:
    """A snapshot of a table.

    Args:
        table: its path or address, or a `deltalake.DeltaTable`.
        version: its number; the latest one, or that of the object, if None.
        storage_options: how its store is reached.

    Raises:
        ModuleNotFoundError: if `deltalake` is not installed.
        ValueError: if it is on the hub.
        SourceError: if there is no such table or version.
        DataError: if the table has what can't be read exactly.
    """
    deltalake = optional("deltalake", "delta://", "'fastresume[delta]'")
    given = table if isinstance(table, deltalake.DeltaTable) else None
    own: dict[str, str] = dict(getattr(given, "_storage_options", None) or {})
    named = {name.lower() for name in storage_options or {}}
    options = {name: value for name, value in own.items() if name.lower() not in named}
    options |= storage_options or {}
    root = str(table) if given is None else plain_address(unquote(given.table_uri))
    if root.startswith("hf://"):
        raise ValueError(
            f"the Delta table '{root}' is not read from the hub: copy it with "
            "huggingface_hub.snapshot_download(...), and write 'delta://' before the copy's path"
        )
    if not root.removeprefix("file://"):
        raise ValueError("'delta://' names no table: write 'delta://' before the table's path or address")
    root = _local(root)
    number = given.version() if given is not None and version is None else version
    what = f"can't read the Delta table '{root}'"
    if not is_address(root) and not (Path(root) / "_delta_log").is_dir():
        what += ": it has no directory '_delta_log' (files of no table are named without 'delta://'"
        table_path = re.match(r"(.+?)(\?|@\d+$)", root)
        what += "" if table_path is None else f"; a version is named as 'delta://{table_path[1]}?version=12'"
        what += ")"
    open_at = partial(deltalake.DeltaTable, root, storage_options=_of_deltalake(root, options) or None)
    try:
        contents = _contents(root, options)
        log = None if number is None else delta_log.DeltaLog(contents, number)
        if number is not None and log is not None and log.is_empty:
            # For a version that is far from there, deltalake itself would look for hours.
            latest = open_at().version()
            if latest < number:
                raise _core.SourceError(f"{what}: it has no version {number}, its latest is {latest}")
            what += f": its log reaches back to version {number} no more, its latest is {latest}"
        # Made each time, since what is given belongs to who gives it.
        opened = open_at(version=number)
        log = log or delta_log.DeltaLog(contents, opened.version())
        return _snapshot(opened, root, log, own if given is not None else None)
    except (_core.SourceError, _core.DataError, ImportError):
        raise
    except Exception as cause:  # noqa: BLE001  (stores and damaged logs have errors of their own)
        fail(what, cause)


def _snapshot(table: Any, root: str, log: delta_log.DeltaLog, own: dict[str, str] | None) -> Snapshot:
    features = set(map(str, table.protocol().reader_features or ()))
    asked = features - FEATURES
    if asked:
        raise _core.DataError(
            f"the Delta table '{root}' asks its readers for {', '.join(sorted(asked))}, which "
            "is not supported yet"
        )
    schema = table.schema().to_json()
    if OLD_DATES in schema:
        raise _core.DataError(
            f"the Delta table '{root}' has made times of dates, while its old files hold days: rewrite "
            "them by ALTER TABLE ... DROP FEATURE 'typeWidening', or "
            "name a version before that, as '?version=12' at the end of its address"
        )
    fields = json.loads(schema)["fields"]
    mode = table.metadata().configuration.get(f"{MAPPING}mode", "none")
    if mode not in ("none", "name"):
        raise _core.DataError(
            f"the Delta table '{root}' maps its columns by {quoted(mode)}, and only 'name' is supported yet: "
            "a table that is rewritten without delta.columnMapping.mode, is read"
        )
    partitions = set(table.metadata().partition_columns)
    columns = [found for field in fields for found in _columns(field, mode, partitions)]
    actions = table.get_add_actions(flatten=False)
    paths = actions.column("path").to_pylist()
    times = actions.column("modification_time").to_pylist()

    dated = zip(paths, times, strict=True)
    lost = [(path, time) for path, time in dated if path not in log.added_by]
    orders = []
    for in_order in lost_commits.orders(lost) if lost else [[]]:
        # What was added by commits that the log has no more is first.
        places = {path: place - len(lost) for place, path in enumerate(in_order)}
        ranks = [(places.get(path, log.added_by.get(path, 0)), path) for path in paths]
        orders.append(sorted(range(len(paths)), key=ranks.__getitem__))
    order, others = orders[0], orders[1:]
    place_of = {number: place for place, number in enumerate(order)}
    lost_before = f"its log reaches back to commit {log.first} alone"
    files = [_file(root, paths[number]) for number in order]
    partition_values: list[Mapping[str, Any]] = [{}] * len(paths)
    if partitions:
        partition_values = actions.column("partition").to_pylist()
    parts = [field for field in fields if field["name"] in partitions]
    physical = {_physical(field, mode): field["name"] for field in parts}
    types = {field["name"]: _type_of_partition(field["type"]) for field in parts}
    return Snapshot(
        SnapshotName(
            "Delta", root, table.version(), log.rewritten_by, log.before, lost_before if lost else None
        ),
        files,
        columns,
        [_values(partition_values[number], physical, types) for number in order],
        # Asked where there may be none, deltalake refuses features that say nothing of them.
        _deleted(table, [paths[number] for number in order]) if "deletionVectors" in features else {},
        own,
        other_orders=[[place_of[number] for number in other] for other in others],
    )


def _local(root: str) -> str:
    """The path of a local table, or the address of another."""
    if root.startswith("file://"):
        root = unquote(root.removeprefix("file://"))
    return root.rstrip("/") if is_address(root) else str(Path(root).expanduser().absolute())


def _contents(root: str, options: Mapping[str, str]) -> delta_log.Contents:
    if not is_address(root):
        return delta_log.local(root)
    return delta_log.stored(root, _core.Stores(of_readers(options)))


def _of_deltalake(root: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options for deltalake, which takes http:// for a mistake unless an option allows it."""
    if not is_address(root):
        return dict(options)
    names = {name.lower() for name in options}
    # What it does not read itself.
    of_s3 = os.environ.get("AWS_ENDPOINT_URL_S3")
    if of_s3 and root.startswith("s3") and not any("endpoint" in name for name in names):
        options = {**options, "aws_endpoint_url": of_s3}
    of_environment = [os.environ.get(name, "") for name in ENDPOINTS]
    is_plain = any(value.startswith("http://") for value in [*options.values(), *of_environment])
    named = any(name.endswith("allow_http") for name in names)
    return {**options, "allow_http": "true"} if is_plain and not named else dict(options)


def _file(root: str, path: str) -> str:
    """The path or address of a file for which the log has a URI."""
    found = plain_address(unquote(path))
    return found if found.startswith("/") or re.match("[a-z0-9+.-]+://", found) else f"{root}/{found}"


def _physical(field: Mapping[str, Any], mode: str) -> str:
    """What a field is called in files."""
    named = (
        field["name"] if mode == "none" else field["metadata"].get(f"{MAPPING}physicalName", field["name"])
    )
    return str(named)


def _columns(field: Mapping[str, Any], mode: str, partitions: set[str]) -> Iterator[TableColumn]:
    name, physical = field["name"], _physical(field, mode)
    if name in partitions:
        yield TableColumn(name, type_name=_type_of_partition(field["type"]))
    else:
        yield from _below(field["type"], TableColumn(name, names_in_files=(physical,)), mode)


def _type_of(kind: str) -> str:
    return TYPES.get(kind, re.sub(r"^decimal\((\d+), *(\d+)\)$", r"decimal(\1, \2)", kind))


def _type_of_partition(kind: str) -> str:
    return f"{kind} of partitions" if kind in UNPARSED else _type_of(kind)


def _below(kind: Any, of: TableColumn, mode: str) -> Iterator[TableColumn]:
    """The columns of a type."""
    (physical,) = of.names_in_files
    if isinstance(kind, str):
        yield replace(of, type_name=_type_of(kind))
    elif kind["type"] == "struct":
        yield replace(of, is_struct=True)
        for member in kind["fields"]:
            name, own = f"{of.name}.{member['name']}", f"{physical}.{_physical(member, mode)}"
            inner = replace(of, name=name, names_in_files=(own,), structs=(*of.structs, of.name))
            yield from _below(member["type"], inner, mode)
    elif kind["type"] == "array":
        yield from _below(kind["elementType"], replace(of, lists=of.lists + 1), mode)
    else:
        for part in ("key", "value"):
            name, own = f"{of.name}.{part}", f"{physical}.{part}"
            inner = replace(of, name=name, names_in_files=(own,), lists=of.lists + 1)
            yield from _below(kind[f"{part}Type"], inner, mode)


def _values(
    values: Mapping[str, Any], physical: Mapping[str, str], types: Mapping[str, str]
) -> dict[str, FileValue]:
    """The values of partition columns, as columns of files have them."""
    names = set(physical.values())
    named = ((physical.get(name, name), value) for name, value in values.items())
    return {name: file_value(value, types[name]) for name, value in named if name in names}


def _deleted(table: Any, paths: list[str]) -> dict[int, npt.NDArray[np.int64]]:
    """The deleted rows of files, by the places of their paths in the log."""
    # As deltalake calls the table, which is not what it was called: it follows links, and drops `..`.
    root = plain_address(unquote(table.table_uri)).rstrip("/")
    places = {_file(root, path): place for place, path in enumerate(paths)}
    arro3 = importlib.import_module("arro3.core")  # which deltalake takes, too
    found = {}
    for batch in table.deletion_vectors():
        kept = batch.column("selection_vector")
        marks, ends = arro3.list_flatten(kept).to_numpy(), arro3.list_offsets(kept).to_numpy()
        for row, uri in enumerate(batch.column("filepath").to_pylist()):
            place = places.get(plain_address(unquote(uri)))
            if place is None:
                raise _core.DataError(
                    f"a deletion vector is of the file '{uri}', which the table does not have"
                )
            found[place] = np.flatnonzero(~marks[ends[row] : ends[row + 1]])
    return found
