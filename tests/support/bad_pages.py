"""Column chunks of damaged pages, each with what its error must say: one table, in parts.

A part makes its rows one by one: some are bombs, and are as large as what they expand to.
"""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from support import thrift_writer as tw
from support.child import MIB
from support.list_writer import (
    FORMS,
    LIST,
    REPEATED,
    Form,
    ListColumn,
    Triple,
    element,
    group,
    page,
    page_v2,
    runs,
    shred,
    sized,
    values_of,
)
from support.refusals import deflated
from support.thrift_writer import (
    RLE_DICTIONARY,
    OneColumn,
    Struct,
    data_page,
    data_page_v2,
    dictionary_page,
    i32,
    int64s,
)


class Bad(NamedTuple):
    """A file of one column `x`, what is wrong with it, and what the error says was found, and expected."""

    name: str
    file: OneColumn
    said: str


Part = Callable[[], Iterator[Bad]]
ENDS, MANY = "a page ends before its values do", 2**31 - 1
OPTIONAL = {tw.REPETITION: i32(tw.OPTIONAL)}

# ------------------------------------------------------------------------------- headers, and codecs of pages

GOOD = data_page(int64s(10), 10)
INDICES = bytes([3]) + tw.varint(10 << 1) + b"\x07"
"""Ten times the index 7, as a dictionary-encoded page holds them: 3 bits each, one run."""


def numbers(
    *pages: bytes, rows: int = 10, codec: int = tw.UNCOMPRESSED, element: Struct | None = None
) -> OneColumn:
    """A file of one column of int64."""
    return OneColumn(pages, rows, codec=codec, element=element or {})


def ten(**how: int) -> bytes:
    """A page of ten numbers, whose header says something else."""
    return data_page(int64s(10), 10, **how)


def headers() -> Iterator[Bad]:
    """Headers that lie about their pages."""
    yield Bad("2 GiB", numbers(ten(compressed=MANY)), f"claims {MANY} bytes, the column chunk has 80 left")
    large = numbers(data_page(deflated(MIB), 10, uncompressed=MANY), codec=tw.GZIP)
    yield Bad(
        "2 GiB when expanded", large, f"{MANY} uncompressed, and 10 values, for which 1048816 are enough"
    )
    yield Bad("a negative size", numbers(ten(compressed=-1)), "claims the kind 0, -1 bytes, 80 uncompressed")
    negative = data_page(b"\x0a\x24" + bytes(10), 10, uncompressed=-1)
    yield Bad(
        "a negative size when expanded", numbers(negative, codec=tw.SNAPPY), "12 bytes, -1 uncompressed"
    )
    yield Bad(
        "more than the chunk", numbers(ten(compressed=81)), "claims 81 bytes, the column chunk has 80 left"
    )
    yield Bad("a negative count", numbers(data_page(int64s(10), -10)), "holds the negative count -10")
    few = numbers(data_page(int64s(5), 10))
    yield Bad("more values than it has", few, "a page of 10 values has 40 bytes for them, 80 are needed")
    many = numbers(data_page(int64s(10), MANY), rows=20)
    yield Bad("2^31 - 1 values", many, "the pages hold more than the 20 values that the footer states")
    yield Bad(
        "no such kind", numbers(tw.page(77, int64s(10), {})), "the pages hold 0 values, the footer states 10"
    )
    yield Bad("no such encoding", numbers(ten(encoding=99)), "the encoding 99 is not known")
    yield Bad(
        "no encoding of its type", numbers(ten(encoding=tw.DELTA_BYTE_ARRAY)), "Encoding DELTA_BYTE_ARRAY"
    )
    yield Bad("too few", numbers(data_page(int64s(5), 5)), "the pages hold 5 values, the footer states 10")
    yield Bad("garbage", numbers(b"\xff" * 500), "damaged metadata: unknown wire type 15")
    yield Bad("64 MiB of zeros", numbers(bytes(64 * MIB)), "claims the kind -1, -1 bytes, -1 uncompressed")
    endless = numbers(b"\x18" + tw.varint(64 * MIB) + bytes(32 * MIB))
    yield Bad("no end", endless, "a page header has more than 16 MiB")
    yield Bad("nested in itself", numbers(b"\x1c" * 100_000), "damaged metadata: nested more than 32 deep")
    levels = numbers(data_page_v2(int64s(10), 10, definition_bytes=81), element=OPTIONAL)
    yield Bad("more levels than bytes", levels, "a page claims 81 bytes of levels and has 80")
    levels = numbers(data_page_v2(bytes(2) + int64s(10), 10, definition_bytes=2))
    yield Bad("levels of a required column", levels, "2 bytes of levels, and the column's type has none")
    yield Bad(
        "other rows", numbers(data_page_v2(int64s(10), 10, rows=9)), "a page claims 9 rows and 10 values"
    )
    nulls = numbers(data_page_v2(int64s(10), 10, nulls=11))
    yield Bad("more nulls than values", nulls, "a page claims 11 nulls among 10 values")


