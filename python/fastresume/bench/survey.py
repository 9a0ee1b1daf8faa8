"""The survey of the user's files: which columns all contenders can deliver."""

from __future__ import annotations

import fnmatch
import importlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastresume._core as _core
from fastresume.arrow_dataset import ArrowDataset
from fastresume.bench import storage
from fastresume.bench.cells import is_list, is_text
from fastresume.bench.file_facts import FileFacts
from fastresume.bench.task import Column
from fastresume.dataset import ParquetDataset
from fastresume.options.checks import is_address, path_list
from fastresume.options.stores import stores_of
from fastresume.sources.ipc_files import names_arrow
from fastresume.sources.opened import opened

_LIST_BYTES = 64 << 20
"""So much of footers is on its way from a store at once."""


@dataclass(frozen=True)
class Survey:
    """The files and their columns.

    Args:
        files: absolute paths, in the order of their rows.
        columns: the columns that are read.
        left_out: the other columns, and why.
        num_rows, row_groups: the totals of all files; record batches of Arrow's are row groups.
        stored_bytes: the stored bytes of the columns that are read.
    """

    files: tuple[str, ...]
    columns: tuple[Column, ...]
    left_out: dict[str, str]
    num_rows: int
    row_groups: int
    stored_bytes: int


def survey(
    paths: Sequence[str], patterns: Sequence[str] | None, storage_options: Mapping[str, str] | None = None
) -> Survey:
    """Looks at the files, and chooses the columns.

    Args:
        paths: as for `ParquetDataset`, or for `ArrowDataset`: not both.
        patterns: names or glob patterns of columns; None for all that can be delivered.
        storage_options: how the store is reached, if the files lie in one.

    Raises:
        FastresumeError: if a file can't be read.
        ValueError: if there are no rows or no such columns, or a file lacks one of them.
    """
    storage_options = storage_options or {}
    files = listed(paths, storage_options)
    facts = {path: FileFacts.of(path, storage_options) for path in files}
    num_rows = sum(of.num_rows for of in facts.values())
    if num_rows == 0:
        raise ValueError(f"{files[0]}: the files have no rows")
    filled = next(path for path, of in facts.items() if of.num_rows)
    names_in = {path: of.names for path, of in facts.items()}
    there = list(dict.fromkeys(name for names in names_in.values() for name in names))
    wanted = there if patterns is None else _matching(there, patterns)
    if not wanted:
        raise ValueError(f"{filled}: no column is named; there are {', '.join(there)}")
    _refuse_lacking(wanted, names_in)
    fields = {field.name: field for field in storage.schema(filled, storage_options)}
    left_out = {}
    for name in wanted:
        if not _is_comparable(fields[name].type):
            left_out[name] = f"{name}: contenders deliver {fields[name].type} in forms that can't be compared"
            continue
        try:
            (ArrowDataset if storage.is_arrow(filled) else ParquetDataset)(
                filled,
                batch_size=1,
                columns=[name],
                nulls="mask",
                tail="short",
                storage_options=dict(storage_options) or None,
                world=(0, 1),
            )
        except _core.DataError as cause:
            left_out[name] = str(cause)
    nulls = {name for of in facts.values() for name in of.nulls}
    with_null_elements = set()
    for name in wanted:
        type_ = fields[name].type
        if (
            name in left_out
            or name not in nulls
            or not _has_null_elements(files, storage_options, name, type_)
        ):
            continue
        if importlib.import_module("pyarrow").types.is_fixed_size_list(type_):
            left_out[name] = (
                f"{name}: a list of one length has a null in it, and there is no common form for that"
            )
        else:
            with_null_elements.add(name)
    if patterns is not None and left_out:
        raise ValueError(next(iter(left_out.values())))
    names = [name for name in wanted if name not in left_out]
    if not names:
        raise ValueError(f"{filled}: no column can be delivered; {next(iter(left_out.values()))}")
    columns = []
    for name in names:
        type_ = fields[name].type
        is_jagged = _is_jagged(type_)
        may_be_null = fields[name].nullable if is_jagged else name in nulls
        columns.append(Column(name, str(type_), is_jagged, may_be_null, name in with_null_elements))
    return Survey(
        files,
        tuple(columns),
        left_out,
        num_rows,
        sum(of.row_groups for of in facts.values()),
        round(sum(of.stored[name] for of in facts.values() if of.num_rows for name in names)),
    )


