"""Arrow's files and streams: the same batches as of a Parquet file of the same rows."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, ipc

import fastresume as fr
from support.arrow_rows import assert_same_rows, numbers_in, scattered, wide_table, write_parquet
from support.ipc_writer import HOW, write_ipc
from support.object_server import S3Server, serving

ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "nulls": "mask", "world": (0, 1)}


@pytest.mark.parametrize("how", HOW)
def test_files_of_all_kinds_are_delivered_as_parquet_files_are(tmp_path: Path, how: str) -> None:
    table = wide_table(300, 0.1)
    expected = list(fr.ParquetDataset(write_parquet(table, tmp_path / "f.parquet"), **ONE))
    path = write_ipc(scattered(table, 1).combine_chunks(), tmp_path / "f.arrow", how)
    dataset = fr.ArrowDataset(path, **ONE)
    assert dataset.files == (str(path),)
    for found in (dataset, pickle.loads(pickle.dumps(fr.ArrowDataset(path, **ONE)))):
        for one, other in zip(found, expected, strict=True):
            assert_same_rows(one, other)
    with fr.Loader(fr.ArrowDataset(path, **ONE), threads=2) as loader:
        for one, other in zip(loader, expected, strict=True):
            assert_same_rows(one, other)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_files_of_polars_are_delivered_as_its_frames_are(tmp_path: Path, compression: Any) -> None:
    """Its message of the fields has no length before it, as pyarrow's has."""
    frame = pl.DataFrame(
        {
            "n": range(300),
            "x": [None if number % 7 == 0 else number / 3 for number in range(300)],
            "t": ["a", None, "a text that is longer than twelve bytes"] * 100,
            "c": pl.Series(["u", "v", None] * 100, dtype=pl.Categorical),
            "l": [[1, 2], [], None] * 100,
        }
    )
    frame.write_ipc(tmp_path / "f.arrow", compression=compression)
    pl.concat([frame, frame], rechunk=False).lazy().sink_ipc(tmp_path / "g.arrow")
    for name, times in (("f.arrow", 1), ("g.arrow", 2)):
        expected = list(fr.ArrowDataset(pl.concat([frame] * times), **ONE))
        for one, other in zip(fr.ArrowDataset(tmp_path / name, **ONE), expected, strict=True):
            assert_same_rows(one, other)


