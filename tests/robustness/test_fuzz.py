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
from support.child import MIB, Child, Outcome, Reader, forget_peak, opened, peak, say
from support.columns import Kind, tables
from support.columns import all_kinds as columns_of_all_kinds
from support.damage import damaged
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

pytestmark = pytest.mark.law(11)

SECONDS = 10
GROWTH = 500 * MIB

# ---------------------------------------------------------------------------------------------------- the law


def read_here(path: Path, batch_size: int, threads: int, nulls: str | int = "error", width: int = 0) -> str:
    """Read all of a file; return what came of it, which is a success or one of our exceptions."""
    began = time.process_time()
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
    assert time.process_time() - began < SECONDS
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
        reader = Reader()
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
