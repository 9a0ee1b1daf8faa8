"""The run of `fastresume inspect`: what files hold, where they differ, and the Python that reads them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fastresume._core as _core
from fastresume.amounts import in_units, plural
from fastresume.columns.column import Column, col
from fastresume.columns.request import Entry, column_request, index_in
from fastresume.commands.opening import open_manifest
from fastresume.sources.ipc_files import names_arrow

FINE, UNUSABLE = 0, 2

_CASTS = {"floats": "float64", "integers": "int64"}
"""The casts that errors advise, by their remedies."""

BATCH_SIZE = 512
"""The rows of a batch, where files have that many."""


@dataclass(frozen=True)
class _ShownTensor:
    """What is shown of a tensor: its column's type in the files, its dtype, rows, unit and nulls."""

    name: str
    type: str | None
    dtype: str
    kind: str
    shape: list[int]
    unit: str | None
    nulls: int | None
    expression: str | None


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if the files can be read, 2 if not."""
    try:
        found = inspected(given.path, given.batch_size)
    except (_core.FastresumeError, ValueError, ImportError) as cause:
        sys.stderr.write(f"fastresume inspect: {cause}\n")
        return UNUSABLE
    text = json.dumps(found, indent=2) + "\n" if given.json else shown(found)
    sys.stdout.write(text.encode(errors="backslashreplace").decode())
    return FINE


def inspected(paths: Sequence[str], batch_size: int | None) -> dict[str, Any]:
    """What the files of some paths hold, by name.

    Without a number, a batch is of 512 rows, or of all where these are fewer.

    Raises:
        DataError, SourceError: if one of them can't be read.
        ImportError: if it is a table, and the package that reads it is not installed.
    """
    manifest = open_manifest(paths)
    if batch_size is None:
        batch_size = max(1, min(BATCH_SIZE, manifest.num_selected))
    entries, drift = _columns(manifest)
    if not entries:
        raise ValueError("\n".join(["no column can be delivered:", *drift] if drift else ["no columns"]))
    masked = column_request(entries, "mask").layout(manifest)
    units = {field.name: field.unit for field in masked.fields}
    counted = {field.name: field.null_count for field in masked.fields}
    nulls = {field.name: counted[field.name] for field in masked.fields if field.kind != "mask"}
    entries = [_with_nulls(entry, nulls) for entry in entries]
    entries = [_in_floats(entry, masked.fields) for entry in entries]
    layout = column_request(entries, "error").layout(manifest)
    types = dict(zip(manifest.column_names, manifest.column_types, strict=True))
    tensors = [
        _ShownTensor(
            field.name,
            types.get(field.name),
            field.dtype,
            field.kind,
            list(field.shape),
            units.get(field.name),
            counted.get(field.name),
            field.expression,
        )
        for field in layout.fields
        if field.kind != "mask"
    ]
    call = _call(paths, batch_size, entries, len(manifest.column_names))
    return {
        "files": len(manifest.files),
        "row_groups": manifest.num_row_groups,
        "rows": manifest.num_selected,
        "stored_bytes": _stored(manifest.files),
        "row_bytes": layout.row_bytes,
        "batch_bytes": layout.row_bytes * batch_size,
        "fingerprint": manifest.fingerprint,
        "columns": [asdict(shown) for shown in tensors],
        "drift": drift,
        "in_paths": _in_paths(manifest),
        "python": call,
    }


def shown(found: dict[str, Any]) -> str:
    """The same as lines for people."""
    stored = "" if found["stored_bytes"] is None else f", {in_units(found['stored_bytes'])} stored"
    counts = ((found["files"], "file"), (found["row_groups"], "row group"), (found["rows"], "row"))
    lines = [
        ", ".join(plural(*count) for count in counts) + stored,
        f"fingerprint {found['fingerprint']}",
        f"a row is about {in_units(found['row_bytes'])} of tensors, a batch {in_units(found['batch_bytes'])}",
        "",
    ]
    rows: list[tuple[str, ...]] = [("tensor", "in files", "dtype", "rows are", "unit", "nulls")]
    for tensor in found["columns"]:
        nulls = "not counted in footers" if tensor["nulls"] is None else f"{tensor['nulls']:,}"
        unit = "" if tensor["unit"] in (None, tensor["type"]) else tensor["unit"]
        row = str(tensor["shape"]) if tensor["shape"] else tensor["kind"]
        rows.append((tensor["name"], tensor["type"] or "", tensor["dtype"], row, unit, nulls))
    if not any(row[4] for row in rows[1:]):
        rows = [(*row[:4], row[5]) for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if found["drift"]:
        lines += ["", "where files differ, or can't be delivered as they are:", *found["drift"]]
    if (index := index_in(tensor["name"] for tensor in found["columns"])) is not None:
        lines += ["", index]
    if found["in_paths"]:
        read = ", ".join(f"fr.col({name!r}).from_path()" for name in found["in_paths"])
        lines += ["", f"their folders' names have values, too, which columns= may have: {read}"]
    if not found["rows"]:
        return "\n".join([*lines, "", "there are no rows, so that a dataset would have no batch", ""])
    return "\n".join([*lines, "", "to paste:", "", found["python"], ""])


def _in_paths(manifest: _core.Manifest) -> list[str]:
    """The names of columns whose values are in the paths of all files, as `day=1`, and in no file."""
    each = [
        [part.partition("=")[0] for part in file.split("/")[:-1] if "=" in part] for file in manifest.files
    ]
    common = set(each[0]).intersection(*each) - set(manifest.column_names)
    return [name for name in each[0] if name in common]


def _columns(manifest: _core.Manifest) -> tuple[list[Entry], list[str]]:
    """What can be delivered of all columns, and what is to be said of the others."""
    names, drift = list(manifest.column_names), []
    try:
        column_request(None, "mask").layout(manifest)
    except (_core.DataError, ValueError) as cause:
        drift = str(cause).splitlines()[1:] or [str(cause)]
    else:
        return [*names], []
    entries: list[Entry] = []
    for name in names:
        entry = _deliverable(manifest, name)
        if entry is not None:
            entries.append(entry)
    return entries, drift


def _deliverable(manifest: _core.Manifest, name: str) -> Entry | None:
    """The column as it is, or with what its errors say to write; None if nothing helps."""
    entry: Entry = name
    for _ in range(3):
        try:
            column_request([entry], "mask").layout(manifest)
        except (_core.DataError, ValueError) as cause:
            column = entry if isinstance(entry, Column) else col(name)
            remedy = getattr(cause, "remedy", None)
            if remedy == "optional":
                entry = column.optional()
            elif remedy == "decimal" and column.rules.decimal is None:
                entry = column.decimal("float64")
            elif remedy in _CASTS and column.rules.cast is None:
                entry = column._with(cast=_CASTS[remedy])  # `.cast` takes torch's dtype: torch takes seconds
            else:
                return None
        else:
            return entry
    return None


def _with_nulls(entry: Entry, nulls: dict[str, int | None]) -> Entry:
    """The column, masked unless footers say that it has no nulls."""
    if nulls.get(_name(entry), 0) == 0:
        return entry
    return (col(entry) if isinstance(entry, str) else entry).mask_null()  # type: ignore[union-attr]


def _in_floats(entry: Entry, fields: Sequence[_core.Field]) -> Entry:
    """The column; decimals as their numbers, and not as their unscaled integers."""
    found = next((field for field in fields if field.name == _name(entry)), None)
    if found is None or not (found.unit or "").startswith("decimal(") or found.kind != "scalar":
        return entry
    column = col(entry) if isinstance(entry, str) else entry
    is_plain = isinstance(column, Column) and column.rules.cast is column.rules.decimal is None
    return column.decimal("float64") if is_plain else entry  # type: ignore[union-attr]


def _name(entry: Entry) -> str:
    """The name of the column that an entry delivers."""
    return entry if isinstance(entry, str) else entry.names[0] if isinstance(entry, Column) else ""


def _call(paths: Sequence[str], batch_size: int, entries: list[Entry], count: int) -> str:
    changed = [entry for entry in entries if not isinstance(entry, str)]
    if len(entries) == count and not changed:
        columns = ""
    elif len(entries) == count:
        columns = ", columns=[" + ", ".join(["'*'", *(f"fr.{_code(entry)}" for entry in changed)]) + "]"
    else:
        each = (repr(entry) if isinstance(entry, str) else f"fr.{_code(entry)}" for entry in entries)
        columns = ", columns=[" + ", ".join(each) + "]"
    door = "ArrowDataset" if all(map(names_arrow, paths)) else "ParquetDataset"
    named = paths[0] if len(paths) == 1 else list(paths)
    return f"fr.{door}({named!r}, batch_size={batch_size}{columns})"


def _code(entry: Entry) -> str:
    return repr(entry).removeprefix("fr.")


def _stored(files: tuple[str, ...]) -> int | None:
    """The bytes of local files; None for objects."""
    try:
        return sum(Path(file).stat().st_size for file in files)
    except OSError:
        return None
