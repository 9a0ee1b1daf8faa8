"""Texts, bytes and integers in buckets: by a stated hash, the same under every release."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from golden import make_hashes
from support import oracle
from support.each_of import each_of
from support.strategies import INTEGERS

GOLDEN = json.loads((Path(make_hashes.__file__).parent / "hashes.json").read_text())


def write(path: Path, how: dict[str, Any] | None = None, **columns: Any) -> Path:
    """Write a file of these columns, in row groups of 10 rows."""
    pq.write_table(pa.table(columns), path, row_group_size=10, **(how or {}))
    return path


def open_dataset(path: Path, columns: Any, **arguments: Any) -> fr.ParquetDataset:
    """The dataset of some files, in batches of 7."""
    return fr.ParquetDataset(path, columns=columns, **{"batch_size": 7, "tail": "short", **arguments})


def read(path: Path, columns: Any, name: str = "x", **arguments: Any) -> list[int]:
    """The buckets of a column, or of all elements of its lists, in the order of the rows."""
    found = [batch[name] for batch in open_dataset(path, columns, **arguments)]
    tensors = [value.values if isinstance(value, fr.Jagged) else value for value in found]
    assert {tensor.dtype for tensor in tensors} == {torch.int64}
    return torch.cat(tensors).tolist()


# ----------------------------------------------------------------------------------------- the hash, for ever


def test_the_oracle_still_says_what_the_golden_buckets_say() -> None:
    text = (Path(make_hashes.__file__).parent / "hashes.json").read_text()
    assert text == make_hashes.as_text(make_hashes.golden())


@each_of(
    ("text", "word"),
    [
        ("", 0xEF46DB3751D8E999),
        ("a", 0xD24EC4F1A98C6E5B),
        ("abc", 0x44BC2CF5AD770999),
        ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_oracles_hash_is_the_published_one(text: str, word: int) -> None:
    assert oracle.xxh64(text.encode()) == word


@each_of("golden", make_hashes.CHOICES)
def test_golden_buckets_of_texts_are_what_they_were(path: Path, golden: tuple[int, int]) -> None:
    buckets, seed = golden
    entries = [entry for entry in GOLDEN["texts"] if (int(entry["buckets"]), int(entry["seed"])) == golden]
    write(path, x=pa.array([bytes.fromhex(entry["hex"]) for entry in entries]))
    assert read(path, fr.col("x").hash(buckets, seed)) == [int(entry["bucket"]) for entry in entries]


@each_of("golden", GOLDEN["integers"])
def test_golden_buckets_of_integers_are_what_they_were(path: Path, golden: dict[str, Any]) -> None:
    how = fr.col("x").hash(int(golden["buckets"]), int(golden["seed"]))
    pairs = list(zip(map(int, golden["integers"]), map(int, golden["bucket_of_each"]), strict=True))
    for dtype in INTEGERS:
        least, largest = oracle.bounds_of(dtype)
        held = [(integer, bucket) for integer, bucket in pairs if least <= integer <= largest]
        array = pa.array([integer for integer, _ in held], pa.type_for_alias(dtype))
        write(path, x=array)
        assert read(path, how) == [bucket for _, bucket in held]
        write(path, x=pa.array([[integer] for integer, _ in held], pa.list_(array.type)))
        assert read(path, how) == [bucket for _, bucket in held]


def test_buckets_are_even_and_another_seed_has_others(path: Path) -> None:
    rows = 20_000
    write(path, x=pa.array([f"user-{row}" for row in range(rows)]), y=pa.array(range(rows)))
    for name in ("x", "y"):
        one, other = (read(path, fr.col(name).hash(100, seed), name, batch_size=rows) for seed in (0, 1))
        for buckets in (one, other):
            counts = np.bincount(buckets, minlength=100)
            # 99 degrees of freedom: a sum of squares beyond 180 comes less than once in a million times.
            assert len(counts) == 100
            assert ((counts - rows / 100) ** 2).sum() / (rows / 100) < 180
        same = np.equal(one, other).mean()
        assert 0.005 < same < 0.015
        # Twice the buckets are these, each parted in two.
        assert [bucket // 2 for bucket in read(path, fr.col(name).hash(200), name, batch_size=rows)] == one


# ---------------------------------------------------------------------------------------------- which columns


def test_a_dictionary_column_of_arrow_is_hashed_by_its_values(path: Path) -> None:
    words = pa.array(["a", "b", "a", "c"])
    write(path, x=words.dictionary_encode())
    assert read(path, fr.col("x").hash(50)) == [oracle.bucket(word.encode(), 50) for word in "abac"]


def test_files_that_differ_paths_and_missing_columns_have_the_same_buckets(tmp_path: Path) -> None:
    (tmp_path / "who=1").mkdir()
    (tmp_path / "who=b").mkdir()
    write(tmp_path / "who=1" / "a.parquet", x=pa.array([5], pa.int32()))
    write(tmp_path / "who=b" / "a.parquet", x=pa.array([5], pa.int64()))
    write(tmp_path / "who=b" / "b.parquet", y=pa.array([5], pa.int64()))
    who = fr.col("who").from_path().hash(10)
    assert read(tmp_path, fr.col("x").optional().hash(10).fill_null(3)) == [oracle.bucket(5, 10)] * 2 + [3]
    assert read(tmp_path, who, "who") == [oracle.bucket(text, 10) for text in (b"1", b"b", b"b")]
    (tmp_path / "who=b").rename(tmp_path / "who=02")
    assert read(tmp_path, who, "who") == [oracle.bucket(number, 10) for number in (2, 2, 1)]


def test_a_fixed_column_that_a_file_lacks_is_hashed_where_it_is(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", y=pa.array([1]))
    write(tmp_path / "b.parquet", x=pa.array([b"0123456789abcdef"], pa.binary(16)))
    assert read(tmp_path, fr.col("x").optional().hash(99).mask_null()) == [
        0,
        oracle.bucket(b"0123456789abcdef", 99),
    ]


def test_columns_of_any_kind_are_stacked_once_they_are_hashed(path: Path) -> None:
    write(path, t=pa.array(["a", "b"]), i=pa.array([1, 2], pa.uint8()), b=pa.array([3, 4]))
    dataset = open_dataset(path, fr.stack(fr.col("t").hash(10), fr.col("i").hash(1000), "b", name="m"))
    assert str(dataset.schema) == "m: int64 [B, 3] t, i, b"
    expected = [
        [oracle.bucket(text, 10), oracle.bucket(number, 1000), number + 2]
        for text, number in ((b"a", 1), (b"b", 2))
    ]
    assert next(iter(dataset))["m"].tolist() == expected
    by_stack = open_dataset(path, fr.stack(fr.col("t", "i").hash(10), name="m"))
    assert next(iter(by_stack))["m"].tolist() == [
        [oracle.bucket(text, 10), oracle.bucket(number, 10)] for text, number in ((b"a", 1), (b"b", 2))
    ]


def test_the_schema_says_how_many_buckets_and_by_which_hash(path: Path) -> None:
    write(path, x=pa.array(["a"]), l=pa.array([[1]]))
    schema = open_dataset(path, [fr.col("x").hash(10, seed=3), fr.col("l").hash(7)]).schema
    assert str(schema) == "x: int64 [B] hash1[10, seed 3]\nl: int64 [B, *] hash1[7]"
    assert (schema["x"].kind, schema["l"].kind) == ("scalar", "list")


# -------------------------------------------------------------------------------------------- nulls, mistakes


def test_a_value_for_nulls_is_a_bucket(path: Path) -> None:
    write(path, x=pa.array(["a", None]), l=pa.array([[1, None], None]))
    batch = next(iter(open_dataset(path, fr.col("*").hash(10).fill_null(9))))
    assert batch["x"].tolist() == [oracle.bucket(b"a", 10), 9]
    assert batch["l"].to_list() == [[oracle.bucket(1, 10), 9], []]  # type: ignore[union-attr]
    for fill in (10, -1, 0.5):
        with pytest.raises(
            ValueError, match=rf"fr.col\('x'\).*fill value {fill} does not fit, .* is one of 10 buckets"
        ):
            open_dataset(path, fr.col("x").hash(10).fill_null(fill))
    with pytest.raises(fr.DataError, match=r"footers count 1 null among 2 values; .*\(column 'x'"):
        list(open_dataset(path, fr.col("x").hash(10)))


@each_of(
    ("buckets", "error", "message"),
    [
        (0, ValueError, r"fr.col\('t'\).hash: buckets must be in \[1, 2\*\*63\], found 0"),
        (2**63 + 1, ValueError, "found 9223372036854775809"),
        (1.5, TypeError, "hash must be an integer, found 1.5"),
        (True, TypeError, "hash must be an integer, found True"),
    ],
)
def test_a_number_of_buckets_is_one(buckets: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        fr.col("t").hash(buckets)


@pytest.mark.parametrize("name", ["f", "b"])
def test_what_can_not_be_hashed_is_refused(path: Path, name: str) -> None:
    write(path, t=pa.array(["a"]), i=pa.array([1]), f=pa.array([0.5]), b=pa.array([True]))
    said = rf"fr.col\('{name}'\).hash\(5\): .hash\(\) takes no column of type (double|float64|bool)"
    with pytest.raises(fr.DataError, match=said):
        open_dataset(path, fr.col(name).hash(5))
    with pytest.raises(fr.DataError, match="no column matches 'q'; there are: t, i"):
        open_dataset(path, fr.col("q").hash(5))


@each_of("seed", [-1, 2**64, 0.5, None])
def test_a_seed_is_a_word_of_64_bits(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"seed .*must be .*, found {seed}"):
        fr.col("x").hash(10, seed)


# ----------------------------------------------------------------------------------------------- other things


def test_a_filter_speaks_of_the_texts(path: Path) -> None:
    write(path, x=pa.array(["a", "b", "c"]))
    assert read(path, fr.col("x").hash(50), filter=fr.col("x") >= "b") == [
        oracle.bucket(x, 50) for x in (b"b", b"c")
    ]


def test_a_state_goes_on_under_another_hash_and_pickles(path: Path) -> None:
    write(path, x=pa.array([f"{row}" for row in range(40)]))
    state = next(iter(open_dataset(path, fr.col("x").hash(10)))).state_dict()
    hashing = fr.col("x").hash(np.int32(1000), seed=np.uint64(2**64 - 1))
    dataset = pickle.loads(pickle.dumps(open_dataset(path, hashing)))
    dataset.load_state_dict(state)
    expected = [oracle.bucket(str(row).encode(), 1000, 2**64 - 1) for row in range(7, 14)]
    assert next(iter(dataset))["x"].tolist() == expected
    assert dataset.read_rows([13, 7])["x"].tolist() == [expected[-1], expected[0]]


def test_a_damaged_page_of_texts_is_an_error_under_a_hash_too(path: Path) -> None:
    write(path, {"compression": "none", "use_dictionary": False}, x=pa.array(["abc"] * 10))
    data = path.read_bytes()
    place = data.index(b"\x03\0\0\0abc\x03\0\0\0abc")
    path.write_bytes(data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :])
    with pytest.raises(fr.DataError, match=r"a text claims 2147483647 bytes.*\(column 'x', row group 0"):
        list(open_dataset(path, fr.col("x").hash(10)))


# ----------------------------------------------------------------------------------------------- after a cast


def test_integers_that_pandas_stored_as_floats_are_in_the_buckets_of_integers(path: Path) -> None:
    ids = [3, 0, -7, 2**53, 41]
    floats = pa.array([None if number == 0 else float(number) for number in ids], pa.float64())
    write(path, x=floats, lists=pa.array([[number] for number in floats.to_pylist()]), whole=pa.array(ids))
    hashed = fr.col("x", "lists", "whole").cast(torch.int64).hash(1000, seed=3).fill_null(5)
    batch = open_dataset(path, hashed).read_rows(range(len(ids)))
    of_integers = [oracle.bucket(number, 1000, 3) for number in ids]
    assert batch["whole"].tolist() == of_integers
    of_integers[1] = 5
    assert batch["x"].tolist() == batch["lists"].values.tolist() == of_integers


@pytest.mark.parametrize("number", [2.5, float("nan"), 2.0**63])
def test_a_float_that_is_no_integer_has_no_bucket(path: Path, number: float) -> None:
    write(path, x=pa.array([1.0, number]))
    dataset = open_dataset(path, fr.col("x").cast(torch.int64).hash(10))
    with pytest.raises(fr.DataError, match=r"row 1 of the row group holds .*, which does not fit int64"):
        dataset.read_rows([1])
    assert dataset.read_rows([0])["x"].tolist() == [oracle.bucket(1, 10, 0)]


def test_texts_are_hashed_and_not_cast(path: Path) -> None:
    write(path, x=pa.array(["1"]))
    with pytest.raises(fr.DataError, match=r"\.hash\(\) takes no column"):
        open_dataset(path, fr.col("x").cast(torch.int64).hash(10))