def codecs() -> Iterator[Bad]:
    """Pages that expand to too much, too little, or not at all."""
    for codec, number, size, said in (
        ("zstd", 6, 256, "can't decompress: Destination buffer is too small"),
        ("brotli", 4, 256, "Brotli asks for more memory than a page of 80 bytes needs"),
        ("snappy", 1, 64, "claims 3147780 bytes, 80 uncompressed, and 10 values"),
        ("lz4_raw", 7, 64, "output is too small for the decompressed data, actual 80, expected 67108859"),
        ("lz4", 5, 64, "can't decompress: the offset to copy is not contained"),
    ):
        bomb = pa.compress(bytes(size * MIB), codec=codec, asbytes=True)
        yield Bad(f"a bomb by {codec}", numbers(data_page(bomb, 10, uncompressed=80), codec=number), said)
    for stated in (80, 1024 * MIB):
        bomb = deflated(1024 * MIB)
        file = numbers(data_page(bomb, 10, uncompressed=stated), codec=tw.GZIP)
        yield Bad(f"a bomb of {stated}", file, f"claims 4686784 bytes, {stated} uncompressed, and 10 values")
    little = numbers(data_page(gzip.compress(int64s(5)), 10, uncompressed=80), codec=tw.GZIP)
    yield Bad("expands to too little", little, "a page expands to 40 bytes, its header states 80")
    yield Bad("not compressed", numbers(GOOD, codec=tw.ZSTD), "can't decompress: Unknown frame descriptor")


def dictionaries() -> Iterator[Bad]:
    """Numbers in dictionaries, and values that a type can't hold."""

    def coded(values: int, stated: int, indices: bytes = INDICES) -> OneColumn:
        pages = dictionary_page(int64s(values), stated), data_page(indices, 10, encoding=RLE_DICTIONARY)
        return numbers(*pages)

    yield Bad(
        "2^31 - 1 values", coded(10, MANY), f"the dictionary claims {MANY} values, which take 17179869176"
    )
    missing = numbers(data_page(INDICES, 10, encoding=RLE_DICTIONARY))
    yield Bad("none", missing, "a page needs a dictionary, and the column chunk has none before it")
    yield Bad("an index beyond", coded(5, 5), "a page names value 7 of a dictionary that has 5")
    yield Bad(
        "indices of 255 bits", coded(10, 10, b"\xff" * 50), "packs integers of 255 bits, 32 are the most"
    )
    bytes_ = struct.pack("<10i", *range(291, 301))
    small = OneColumn([data_page(bytes_, 10)], 10, tw.INT32, element={6: i32(15)})
    yield Bad("beyond int8", small, "row 0 of the row group holds 291, which does not fit int8")


# ----------------------------------------------------------------------------- texts, and bytes of one length


