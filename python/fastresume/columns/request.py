"""What a dataset's `columns=` and `nulls=` ask for, in the form in which the core takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

import fastresume._core as _core
from fastresume.columns.column import Column
from fastresume.columns.stack import Stack
from fastresume.filter.condition import Condition
from fastresume.messages import warn
from fastresume.options.checks import quoted

Entry = str | Column | Stack
"""A name or pattern, columns with rules, or columns side by side."""

Columns = Entry | Sequence[Entry]
"""What is delivered, in its order."""


class ColumnRequest(NamedTuple):
    """What is delivered; `known` are the dictionaries of `.codes()`, for which no file is read again."""

    columns: list[Entry] | None
    nulls: str
    known: list[tuple[int, bytes]]

    def layout(self, manifest: _core.Manifest) -> _core.Layout:
        """What it makes of a dataset's files.

        Raises:
            DataError: if a column is missing, differs between files or can't become what is asked.
            SourceError: if a file can't be read whose values a dictionary holds.
            ValueError: if tensors have one name, a matrix has a column twice, or a value does not fit.
        """
        made = _core.Layout(manifest, columns=self.columns, nulls=self.nulls, known=self.known)
        columns = {field.name: field.columns for field in made.fields}
        for entry in self.columns or ():
            if isinstance(entry, Stack) and len(set(columns[entry.name])) < len(columns[entry.name]):
                self._refuse_twice(manifest, entry)
        return made

    def _refuse_twice(self, manifest: _core.Manifest, stack: Stack) -> None:
        """Refuses a matrix with a column that two parts make the same of, or that a pattern adds again."""
        seen: dict[str, list[Column]] = {}
        for part in stack.parts:
            alone = [replace(stack, parts=(part,))]
            try:
                (field, *_) = _core.Layout(manifest, columns=alone, nulls=self.nulls, known=[]).fields
            except ValueError:  # it is optional, and no file has it
                continue
            for column in field.columns:
                for other in seen.setdefault(column, []):
                    _check_differ(stack, column, other, part)
                seen[column].append(part)

    @property
    def expressions(self) -> list[Column]:
        """All expressions, those of stacks among them."""
        found: list[Column] = []
        for entry in self.columns or ():
            found += [entry] if isinstance(entry, Column) else entry.parts if isinstance(entry, Stack) else ()
        return found

    @property
    def wanted(self) -> list[list[str]] | None:
        """The names and patterns of what is delivered, those together that mean it; None for all columns."""
        if self.columns is None:
            return None
        plain = [entry for entry in self.columns if isinstance(entry, str)]
        return [plain, *(list(column.names) for column in self.expressions)]

    def check_appendable(self) -> None:
        """Refuses what changes with the files, under a model that has learned from what it was.

        Raises:
            ValueError: naming it.
        """
        for column in self.expressions:
            if column.rules.codes is not None and column.rules.codes[0] is None:
                raise ValueError(
                    f"{column!r} under on_change='append': places in the dictionary of all files change with "
                    "the files. Fix the values, as .codes(values=[...]), or write .hash(buckets)"
                )

    def warn_of_absent(self, manifest: _core.Manifest) -> None:
        """Warns of columns that files may lack, and that no file has: they are not delivered."""
        named = {name for name in self.optional if not any(sign in name for sign in "*?[!")}
        there = manifest.column_names
        for name in sorted(named - {*there, *self.of_paths}):
            if any(other.startswith(f"{name}.") for other in there):  # it is a struct
                continue
            warn(f"no file has the column {name!r}, which .optional() allows: batches have no such tensor")

    @staticmethod
    def warn_of_misfits(layout: _core.Layout) -> None:
        """Warns of integers that a cast does not hold, where footers show some."""
        for misfit in layout.misfits:
            warn(misfit)

    def warn_of_index(self, layout: _core.Layout) -> None:
        """Warns where the index of a pandas frame is delivered that nothing names: it is no feature."""
        named = {entry for entry in self.columns or () if isinstance(entry, str)}
        named.update(name for column in self.expressions for name in column.names)
        message = index_in(name for field in layout.fields for name in field.columns if name not in named)
        if message is not None:
            warn(message)

    @property
    def optional(self) -> list[str]:
        """The names and patterns of columns that files may lack."""
        return [name for column in self.expressions if column.rules.optional for name in column.names]

    @property
    def of_paths(self) -> list[str]:
        """The names of columns whose values are in the files' paths, each once."""
        found = [name for column in self.expressions if column.rules.from_path for name in column.names]
        return list(dict.fromkeys(found))