OTHERS = {
    "views": pa.array(["a", None, "a text that is longer than twelve bytes", ""] * 20, pa.string_view()),
    "codes": pa.array(["u", None, "v", "u"] * 20).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([3, 50, 80], pa.array([1.5, None, 2.5])),
    "list views": pa.ListViewArray.from_arrays(
        [4, 0, 2, 2] * 20, [2, 3, 0, 1] * 20, pa.array([1, 2, None, 4, 5, 6], pa.int16())
    ),
    "nothing": pa.nulls(80),
    "narrow decimal": pa.array([1, None, -5, 0] * 20, pa.decimal32(5, 2)),
    "coded lists": pa.array(
        [["u"], None, ["v", None], []] * 20, pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    "map": pa.array([[("a", 1)], None, [], [("b", None), ("c", 3)]] * 20, pa.map_(pa.string(), pa.int32())),
    "uuid": pa.array([bytes(range(16)), None] * 40, pa.uuid()),
}


@pytest.mark.parametrize("how", ["file", "zstd stream"])
def test_types_of_arrow_alone_are_those_of_tables_in_memory(tmp_path: Path, how: str) -> None:
    columns = {name: column for name, column in OTHERS.items() if name not in ("nothing", "map", "uuid")}
    table = pa.table(columns)
    path = write_ipc(table, tmp_path / "f.arrow", how, 32)
    asked: dict[str, Any] = {**ONE, "columns": [*set(columns) - {"narrow decimal"}], "batch_size": 7}
    asked["columns"] = [*sorted(asked["columns"]), fr.col("narrow decimal").decimal("int64")]
    for one, other in zip(fr.ArrowDataset(path, **asked), fr.ArrowDataset(table, **asked), strict=True):
        assert_same_rows(one, other)


@pytest.mark.parametrize("name", OTHERS)
def test_columns_beside_those_of_any_type_are_found(tmp_path: Path, name: str) -> None:
    table = pa.table({name: OTHERS[name], "x": range(80)})
    path = write_ipc(table, tmp_path / "f.arrow", "lz4", 32)
    assert numbers_in(fr.ArrowDataset(path, columns=["x"], **ONE)) == list(range(80))


@pytest.mark.parametrize("how", ["stream", "zstd stream", "file"])
@pytest.mark.parametrize("grows", [False, True])
def test_dictionaries_that_grow_and_change_are_those_of_their_batches(
    tmp_path: Path, how: str, grows: bool
) -> None:
    each = (
        [["a", "b", "a"], ["a", "b", "c"], ["a", "b", "c", "d"]] if grows else [["a"], ["x", "y"], ["b", "a"]]
    )
    if how == "file" and not grows:
        pytest.skip("files may not replace a dictionary")
    codes = [[0, 1, None], [2, 0], [3, 1, 2]] if grows else [[0, None], [1, 0], [0, 1]]
    values = [values[: 2 + number] if grows else values for number, values in enumerate(each)]
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array(code, pa.int8()), pa.array(of))
        for code, of in zip(codes, values, strict=True)
    ]
    new, options = HOW[how]
    path = tmp_path / "f.arrow"
    asked = ipc.IpcWriteOptions(emit_dictionary_deltas=grows, **options)
    with new(str(path), pa.schema([("s", arrays[0].type)]), options=asked) as file:
        for array in arrays:
            file.write_batch(pa.record_batch({"s": array}))
    (batch,) = list(fr.ArrowDataset(path, columns=[fr.col("s").mask_null()], **ONE))
    found = batch["s"]
    assert isinstance(found, fr.Jagged)
    expected = [text for array in arrays for text in array.to_pylist()]
    assert [None if one is None else bytes(one).decode() for one in found.to_list()] == expected


def test_feather_files_streams_in_memory_and_empty_batches_are_read(tmp_path: Path) -> None:
    table = pa.table({"x": range(100)})
    feather.write_feather(table, tmp_path / "f.feather")
    assert numbers_in(fr.ArrowDataset(tmp_path / "f.feather", **ONE)) == list(range(100))
    empty = table.schema.empty_table()
    with ipc.new_file(str(tmp_path / "g.arrow"), table.schema) as file:
        for part in (empty, table.slice(0, 5), empty, table.slice(5), empty):
            for batch in part.to_batches() or [pa.record_batch({"x": pa.array([], pa.int64())})]:
                file.write_batch(batch)
    assert numbers_in(fr.ArrowDataset(tmp_path / "g.arrow", **ONE)) == list(range(100))


def test_directories_patterns_and_generations_name_files_in_the_order_of_their_paths(tmp_path: Path) -> None:
    names = ("b/part-1.arrow", "a/part-2.feather", "_left/out.arrow", "a/.x.arrow", "a/note.txt")
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        write_ipc(pa.table({"x": [number] * 3}), path)
    assert numbers_in(fr.ArrowDataset(tmp_path, **ONE)) == [1] * 3 + [0] * 3
    assert numbers_in(fr.ArrowDataset(str(tmp_path / "*" / "part-*"), **ONE)) == [1] * 3 + [0] * 3
    generations = [[tmp_path / "b"], [tmp_path / "a"]]
    assert numbers_in(fr.ArrowDataset(generations, **ONE)) == [0] * 3 + [1] * 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(fr.SourceError, match=r"no file that ends in \.arrow or \.arrows"):
        fr.ArrowDataset(tmp_path / "empty", **ONE)
    with pytest.raises(fr.SourceError, match="no such file"):
        fr.ArrowDataset(tmp_path / "nothing", **ONE)
    with pytest.raises(ValueError, match="the same file twice"):
        fr.ArrowDataset([path, path], **ONE)