def plain(*words: bytes) -> bytes:
    """Strings as a plain page holds them."""
    return b"".join(sized(word) for word in words)


def delta_head(values: int, blocks: int = 4) -> bytes:
    """The beginning of so many numbers, as DELTA_BINARY_PACKED holds them."""
    return tw.varint(128) + tw.varint(blocks) + tw.varint(values)


def deltas(*numbers: int, values: int | None = None) -> bytes:
    """Numbers as DELTA_BINARY_PACKED holds them; then the last one again, `values` in all."""
    count = len(numbers) if values is None else values
    head = delta_head(count) + tw.zigzag(numbers[0] if numbers else 0)
    if count < 2:
        return head
    needed = -(-min(count - 1, 128) // 32)  # of the four miniblocks
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    steps += [0] * (32 * needed - len(steps))
    least = min(steps)
    width = 32 if max(steps) - least < 2**32 else 64
    block = tw.zigzag(least) + bytes([width] * needed + [0] * (4 - needed))
    block += b"".join((step - least).to_bytes(width // 8, "little") for step in steps)
    return head + block + (tw.zigzag(0) + bytes(4)) * (-(-(count - 1) // 128) - 1)


def lengths_page(lengths: bytes, data: bytes, values: int = 3) -> bytes:
    """A page of DELTA_LENGTH_BYTE_ARRAY: lengths, and all bytes behind them."""
    return data_page(lengths + data, values, encoding=6)


def prefixes_page(prefixes: bytes, lengths: bytes, data: bytes, values: int = 3) -> bytes:
    """A page of DELTA_BYTE_ARRAY: prefixes that are taken from the string before, and what follows them."""
    return data_page(prefixes + lengths + data, values, encoding=tw.DELTA_BYTE_ARRAY)


def indices_page(index: int, count: int = 3) -> bytes:
    """A page of so many times one index of a dictionary."""
    return data_page(bytes([8]) + tw.varint(count << 1) + bytes([index]), count, encoding=RLE_DICTIONARY)


def strings(*pages: bytes, rows: int = 3) -> OneColumn:
    """A file of one column of strings, whose footer says where a dictionary is."""
    return OneColumn(pages, rows, type=tw.BYTE_ARRAY, element={6: i32(0)})


WORDS = (b"a", b"bc", b"")
DICTIONARY = dictionary_page(plain(*WORDS), 3)


def texts() -> Iterator[Bad]:
    """Texts by their lengths, and in dictionaries."""
    two, four = plain(b"a", b"bc"), struct.Struct("<I").pack

    def claims(body: bytes, length: int, left: int) -> Bad:
        said = f"a text claims {length} bytes, the page has {left} left"
        return Bad(f"a length of {length}", strings(data_page(body, 3)), said)

    yield Bad("no bytes", strings(data_page(b"", 3)), ENDS)
    yield Bad("half a length", strings(data_page(two + b"\0\0", 3)), ENDS)
    yield Bad("fewer than values", strings(data_page(two, 3)), ENDS)
    yield claims(two + four(1), 1, 0)
    yield claims(two + four(2**32 - 1) + b"x", 2**32 - 1, 1)
    yield claims(four(2**31) + two, 2**31, 11)
    beyond = strings(dictionary_page(plain(b"a") + four(77) + b"x", 2), indices_page(0))
    yield Bad("a length beyond the dictionary", beyond, "a text claims 77 bytes, the page has 1 left")
    for stated in (4, MANY):
        file = strings(dictionary_page(plain(*WORDS), stated), indices_page(3))
        said = f"the dictionary claims {stated} values, which take {4 * stated} bytes, and has 15"
        yield Bad(f"a dictionary of {stated}", file, said)
    yield Bad(
        "an index beyond", strings(DICTIONARY, indices_page(3)), "names value 3 of a dictionary that has 3"
    )
    yield Bad("no dictionary", strings(indices_page(0)), "the column chunk has none before it")
    for name, pages in (
        ("plain", [data_page(plain(*WORDS), MANY)]),
        ("lengths", [lengths_page(deltas(1, 1, 1), b"abc", MANY)]),
        ("prefixes", [prefixes_page(deltas(0, 0, 0), deltas(1, 1, 1), b"abc", MANY)]),
        ("indices", [DICTIONARY, indices_page(0, MANY)]),
    ):
        yield Bad(f"2^31 - 1 of {name}", strings(*pages), "more than the 3 values that the footer states")


def deltas_of_texts() -> Iterator[Bad]:
    """Texts whose lengths and prefixes are differences."""

    def lengths(name: str, lengths: bytes, said: str = ENDS) -> Bad:
        return Bad(name, strings(lengths_page(lengths, b"abc")), said)

    def prefixes(name: str, prefixes: bytes, said: str, lengths: bytes = deltas(1, 1, 1)) -> Bad:
        return Bad(name, strings(prefixes_page(prefixes, lengths, b"abc")), said)

    claims = "a delta-encoded page claims {} values (its header 3), in blocks of 128 in 4 parts"
    yield lengths("no lengths", b"")
    yield lengths("fewer lengths", deltas(1, 2), claims.format(2))
    yield lengths("lengths beyond the page", deltas(1, 2, 1))
    yield lengths("negative lengths", deltas(1, -1, 3))
    yield lengths("lengths of which the sum overflows", deltas(2**62, 2**62, 2**62))
    yield lengths("lengths of 2^31 - 1", deltas(MANY, MANY, MANY))
    yield lengths("2^31 - 1 lengths", delta_head(MANY) + tw.zigzag(0), claims.format(MANY))
    wide = deltas(1, 2, 0).replace(b"\x20\0\0\0", b"\xff\0\0\0")
    yield lengths("miniblocks of 255 bits", wide, "packs differences of 255 bits")
    yield lengths(
        "no miniblocks", delta_head(3, 0) + tw.zigzag(1) + bytes(20), "blocks of 128 values in 0 parts"
    )
    yield prefixes("a long prefix", deltas(0, 2, 0), "a text begins with 2 bytes of one that has 1")
    yield prefixes("a prefix of the first", deltas(1, 0, 0), "a text begins with 1 bytes of one that has 0")
    yield prefixes("a negative prefix", deltas(0, -1, 0), "a text begins with -1 bytes of one that has 1")
    yield prefixes(
        "prefixes of 2^62 bytes", deltas(0, 2**62, 2**62), f"begins with {2**62} bytes of one that has 1"
    )
    yield prefixes("fewer prefixes", deltas(0, 1), claims.format(2))
    yield prefixes("fewer suffixes", deltas(0, 1, 0), claims.format(2), deltas(1, 1))
    yield prefixes("suffixes beyond the page", deltas(0, 1, 0), ENDS, deltas(1, 1, 2))
    yield Bad("nothing behind prefixes", strings(prefixes_page(deltas(0, 0, 0), b"", b"")), ENDS)
    half = {2: i32(2), 10: tw.structure({15: tw.structure({})})}
    for count in (2**28, 2**40):
        page = data_page(delta_head(count) + tw.zigzag(0) + bytes(200), 10, encoding=tw.DELTA_BYTE_ARRAY)
        file = OneColumn([page], 10, type=tw.FIXED, element=half)
        yield Bad(f"{count} prefixes", file, f"claims {count} values (its header 10)")


def fixed(*pages: bytes, rows: int = 3, length: int = 4, element: Struct | None = None) -> OneColumn:
    """A file of one column of values of so many bytes."""
    return OneColumn(pages, rows, type=tw.FIXED, element={2: i32(length), **(element or {})})


def values_of_one_length() -> Iterator[Bad]:
    """Bytes of one length, instants of 96 bits, decimals."""
    said = "a page of 3 values has {} bytes for them, {} are needed"
    for body in (b"", b"abcdabcdabc", b"abcdabcd"):
        yield Bad(f"{len(body)} bytes", fixed(data_page(body, 3)), said.format(len(body), 12))
    for body in (b"", b"abcdabcdabc"):
        yield Bad("split", fixed(data_page(body, 3, encoding=9)), said.format(len(body), 12))
    yield Bad(
        "2^31 - 1 values",
        fixed(data_page(b"abcd" * 3, MANY)),
        "more than the 3 values that the footer states",
    )
    yield Bad("1 MiB each", fixed(data_page(b"abcd" * 3, 3), length=MIB), said.format(12, 3 * MIB))
    few, many = (
        (dictionary_page(b"aaaabbb", 2), indices_page(0)),
        (dictionary_page(b"aaaabbbb", MANY), indices_page(0)),
    )
    yield Bad("a dictionary of a byte too few", fixed(*few), "claims 2 values, which take 8 bytes, and has 7")
    yield Bad(
        "a dictionary of many", fixed(*many), f"claims {MANY} values, which take {4 * MANY} bytes, and has 8"
    )
    words = dictionary_page(b"aaaabbbb", 2)
    yield Bad("an index beyond", fixed(words, indices_page(2)), "names value 2 of a dictionary that has 2")
    short = data_page(bytes([8]) + tw.varint(2 << 1) + b"\1", 3, encoding=RLE_DICTIONARY)
    yield Bad("fewer indices", fixed(words, short), ENDS)
    yield Bad("no dictionary", fixed(indices_page(0)), "the column chunk has none before it")
    other = prefixes_page(deltas(0, 0, 0), deltas(4, 3, 5), b"abcd" * 3)
    yield Bad("another length", fixed(other), "a page holds values that have not 4 bytes")
    fewer = prefixes_page(deltas(0, 0), deltas(4, 4), b"abcd" * 2)
    yield Bad("fewer prefixes", fixed(fewer), "a delta-encoded page claims 2 values (its header 3)")
    longer = prefixes_page(deltas(0, 5, 0), deltas(4, 4, 4), b"abcd" * 3)
    yield Bad("a longer prefix", fixed(longer), "a text begins with 5 bytes of one that has 4")
    no_integer = data_page(deltas(1, 2, 3), 3, encoding=tw.DELTA_BINARY_PACKED)
    of_integers = "the encoding DELTA_BINARY_PACKED is not one for the column's type"
    yield Bad("deltas", fixed(no_integer), of_integers)

    def int96(*pages: bytes) -> OneColumn:
        return OneColumn(pages, 3, type=tw.INT96)

    yield Bad("int96: a byte too few", int96(data_page(bytes(35), 3)), said.format(35, 36))
    few_instants = int96(dictionary_page(bytes(23), 2), indices_page(0))
    yield Bad("int96: a dictionary", few_instants, "claims 2 values, which take 24 bytes, and has 23")
    yield Bad("int96: deltas", int96(no_integer), of_integers)
    late = int96(data_page(struct.pack("<qi", 2**63 - 1, MANY) * 3, 3))
    yield Bad(
        "int96: beyond 64 bits", late, "185340943669636854775807 ns since 1970, which does not fit 64 bits"
    )
    decimal = {6: i32(5), 7: i32(2), 8: i32(9)}
    for name, body, found in (
        ("beyond the page", sized(b"\1") * 2 + struct.pack("<I", 77), "claims 77 bytes, the page has 0 left"),
        (
            "of nine bytes",
            sized(b"\1" + bytes(8)) * 3,
            f"holds the unscaled {2**64}, which does not fit 64 bits",
        ),
    ):
        file = OneColumn([data_page(body, 3)], 3, type=tw.BYTE_ARRAY, element=decimal)
        yield Bad(f"a decimal {name}", file, found)


# ---------------------------------------------------------------------------------------------------- levels

ROWS = [[1, 2], [], None, [3, None], [4]]
TRIPLES = shred(ROWS, FORMS["three levels"])
REPETITION, DEFINITION = [triple[0] for triple in TRIPLES], [triple[1] for triple in TRIPLES]
VALUES, COUNT = values_of(TRIPLES), len(TRIPLES)
GOOD_REPETITION, GOOD_DEFINITION = runs(REPETITION, 1), runs(DEFINITION, 2)
EMPTY_RUNS, PACKED_OF_NOTHING = b"\0\0" * MIB, b"\1" * MIB
A_BILLION = tw.varint(10**9 << 1)
CONTRADICT = "the levels of a page contradict each other"
TOO_MANY = "values, at most 67108864 are read"


def list_file(*pages: bytes, rows: int = len(ROWS), values: int = COUNT) -> ListColumn:
    """A file of one list column."""
    return ListColumn(pages, rows, form=FORMS["three levels"], values=values)


def page_of(repetition: bytes, definition: bytes, body: bytes = VALUES, values: int = COUNT) -> bytes:
    """A page of the first version."""
    return data_page(sized(repetition) + sized(definition) + body, values)


def levels_of_lists() -> Iterator[Bad]:
    """Levels of a list column."""

    def repeated(name: str, repetition: bytes, said: str = ENDS) -> Bad:
        return Bad(name, list_file(page_of(repetition, GOOD_DEFINITION)), said)

    def defined(name: str, definition: bytes, said: str = ENDS) -> Bad:
        return Bad(name, list_file(page_of(GOOD_REPETITION, definition)), said)

    yield Bad("no levels", list_file(data_page(b"", COUNT)), "the page has 0")
    yield Bad("half a size", list_file(data_page(b"\1\0", COUNT)), "the page has 2")
    long = data_page(struct.pack("<I", 2**32 - 1) + VALUES, COUNT)
    yield Bad("levels beyond the page", list_file(long), "levels end at byte 4294967299, the page has 36")
    yield Bad(
        "repetition levels alone", list_file(data_page(sized(GOOD_REPETITION), COUNT)), "the page has 14"
    )
    yield repeated("fewer repetition levels", runs(REPETITION[:-1], 1))
    yield defined("fewer definition levels", runs(DEFINITION[:-1], 2))
    yield repeated(
        "runs of nothing", EMPTY_RUNS, "2097204 uncompressed, and 7 values, for which 1048744 are enough"
    )
    yield repeated("packed runs of nothing", PACKED_OF_NOTHING)
    high = runs([0, 1, 2, 0, 0, 1, 0], 1)
    yield repeated("a high repetition level", high, "a page holds the level 2, 1 is the largest")
    high = runs([3, 3, 1, 0, 3, 4, 3], 3)
    yield defined("a high definition level", high, "a page holds the level 4, 3 is the largest")
    yield repeated("a run without its value", tw.varint(COUNT << 1))
    yield repeated("a number without end", b"\xff" * 100, "an integer in a page has more than 64 bits")
    yield repeated(
        "a chunk within a row", runs([1, *REPETITION[1:]], 1), "row 0 of the row group has no beginning"
    )
    yield repeated("more rows", runs([0] * COUNT, 1), "the pages hold more than the 5 rows of the row group")
    yield repeated("fewer rows", runs([0] + [1] * (COUNT - 1), 1), CONTRADICT)
    fewer = list_file(page_of(GOOD_REPETITION, GOOD_DEFINITION, VALUES[:-8]))
    yield Bad("fewer values", fewer, "a page of 4 values has 24 bytes for them, 32 are needed")
    without_last = page_of(runs(REPETITION[:-1], 1), runs(DEFINITION[:-1], 2), VALUES[:-8], COUNT - 1)
    nothing = list_file(without_last, page_of(b"", b"", b"", 0))
    yield Bad("no values at the end", nothing, "the pages hold 6 values, the footer states 7")
    negative = list_file(page_of(GOOD_REPETITION, GOOD_DEFINITION, VALUES, -COUNT))
    yield Bad("a negative number of values", negative, "a page header holds the negative count -7")

    def second(*levels: bytes, rows: int = 5, **sizes: int) -> ListColumn:
        return list_file(page_v2(*levels, VALUES, values=COUNT, rows=rows, nulls=3, **sizes))

    for size, said in (
        (30, "a page claims 60 bytes of levels and has 32"),
        (-1, "a page header holds the negative count -1"),
        (MANY, f"a page claims {2 * MANY} bytes of levels and has 32"),
    ):
        yield Bad(f"{size} bytes", second(b"", b"", repetition_bytes=size, definition_bytes=size), said)
    yield Bad("version 2: no repetition levels", second(b"", GOOD_DEFINITION), ENDS)
    other = second(GOOD_REPETITION, GOOD_DEFINITION, rows=4)
    yield Bad("version 2: other rows", other, "a page holds 5 rows, its header or the page index states 4")
    within = list_file(
        page_v2(runs([0, 1], 1), runs([3, 3], 2), int64s(2), values=2, rows=1, nulls=0),
        page_v2(runs([1, 0, 0, 0, 0], 1), runs([3] * 5, 2), int64s(5), values=5, rows=5, nulls=0),
    )
    yield Bad("version 2: a page within a row", within, "holds 4 rows, its header or the page index states 5")


def billions_in_lists() -> Iterator[Bad]:
    """Few bytes that state many elements, or many lists."""
    one, billion = tw.varint(1 << 1) + b"\0", 10**9
    empty = page_of(A_BILLION + b"\0", A_BILLION + b"\1", b"", billion)
    yield Bad("a billion empty lists", list_file(empty, values=billion), f"a page has {billion} {TOO_MANY}")
    nulls = page_of(one + A_BILLION + b"\1", tw.varint((billion + 1) << 1) + b"\2", b"", billion + 1)
    yield Bad(
        "a billion nulls in one", list_file(nulls, values=billion + 1), f"a page has {billion + 1} {TOO_MANY}"
    )
    endless = tw.varint((2**62) << 1)
    many = page_of(b"\2\0" + endless + b"\1", endless + b"\3", VALUES, MANY)
    yield Bad("2^31 - 1 values in one", list_file(many, values=MANY, rows=1), f"a page has {MANY} {TOO_MANY}")
    inner = one + tw.varint((billion - 1) << 1) + b"\1"
    for_grids = page_of(inner, A_BILLION + b"\3", int64s(0), billion)
    yield Bad(
        "a billion empty lists in a list", grid_of([for_grids], 1, billion), f"has {billion} {TOO_MANY}"
    )


def levels_of_numbers() -> Iterator[Bad]:
    """Levels of a flat column that may hold nulls."""

    def optional(name: str, definition: bytes, said: str = ENDS, body: bytes = b"", values: int = 10) -> Bad:
        return Bad(name, numbers(data_page(sized(definition) + body, values), element=OPTIONAL), said)

    yield Bad("no levels", numbers(data_page(b"", 10), element=OPTIONAL), "the page has 0")
    yield optional("fewer levels", runs([1] * 9, 1), body=int64s(10))
    high = "a page holds the level 2, 1 is the largest"
    yield optional("a level that is too high", runs([1] * 9 + [2], 1), high, int64s(10))
    few = "a page of 9 values has 64 bytes for them, 72 are needed"
    yield optional("fewer values", runs([0] + [1] * 9, 1), few, int64s(8))
    enough = "2097236 uncompressed, and 10 values, for which 1048816 are enough"
    yield optional("runs of nothing", EMPTY_RUNS, enough, int64s(10))
    yield optional("packed runs of nothing", PACKED_OF_NOTHING, body=int64s(10))
    yield optional("a run without its value", tw.varint(10 << 1))
    yield optional("a packed run that is cut off", tw.varint(2 << 1 | 1) + b"\xff")
    more = "the pages hold more than the 10 values that the footer states"
    yield optional("a billion nulls", A_BILLION + b"\0", more, values=10**9)
    long = numbers(data_page(struct.pack("<I", 1000) + int64s(10), 10), element=OPTIONAL)
    yield Bad("levels beyond the page", long, "a page's levels end at byte 1004, the page has 84")
    null = data_page_v2(runs([1] * 10, 1) + int64s(9), 10, nulls=10, definition_bytes=2)
    needed = "a page of 10 values has 72 bytes for them, 80 are needed"
    yield Bad("version 2: nulls, and values", numbers(null, element=OPTIONAL), needed)


GRID = Form(
    1,
    4,
    5,
    (
        group("x", 1, LIST),
        group("list", REPEATED),
        group("element", 1, LIST),
        group("list", REPEATED),
        element("element", 1),
    ),
)
"""Lists of lists. The definition level of a null row is 0, of an empty one 1, of a null list in it 2, of an
empty one 3, of a null number 4, of a number 5."""


def grid_of(pages: list[bytes], rows: int, values: int) -> ListColumn:
    """A file of one column of lists of lists."""
    return ListColumn(pages, rows, form=GRID, values=values)


def grid_file(*pages: list[Triple], version: int = 1) -> ListColumn:
    """A file of these levels and values, page by page."""
    triples = [triple for part in pages for triple in part]
    rows = sum(triple[0] == 0 for triple in triples)
    return grid_of([page(part, GRID, version) for part in pages], max(rows, 1), len(triples))


def levels_of_lists_of_lists() -> Iterator[Bad]:
    """Lists and rows that go on where nothing goes on."""
    contradictions: list[tuple[str, list[list[Triple]]]] = [
        ("a list behind an empty one", [[(0, 3, None), (2, 5, 1)]]),
        ("a list behind a null one", [[(0, 2, None), (2, 5, 1)]]),
        ("a list in an empty row", [[(0, 1, None), (2, 5, 1)]]),
        ("a list as an empty one", [[(0, 5, 1), (2, 3, None)]]),
        ("a list as an empty row", [[(0, 5, 1), (2, 1, None)]]),
        ("a row behind an empty one", [[(0, 1, None), (1, 5, 1)]]),
        ("a row behind a null one", [[(0, 0, None), (1, 5, 1)]]),
        ("a row as a null one", [[(0, 5, 1), (1, 0, None)]]),
        ("the next page with a list behind an empty one", [[(0, 3, None)], [(2, 5, 1)]]),
        ("the next page with a list in an empty row", [[(0, 1, None)], [(2, 5, 1)]]),
        ("the next page with a null row", [[(0, 5, 1), (0, 0, None)], [(1, 5, 1)]]),
    ]
    for name, pages in contradictions:
        yield Bad(f"it goes on: {name}", grid_file(*pages), CONTRADICT)
    beginning = "row 0 of the row group has no beginning"
    yield Bad("a chunk within a list", grid_file([(2, 5, 1), (0, 5, 1)]), beginning)
    yield Bad("a chunk within a row", grid_file([(1, 5, 1), (0, 5, 1)]), beginning)
    high = "a page holds the level {}, {} is the largest"
    yield Bad("a high repetition level", grid_file([(0, 5, 1), (3, 5, 1)]), high.format(3, 2))
    yield Bad("a high definition level", grid_file([(0, 5, 1), (1, 6, 1)]), high.format(6, 5))


PARTS: dict[str, Part] = {
    "headers": headers,
    "codecs": codecs,
    "dictionaries": dictionaries,
    "texts": texts,
    "deltas of texts": deltas_of_texts,
    "values of one length": values_of_one_length,
    "levels of numbers": levels_of_numbers,
    "levels of lists": levels_of_lists,
    "billions in lists": billions_in_lists,
    "levels of lists of lists": levels_of_lists_of_lists,
}
