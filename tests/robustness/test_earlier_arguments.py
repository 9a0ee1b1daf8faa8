"""Earlier names of arguments mean what those of today mean; no signature has them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.options.earlier import EARLIER

Arguments = dict[str, Any]

SAME: dict[str, tuple[Arguments, Arguments]] = {
    "ranks": ({"rank": 1, "world_size": 3}, {"world": (1, 3)}),
    "a block": ({"shuffle": True, "block_rows": 4}, {"shuffle": fr.Shuffle(block_rows=4)}),
    "sizes": (
        {"shuffle": True, "block_rows": 4, "window_rows": 8},
        {"shuffle": fr.Shuffle(block_rows=4, window_rows=8)},
    ),
    "a limit": (
        {"bad_rows": "mask", "max_bad_rows": 7},
        {"bad_rows": fr.MaskBadRows(at_most=7)},
    ),
    "a limit of functions": (
        {"max_bad_rows": 0.5},
        {"bad_rows": fr.MaskBadRows(at_most=0.5, damaged=False)},
    ),
    "what is not named": (dict.fromkeys(EARLIER), {}),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(60)}), path, row_group_size=12)
    return path


def said(dataset: Any) -> tuple[object, ...]:
    spec = dataset._spec
    return spec.world, spec.order_choice, spec.masks_damage, spec.max_bad_rows, dataset.plan()


@pytest.mark.parametrize("which", SAME)
def test_an_earlier_name_says_the_same(file: Path, which: str) -> None:
    earlier, today = SAME[which]
    here = {"batch_size": 2}
    old, new = (fr.ParquetDataset(file, **here, **how) for how in (earlier, today))
    assert said(old) == said(new)
    assert old.state_dict() == new.state_dict()
    assert [batch["x"].tolist() for batch in old] == [batch["x"].tolist() for batch in new]


def test_earlier_names_of_caches_keep_the_same_files(file: Path, tmp_path: Path) -> None:
    how: Arguments = {"batch_size": 2, "filter": fr.col("x").isin([3, 40]), "world": (0, 1)}
    fr.ParquetDataset(file, manifest_cache=tmp_path / "old", **how)  # type: ignore[call-arg]
    fr.ParquetDataset(file, cache=fr.Cache(manifest=tmp_path / "new"), **how)
    old, new = (sorted(path.name for path in tmp_path.glob(f"{name}.filter-*")) for name in ("old", "new"))
    assert [name.replace("old", "new") for name in old] == new
    assert len(new) == 1
    for name in ("filter_cache", "manifest_cache"):
        again = fr.ParquetDataset(file, **{name: tmp_path / "new"}, **how)
        assert again.filter_report().is_cached  # type: ignore[union-attr]
    kept = {"cache_dir": tmp_path / "data", "cache_bytes": 100}
    assert fr.ParquetDataset(file, **kept, **how).num_rows == 2
    assert not (tmp_path / "data").exists(), "local files are read where they are"


def test_a_mixture_takes_them_too(file: Path) -> None:
    sources = {"a": (fr.ParquetDataset(file), 1)}
    old = fr.Mixture(sources, batch_size=2, rank=1, world_size=2, max_bad_rows=5)  # type: ignore[call-arg]
    new = fr.Mixture(sources, batch_size=2, world=(1, 2), bad_rows=fr.MaskBadRows(at_most=5))
    assert (old._spec.world, old._spec.max_bad_rows) == (new._spec.world, new._spec.max_bad_rows)
    assert old.plan() == new.plan()
    with pytest.raises(TypeError, match=r"bad_rows of a Mixture must be fr\.MaskBadRows.*each source says"):
        fr.Mixture(sources, batch_size=2, bad_rows="mask")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"rank": 0}, "rank and world_size come together"),
        ({"rank": 0, "world_size": 1, "world": (0, 1)}, "world= and rank= say the same"),
        ({"cache_dir": "a", "cache": fr.Cache(data="b")}, "cache= and cache_dir= say the same"),
        ({"block_rows": 3}, "of shuffle=True: write shuffle=fr.Shuffle"),
        ({"block_rows": 3, "shuffle": False}, "of shuffle=True: write shuffle=fr.Shuffle"),
        ({"version": 3}, "write 'delta://' before the table's path"),
        ({"order_paths": "as given"}, r"has no argument order_paths=: write \[\[path\] for path in paths\]"),
        ({"max_page_bytes": 3}, "has no argument max_page_bytes=, and needs none"),
        ({"world": 3}, r"world must be a World, a pair, .*, found int: write world=\(rank, world_size\)"),
        ({"world": (3, 2)}, r"rank 3 is not in \[0, 2\)"),
        ({"shuffle": (3, 4)}, r"shuffle must be True, False or fr\.Shuffle\(block_rows=, window_rows=\)"),
        ({"bad_rows": "drop"}, r"bad_rows must be 'error' or 'mask' or fr\.MaskBadRows\(at_most=n\)"),
    ],
    ids=str,
)
def test_what_says_two_things_or_none_is_refused(file: Path, how: Arguments, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fr.ParquetDataset(file, batch_size=2, **how)


@pytest.mark.parametrize("kind", [fr.ParquetDataset, fr.Mixture, fr.Loader])
def test_no_signature_has_an_earlier_name(kind: type) -> None:
    assert not EARLIER.keys() & inspect.signature(kind).parameters.keys()
