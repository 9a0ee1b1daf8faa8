"""Where rows are: a table of a project, and which of its partitions."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Self

from fastresume.options.checks import quoted

_FORM = "odps://project/tables/[schema.]table/pt=1&pt=2"


class Address(NamedTuple):
    """A table, and partitions of it that are read in one session.

    Attributes:
        text: the address as its user wrote it; errors and states know it by that.
        project, schema, table: the names; a table of the project itself has the schema None.
        partitions: as the service names them, `pt=1/hour=2`; none for the whole table.
    """

    text: str
    project: str
    schema: str | None
    table: str
    partitions: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that a text is.

        Raises:
            ValueError: if it is none; it says what to write.

        Examples:
            >>> Address.parse("odps://shop/tables/log.clicks/ds=1/hour=2&ds=2/hour=1").partitions
            ('ds=1/hour=2', 'ds=2/hour=1')
        """
        scheme, _, rest = text.partition("://")
        project, tables, name, *below = [*rest.split("/"), "", ""]
        if scheme != "odps" or not project or tables != "tables" or not name:
            raise ValueError(f"an address is {_FORM!r}, found {quoted(text)}")
        schema, _, table = name.rpartition(".")
        partitions = tuple(
            each.strip("/") for each in "/".join(below).strip("/").split("&") if each.strip("/")
        )
        if not table or any("=" not in level for each in partitions for level in each.split("/")):
            raise ValueError(f"partitions are written as in {_FORM!r}, found {quoted(text)}")
        if len(set(partitions)) < len(partitions):
            raise ValueError(f"a partition is named twice: {quoted(text)}")
        return cls(text, project, schema or None, table, partitions)

    @property
    def of_table(self) -> str:
        """The address of the table, without partitions."""
        schema = "" if self.schema is None else f"{self.schema}."
        return f"odps://{self.project}/tables/{schema}{self.table}"

    @property
    def key(self) -> str:
        """What states know it by: short, whatever number of partitions it names."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()

    def each_partition(self) -> list[Self]:
        """The same partitions, in a session each."""
        if len(self.partitions) < 2:
            return [self]
        return [self._replace(text=f"{self.of_table}/{one}", partitions=(one,)) for one in self.partitions]


def addresses_of(given: object) -> list[Address]:
    """The addresses that a user names: a text with commas, or a list of texts.

    Raises:
        TypeError, ValueError: if they are none, or two are the same.
    """
    each = given.split(",") if isinstance(given, str) else given
    if not isinstance(each, list | tuple) or not each or not all(isinstance(one, str) for one in each):
        raise TypeError(f"address must be a text as {_FORM!r}, or a list of such, found {quoted(given)}")
    found = [Address.parse(one.strip()) for one in each]
    if len({one.text for one in found}) < len(found):
        raise ValueError("an address is named twice")
    return found