def test_a_state_knows_files_by_their_metadata_and_new_ones_are_appended(tmp_path: Path) -> None:
    for day in range(2):
        write_ipc(pa.table({"x": range(50 * day, 50 * day + 50)}), tmp_path / f"{day}.arrow")
    asked = {**ONE, "batch_size": 10, "on_change": "append"}
    first = fr.ArrowDataset(tmp_path / "0.arrow", **asked)
    state = next(iter(first)).state_dict()
    grown = fr.ArrowDataset([[tmp_path / "0.arrow"], [tmp_path / "1.arrow"]], **asked)
    grown.load_state_dict(state)
    assert numbers_in(grown) == list(range(10, 100))
    (tmp_path / "0.arrow").unlink()
    write_ipc(pa.table({"x": range(51)}), tmp_path / "0.arrow")
    with pytest.raises(fr.StateError):
        fr.ArrowDataset(tmp_path / "0.arrow", **asked).load_state_dict(state)


def test_batches_of_a_file_are_row_groups_and_small_ones_are_read_together(tmp_path: Path) -> None:
    table = pa.table({"x": range(200_000), "y": [0.5] * 200_000})
    path = write_ipc(table, tmp_path / "f.arrow", "zstd", 70_000)
    dataset = fr.ArrowDataset(path, columns=["x"], **ONE)
    places = [(str(path), 0, 69_999), (str(path), 1, 0), (str(path), 2, 59_999)]
    assert dataset.locate([69_999, 70_000, 199_999]) == places
    assert dataset.read_rows([199_999, 3])["x"].tolist() == [199_999, 3]  # type: ignore[union-attr]
    small = str(write_ipc(table, tmp_path / "g.arrow", "lz4", 1000))
    assert fr.ArrowDataset(small, **ONE).locate([64_999, 65_000]) == [(small, 0, 64_999), (small, 1, 0)]


def test_what_is_no_arrow_file_is_refused_by_name(tmp_path: Path) -> None:
    whole = write_ipc(pa.table({"x": [1]}), tmp_path / "a.arrow").read_bytes()
    stream = write_ipc(pa.table({"x": [1]}), tmp_path / "s.arrow", "stream").read_bytes()
    big_endian = bytearray(stream)
    path = tmp_path / "f.arrow"
    for content, found in (
        (b"", "0 bytes, and no schema"),
        (b"PAR1 and more than that", "write fr.ParquetDataset"),
        (b"ARROW1\0\0 and no end of that kind", "cut off"),
        (b"a,b\n" + b"1,2\n" * 2000, "it looks like CSV text"),
        (b"", "it looks like an empty file"),
        (b"FEA1 and the rest", "Feather file of version 1"),
        (b"Once upon a time, there was a text", "claims"),
        (whole[:-20], "cut off"),
        (stream + b"more", "bytes follow"),
        (stream[:-30], "claims"),
        (bytes(big_endian[:8]) + bytes(300), "metadata"),
    ):
        path.write_bytes(content)
        with pytest.raises(fr.DataError, match=found) as raised:
            fr.ArrowDataset(path, **ONE)
        assert str(path) in str(raised.value)
    path.unlink()
    (tmp_path / "s.arrow").unlink()
    write_ipc(pa.table({"y": [1]}), tmp_path / "b.arrow")
    with pytest.raises(fr.DataError, match="its columns differ"):
        fr.ArrowDataset(tmp_path, **ONE)
    with pytest.raises(TypeError, match="both tables and the path"):
        fr.ArrowDataset([pa.table({"x": [1]}), "x.arrow"], **ONE)


@pytest.mark.parametrize("how", ["file", "stream"])
def test_names_that_are_no_text_are_errors_that_name_the_file(tmp_path: Path, how: str) -> None:
    table = pa.table({"outer": [{"inner": 1}], "x": [1]})
    content = write_ipc(table, tmp_path / "whole.arrow", how).read_bytes()
    path = tmp_path / "f.arrow"
    for name, damaged in ((b"outer", b"out\xffr"), (b"inner", b"in\xc3\x28r")):
        path.write_bytes(content.replace(name, damaged))
        with pytest.raises(fr.DataError, match=rf"schema can't be read.*{path}"):
            fr.ArrowDataset(path, **ONE)