def index_in(columns: Iterable[str]) -> str | None:
    """What is said of columns if one is the index of a pandas frame, as `to_parquet()` writes it."""
    names = [name for name in columns if name.startswith("__index_level_")]
    if not names:
        return None
    pattern = names[0] if len(names) == 1 else "__index_level_*"
    return (
        f"the index of the frame is the column {names[0]!r}: frame.reset_index(drop=True) leaves it out, "
        f"or columns='!{pattern}'"
    )


def _check_differ(stack: Stack, column: str, one: Column, other: Column) -> None:
    """Refuses that two parts make the same of a column, or that a pattern adds it as it is."""
    if repr(one.rules) == repr(other.rules):
        names, rules = dict.fromkeys([*one.names, *other.names]), one.rules
    else:
        broad = [part for part in (one, other) if not repr(part.rules) and column not in part.names]
        if not broad:
            return
        names, rules = dict.fromkeys([*broad[0].names, f"!{column}"]), broad[0].rules
    raise ValueError(
        f"{stack.text} has the column {column!r} twice, by {one.text} and by {other.text}: "
        f"{Column(*names)!r}{rules!r} has it once"
    )


def column_request(columns: Columns | None, nulls: str) -> ColumnRequest:
    """What is asked for, checked.

    Raises:
        TypeError: if an entry is no name, pattern, `fr.col(...)` or `fr.stack(...)`.
    """
    if isinstance(nulls, Mapping) or not isinstance(nulls, str):
        raise TypeError(
            f"nulls must be 'error' or 'mask', for all columns, found {quoted(nulls)}: "
            "fr.col(name).mask_null() and fr.col(name).fill_null(value) in columns= say it of one"
        )
    if nulls not in ("error", "mask"):
        raise ValueError(
            f"nulls must be 'error' or 'mask', found {quoted(nulls)}: filter=fr.col(name).is_valid() leaves "
            "rows with a null out, and fr.col(name).fill_null(value) in columns= fills them"
        )
    if columns is None:
        return ColumnRequest(None, nulls, [])
    if isinstance(columns, Mapping):
        raise TypeError(
            "columns must be a list of names, patterns, fr.col(...) and fr.stack(...), found a mapping: "
            "fr.col(name).alias(new) gives a tensor another name"
        )
    if isinstance(columns, AbstractSet):
        raise TypeError(
            "columns must be a list of names, patterns, fr.col(...) and fr.stack(...), found a set, which "
            "has no order: write columns=sorted(columns)"
        )
    entries = [columns] if isinstance(columns, (str, Column, Stack)) else columns
    if isinstance(entries, (bytes, Condition)) or not isinstance(entries, Iterable):
        found_it = f"{quoted(columns)}{_way(columns)}"
        raise TypeError(f"columns must be a list of names, patterns and fr.col(...), found {found_it}")
    found: list[Entry] = list(entries)
    for entry in found:
        if isinstance(entry, Condition):
            raise TypeError(
                f"columns must hold names and fr.col(...), found the condition {entry!r}: filter= takes it"
            )
        if not isinstance(entry, (str, Column, Stack)):
            raise TypeError(
                f"columns must hold names, patterns, fr.col(...) and fr.stack(...), found {quoted(entry)}"
                f"{_way(entry)}"
            )
    return ColumnRequest(found, nulls, [])


def _way(entry: object) -> str:
    """What to write instead of what names no columns."""
    if type(entry).__module__.partition(".")[0] in ("polars", "pyarrow"):
        return ": write fr.col(name)"
    if isinstance(entry, list | tuple) and entry and all(isinstance(name, str) for name in entry):
        return ": write fr.stack(*names, name='dense') for one matrix of them, or one flat list of names"
    return ""
