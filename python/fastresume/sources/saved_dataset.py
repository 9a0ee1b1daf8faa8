"""Folders that Hugging Face's `datasets` writes: which of their files are a dataset's rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import fastresume._core as _core


def data_files(path: str) -> list[str]:
    """The path, or the files of rows if it is a folder of `Dataset.save_to_disk`: `map` keeps others there.

    Raises:
        DataError: if it is a folder of `DatasetDict.save_to_disk`; names its splits.
    """
    if not os.path.isdir(path):  # noqa: PTH112  (one question for each of many files)
        return [path]
    splits = _said(Path(path, "dataset_dict.json")).get("splits")
    if isinstance(splits, list) and splits:
        raise _of_splits(path, [os.path.join(path, str(split)) for split in splits])  # noqa: PTH118  (as given)
    files = _files_of_rows(Path(path))
    return [path] if files is None else list(map(str, files))


def folder_of_rows(paths: Iterable[str]) -> str | None:
    """The first path that is a folder of `save_to_disk`: of several splits, that of the first one."""
    for path in paths:
        splits = _said(Path(path, "dataset_dict.json")).get("splits")
        if isinstance(splits, list) and splits:
            return str(Path(path, str(splits[0])))
        if _files_of_rows(Path(path)) is not None:
            return path
    return None


def check_met(paths: Iterable[os.PathLike[str]], named: Sequence[str]) -> None:
    """Refuses what a pattern or a directory meets by the way: files that `map` kept, and several splits.

    Args:
        paths: the files that were met.
        named: what the user named.

    Raises:
        DataError: if one is no file of rows, or two are of two splits of one dataset.
    """
    given = {os.path.abspath(path) for path in named}  # noqa: PTH100  (links and `..` as the core has them)
    rows: dict[Path, list[Path] | None] = {}
    split_of: dict[Path, Path] = {}
    for path in (Path(met) for met in paths if os.fspath(met) not in given):
        folder = path.parent
        if folder not in rows:
            rows[folder] = _files_of_rows(folder)
            if _said(folder.parent / "dataset_dict.json"):
                other = split_of.setdefault(folder.parent, folder)
                if other != folder:
                    raise _of_splits(str(folder.parent), [str(other), str(folder)])
        files = rows[folder]
        is_kept = path.name.startswith("cache-") and (folder / "dataset_info.json").is_file()
        if is_kept if files is None else path not in files:
            way = "the files of its rows" if files is None else f"the folder '{folder}', which means its rows"
            raise _core.DataError(
                f"'{path}' has no rows of the dataset in its folder: dataset.map() or another call kept it "
                f"there. Name {way}"
            )


def _of_splits(path: str, splits: list[str]) -> _core.DataError:
    return _core.DataError(
        f"'{path}' holds the splits of a dataset, as train and test: name one of them, as {splits[0]!r}"
        f"{f' or {splits[1]!r}' if len(splits) > 1 else ''}"
    )


def _files_of_rows(folder: Path) -> list[Path] | None:
    """The files of rows of a saved dataset; None if the folder is none."""
    found = _said(folder / "state.json").get("_data_files")
    if not isinstance(found, list) or not found:
        return None
    names = [file.get("filename") for file in found if isinstance(file, dict)]
    files = [folder / name for name in names if isinstance(name, str)]
    return files if len(files) == len(found) else None


def _said(path: Path) -> dict[str, Any]:
    """What a file of JSON says by names; nothing if it is none, or not there."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
