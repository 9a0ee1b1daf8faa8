"""Every path from a page to a tensor gives the cells that pyarrow reads.

A path is an encoding, a page version, a codec, what may be null and what is, the layout of the batch, and the
order; pages of one row, of a few bytes, and whole; dictionaries that overflow into plain pages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
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
from support.cells import Cells, assert_holds, read_cells, written_cells
from support.columns import Kind
from support.each_of import each_of
from support.jobs import make
from support.list_writer import FORMS
from support.strategies import CODECS, ENCODINGS, Dataset, DatasetSpec, plain_spec
from support.topologies import Shuffle

Write = Callable[[DatasetSpec], Dataset]

ROW_SHARES = (None, 0.0, 0.1, 0.9, 1.0)
SCALARS = ("bool", "int8", "int32", "int64", "uint16", "float16", "float32", "float64", "date32", "string")
ELEMENTS = ("bool", "int16", "int64", "float16", "float32", "timestamp[us]")
LIST_SHARES = ((None, None), (0.0, None), (None, 0.0), (0.1, 0.1), (0.9, 0.9), (1.0, 0.5), (0.2, 1.0))
BATCH_SIZE = 17
ORDERS = ({}, Shuffle(17, 20, 45).arguments)


def every_column() -> list[Kind]:
    """A column for each type and each share of nulls: of rows, and of elements."""
    scalars = [
        Kind(f"{type_}_{place}", type_, nulls=share, seed=place)
        for type_ in SCALARS
        for place, share in enumerate(ROW_SHARES)
    ]
    lists = [
        Kind(f"list_{type_}_{place}", type_, "list", *shares, seed=place, longest=(3, 1, 9)[place % 3])
        for type_ in ELEMENTS
        for place, shares in enumerate(LIST_SHARES)
    ]
    return [*scalars, *lists]


def rules_of(cells: Mapping[str, Cells]) -> dict[str, Any]:
    """A mask for every other column; a value for the others, and where an element is null."""
    rules: dict[str, Any] = {}
    for place, (name, column) in enumerate(cells.items()):
        has_null_element = any(isinstance(row, tuple) and None in row for row in column.rows)
        rules[name] = place % 2 if has_null_element or place % 2 else "mask"
    return rules


def stacks_of(cells: Mapping[str, Cells], rule: Any) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """A matrix of all columns of each type of numbers, and the rules of a batch with these."""
    stacks = {type_: [f"{type_}_{place}" for place in range(5)] for type_ in SCALARS if type_ != "string"}
    members = {name for names in stacks.values() for name in names}
    rules = {name: rule for name, rule in rules_of(cells).items() if name not in members}
    return stacks, {**rules, **dict.fromkeys(stacks, rule)}


def assert_every_way_equals_pyarrow(dataset: Dataset) -> None:
    """One tensor per column, matrices, both; in sequence and shuffled; whole passes and chosen rows."""
    cells = read_cells(dataset.directory)
    random = np.random.default_rng(1)
    for place, order in enumerate(ORDERS):
        ways: list[tuple[dict[str, list[str]], dict[str, Any]]] = [({}, rules_of(cells))]
        ways += [stacks_of(cells, ("mask", 1)[place])]
        for stack, rules in ways:
            made = make(dataset, BATCH_SIZE, **asked(rules, stack), tail="short", **order)
            seen = []
            for batch in made:
                assert_holds(batch, cells, rules, stack)
                seen += batch.rows().tolist()
            assert sorted(seen) == list(range(dataset.num_rows))
            numbers = random.integers(0, dataset.num_rows, 12)
            assert_holds(made.read_rows(numbers), cells, rules, stack)


PAGES = {
    "whole pages": {},
    "pages of one row": {"page_rows": 1},
    "pages of few bytes": {"page_rows": 7, "page_bytes": 64},
    "pages of one byte": {"page_rows": 3, "page_bytes": 1, "page_index": True},
}
QUICK = [("1.0", "pages of few bytes"), ("2.0", "pages of few bytes")]
"""Whole pages of both versions are those of `test_every_codec`."""


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("version", "pages"),
    [
        pytest.param(version, pages, marks=() if (version, pages) in QUICK else pytest.mark.slow)
        for version in ("1.0", "2.0")
        for pages in PAGES
    ],
)
def test_every_encoding_page_version_and_page_size(
    write_dataset: Write, encoding: str, version: str, pages: str
) -> None:
    place = list(PAGES).index(pages) + list(ENCODINGS).index(encoding)
    spec = plain_spec(
        [40, 0, 13],
        [37],
        columns=every_column(),  # type: ignore[arg-type]
        encoding=encoding,
        page_version=version,
        codec=CODECS[place % len(CODECS)],
        **PAGES[pages],
    )
    assert_every_way_equals_pyarrow(write_dataset(spec))


@each_of("codec, version", zip(CODECS, itertools.cycle(["1.0", "2.0"])))
def test_every_codec(write_dataset: Write, codec: str, version: str) -> None:
    spec = plain_spec([40], [37], columns=every_column(), codec=codec, page_version=version, checksum=True)  # type: ignore[arg-type]
    assert_every_way_equals_pyarrow(write_dataset(spec))


A_COLUMN_EACH = (
    Kind("number", "int64", nulls=0.3),
    Kind("float", "float32", nulls=None),
    Kind("truth", "bool", nulls=0.2),
    Kind("text", "string", nulls=0.1),
    Kind("list", "int32", "list", 0.1, 0.1),
    Kind("bytes", "binary[7]", nulls=0.1),
)
"""One of each way from pages to tensors."""


@each_of("encoding", ENCODINGS)
@each_of("version", ["1.0", "2.0"])
def test_every_encoding_in_every_codec_with_and_without_a_page_index(
    write_dataset: Write, encoding: str, version: str
) -> None:
    for codec, has_index in itertools.product(CODECS, [False, True]):
        spec = plain_spec(
            [40, 13],
            columns=A_COLUMN_EACH,  # type: ignore[arg-type]
            encoding=encoding,
            page_version=version,
            codec=codec,
            page_rows=7,
            page_bytes=64,
            page_index=has_index,
        )
        dataset, cells = write_dataset(spec), written_cells(spec)
        assert pq.read_metadata(dataset.files[0]).row_group(0).column(0).has_offset_index == has_index
        rules = dict.fromkeys(cells, "mask") | {"list": 1}
        seen = []
        for chosen in (None, [[5, 6], [21, 24], [50, 51]]):
            for batch in make(dataset, 17, **asked(rules), rows=chosen, tail="short"):
                assert_holds(batch, cells, rules)
                seen += batch.rows().tolist()
        assert seen == [*range(53), 5, 21, 22, 23, 50]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_dictionaries_under_their_old_name(write_dataset: Write, version: str) -> None:
    columns = [column for column in every_column() if column.type != "uint16"]
    spec = plain_spec([40], [37], columns=columns, format_version="1.0", page_version=version)  # type: ignore[arg-type]
    dataset = write_dataset(spec)
    metadata = pq.read_metadata(dataset.files[0])
    found = {metadata.row_group(0).column(leaf).encodings for leaf in range(metadata.num_columns)}
    assert any("PLAIN_DICTIONARY" in encodings for encodings in found)
    cells = read_cells(dataset.directory)
    rules = rules_of(cells)
    for batch in make(dataset, BATCH_SIZE, **asked(rules)):
        assert_holds(batch, cells, rules)


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


@each_of("encoding", ENCODINGS)
@each_of("version", ["1.0", "2.0"])
def test_pages_of_no_values(write_dataset: Write, encoding: str, version: str) -> None:
    """Empty lists, nulls, and empty strings alone; also read by their numbers."""
    columns = [Kind(f"null_{type_}", type_, nulls=1.0) for type_ in SCALARS]
    columns += [Kind(f"list_{type_}", type_, "list", longest=0) for type_ in ELEMENTS]
    columns += [Kind(f"nulls_{type_}", type_, "list", nulls=1.0) for type_ in ELEMENTS]
    columns += [Kind("empty", "string", distinct=1)]
    spec = plain_spec([3, 1], columns=columns, encoding=encoding, page_version=version)  # type: ignore[arg-type]
    cells = written_cells(spec)
    dataset = make(write_dataset(spec), 2, nulls="mask")
    for batch in dataset:
        assert_holds(batch, cells, "mask")
    assert_holds(dataset.read_rows([3, 0, 3]), cells, "mask")