def packable(found: Survey, column: str) -> None:
    """Refuse a column that can't be packed.

    Raises:
        ValueError: if it has no lists of integers, or nulls in them.
    """
    (only,) = found.columns
    kinds = ("list<", "large_list<")
    if not only.type.startswith(kinds) or "int" not in only.type:
        raise ValueError(f"--pack {column}: expected lists of integers, found {only.type}")
    if only.has_null_elements:
        raise ValueError(f"--pack {column}: there are nulls in its lists")


def num_tokens(found: Survey, storage_options: Mapping[str, str]) -> int:
    """The elements of all lists of the one column."""
    names = [column.name for column in found.columns]
    total = 0
    for path in found.files:
        with storage.opened(path, storage_options) as file:
            total += sum(len(batch.column(0).flatten()) for batch in file.iter_batches(columns=names))
    return total


def mixable(found: Survey, patterns: Sequence[str] | None) -> Survey:
    """The survey with those columns alone that all contenders mix: numbers without nulls.

    Raises:
        ValueError: if there are none, or one is named that is none.
    """
    reasons = {
        column.name: f"{column.name}: --mix compares numbers without nulls, found {column.type}"
        for column in found.columns
        if column.is_jagged or column.may_be_null or not column.type.startswith(_NUMBERS)
    }
    columns = tuple(column for column in found.columns if column.name not in reasons)
    if reasons and (patterns is not None or not columns):
        raise ValueError(next(iter(reasons.values())))
    return replace(found, columns=columns, left_out={**found.left_out, **reasons})


_NUMBERS = ("int", "uint", "float", "double", "bool")


def listed(paths: Sequence[str], storage_options: Mapping[str, str]) -> tuple[str, ...]:
    """The files that are meant, in the order of their rows.

    Raises:
        FastresumeError: if there are none, or one can't be read.
        ValueError: if some are of Parquet and others of Arrow.
    """
    stores = stores_of(storage_options, None, _LIST_BYTES, None)
    of_arrow = [path for path in paths if names_arrow(path)]
    if of_arrow and (others := set(paths) - set(of_arrow)):
        raise ValueError(
            f"{of_arrow[0]} names files of Arrow, {min(others)} files of Parquet: measure one kind at a time"
        )
    if of_arrow:
        return tuple(opened(path_list(paths), stores).files)
    return tuple(_core.Manifest.open([path_list(paths)], stores).files)


def warm(files: Iterable[str]) -> None:
    """Read all bytes of local files once, so that no contender waits for the disk longer than another."""
    for path in itertools.filterfalse(is_address, files):
        with Path(path).open("rb") as file:
            while file.read(1 << 24):
                pass


def _matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    there = list(names)
    for pattern in patterns:
        if pattern not in there and not fnmatch.filter(there, pattern):
            raise ValueError(f"no column matches {pattern!r}; there are {', '.join(there)}")
    return [name for name in there if any(name == p or fnmatch.fnmatchcase(name, p) for p in patterns)]


def _refuse_lacking(wanted: Iterable[str], names_in: Mapping[str, Iterable[str]]) -> None:
    """Refuse columns that only some files have; a file without rows must have them, too."""
    sets = {path: frozenset(names) for path, names in names_in.items()}
    for name in wanted:
        if lacking := next((path for path, names in sets.items() if name not in names), None):
            having = next(path for path, names in sets.items() if name in names)
            raise ValueError(
                f"{lacking}: it lacks the column {name!r}, which {having} has; "
                "name columns that all files have with --columns"
            )


def _has_null_elements(
    files: Iterable[str], storage_options: Mapping[str, str], name: str, type_: Any
) -> bool:
    """Whether a list that is not null has a null in it, which footers don't tell apart from null lists."""
    if not is_list(type_) or not type_.value_field.nullable:
        return False
    for path in files:
        with storage.opened(path, storage_options) as file:
            for batch in file.iter_batches(columns=[name]):
                if batch.column(name).flatten().null_count:
                    return True
    return False


def _is_comparable(type_: Any) -> bool:
    """Whether the cells are numbers, strings, or lists of numbers: what all contenders deliver alike."""
    types = importlib.import_module("pyarrow").types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if is_list(type_):
        return bool(types.is_primitive(type_.value_type))
    return bool(types.is_primitive(type_)) or is_text(type_)


def _is_jagged(type_: Any) -> bool:
    types = importlib.import_module("pyarrow").types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    return not (types.is_primitive(type_) or types.is_boolean(type_))
