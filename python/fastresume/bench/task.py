"""The task of all contenders: the files, the columns, the batch size, and what is made of the rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from fastresume.bench.storage import is_arrow
from fastresume.options.checks import is_address

Job = Literal["read", "pack", "mix"]
"""Whether rows are delivered as they are, packed into sequences, or mixed from sources by weight."""


@dataclass(frozen=True)
class Column:
    """A column that every contender delivers.

    Args:
        name: as in the files.
        type: the type, as Arrow spells it.
        is_jagged: whether rows differ in length: lists, strings, binary.
        may_be_null: whether the files have nulls in it, or don't say that they have none.
        has_null_elements: whether a list that is not null has a null in it.
    """

    name: str
    type: str
    is_jagged: bool
    may_be_null: bool
    has_null_elements: bool = False


@dataclass(frozen=True)
class Source:
    """One dataset of a mixture.

    Args:
        path: as the user gave it.
        files: absolute paths, in the order of their rows.
        weight: its share, over the sum of all.
        num_rows: the rows of its files.
    """

    path: str
    files: tuple[str, ...]
    weight: float
    num_rows: int


@dataclass(frozen=True)
class Task:
    """What is read, and how; it is sent to other processes as JSON.

    Args:
        files: absolute paths, in the order of their rows.
        columns: the columns that are read.
        batch_size: the rows (sequences) of a batch, if the contender lets one choose.
        threads: for the contenders that take a number of threads.
        num_rows: the rows of all files; their tokens, if they are packed.
        storage_options: how the store is reached, if the files lie in one; secrets among them, perhaps.
        length: the tokens of a sequence, if rows are packed.
        sources: the datasets of a mixture, if there is one.
        scratch: a directory for what contenders keep between their turns; it is gone in the end.
    """

    files: tuple[str, ...]
    columns: tuple[Column, ...]
    batch_size: int
    threads: int
    num_rows: int
    storage_options: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    length: int = 0
    sources: tuple[Source, ...] = ()
    scratch: str = ""

    @property
    def job(self) -> Job:
        """What is made of the rows."""
        return "pack" if self.length else "mix" if self.sources else "read"

    @property
    def unit(self) -> str:
        """What is counted."""
        return "token" if self.length else "row"

    @property
    def is_of_arrow(self) -> bool:
        """Whether the files are Arrow's, and not Parquet's."""
        return is_arrow(self.files[0])

    @property
    def is_in_store(self) -> bool:
        """Whether the files are objects of a store."""
        return is_address(self.files[0])

    @property
    def names(self) -> list[str]:
        """The columns' names, in their order."""
        return [column.name for column in self.columns]

    @property
    def stacks(self) -> dict[str, list[str]]:
        """The columns of each matrix for stacking contenders: flat ones of one type, if several."""
        groups: dict[str, list[str]] = {}
        for column in self.columns:
            if not column.is_jagged:
                groups.setdefault(column.type, []).append(column.name)
        taken = set(self.names)
        stacks = {}
        for type_, members in groups.items():
            name = "all_" + "".join(letter if letter.isalnum() else "_" for letter in type_)
            while name in taken:
                name += "_"
            if len(members) > 1:
                stacks[name] = members
                taken.add(name)
        return stacks

    def to_json(self) -> dict[str, Any]:
        """The JSON that `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The task in `to_json`'s result."""
        columns = tuple(Column(**column) for column in found["columns"])
        sources = tuple(Source(**{**each, "files": tuple(each["files"])}) for each in found["sources"])
        return cls(**{**found, "files": tuple(found["files"]), "columns": columns, "sources": sources})
