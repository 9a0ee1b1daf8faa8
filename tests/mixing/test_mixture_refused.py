"""What is no mixture, and states of other data, are refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.mixtures import mixture, source


@pytest.mark.parametrize(
    ("sources", "kind", "words"),
    [
        ({}, TypeError, ["a Mixture takes names", "(dataset, 0.7)"]),
        ([1], TypeError, ["a Mixture takes names"]),
        ({"web": 1}, TypeError, ["source 'web' must be a dataset and its weight"]),
        ({"web": ("data", 1)}, TypeError, ["source 'web' must be a ParquetDataset, an Arrow", "found str"]),
    ],
)
def test_what_is_no_mixture_is_refused(sources: Any, kind: type[Exception], words: Sequence[str]) -> None:
    with pytest.raises(kind) as caught:
        fr.Mixture(sources, batch_size=2)
    assert all(word in str(caught.value) for word in words)


def test_mistakes_with_a_mixture_say_what_to_write(root: Path) -> None:
    weights = {"web": 0.5, "code": 0.5}
    two = mixture(root, weights)
    with pytest.raises(ValueError, match="stop must be 'first' or 'all' or a number of rows, found 'last'"):
        mixture(root, weights, stop="last")
    few = {"few": (source(root, "web", rows=[[0, 1]]), 1), "code": (source(root, "code"), 1)}
    with pytest.raises(ValueError, match=r"or tail='short'\. stop='first' ends a pass after the 1 row of 'f"):
        fr.Mixture(few, batch_size=8, world=(0, 1))
    assert len(fr.Mixture(few, batch_size=8, world=(0, 1), stop="all")) > 0
    with pytest.raises(AttributeError, match=r"no attribute 'read_rows': write mixture.datasets\[name\]"):
        two.read_rows([0])
    with pytest.raises(
        fr.StateError, match=r"of a mixture, and this is one dataset: load it into the Mixture$"
    ):
        two.datasets["web"].load_state_dict(two.state_dict())


def test_what_a_mixture_does_not_know_is_refused_by_name(root: Path) -> None:
    web = source(root, "web")
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"web": (web, 0)}, {}, "source 'web': a weight must be a number above 0, and below"),
        ({"web": (web, float("nan"))}, {}, "a weight must be a number above 0"),
        ({"web": (web.map(lambda batch: batch), 1)}, {}, r"map the Mixture"),
        ({"web": (web, 1)}, {"stop": "last"}, "stop"),
        ({"web": (web, 1)}, {"stages": [(10, {"code": 1})]}, "a stage names 'code'; the sources are web"),
        ({"web": (web, 1)}, {"stages": [(0, {"web": 1})]}, "the rows of a stage must be at least 1"),
    ]
    for sources, how, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            fr.Mixture(sources, batch_size=2, world=(0, 1), **how)
    two = fr.Mixture(
        {"web": (web, 3), "code": (source(root, "code"), 1)}, stages=[(9, {"web": 1})], batch_size=2
    )
    flat = r'multiplied, as \{"all/web": \(web, 0\.375\), "all/code": \(code, 0\.125\)\}'
    with pytest.raises(TypeError, match=flat):
        fr.Mixture({"all": (two, 0.5)}, batch_size=2)  # type: ignore[dict-item]
    with pytest.raises(AttributeError, match="a batch of one has no sources"):
        _ = web.read_rows([1]).source
    with pytest.raises(
        TypeError, match="one of batch_size and global_batch_size must be given, found neither"
    ):
        next(iter(web))


def test_all_differences_between_the_sources_tensors_are_in_one_error(root: Path) -> None:
    web = source(root, "web")
    code = source(
        root, "code", columns=["*", "!flag", fr.col("x").cast(torch.float32), fr.col("tokens").pad(8)]
    )
    with pytest.raises(ValueError, match="must have the same tensors") as caught:
        fr.Mixture({"web": (web, 1), "code": (code, 1)}, batch_size=2)
    for words in ("'flag' is in 'web', and not in 'code'", "'x' is int32 [B]", "float32 [B]", "'tokens' is"):
        assert words in str(caught.value)


FORMS = {
    "number": ["n"],
    "another number": [fr.col("n").cast(torch.float32)],
    "codes": [fr.col("s").codes(["a", "b"]).alias("n")],
    "other codes": [fr.col("s").codes(["b", "a"]).alias("n")],
    "more codes": [fr.col("s").codes(["a", "b", "c"]).alias("n")],
    "codes, 2 for others": [fr.col("s").codes(["a", "b"], unknown=2).alias("n")],
    "codes, 7 for others": [fr.col("s").codes(["a", "b"], unknown=7).alias("n")],
    "hash": [fr.col("s").hash(10).alias("n")],
    "text": [fr.col("s").alias("n")],
    "padded to 2": [fr.col("l").pad(2).alias("n")],
    "padded to 3": [fr.col("l").pad(3).alias("n")],
    "masked": [fr.col("n").mask_null()],
    "time": [fr.col("ms").alias("n")],
    "another time": [fr.col("us").alias("n")],
    "stacked": [fr.stack("n", name="n")],
    "more stacked": [fr.stack("n", "m", name="n")],
    "other": ["m"],
}


@pytest.mark.parametrize(
    ("one", "other", "way", "mended"),
    [
        ("number", "another number", r"write fr.col\(name\).cast\(dtype\) in columns", "another number"),
        ("codes", "other codes", r"write .codes\(values=\[...\]\) of each, with the same values$", "codes"),
        ("codes", "more codes", r"write the same .hash\(buckets\) of each, or .codes\(values", "codes"),
        ("codes", "hash", r"write the same .hash\(buckets\) of each, or .codes\(values", "hash"),
        (
            "codes, 2 for others",
            "codes, 7 for others",
            "is 2 and 7: write the same unknown= of each$",
            "codes",
        ),
        ("number", "text", r"write columns=\['\*', '!name'\] of each, since texts and numbers", None),
        (
            "padded to 2",
            "padded to 3",
            r"write fr.col\(name\).pad\(length\) of each, with the",
            "padded to 3",
        ),
        (
            "number",
            "masked",
            r"write fr.col\(name\).mask_null\(\) of each, or fr.col\([a-z]*\).fill",
            "masked",
        ),
        ("time", "another time", "write files whose times have one unit", None),
        ("stacked", "more stacked", "write as many columns in each fr.stack$", "stacked"),
        ("number", "other", r"write columns=\[...\] of each, with that tensor or without it$", "other"),
    ],
)
def test_each_difference_between_tensors_has_a_way_to_mend_it(
    tmp_path: Path, one: str, other: str, way: str, mended: str | None
) -> None:
    times = {unit: pa.array([0] * 8, pa.timestamp(unit)) for unit in ("ms", "us")}
    columns: dict[str, Any] = {"n": [1] * 8, "m": [1] * 8, "s": ["a", "b"] * 4, "l": [[1, 2]] * 8, **times}
    for name in ("web", "code"):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")

    def mixed(web: str, code: str) -> fr.Mixture:
        sources = {
            name: (fr.ParquetDataset(tmp_path / f"{name}.parquet", columns=FORMS[form]), 1)
            for name, form in (("web", web), ("code", code))
        }
        return fr.Mixture(sources, batch_size=4, world=(0, 1))

    with pytest.raises(ValueError, match=f"must have the same tensors: .*{way}"):
        mixed(one, other)
    if mended is not None:
        mixed(mended, mended).peek()


def test_sequences_of_other_lengths_are_packed_to_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"l": [[1, 2]] * 80}), tmp_path / "a.parquet")

    def mixed(*lengths: int) -> fr.Mixture:
        sources = {
            str(number): (fr.ParquetDataset(tmp_path, unit=fr.Packed("l", length=length)), 1)
            for number, length in enumerate(lengths)
        }
        return fr.Mixture(sources, batch_size=2, world=(0, 1))

    with pytest.raises(
        ValueError, match=r"'l' is int64 \[B, 4\] in '0', .*: write the same length= of each fr"
    ):
        mixed(4, 8)
    mixed(8, 8).peek()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"stop": 50}, r"50 rows of 2 sources: .*\. stop=50 counts rows: write 3200 for 50 batches$"),
        (
            {"stages": [(5, {"web": 1})]},
            r"5 rows of 2 sources: .*\. stages=\[\(5, \.\.\.\)\] counts rows: write 320 for 5 batches$",
        ),
        (
            {"stages": [(320, {"web": 1})], "stop": 1},
            r"1 row of a pass after the stages: .*\. stop=1 counts rows: write 64 for 1 batch$",
        ),
    ],
)
def test_a_stop_in_steps_is_told_in_rows(tmp_path: Path, how: dict[str, Any], words: str) -> None:
    pq.write_table(pa.table({"n": range(400)}), tmp_path / "a.parquet")
    sources = {"web": (fr.ParquetDataset(tmp_path), 1), "code": (fr.ParquetDataset(tmp_path), 1)}
    with pytest.raises(ValueError, match=words):
        fr.Mixture(sources, batch_size=64, world=(0, 1), **how)


def test_a_stage_that_makes_no_batch_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(400)}), tmp_path / "a.parquet")
    mixed = fr.Mixture(
        {"web": (fr.ParquetDataset(tmp_path), 1)},
        stages=[(64, {"web": 1}), (5, {"web": 1})],
        batch_size=64,
        world=(0, 1),
    )
    assert sum(1 for _ in mixed) == 1
    with pytest.warns(UserWarning, match=r"with 5 rows left of stages\[1\]: too few for a global batch"):
        assert list(mixed) == []


def test_a_state_of_other_data_is_refused_by_the_sources_name(root: Path, tmp_path: Path) -> None:
    made = mixture(root, {"web": 1, "code": 1})
    state = next(iter(made)).state_dict()
    other = {"web": (source(root, "books"), 1), "code": (source(root, "code"), 1)}
    with pytest.raises(fr.StateError, match="source 'web': the state is of another dataset"):
        fr.Mixture(other, batch_size=20, world=(0, 1)).load_state_dict(state)
    alone = source(root, "web", batch_size=10, rank=0, world_size=1)
    with pytest.raises(fr.StateError):
        alone.load_state_dict(state)
    with pytest.raises(fr.StateError, match="the state is of one dataset"):
        made.load_state_dict(alone.state_dict())


def test_matrices_of_columns_in_another_order_are_refused_and_other_columns_are_told(tmp_path: Path) -> None:
    """Rows of both sources are one matrix: of one, features would be in the places of others."""
    for name, columns in {"one": ("x1", "x2"), "turned": ("x2", "x1"), "other": ("x1", "x9")}.items():
        pq.write_table(pa.table(dict.fromkeys(columns, [1.0] * 4)), tmp_path / f"{name}.parquet")

    def mixed(other: str) -> fr.Mixture:
        sources = {
            name: (fr.ParquetDataset(tmp_path / f"{name}.parquet", columns=fr.stack("x*", name="x")), 1)
            for name in ("one", other)
        }
        return fr.Mixture(sources, batch_size=2, world=(0, 1))

    with pytest.raises(ValueError, match=r"column 0 of 'x' is 'x1' in 'one', and 'x2' in 'turned': name the"):
        mixed("turned")
    with pytest.warns(UserWarning, match="column 1 of 'x' is 'x2' in 'one', and 'x9' in 'other': the schema"):
        mixed("other")


def test_rows_that_come_by_two_sources_side_by_side_are_warned_of(root: Path) -> None:
    def mixed(**how: Any) -> None:
        sources = {"a": (source(root, "web"), 1), "b": (source(root, "web", **how), 1)}
        fr.Mixture(sources, batch_size=2, world=(0, 1))

    with pytest.warns(
        UserWarning, match="'a' and 'b' are the same rows in one order: each row comes by both"
    ):
        mixed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed(shuffle=True)
        mixed(rows=[[0, 9]])


def test_options_of_sources_that_a_mixture_does_not_ask_are_warned_of(root: Path) -> None:
    for option, value in (("tail", "short"), ("on_iter", "restart")):
        web = source(root, "web", **{option: value})
        with pytest.warns(
            UserWarning, match=f"source 'web' has {option}='{value}', which a mixture does not ask"
        ):
            fr.Mixture({"web": (web, 1)}, batch_size=2, world=(0, 1))
