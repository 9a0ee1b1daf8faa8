"""Folders of Hugging Face's `save_to_disk`, without the package: their rows alone are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import numbers_in
from support.ipc_writer import write_ipc

ONE: dict[str, Any] = {"batch_size": 4, "tail": "short", "world": (0, 1)}


def saved(folder: Path, *shards: range) -> Path:
    """A folder as `Dataset.save_to_disk` writes it."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{len(shards):05}.arrow" for n in range(len(shards))]
    for name, rows in zip(names, shards, strict=True):
        write_ipc(pa.table({"x": rows}), folder / name, "stream")
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder


def saved_splits(folder: Path) -> Path:
    """A folder as `DatasetDict.save_to_disk` writes it."""
    saved(folder / "train", range(10))
    saved(folder / "test", range(10, 13))
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    return folder


def test_what_map_and_filter_keep_in_a_folder_is_not_read(tmp_path: Path) -> None:
    """Before, `dataset.map()` of a loaded dataset brought its results into the next job's rows."""
    folder = saved(tmp_path / "hf", range(5), range(5, 9))
    before = fr.ArrowDataset(folder, **ONE)
    write_ipc(pa.table({"x": range(100, 109)}), folder / "cache-b7f3.arrow", "stream")
    write_ipc(pa.table({"indices": pa.array([1, 3], pa.uint64())}), folder / "cache-0aa1.arrow", "stream")
    for path in (folder, str(folder), f"{folder}/", [[folder]]):
        dataset = fr.ArrowDataset(path, **ONE)
        assert numbers_in(dataset) == list(range(9))
        assert dataset.fingerprint == before.fingerprint
    by_pattern = fr.ArrowDataset(f"{folder}/data-*.arrow", **ONE)
    assert by_pattern.fingerprint == before.fingerprint


@pytest.mark.parametrize(
    "kept", [pa.table({"x": range(3)}), pa.table({"indices": pa.array([1], pa.uint64())})]
)
def test_what_a_pattern_meets_beside_the_rows_is_refused(tmp_path: Path, kept: pa.Table) -> None:
    folder = saved(tmp_path / "all" / "hf", range(5))
    assert numbers_in(fr.ArrowDataset(tmp_path / "all", **ONE)) == list(range(5))
    for name in ("cache-b7f3.arrow", "mine.arrow"):
        path = write_ipc(kept, folder / name, "stream")
        for named in (tmp_path / "all", f"{folder}/*.arrow", f"{tmp_path}/**/*.arrow"):
            with pytest.raises(fr.DataError, match=rf"{name}' has no rows .* Name the folder '{folder}'"):
                fr.ArrowDataset(named, **ONE)
        assert fr.ArrowDataset(path, batch_size=1).num_rows == kept.num_rows
        path.unlink()
    (folder / "state.json").unlink()
    write_ipc(kept, folder / "cache-b7f3.arrow", "stream")
    with pytest.raises(fr.DataError, match=r"cache-b7f3\.arrow' has no rows .* Name the files of its rows"):
        fr.ArrowDataset(folder, **ONE)


def test_a_folder_of_splits_is_refused_with_the_folders_to_write(tmp_path: Path) -> None:
    """Before, train and test were read as one dataset."""
    folder = saved_splits(tmp_path / "all" / "hfd")
    message = (
        rf"'{folder}' holds the splits of a dataset.*: name one of them, as '{folder}/t\w+' or '{folder}/t\w+"
    )
    for path in (folder, [folder], tmp_path / "all", f"{folder}/t*", f"{folder}/*/*.arrow"):
        with pytest.raises(fr.DataError, match=message):
            fr.ArrowDataset(path, **ONE)
    assert numbers_in(fr.ArrowDataset(folder / "train", **ONE)) == list(range(10))
    assert fr.ArrowDataset([folder / "train", folder / "test"], **ONE).num_rows == 13
    assert fr.ArrowDataset(f"{folder}/tr*/*.arrow", **ONE).num_rows == 10


@pytest.mark.parametrize("state", ["", "[1]", '{"_data_files": []}', '{"_data_files": [{"filename": 3}]}'])
def test_a_folder_whose_state_names_no_files_is_any_folder(tmp_path: Path, state: str) -> None:
    folder = saved(tmp_path / "hf", range(5))
    (folder / "state.json").write_text(state)
    assert fr.ArrowDataset(folder, **ONE).num_rows == 5


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "hf", range(5), range(5, 9))
    (folder / "data-00000-of-00002.arrow").unlink()
    with pytest.raises(fr.SourceError, match=r"no such file: .*data-00000-of-00002\.arrow"):
        fr.ArrowDataset(folder, **ONE)


def test_a_saved_folder_given_to_a_parquet_dataset_is_refused_by_the_dataset_that_reads_it(
    tmp_path: Path,
) -> None:
    one, splits = saved(tmp_path / "hf", range(5)), saved_splits(tmp_path / "hfd")
    for paths, folder in (
        (one, one),
        (f"{one}/", f"{one}/"),
        ([splits], splits / "train"),
        (splits / "test",) * 2,
    ):
        with pytest.raises(fr.DataError, match=rf"save_to_disk.*: write fr\.ArrowDataset\('{folder}'\)$"):
            fr.ParquetDataset(paths, **ONE)  # type: ignore[arg-type]
        assert fr.ArrowDataset(folder, **ONE).num_rows in (3, 5, 10)
    (tmp_path / "other").mkdir()
    with pytest.raises(fr.SourceError, match="has no file at all"):
        fr.ParquetDataset(tmp_path / "other", **ONE)
