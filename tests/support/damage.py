"""Damage to the bytes of a file, or to what its footer and its page headers state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from support import thrift_writer as tw
from support.thrift_writer import Field, Struct, Wire

# -------------------------------------------------------------------------------------------- damage to bytes

LAST_BYTES = 8  # the length of the footer, and the magic


def place(data: bytearray, random: Random) -> int:
    """Return an index into a file: anywhere, or where its metadata is."""
    footer = int.from_bytes(data[-LAST_BYTES:-4], "little") + LAST_BYTES
    start = random.choice([0, 0, max(0, len(data) - footer), max(0, len(data) - LAST_BYTES)])
    return random.randrange(start, max(len(data), start + 1))


def some_bytes(random: Random) -> bytes:
    """Return a few bytes, of those that mean much or of any."""
    byte = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
    return bytes([byte]) * random.choice([1, 1, 1, 2, 5, 100])


def flip(data: bytearray, random: Random) -> None:
    """Flip a bit."""
    at = place(data, random)
    data[at : at + 1] = bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])


def overwrite(data: bytearray, random: Random) -> None:
    """Overwrite bytes with others."""
    at, new = place(data, random), some_bytes(random)
    data[at : at + len(new)] = new


def insert(data: bytearray, random: Random) -> None:
    """Insert bytes."""
    at = place(data, random)
    data[at:at] = some_bytes(random)


def delete(data: bytearray, random: Random) -> None:
    """Delete bytes."""
    at = place(data, random)
    del data[at : at + random.choice([1, 1, 2, 10, 1000])]


def move(data: bytearray, random: Random) -> None:
    """Copy bytes from one place to another."""
    source, at, length = place(data, random), place(data, random), random.choice([1, 4, 8, 50])
    data[at : at + length] = data[source : source + length]


def truncate(data: bytearray, random: Random) -> None:
    """Cut off the end."""
    del data[place(data, random) :]


# ----------------------------------------------------------------------------------------- damage to metadata

NUMBERS = [0, 1, -1, 2, 7, 127, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63)]


def spots(value: Any, wire: Wire) -> Iterator[tuple[Any, Any]]:
    """Give the places of all values in a struct or list, as (container, key)."""
    if wire is Wire.STRUCT:
        for number, field in value.items():
            yield value, number
            yield from spots(field.value, field.wire)
    elif wire is Wire.LIST:
        element, values = value
        for index, item in enumerate(values):
            yield values, index
            yield from spots(item, element)


def change(fields: Struct, random: Random) -> None:
    """Change one value somewhere in a struct."""
    found = list(spots(fields, Wire.STRUCT))
    if not found:
        return
    container, key = random.choice(found)
    kind = random.choice(["value", "value", "value", "delete", "double", "type"])
    if kind == "delete":
        del container[key]
    elif kind == "double" and isinstance(container, list) and len(container) < 1000:
        container[key:key] = [container[key]] * random.choice([1, 100])
    elif isinstance(container, list):
        container[key] = other_value(container[key], random)
    elif kind == "type" and container[key].wire in (Wire.I16, Wire.I32, Wire.I64):
        container[key] = Field(random.choice([Wire.I16, Wire.I32, Wire.I64]), container[key].value)
    else:
        container[key] = Field(container[key].wire, other_value(container[key].value, random))


def other_value(value: Any, random: Random) -> Any:
    """Return another value of the same type, as far as there is one."""
    match value:
        case bool():
            return value
        case int():
            return random.choice([*NUMBERS, value + 1, value - 1, value * 2, random.getrandbits(32)])
        case bytes():
            return random.choice([b"", value + b"\xff", value[:-1], b"\0" * 100])
        case _:
            return value


def change_footer(data: bytearray, random: Random) -> None:
    """Change a value of the footer."""
    before, footer = tw.split(bytes(data))
    change(footer, random)
    data[:] = tw.join(before, footer)


def change_page(data: bytearray, random: Random) -> None:
    """Change a value in the header of a page, or its body; the chunk then lies behind the others."""
    before, footer = tw.split(bytes(data))
    groups = footer[tw.ROW_GROUPS].value[1]
    if not groups:
        return
    group = random.choice(groups)
    metadata = random.choice(group[tw.COLUMNS].value[1])[tw.META_DATA].value
    offsets = [
        metadata[key].value for key in (tw.DATA_PAGE_OFFSET, tw.DICTIONARY_PAGE_OFFSET) if key in metadata
    ]
    start, size = min(offsets), metadata[tw.COMPRESSED_BYTES].value
    pages = split_pages(before[start : start + size])
    if not pages:
        return
    header, body = random.choice(pages)
    if random.random() < 0.5 or not body:
        change(header, random)
    else:
        random.choice([flip, overwrite, insert, delete])(body, random)
    moved = [tw.encode(header) + body for header, body in pages]
    metadata.pop(tw.DICTIONARY_PAGE_OFFSET, None)
    if len(offsets) == 2:
        metadata[tw.DICTIONARY_PAGE_OFFSET] = tw.i64(len(before))
        metadata[tw.DATA_PAGE_OFFSET] = tw.i64(len(before) + len(moved[0]))
    else:
        metadata[tw.DATA_PAGE_OFFSET] = tw.i64(len(before))
    metadata[tw.COMPRESSED_BYTES] = tw.i64(sum(map(len, moved)))
    data[:] = tw.join(before + b"".join(moved), {key: footer[key] for key in sorted(footer)})


def split_pages(chunk: bytes) -> list[tuple[Struct, bytearray]]:
    """Return the headers and bodies of a chunk's pages."""
    pages = []
    while chunk:
        header, length = tw.decode(chunk)
        end = length + header[3].value
        if not length <= end <= len(chunk):
            raise ValueError(f"a page ends at {end} of {len(chunk)}")
        pages.append((header, bytearray(chunk[length:end])))
        chunk = chunk[end:]
    return pages


TO_BYTES: list[Callable[[bytearray, Random], None]] = [flip, overwrite, insert, delete, move, truncate]
TO_METADATA: list[Callable[[bytearray, Random], None]] = [change_footer, change_page, change_page]


def damaged(data: bytes, random: Random) -> bytes:
    """Return the bytes of a file with some damage."""
    changed = bytearray(data)
    times = random.choice([1, 1, 1, 2, 4, 10])
    if random.random() < 0.5:
        for _ in range(times):
            random.choice(TO_BYTES)(changed, random)
    else:
        for _ in range(times):
            try:
                random.choice(TO_METADATA)(changed, random)
            except (LookupError, ValueError, TypeError, AttributeError):
                break  # what an earlier change left can't be taken apart any more
    return bytes(changed)
