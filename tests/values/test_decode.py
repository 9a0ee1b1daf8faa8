"""Every path from a page to a tensor gives the cells that pyarrow reads.

A path is an encoding, a page version, a codec, what may be null and what is, the layout of the batch, and the
order; pages of one row, of a few bytes, and whole; dictionaries that overflow into plain pages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import list_writer as lw
from support.asked import asked
from support.cells import assert_holds, read_cells
from support.columns import Kind
from support.each_of import each_of
from support.jobs import make
from support.list_writer import FORMS
from support.strategies import Dataset, DatasetSpec, plain_spec
from support.topologies import Shuffle

Write = Callable[[DatasetSpec], Dataset]

ORDERS = ({}, Shuffle(17, 20, 45).arguments)


@each_of("version", ["1.0", "2.0"])
def test_dictionaries_under_their_old_name(write_dataset: Write, version: str) -> None:
    columns = [Kind(type_, type_, nulls=0.1) for type_ in ("int32", "float64", "string")]
    columns.append(Kind("list", "int64", "list", nulls=0.1, element_nulls=0.1))
    spec = plain_spec([40], [37], columns=columns, format_version="1.0", page_version=version)  # type: ignore[arg-type]
    dataset = write_dataset(spec)
    metadata = pq.read_metadata(dataset.files[0])
    found = {metadata.row_group(0).column(leaf).encodings for leaf in range(metadata.num_columns)}
    assert all("PLAIN_DICTIONARY" in encodings for encodings in found)
    cells = read_cells(dataset.directory)
    for batch in make(dataset, 17, nulls="mask"):
        assert_holds(batch, cells, "mask")


@each_of("version", ["1.0", "2.0"])
@each_of("rows", [8, 63, 64, 65, 1000])
@each_of("share", [0.001, 0.5, 0.999])
def test_nulls_around_the_widths_of_machine_words(
    write_dataset: Write, version: str, rows: int, share: float
) -> None:
    """Levels are taken 8 or 64 at a time: what is left over, and runs that begin within a word."""
    columns = [
        Kind("number", "int32", nulls=share),
        Kind("real", "float64", nulls=share, seed=1),
        Kind("flag", "bool", nulls=share, seed=2),
        Kind("text", "string", nulls=share, seed=3),
        Kind("list", "int64", "list", nulls=share, element_nulls=share, seed=4, longest=70),
    ]
    dataset = write_dataset(plain_spec([rows, rows + 1, 1], columns=columns, page_version=version))  # type: ignore[arg-type]
    cells = read_cells(dataset.directory)
    rules = {"*": "mask", "list": 1}
    for order in ORDERS:
        for batch in make(dataset, 61, **asked(rules), tail="short", **order):
            assert_holds(batch, cells, rules)


@pytest.mark.parametrize("encoding", ["plain", "dictionary", "packed"])
def test_long_runs_of_nulls_and_of_values(tmp_path: Path, encoding: str) -> None:
    """Thousands of one kind on end, over many pages: runs that span batches, or that a seek passes over."""
    rows = 20_000
    numbers = np.arange(rows)
    is_null = (numbers // 3000) % 2 == 1
    is_null[:5], is_null[-5:] = True, False
    number = pa.array(numbers, pa.int64(), mask=is_null)
    text = pa.array([None if is_null[row] else str(row) for row in range(rows)])
    lists = pa.array([None if is_null[row] else [row] * (row % 3) for row in range(rows)])
    packed = {
        "number": "DELTA_BINARY_PACKED",
        "text": "DELTA_BYTE_ARRAY",
        "list.list.element": "DELTA_BINARY_PACKED",
    }
    pq.write_table(
        pa.table({"number": number, "text": text, "list": lists}),
        tmp_path / "x.parquet",
        row_group_size=15_000,
        data_page_size=4096,
        use_dictionary=encoding == "dictionary",
        column_encoding=packed if encoding == "packed" else None,
    )
    cells = read_cells(tmp_path)
    for order in ({}, Shuffle(1, 1500, 5000).arguments):
        dataset = fr.ParquetDataset(tmp_path, batch_size=997, nulls="mask", tail="short", **order)
        batches = list(dataset)
        for batch in batches:
            assert_holds(batch, cells, "mask")
        for step in (0, 3, 11, 20):
            resumed = fr.ParquetDataset(tmp_path, batch_size=997, nulls="mask", tail="short", **order)
            resumed.load_state_dict(batches[step].state_dict())
            if resumed.epoch == 0:
                after = next(iter(resumed))
                assert after.rows().tolist() == batches[step + 1].rows().tolist()
                assert_holds(after, cells, "mask")


# --------------------------------------------------------------------- what pyarrow reads, but does not write


@st.composite
def written_lists(draw: st.DrawFn, form: lw.Form, version: int) -> tuple[list[Any], list[bytes]]:
    """Draw rows and the pages that hold them: cut anywhere in version 1, between rows in version 2."""
    value: st.SearchStrategy[int | None] = st.integers(-(2**63), 2**63 - 1)
    if form.can_hold_null_elements:
        value = st.none() | value
    row: st.SearchStrategy[list[int | None] | None] = st.lists(value, max_size=5)
    if form.can_hold_null_rows:
        row = st.none() | row
    rows = draw(st.lists(row, min_size=1, max_size=12))
    triples = lw.shred(rows, form)
    allowed = [place for place in range(1, len(triples)) if version == 1 or triples[place][0] == 0]
    cuts = sorted(draw(st.sets(st.sampled_from(allowed)))) if allowed else []
    bounds = [0, *cuts, len(triples)]
    is_packed = draw(st.booleans())
    pages = [
        lw.page(triples[begin:end], form, version, is_packed=is_packed)
        for begin, end in itertools.pairwise(bounds)
    ]
    return rows, pages


@each_of("version", [1, 2])
@each_of("name", FORMS)
def test_lists_in_every_form_cut_into_any_pages(tmp_path_factory: Any, name: str, version: int) -> None:
    form = FORMS[name]
    path = tmp_path_factory.mktemp("lists") / "x.parquet"

    @given(written_lists(form, version), st.integers(1, 13), st.data())
    def check(drawn: tuple[list[Any], list[bytes]], batch_size: int, data: st.DataObject) -> None:
        rows, pages = drawn
        lw.of_rows(rows, form, pages).write(path)
        has_null_element = any(row is not None and None in row for row in rows)
        found = []
        dataset = fr.ParquetDataset(
            path, batch_size=batch_size, tail="short", **asked(-7 if has_null_element else "mask")
        )
        for batch in dataset:
            found += batch["x"].to_list()
        expected = [
            ([-7 if value is None else value for value in row or []]) if has_null_element else row
            for row in rows
        ]
        assert found == expected
        chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
        assert dataset.read_rows(chosen)["x"].to_list() == [expected[row] for row in chosen]

    check()


@each_of("is_packed", [False, True])
@each_of("version", [1, 2])
@each_of("name", FORMS)
def test_long_lists_end_anywhere_in_a_word_of_levels(
    tmp_path: Path, name: str, version: int, is_packed: bool
) -> None:
    """Levels are looked at 64 at a time: rows and pages begin before, at and behind each 64th one."""
    form, random = FORMS[name], np.random.default_rng(7)
    rows: list[list[int | None] | None] = []
    for length in [*range(60, 70), 0, 0, 1, 127, 128, 129, 700, 2, 64, 64, 63]:
        rows.append([int(value) for value in random.integers(0, 1000, length)])
        if form.can_hold_null_elements:
            rows.append([value if value % 9 else None for value in rows[-1] or []])
        if form.can_hold_null_rows and length % 3 == 0:
            rows.append(None)
    triples = lw.shred(rows, form)
    places = random.choice(np.arange(1, len(triples)), 40, replace=False)
    cuts = sorted(int(place) for place in places if version == 1 or triples[place][0] == 0)
    pages = [
        lw.page(triples[begin:end], form, version, is_packed=is_packed)
        for begin, end in itertools.pairwise([0, *cuts, len(triples)])
    ]
    path = lw.of_rows(rows, form, pages).write(tmp_path / "x.parquet")
    expected = [[-7 if value is None else value for value in row or []] for row in rows]
    for batch_size in (1, 5, len(rows)):
        dataset = fr.ParquetDataset(
            path, batch_size=batch_size, tail="short", columns=fr.col("*").fill_null(-7)
        )
        assert [row for batch in dataset for row in batch["x"].to_list()] == expected
        chosen = [int(row) for row in random.integers(0, len(rows), 9)]
        assert dataset.read_rows(chosen)["x"].to_list() == [expected[row] for row in chosen]
    if not form.can_hold_null_elements:
        (batch,) = fr.ParquetDataset(path, batch_size=len(rows), nulls="mask")
        assert batch["x"].to_list() == rows


STRETCHES = [(700, 0.0), (300, 0.1), (64, 1.0), (1, 0.0), (130, 0.5), (63, 1.0), (900, 0.02), (500, 0.98)]
"""So many rows, of which this share is null."""


@each_of("page_bytes", [300, 1 << 20])
@each_of("version", ["1.0", "2.0"])
@each_of("use_dictionary", [False, True])
def test_nulls_among_runs_of_values_and_of_nulls(
    tmp_path: Path, use_dictionary: bool, version: str, page_bytes: int
) -> None:
    """Writers mix runs of levels with packed groups; every width of number is put between the nulls."""
    random = np.random.default_rng(5)
    null = np.concatenate([random.random(rows) < share for rows, share in STRETCHES * 2])
    kinds = ("bool", "int8", "uint16", "int32", "float32", "int64", "float64", "string", "list<item: int64>")
    columns = {}
    for kind in kinds:
        type_ = pa.list_(pa.int64()) if kind.startswith("list") else pa.type_for_alias(kind)
        values: list[Any] = [int(value) for value in random.integers(0, 100, len(null))]
        if kind == "bool":
            values = [value < 50 for value in values]
        elif pa.types.is_string(type_):
            values = ["x" * value for value in values]
        elif pa.types.is_list(type_):
            values = [[value] * (value % 70) for value in values]
        cells = [None if is_null else value for value, is_null in zip(values, null, strict=True)]
        columns[kind.split("<")[0]] = pa.array(cells, pa.bool_() if kind == "bool" else type_)
    pq.write_table(
        pa.table(columns),
        tmp_path / "x.parquet",
        row_group_size=3000,
        data_page_version=version,
        data_page_size=page_bytes,
        use_dictionary=use_dictionary,
    )
    cells = read_cells(tmp_path)
    for order in ({}, Shuffle(1, 500, 2000).arguments):
        for batch in fr.ParquetDataset(tmp_path, batch_size=411, nulls="mask", tail="short", **order):
            assert_holds(batch, cells, "mask")
    chosen = sorted({int(row) for row in random.integers(0, len(null), 50)})
    assert_holds(fr.ParquetDataset(tmp_path, batch_size=1, nulls="mask").read_rows(chosen), cells, "mask")


@each_of("cut", [1, 2, 3, 4])
def test_a_null_element_is_named_by_the_row_that_its_page_goes_on_with(tmp_path: Path, cut: int) -> None:
    form, rows = FORMS["three levels"], [[1], [2, 3, None, 4], [5]]
    triples = lw.shred(rows, form)
    pages = [lw.page(triples[:cut], form), lw.page(triples[cut:], form)]
    path = lw.of_rows(rows, form, pages).write(tmp_path / "x.parquet")
    with pytest.raises(fr.DataError, match=r"row 1 .*null"):
        list(fr.ParquetDataset(path, batch_size=3, columns=[fr.col("x").pad(4)]))
    (batch,) = fr.ParquetDataset(path, batch_size=3, nulls="mask")
    assert batch["x"].to_list() == rows


@each_of("name", FORMS)
def test_the_forms_are_those_that_pyarrow_reads(tmp_path: Path, name: str) -> None:
    """The test's own writer writes what it means to."""
    form = FORMS[name]
    rows = [[1, 2], [], [3]]
    rows += [None] if form.can_hold_null_rows else []
    rows += [[None, 4]] if form.can_hold_null_elements else []
    for version in (1, 2):
        pages = [lw.page(lw.shred(rows, form), form, version)]
        path = lw.of_rows(rows, form, pages).write(tmp_path / "x.parquet")
        assert pq.read_table(path)["x"].to_pylist() == rows
