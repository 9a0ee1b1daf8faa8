"""No count that a file states is believed where rows are sought.

Every way to seek gives the rows of a pass from row 0, or an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.stated_counts import Column, Row, Stated, rows_of, ways

OLD_ARROW = b"parquet-cpp-arrow version 11.0.0"
JAVA = b"parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)"
BELIEVED = [b"parquet-cpp-arrow version 21.0.0", JAVA]
WRITERS = [None, b"by hand", OLD_ARROW, *BELIEVED]

lists = st.lists(st.one_of(st.none(), st.lists(st.integers(0, 99), max_size=5)), min_size=3, max_size=40)
longer = st.lists(st.lists(st.integers(0, 99), min_size=4, max_size=12), min_size=3, max_size=20)
flat = st.lists(st.integers(0, 99), min_size=3, max_size=60)
optional = st.lists(st.one_of(st.none(), st.integers(0, 99)), min_size=3, max_size=60)


def read_all(path: Path) -> list[tuple[int, Row]] | str:
    """All rows from row 0 on, or what is said."""
    dataset = fr.ParquetDataset(path, batch_size=4, nulls="mask", world=(0, 1), tail="short")
    try:
        return [row for batch in dataset for row in rows_of(batch)]
    except fr.DataError as error:
        return str(error)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    """Rows, cut into pages anywhere: within rows, too, but beside an index of those who never do that."""
    rows: Any = draw(st.one_of(lists, longer, flat, optional))
    column = Column(
        rows, [], draw(st.sampled_from([1, 2])), draw(st.booleans()), draw(st.sampled_from(WRITERS))
    )
    levels = column.triples()
    begins = [place for place, (repetition, *_) in enumerate(levels) if repetition == 0][1:]
    can_begin_within = not (column.is_indexed and column.created_by in BELIEVED)
    places = list(range(1, len(levels))) if can_begin_within else begins
    column.cuts = sorted(draw(st.sets(st.sampled_from(places), max_size=8))) if places else []
    return column


def check_ways(path: Path, column: Column, *, may_fail: bool) -> None:
    """Every way gives the rows as they are, or an error if there may be one."""
    expected = dict(enumerate(column.rows))
    for name, read in ways(path, len(column.rows)):
        try:
            found = read()
        except fr.DataError:
            if may_fail:
                continue
            raise
        assert found == [(row, expected[row]) for row, _ in found], f"{name} gives other rows"
        assert len(found) > 0, name


@given(columns())
def test_honest_files_are_read_in_every_way(tmp_path_factory: pytest.TempPathFactory, column: Column) -> None:
    path = column.write(tmp_path_factory.mktemp("counts") / "x.parquet")
    assert read_all(path) == list(enumerate(column.rows))
    check_ways(path, column, may_fail=False)


@given(columns(), st.data())
def test_whatever_counts_a_file_states_rows_are_those_that_there_are(
    tmp_path_factory: pytest.TempPathFactory, column: Column, data: st.DataObject
) -> None:
    """Of some pages the rows, the values or the first row are stated otherwise."""
    pages = len(column.cuts) + 1
    numbers = st.integers(0, len(column.triples()) + 1)
    kinds = ["first_row"] if column.is_indexed else ["values"]
    kinds += ["rows", "values"] if column.version == 2 else []
    for page in data.draw(st.sets(st.integers(0, pages - 1), min_size=1)):
        kind = data.draw(st.sampled_from(kinds))
        column.stated[page] = Stated(**{kind: data.draw(numbers)})
    path = column.write(tmp_path_factory.mktemp("counts") / "x.parquet")
    found = read_all(path)
    assert isinstance(found, str) or found == list(enumerate(column.rows))
    # A known writer is believed as long as nothing contradicts it.
    if not (column.is_indexed and column.version == 1 and column.created_by in BELIEVED):
        check_ways(path, column, may_fail=True)


LISTS: list[Row] = [[row, row] if row < 60 else [row] for row in range(300)]


def of_pages(rows: list[Row], page_rows: int, **how: Any) -> Column:
    """Pages of so many rows each."""
    column = Column(rows, [], **how)
    levels = column.triples()
    begins = [place for place, (repetition, *_) in enumerate(levels) if repetition == 0]
    column.cuts = begins[page_rows::page_rows]
    return column


@pytest.mark.parametrize("is_cut_within", [False, True], ids=["whole rows", "cut within rows"])
def test_pages_of_old_arrow_that_state_values_as_rows_are_read(tmp_path: Path, is_cut_within: bool) -> None:
    """Data pages of version 2 by Arrow C++ before 12: `num_rows` is `num_values`, pages begin anywhere."""
    column = of_pages(LISTS, 15, version=2, created_by=OLD_ARROW)
    if is_cut_within:
        column.cuts = list(range(1, len(column.triples()), 7))
    column.stated = {number: Stated(rows=len(page)) for number, page in enumerate(column.pages())}
    path = column.write(tmp_path / "x.parquet")
    assert read_all(path) == list(enumerate(LISTS))
    check_ways(path, column, may_fail=False)


def test_other_writers_are_not_excused(tmp_path: Path) -> None:
    column = of_pages(LISTS, 15, version=2, created_by=b"parquet-cpp-arrow version 12.0.0")
    column.stated = {number: Stated(rows=len(page)) for number, page in enumerate(column.pages())}
    path = column.write(tmp_path / "x.parquet")
    assert "states 30" in str(read_all(path))
    check_ways(path, column, may_fail=True)


FIRST_ROWS = {
    "counts values": lambda column, page: sum(map(len, column.pages()[:page])),
    "begins elsewhere": lambda column, page: column.first_rows()[page] + 10,
    "is shifted": lambda column, page: column.first_rows()[page] + (7 if page else 0),
    "is off in the middle": lambda column, page: column.first_rows()[page] + (7 if 5 < page < 15 else 0),
    "does not ascend": lambda column, page: column.first_rows()[-page - 1],
}


SLOW = pytest.mark.slow(reason="each way errs in the other version, or beside rows of the other kind")


@pytest.mark.parametrize("version", [pytest.param(1, marks=SLOW), 2])
@pytest.mark.parametrize(
    ("how", "is_flat"),
    [
        pytest.param(how, is_flat, marks=SLOW if is_flat == (place % 2 == 0) else ())
        for place, how in enumerate(FIRST_ROWS)
        for is_flat in (False, True)
    ],
)
def test_an_index_that_errs_leads_nobody_to_other_rows(
    tmp_path: Path, how: str, is_flat: bool, version: int
) -> None:
    rows: list[Row] = list(range(300)) if is_flat else LISTS
    column = of_pages(rows, 15, version=version, is_indexed=True)
    column.stated = {page: Stated(first_row=FIRST_ROWS[how](column, page)) for page in range(20)}
    path = column.write(tmp_path / "x.parquet")
    assert read_all(path) == list(enumerate(rows))
    check_ways(path, column, may_fail=False)


@pytest.mark.parametrize(
    "how", [how for how in FIRST_ROWS if how not in ("is shifted", "is off in the middle")]
)
def test_an_index_of_a_known_writer_is_believed_as_far_as_nothing_contradicts_it(
    tmp_path: Path, how: str
) -> None:
    column = of_pages(LISTS, 15, is_indexed=True, created_by=JAVA)
    column.stated = {page: Stated(first_row=FIRST_ROWS[how](column, page)) for page in range(20)}
    check_ways(column.write(tmp_path / "x.parquet"), column, may_fail=True)
    column.stated = {}
    check_ways(column.write(tmp_path / "x.parquet"), column, may_fail=False)
