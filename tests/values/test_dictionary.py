"""Columns of strings as codes: the place of each among all different values of the files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import testing
from support.each_of import each_of
from support.jobs import data_loader
from support.topologies import Shuffle

CITIES = ["Oslo", "Berlin", "Porto", "Oslo", None, "Århus", "", "Berlin"]
SORTED = ["", "Berlin", "Oslo", "Porto", "Århus"]
TAGS = [["b", "a"], [], None, ["c"], ["a", "a"], ["b"], [], ["d"]]


@pytest.fixture
def cities(tmp_path: Path) -> Path:
    """Two files of two row groups each."""
    for name, part in [("a", slice(0, 5)), ("b", slice(5, 8))]:
        columns = {"city": CITIES[part], "tags": TAGS[part], "row": range(8)[part]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=3)
    return tmp_path


def codes(**arguments: Any) -> dict[str, Any]:
    columns = ["*", fr.col("city").codes().fill_null(-1), fr.col("tags").codes().mask_null()]
    return {"batch_size": 8, "columns": columns, **arguments}


# ------------------------------------------------------------------------------------------ what is delivered


def test_codes_are_places_in_one_dictionary_of_all_files(cities: Path) -> None:
    dataset = fr.ParquetDataset(cities, **codes())
    assert dataset.dictionaries == {"city": SORTED, "tags": ["a", "b", "c", "d"]}
    assert repr(dataset.schema) == (
        "city: int64 [B] dictionary[5]\ntags: int64 [B, *] dictionary[4] valid\nrow: int64 [B]"
    )
    (batch,) = dataset
    assert batch["city"].dtype == torch.int64
    assert batch["city"].tolist() == [2, 1, 3, 2, -1, 4, 0, 1]
    assert batch["tags"].to_list() == [[1, 0], [], None, [2], [0, 0], [1], [], [3]]
    assert fr.ParquetDataset(cities, batch_size=8, columns="row").dictionaries == {}


def test_rows_that_are_not_selected_have_their_places_too(cities: Path) -> None:
    for arguments in ({"filter": fr.col("city") == "Berlin"}, {"rows": [(1, 2), (7, 8)]}):
        dataset = fr.ParquetDataset(cities, **codes(batch_size=2, **arguments))
        (batch,) = dataset
        assert batch["city"].tolist() == [1, 1]
        assert dataset.dictionaries["city"] == SORTED


def test_a_stack_a_mask_and_a_name_are_those_of_other_numbers(cities: Path) -> None:
    coded = fr.col("city").codes().mask_null()
    both = fr.stack(fr.col("row").mask_null(), coded, name="both")
    (batch,) = fr.ParquetDataset(cities, **codes(columns=both))
    assert batch["both"].tolist()[3:5] == [[3, 2], [4, 0]]
    assert batch["both_valid"].tolist()[3:5] == [[True, True], [True, False]]
    (batch,) = fr.ParquetDataset(cities, **codes(columns=coded.alias("town")))
    assert batch["town"].tolist()[:3] == [2, 1, 3]


def test_files_that_lack_a_column_add_no_value(cities: Path) -> None:
    pq.write_table(pa.table({"row": [8], "tags": [["z"]]}), cities / "c.parquet")
    dataset = fr.ParquetDataset(
        cities,
        **codes(
            batch_size=9,
            columns=[
                fr.col("city").optional().codes().fill_null(-1),
                fr.col("tags").codes().mask_null(),
            ],
        ),
    )
    (batch,) = dataset
    assert batch["city"].tolist() == [2, 1, 3, 2, -1, 4, 0, 1, -1]
    assert dataset.dictionaries == {"city": SORTED, "tags": ["a", "b", "c", "d", "z"]}


def test_bytes_that_are_no_text_are_values_of_binary_columns_alone(path: Path) -> None:
    values = pa.array([b"\xff", b"a"])
    pq.write_table(pa.table({"x": values}), path)
    dataset = fr.ParquetDataset(path, batch_size=2, columns=["*", fr.col("x").codes()])
    assert dataset.dictionaries == {"x": [b"a", b"\xff"]}
    bad = pa.Array.from_buffers(pa.string(), 2, values.buffers())
    pq.write_table(pa.table({"x": bad}), path)
    dataset = fr.ParquetDataset(path, batch_size=2, columns=["*", fr.col("x").codes()])
    assert next(iter(dataset))["x"].tolist() == [1, 0]
    with pytest.raises(fr.DataError, match="column 'x' holds text that is not UTF-8"):
        _ = dataset.dictionaries


# ------------------------------------------------------------------------------------ how values are gathered


def data_page_bytes(path: Path) -> list[tuple[int, int]]:
    """Where the data pages of the first column lie, each row group's."""
    metadata = pq.ParquetFile(path).metadata
    chunks = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]
    begin = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    return [
        (chunk.data_page_offset, start + chunk.total_compressed_size)
        for chunk, start in zip(chunks, begin, strict=True)
    ]


