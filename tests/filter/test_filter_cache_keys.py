"""A cached selection is that of the columns as files and tables have them now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of
from support.tables import opened


def commit(root: Path, version: int, *actions: dict[str, Any]) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def metadata(parts: tuple[str, ...] = (), **columns: tuple[str, Any]) -> dict[str, Any]:
    """What calls columns of files by other names: of each its name in files, and its type."""
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": physical,
            },
        }
        for number, (name, (physical, kind)) in enumerate(columns.items(), 1)
    ]
    return {
        "metaData": {
            "id": "11111111-1111-1111-1111-111111111111",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(parts),
            "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"},
            "createdTime": 0,
        }
    }


PROTOCOL = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}


def added(root: Path, content: pa.Table, **parts: str) -> dict[str, Any]:
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, root / "x.parquet")
    size = (root / "x.parquet").stat().st_size
    return {
        "add": {
            "path": "x.parquet",
            "partitionValues": parts,
            "size": size,
            "modificationTime": 0,
            "dataChange": True,
        }
    }


CONTENT = pa.table(
    {
        "c1": [1, 2, 3, 4],
        "c2": [40, 30, 20, 10],
        "s1": [{"x": 1, "y": 9}] * 2 + [{"x": 9, "y": 1}] * 2,
        "l1": [[1], None, [2], None],
        "l2": [None, [1], None, [2]],
    }
)
LONG, LIST = "long", {"type": "array", "elementType": "long", "containsNull": True}


def struct(x: str, y: str) -> dict[str, Any]:
    fields = [
        {
            "name": name,
            "type": LONG,
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": of},
        }
        for name, of, number in (("x", x, 7), ("y", y, 8))
    ]
    return {"type": "struct", "fields": fields}


CHANGES: dict[str, tuple[list[dict[str, Any]], fr.Condition]] = {
    "a column": (
        [metadata(a=("c1", LONG), b=("c2", LONG)), metadata(b=("c1", LONG), a=("c2", LONG))],
        fr.col("a") > 2,
    ),
    "a column that is gone": (
        [metadata(a=("c1", LONG)), metadata(a=("c9", LONG))],
        fr.col("a").is_null(),
    ),
    "a member": (
        [metadata(s=("s1", struct("x", "y"))), metadata(s=("s1", struct("y", "x")))],
        fr.col("s.x") > 5,
    ),
    "a list": (
        [metadata(a=("l1", LIST)), metadata(a=("l2", LIST))],
        fr.col("a").is_null(),
    ),
}


def selected(table: str, condition: object, **how: Any) -> list[int] | None:
    try:
        found = opened(table, filter=condition, **how).selection
    except ValueError as cause:
        if "no batch would come" not in str(cause):
            raise
        return []
    return None if found is None else found.tolist()


@each_of("name", CHANGES)
def test_what_was_selected_of_a_column_is_not_taken_for_another_of_its_name(
    tmp_path: Path, name: str
) -> None:
    versions, condition = CHANGES[name]
    root = tmp_path / "t"
    commit(root, 0, PROTOCOL, versions[0], added(root, CONTENT))
    commit(root, 1, versions[1])
    cache = tmp_path / "cache"
    for version in (0, 1, 0, 1):
        table = f"delta://{root}?version={version}"
        expected = selected(table, condition, columns="*")
        found = selected(table, condition, columns="*", cache=fr.Cache(manifest=cache))
        assert found == expected


def test_values_that_a_log_tells_of_files_decide(tmp_path: Path) -> None:
    root, cache = tmp_path / "t", tmp_path / "cache"
    of_parts = metadata(("p",), a=("c1", LONG), p=("p", "string"))
    file = added(root, CONTENT, p="x")
    commit(root, 0, PROTOCOL, of_parts, file)
    other = json.loads(json.dumps(file))
    other["add"]["partitionValues"] = {"p": "y"}
    commit(root, 1, {"remove": {"path": "x.parquet", "deletionTimestamp": 1, "dataChange": True}})
    commit(root, 2, other)
    for version in (0, 2, 0):
        for value in ("x", "y"):
            table, kept = f"delta://{root}?version={version}", fr.Cache(manifest=cache)
            plain = selected(table, fr.col("p") == value, columns=["a"])
            assert selected(table, fr.col("p") == value, columns=["a"], cache=kept) == plain


def test_values_in_paths_decide_after_a_directory_was_moved(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = tmp_path / "day=1"
    first.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"id": [number]}), first / f"{number}.parquet")
    day = fr.col("day").from_path()
    assert selected(str(first), day == 1, cache=fr.Cache(manifest=cache)) is None
    moved = first.rename(tmp_path / "day=2")
    assert selected(str(moved), day == 1, cache=fr.Cache(manifest=cache)) == []
    assert selected(str(moved), day == 2, cache=fr.Cache(manifest=cache)) is None


def test_a_file_that_was_written_again_with_the_same_size_and_footer_is_asked_again(tmp_path: Path) -> None:
    """Labels that were turned around: pyarrow's statistics, sizes and encodings stay as they were."""
    cache, labels = tmp_path / "cache", [0, 1] * 500
    for version in range(2):
        pq.write_table(pa.table({"label": [label ^ version for label in labels]}), tmp_path / "a.parquet")
        dataset = opened(
            str(tmp_path / "a.parquet"), filter=fr.col("label") == 1, cache=fr.Cache(manifest=cache)
        )
        assert {label for batch in dataset for label in batch["label"].tolist()} == {1}
        assert dataset.filter_report().is_cached is False  # type: ignore[union-attr]


def test_a_cache_is_used_while_nothing_has_changed(tmp_path: Path) -> None:
    root, cache = tmp_path / "t", tmp_path / "cache"
    commit(root, 0, PROTOCOL, metadata(a=("c1", LONG), b=("c2", LONG)), added(root, CONTENT))
    for is_cached in (False, True):
        dataset = opened(f"delta://{root}", filter=fr.col("a") > 2, cache=fr.Cache(manifest=cache))
        assert dataset.filter_report().is_cached is is_cached  # type: ignore[union-attr]
    # A column that the filter does not name may change.
    commit(root, 1, metadata(a=("c1", LONG), c=("c2", LONG)))
    dataset = opened(f"delta://{root}", filter=fr.col("a") > 2, cache=fr.Cache(manifest=cache))
    assert dataset.filter_report().is_cached  # type: ignore[union-attr]


def test_an_expression_of_pyarrow_asks_files_only_by_the_names_of_the_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    commit(root, 0, PROTOCOL, metadata(c1=("c1", LONG), c2=("c2", LONG)), added(root, CONTENT))
    commit(root, 1, metadata(c2=("c1", LONG), c1=("c2", LONG)))
    assert selected(f"delta://{root}", pc.field("c1") > 2, version=0) == [[2, 4]]
    with pytest.raises(fr.DataError, match=r"x\.parquet' calls columns otherwise than its table"):
        opened(f"delta://{root}", filter=pc.field("c1") > 2)