def test_a_footer_that_leaves_out_a_batch_or_names_it_twice_is_an_error(tmp_path: Path) -> None:
    content = bytearray(
        write_ipc(pa.table({"x": range(30)}), tmp_path / "whole.arrow", block=10).read_bytes()
    )
    footer = len(content) - 10 - int.from_bytes(content[-10:-6], "little")
    count = next(
        at
        for at in range(footer, len(content) - 76, 4)
        if int.from_bytes(content[at : at + 4], "little") == 3
        and int.from_bytes(content[at + 4 : at + 12], "little") < footer
        and content[at + 16 : at + 20] == bytes(4)
    )
    left_out = content[:count] + (2).to_bytes(4, "little") + content[count + 4 :]
    twice = content[: count + 28] + content[count + 4 : count + 28] + content[count + 52 :]
    for name, damaged, found in (("a", left_out, "does not name"), ("b", twice, "bytes twice")):
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(damaged)
        with pytest.raises(fr.DataError, match=found):
            fr.ArrowDataset(path, **ONE)


@pytest.mark.parametrize("how", ["file", "zstd stream"])
def test_a_file_that_is_another_than_before_is_an_error(tmp_path: Path, how: str) -> None:
    table = pa.table({"x": range(1000)})
    path = write_ipc(table, tmp_path / "f.arrow", how)
    dataset = fr.ArrowDataset(path, **ONE)
    again = pickle.dumps(dataset)
    list(dataset)
    write_ipc(table, tmp_path / "g.arrow", how)
    os.utime(tmp_path / "g.arrow", ns=(1, 1))
    (tmp_path / "g.arrow").rename(path)
    for changed in (dataset, pickle.loads(again)):
        with pytest.raises(fr.SourceError, match="was changed"):
            list(changed)


def test_damaged_values_are_masked_where_the_user_says_so(tmp_path: Path) -> None:
    path = write_ipc(pa.table({"x": range(1, 61)}), tmp_path / "f.arrow", "zstd", 20)
    content = bytearray(path.read_bytes())
    first = content.index(b"\x28\xb5\x2f\xfd")  # what a frame of Zstandard begins with
    content[first : first + 4] = bytes(4)
    (path := tmp_path / "g.arrow").write_bytes(content)
    with pytest.raises(fr.DataError, match=rf"batch 0: .*damaged.*column 'x'.*{path}"):
        list(fr.ArrowDataset(path, **ONE))
    masks = fr.MaskBadRows(at_most=60)
    (batch,) = list(fr.ArrowDataset(path, **ONE, bad_rows=masks))
    assert not batch.valid.any()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    yield from serving()


@pytest.mark.parametrize("how", ["file", "lz4", "stream"])
def test_objects_are_read_by_ranges_and_give_the_batches_of_files(
    tmp_path: Path, server: S3Server, how: str
) -> None:
    table = wide_table(300, 0.1)
    for number in range(3):
        write_ipc(table.slice(100 * number, 100), tmp_path / f"{number}.arrow", how, 20)
    address = server.put_tree("bucket", tmp_path, f"{how}/")
    asked: dict[str, Any] = {**ONE, "shuffle": True, "seed": 3}
    expected = list(fr.ArrowDataset(tmp_path, **asked))
    dataset = fr.ArrowDataset(address, storage_options=server.options, **asked)
    with fr.Loader(dataset, threads=2) as loader:
        for one, other in zip(loader, expected, strict=True):
            assert_same_rows(one, other)
    with pytest.raises(fr.SourceError, match="no object that ends in"):
        fr.ArrowDataset("s3://bucket/nothing/", storage_options=server.options, **ONE)
