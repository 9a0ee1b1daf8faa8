"""Law 11 for damage at random: a file with any bytes is read, or refused with one of our exceptions.

Bytes are flipped, inserted, deleted and moved; in half of the cases the damage is done to what the bytes mean
(a field of the footer, of a page header), which gets past the checks that random bytes fail at.

In the `soak` profile another process reads, so that a file which kills it is reported and shrunk like any
other failure: `make fuzz`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import event, given
from hypothesis import strategies as st

import fastresume as fr
from support import thrift_writer as tw
from support.child import MIB, Child, Outcome, Reader, forget_peak, opened, peak, say
from support.columns import Kind, tables
from support.columns import all_kinds as columns_of_all_kinds
from support.profile import SOAK
from support.strategies import (
    CODECS,
    ENCODINGS,
    TYPES,
    ColumnSpec,
    DatasetSpec,
    FileSpec,
    dataset_specs,
    written,
)
from support.thrift_writer import Field, Struct, Wire

pytestmark = pytest.mark.law(11)

SECONDS = 10
GROWTH = 500 * MIB

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


# ---------------------------------------------------------------------------------------------------- the law


def read_here(path: Path, batch_size: int, threads: int, nulls: str | int = "error", width: int = 0) -> str:
    """Read all of a file; return what came of it, which is a success or one of our exceptions."""
    began = time.monotonic()
    kind = "success"
    try:
        dataset = opened(str(path), batch_size, nulls, width)
        batches = list(fr.Loader(dataset, threads=threads) if threads else dataset)
        assert len(batches) == len(dataset)
        assert all(is_whole(tensor, batch_size) for batch in batches for tensor in batch.values())
    except AssertionError:
        raise
    except BaseException as error:
        # A panic of the Rust side is a BaseException.
        if not isinstance(error, (fr.FastresumeError, ValueError)) or isinstance(error, UnicodeError):
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        kind = caught(type(error).__name__, str(error))
    assert time.monotonic() - began < SECONDS
    return kind


def is_whole(tensor: torch.Tensor | fr.Jagged, batch_size: int) -> bool:
    """Return whether there are so many rows, of which each is somewhere among the values."""
    if isinstance(tensor, torch.Tensor):
        return len(tensor) == batch_size
    bounds = tensor.offsets.tolist()
    whole = len(bounds) == batch_size + 1 and bounds[0] == 0 and bounds[-1] == len(tensor.values)
    return whole and bounds == sorted(bounds) and (tensor.valid is None or len(tensor.valid) == batch_size)


def caught(kind: str, message: str) -> str:
    """Return what to count an exception as."""
    assert message
    assert "\n" not in message.replace("\n  '", ""), "but in a table of columns"
    return f"{kind} of a panic" if "gave up" in message else kind


def read_there(reader: Reader, *arguments: Any) -> str:
    """Do the same in another process."""
    outcome: Outcome = reader.read(*arguments)
    if outcome.kind == "NoneType":
        return "success"
    assert outcome.kind in ("DataError", "SourceError", "ValueError"), outcome
    assert outcome.grown < GROWTH, outcome
    return caught(outcome.kind, outcome.message)


@pytest.fixture(scope="module")
def read() -> Iterator[Callable[..., str]]:
    """The function that reads a file."""
    if SOAK:
        reader = Reader(SECONDS)
        yield lambda *arguments: read_there(reader, *arguments)
        reader.close()
        return
    forget_peak()
    before = peak()
    yield read_here
    assert peak() - before < GROWTH


@given(
    dataset_specs(min_rows=5, max_files=1),
    st.randoms(use_true_random=True),
    st.sampled_from([1, 3, 7]),
    st.sampled_from([0, 0, 2]),
)
def test_any_damage_is_read_or_refused(
    read: Callable[..., str], spec: DatasetSpec, random: Random, batch_size: int, threads: int
) -> None:
    with written(spec) as dataset:
        path = dataset.files[0]
        path.write_bytes(damaged(path.read_bytes(), random))
        event(read(path, batch_size, threads))


@given(
    tables(min_rows=5, max_files=1),
    st.randoms(use_true_random=True),
    st.sampled_from([1, 3, 7]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(["mask", 0]),
    st.sampled_from([0, 3]),
)
def test_any_damage_to_lists_strings_and_nulls_is_read_or_refused(
    read: Callable[..., str],
    spec: DatasetSpec,
    random: Random,
    batch_size: int,
    threads: int,
    nulls: str | int,
    width: int,
) -> None:
    with written(spec) as dataset:
        path = dataset.files[0]
        path.write_bytes(damaged(path.read_bytes(), random))
        event(read(path, batch_size, threads, nulls, width))


def as_matrix(tensor: torch.Tensor | fr.Jagged) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return tensor.reshape(len(tensor), -1)


def numbers_of(path: Path, **how: Any) -> torch.Tensor | str:
    """Return columns of integers in the order of the file, `[N, k]`, or why there are none."""
    try:
        columns = {"columns": fr.col("*").fill_null(3)}
        dataset = fr.ParquetDataset(path, batch_size=7, tail="short", lanes=1, **{**columns, **how})
        if any(field.dtype != torch.int64 or field.kind != "scalar" for field in dataset.schema.values()):
            return "other types"
        batches = list(dataset)
    except (fr.FastresumeError, ValueError) as error:
        return caught(type(error).__name__, str(error))
    rows = np.concatenate([batch.rows() for batch in batches])
    values = [torch.cat([as_matrix(of) for of in batch.values()], 1) for batch in batches]
    return torch.cat(values)[torch.from_numpy(np.argsort(rows))]


@given(st.randoms(use_true_random=True), st.booleans(), st.booleans(), st.sampled_from(["1.0", "2.0"]))
def test_damaged_integers_are_the_same_in_a_matrix_and_alone_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, random: Random, dictionary: bool, nulls: bool, version: Any
) -> None:
    path = tmp_path_factory.mktemp("integers") / "a.parquet"
    columns = {}
    for column in range(6):
        values = [random.randrange(1 << 31) << random.choice([0, 0, 0, 1]) for _ in range(60)]
        columns[f"c{column}"] = [None if nulls and random.random() < 0.2 else value for value in values]
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    how: dict[str, Any] = {"use_dictionary": dictionary, "data_page_version": version}
    pq.write_table(table, path, row_group_size=25, data_page_size=64, **how)
    path.write_bytes(damaged(path.read_bytes(), random))
    alone = numbers_of(path)
    for columns in (fr.stack(fr.col("*").fill_null(3), name="all"), fr.col("*").fill_null(3)):
        for shuffle in (False, True):
            found = numbers_of(path, columns=columns, shuffle=shuffle)
            if isinstance(alone, str) or isinstance(found, str):
                # Of other types than it was written with, no matrix may be made.
                assert alone == "other types" or (isinstance(found, str) and isinstance(alone, str))
            else:
                assert torch.equal(found, alone)
    event(alone if isinstance(alone, str) else "success")


@pytest.mark.parametrize("small", ["numbers", "a list", "a string", "nulls"])
@given(
    st.lists(
        st.tuples(st.sampled_from(range(1 << 16)), st.binary(max_size=4), st.integers(0, 4)),
        min_size=1,
        max_size=4,
    )
)
def test_any_few_bytes_in_a_small_file_are_read_or_refused(
    read: Callable[..., str], small: str, edits: list[tuple[int, bytes, int]]
) -> None:
    """Shrinks well: hypothesis knows each byte."""
    with written(SMALL[small]) as dataset:
        path = dataset.files[0]
        data = bytearray(path.read_bytes())
        for number, new, gone in edits:
            at = number % len(data)
            data[at : at + gone] = new
        path.write_bytes(data)
        event(read(path, 3, 0, 0))


SMALL = {
    what: DatasetSpec((FileSpec("a.parquet", (4, 4), codec="none", encoding=encoding),), (column,))
    for what, encoding, column in (
        ("numbers", "dictionary", ColumnSpec("c", "int16")),
        ("a list", "plain", Kind("c", "int16", "list", nulls=0.2, element_nulls=0.2)),
        ("lists of lists", "dictionary", Kind("c", "int16", "list_of_list", nulls=0.2, element_nulls=0.2)),
        ("lists of strings", "dictionary", Kind("c", "string", "list", nulls=0.2, element_nulls=0.2)),
        ("a string", "split", Kind("c", "string", nulls=0.2)),
        ("nulls", "plain", Kind("c", "int16", nulls=0.5)),
    )
}

# ------------------------------------------------------------------------------------------------ for minutes


def all_kinds() -> list[DatasetSpec]:
    """Return specs of files of every codec, encoding and page version."""
    columns = [ColumnSpec(f"c{index}", type_, fill="bits") for index, type_ in enumerate(TYPES)]
    columns += columns_of_all_kinds(nulls=0.2, element_nulls=0.2)
    return [
        DatasetSpec(
            (FileSpec("a.parquet", (5, 0, 20), codec, encoding, version, page_rows=rows),),
            tuple(columns[part::12]),
        )
        for codec in CODECS
        for encoding in ENCODINGS
        for version in ("1.0", "2.0")
        for rows in (7, 1000)
        for part in range(12)
    ]


def fuzz(directory: str, first_seed: int, seconds: float) -> dict[str, int]:
    """Read damaged files for so long; the file being read stays in the directory if it ends this process."""
    originals = []
    for spec in all_kinds():
        with written(spec) as dataset:
            originals.append(dataset.files[0].read_bytes())
        say(len(originals))
    path = Path(directory) / "a.parquet"
    counts: dict[str, int] = {}
    end = time.monotonic() + seconds
    seed = first_seed
    while time.monotonic() < end:
        random = Random(seed)
        path.write_bytes(damaged(random.choice(originals), random))
        forget_peak()
        before = peak()
        kind = read_here(
            path,
            random.choice([1, 3, 7]),
            random.choice([0, 0, 0, 2]),
            random.choice(["mask", 0]),
            random.choice([0, 0, 5]),
        )
        assert peak() - before < GROWTH, f"seed {seed}: {peak() - before} bytes"
        counts[kind] = counts.get(kind, 0) + 1
        seed += 1
        if seed % 100 == 0:
            say(seed)
    return counts


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not SOAK, reason="takes minutes; FASTRESUME_PROFILE=soak runs it")
@pytest.mark.parametrize("minute", range(int(os.environ.get("FASTRESUME_FUZZ_MINUTES", "5"))))
def test_a_minute_of_damage(minute: int) -> None:
    """Other files each time it runs, unless FASTRESUME_FUZZ_SEED names the seed that one before has told."""
    first = int(os.environ.get("FASTRESUME_FUZZ_SEED", time.time_ns() // 1_000_000_000 * 1_000_000))
    print(f"FASTRESUME_FUZZ_SEED={first}", flush=True)
    directory = tempfile.mkdtemp(prefix="fastresume-fuzz-")  # it stays if it holds what killed the process
    with Child(address_space=8 << 30) as child:
        child.start(fuzz, directory, first + minute * 1_000_000, 60)
        while "said" in (message := child.message(seconds=30)):
            pass
        assert "returned" in message, f"{directory}: {message}"
        print(message["returned"], flush=True)
    shutil.rmtree(directory)