def test_data_pages_are_not_read_where_dictionaries_have_all_values(path: Path) -> None:
    pq.write_table(pa.table({"city": CITIES}), path, row_group_size=3, compression="none")
    data = bytearray(path.read_bytes())
    for start, end in data_page_bytes(path):
        data[start:end] = b"\xff" * (end - start)
    path.write_bytes(data)
    dataset = fr.ParquetDataset(path, batch_size=8, nulls="mask", columns=["*", fr.col("city").codes()])
    assert dataset.dictionaries == {"city": SORTED}
    with pytest.raises(fr.DataError, match="column 'city'"):
        list(dataset)


@pytest.mark.parametrize(
    "values", [["b", None, "a", None], [["b", None], None, ["a"], []]], ids=["texts", "lists"]
)
def test_nulls_are_no_values(path: Path, values: list[Any]) -> None:
    pq.write_table(pa.table({"x": values}), path, use_dictionary=False)
    dataset = fr.ParquetDataset(path, batch_size=4, columns=fr.col("x").codes().fill_null(-1))
    assert dataset.dictionaries == {"x": ["a", "b"]}


def test_a_copy_reads_no_file_for_its_dictionaries(cities: Path) -> None:
    dataset = fr.ParquetDataset(cities, **codes())
    data = pickle.dumps(dataset)
    for file in cities.iterdir():
        file.unlink()
    copied = pickle.loads(data)
    assert copied.dictionaries == dataset.dictionaries
    assert repr(copied.schema) == repr(dataset.schema)


@pytest.mark.processes
def test_workers_deliver_the_same_codes(cities: Path) -> None:
    dataset = fr.ParquetDataset(cities, **codes(batch_size=2))
    found = {}
    for batch in data_loader(dataset, 2):
        found |= dict(zip(batch.rows().tolist(), batch["city"].tolist(), strict=True))
    assert found == dict(enumerate([2, 1, 3, 2, -1, 4, 0, 1]))


@pytest.mark.law(2)
@pytest.mark.parametrize("order", [{}, Shuffle(5, 2, 4).arguments], ids=["sequential", "shuffled"])
def test_a_resume_is_exact(cities: Path, order: dict[str, Any]) -> None:
    def made() -> fr.ParquetDataset:
        return fr.ParquetDataset(cities, **codes(batch_size=3, tail="pad", **order))

    assert testing.assert_exact_resume(made) == 3


