"""Columns with levels by hand: lists in every form that writers gave them, cut into any pages.

What a reader sees of a list column are triples: a repetition level (0 where a row begins), a definition level
(how much of the path to the value is there), and a value where the definition level is the highest. `shred`
makes them of rows; `ListColumn` is the file of one such column.

Source: https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from support import thrift_writer as tw
from support.thrift_writer import Field, OneColumn, Struct, Wire, binary, i32, i64, listing, structure

Triple = tuple[int, int, int | None]
REPEATED = 2
LIST = {6: i32(3), 10: structure({3: structure({})})}
"""What marks a group as a list: the converted type, and the logical one."""


@dataclass(frozen=True)
class Form:
    """How the schema writes a list: the definition levels at which a row and an element are there."""

    row: int
    """At this level a list is there, though it may be empty; 0 if lists can't be null."""
    element: int
    """At this level there is an element, which may be null."""
    value: int
    """At this level there is a value."""
    schema: tuple[Struct, ...]

    @property
    def can_hold_null_rows(self) -> bool:
        """Whether a list may be null."""
        return self.row > 0

    @property
    def can_hold_null_elements(self) -> bool:
        """Whether an element may be null."""
        return self.value > self.element


def element(name: str, repetition: int) -> Struct:
    """The leaf of 64-bit integers."""
    return {tw.TYPE: i32(tw.INT64), tw.REPETITION: i32(repetition), tw.NAME: binary(name.encode())}


def group(name: str, repetition: int, more: Struct | None = None) -> Struct:
    """A group of one child."""
    fields = {tw.REPETITION: i32(repetition), tw.NAME: binary(name.encode()), tw.NUM_CHILDREN: i32(1)}
    return dict(sorted({**fields, **(more or {})}.items()))


def three_levels(list_name: str, element_name: str, *, row: int = 1, value: int = 1) -> Form:
    """A list as the format wants it; `row` and `value` say whether these are optional."""
    schema = (
        group("x", row, LIST),
        group(list_name, REPEATED),
        element(element_name, value),
    )
    return Form(row, row + 1, row + 1 + value, schema)


FORMS = {
    "three levels": three_levels("list", "element"),
    "three levels, all required": three_levels("list", "element", row=0, value=0),
    "three levels, required lists": three_levels("list", "element", row=0),
    "three levels, required elements": three_levels("list", "element", value=0),
    "three levels of Hive": three_levels("bag", "array_element"),
    "two levels": Form(1, 2, 2, (group("x", 1, LIST), element("array", REPEATED))),
    "two levels, required": Form(0, 1, 1, (group("x", 0, LIST), element("x_tuple", REPEATED))),
    "two levels, converted type alone": Form(
        1, 2, 2, (group("x", 1, {6: LIST[6]}), element("element", REPEATED))
    ),
    "a bare repeated field": Form(0, 1, 1, (element("x", REPEATED),)),
}


def shred(rows: Sequence[list[int | None] | None], form: Form) -> list[Triple]:
    """The triples of rows."""
    triples: list[Triple] = []
    for row in rows:
        if row is None:
            triples.append((0, 0, None))
        elif not row:
            triples.append((0, form.row, None))
        else:
            for place, value in enumerate(row):
                level = form.element if value is None else form.value
                triples.append((min(place, 1), level, value))
    return triples


def runs(levels: Sequence[int], width: int) -> bytes:
    """Levels as runs of equal ones."""
    out = bytearray()
    start = 0
    for end in range(1, len(levels) + 1):
        if end == len(levels) or levels[end] != levels[start]:
            out += tw.varint((end - start) << 1) + levels[start].to_bytes((width + 7) // 8, "little")
            start = end
    return bytes(out)


def packed(levels: Sequence[int], width: int) -> bytes:
    """Levels as one run of packed ones, filled up with zeros to a multiple of eight."""
    groups = -(-len(levels) // 8)
    bits = sum(level << (width * place) for place, level in enumerate(levels))
    return tw.varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")


def sized(data: bytes) -> bytes:
    """Bytes behind their number, as the levels of a page of the first version."""
    return struct.pack("<I", len(data)) + data


def values_of(triples: Sequence[Triple]) -> bytes:
    """The values, as a plain page holds them."""
    found = [value for _, _, value in triples if value is not None]
    return struct.pack(f"<{len(found)}q", *found)


def page(triples: Sequence[Triple], form: Form, version: int = 1, *, is_packed: bool = False) -> bytes:
    """A data page of triples."""
    encode = packed if is_packed else runs
    repetition = encode([triple[0] for triple in triples], 1)
    definition = encode([triple[1] for triple in triples], form.value.bit_length())
    if version == 1:
        return tw.data_page(sized(repetition) + sized(definition) + values_of(triples), len(triples))
    return page_v2(
        repetition,
        definition,
        values_of(triples),
        values=len(triples),
        rows=sum(triple[0] == 0 for triple in triples),
        nulls=sum(triple[2] is None for triple in triples),
    )


def page_v2(
    repetition: bytes,
    definition: bytes,
    body: bytes,
    *,
    values: int,
    rows: int,
    nulls: int,
    repetition_bytes: int | None = None,
    definition_bytes: int | None = None,
) -> bytes:
    """A data page of the second version, whose header may lie about its levels."""
    details = {
        1: i32(values),
        2: i32(nulls),
        3: i32(rows),
        4: i32(tw.PLAIN),
        5: i32(len(definition) if definition_bytes is None else definition_bytes),
        6: i32(len(repetition) if repetition_bytes is None else repetition_bytes),
        7: Field(Wire.FALSE, False),
    }
    return tw.page(tw.DATA_PAGE_V2, repetition + definition + body, details)


@dataclass
class ListColumn(OneColumn):
    """A file with one row group of one list column of 64-bit integers, `x`."""

    form: Form = field(default_factory=lambda: FORMS["three levels"])
    values: int = 0
    """How many triples its footer says that there are."""

    def footer(self) -> Struct:
        """The footer, for the test to change."""
        footer = super().footer()
        footer[tw.SCHEMA] = listing(Wire.STRUCT, [self.root(), *self.form.schema])
        metadata = tw.chunk(footer, 0, 0)
        path = [element[tw.NAME].value for element in self.form.schema]
        metadata[3] = listing(Wire.BINARY, path)
        metadata[tw.NUM_VALUES] = i64(self.values)
        return footer


def of_rows(rows: Sequence[list[int | None] | None], form: Form, pages: Sequence[bytes]) -> ListColumn:
    """The file of these rows, whose pages are given."""
    return ListColumn(pages, len(rows), form=form, values=len(shred(rows, form)))