# -------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            {"columns": ["*", fr.col("row").codes()]},
            fr.DataError,
            r".codes\(\) takes no column of type int64.*'row'",
        ),
        ({"columns": ["*", fr.col("nothing").codes()]}, fr.DataError, "no column matches 'nothing'"),
    ],
)
def test_what_can_not_be_coded_is_refused(
    cities: Path, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        fr.ParquetDataset(cities, **codes(**arguments))


def test_a_damaged_file_is_named_with_column_and_row_group(path: Path) -> None:
    pq.write_table(
        pa.table({"x": [f"value {index}" for index in range(40)]}),
        path,
        row_group_size=20,
        compression="none",
    )
    data = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    data[start + 40 : start + 44] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(fr.DataError, match=r"\(column 'x', row group 1, file '.*x.parquet'\)"):
        fr.ParquetDataset(path, batch_size=8, columns=["*", fr.col("x").codes()])


def test_values_that_are_named_have_their_places_as_codes_and_others_one_or_none(cities: Path) -> None:
    named = fr.col("city").codes(["Porto", "Berlin"], unknown=9).fill_null(-1)
    tags = fr.col("tags").codes(["d", "c", "b", "a"]).mask_null()
    dataset = fr.ParquetDataset(cities, batch_size=8, columns=[named, tags])
    place = {"Porto": 0, "Berlin": 1, None: -1}
    (batch,) = pickle.loads(pickle.dumps(dataset))
    assert batch["city"].tolist() == [place.get(city, 9) for city in CITIES]
    assert batch["tags"].to_list() == [tag and ["dcba".index(one) for one in tag] for tag in TAGS]
    assert dataset.dictionaries == {"city": ["Porto", "Berlin"], "tags": ["d", "c", "b", "a"]}
    with pytest.raises(
        fr.DataError, match=r"the value .* is none of the 1 that .codes\(\) names; its unknown="
    ):
        list(fr.ParquetDataset(cities, batch_size=8, columns=fr.col("tags").codes(["a"]).mask_null()))


@pytest.mark.parametrize("writes_dictionaries", [True, False])
@pytest.mark.parametrize("shuffle", [False, True])
def test_only_values_of_selected_rows_need_a_code(
    tmp_path: Path, writes_dictionaries: bool, shuffle: bool
) -> None:
    values = [None if row % 11 == 0 else "abcd"[row % 4] for row in range(400)]
    table = pa.table({"c": values, "l": [[value] * (row % 3) for row, value in enumerate(values)]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=writes_dictionaries, row_group_size=100)
    wanted = [row for row, value in enumerate(values) if value in ("c", "d")]
    columns = [fr.col("c").codes(["d", "c"]), fr.col("l").codes(["d", "c"])]
    how: dict[str, Any] = {"batch_size": 7, "tail": "short", "shuffle": shuffle, "columns": columns}
    for selected in ({"filter": fr.col("c").isin(["c", "d"])}, {"rows": wanted}):
        seen = []
        for batch in fr.ParquetDataset(tmp_path, **how, **selected):
            rows = batch.rows().tolist()
            assert batch["c"].tolist() == ["dc".index(str(values[row])) for row in rows]
            assert batch["l"].to_list() == [["dc".index(str(values[row]))] * (row % 3) for row in rows]
            seen += rows
        assert sorted(seen) == wanted
    with pytest.raises(fr.DataError, match=r'the value "[ab]" is none of the 2'):
        list(fr.ParquetDataset(tmp_path, **{**how, "nulls": "mask"}, rows=[*wanted[:50], wanted[50] + 2]))


def test_values_of_paths_have_codes(tmp_path: Path) -> None:
    for region in ("us", "eu"):
        (tmp_path / f"region={region}").mkdir()
        pq.write_table(pa.table({"row": [1, 2]}), tmp_path / f"region={region}/a.parquet")
    dataset = fr.ParquetDataset(tmp_path, batch_size=4, columns=fr.col("region").from_path().codes())
    assert dataset.dictionaries == {"region": ["eu", "us"]}
    torch.save(dataset.dictionaries, tmp_path / "vocabulary.pt")
    assert torch.load(tmp_path / "vocabulary.pt") == {"region": ["eu", "us"]}
    (batch,) = dataset
    assert batch["region"].tolist() == [0, 0, 1, 1]


@each_of(
    ("make_", "error", "said"),
    [
        (lambda: fr.col("x").codes("ab"), TypeError, "takes a list of values, found 'ab'"),
        (lambda: fr.col("x").codes([1]), TypeError, r"found \[1\]: integers are codes themselves, which"),
        (
            lambda: fr.col("x").codes(pa.array([1, 2])),
            TypeError,
            r"texts or bytes, found .*: integers are codes",
        ),
        (lambda: fr.col("x").codes([1.5]), TypeError, "must be a string or bytes, found 1.5"),
        (lambda: fr.col("x").codes(["a", "b", "a"]), ValueError, "names the value 'a' twice"),
        (lambda: fr.col("x").codes(unknown=3), ValueError, "unknown= is for values that are named"),
        (
            lambda: fr.col("x").codes().hash(3),
            TypeError,
            r"fr.col\('x'\).codes\(\).hash\(...\) has no meaning",
        ),
        (lambda: fr.col("x").codes().fill_null("x"), TypeError, "takes a code, .* a number, found 'x'"),
    ],
)
def test_codes_that_mean_nothing_are_refused_where_they_are_written(
    make_: Any, error: Any, said: str
) -> None:
    with pytest.raises(error, match=said):
        make_()
