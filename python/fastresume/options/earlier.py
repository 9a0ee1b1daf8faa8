"""Earlier names of arguments: they are still taken, each as what says the same today.

No signature and no page has them: what takes them asks `of_today` for the names of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastresume.options.bad_rows import MaskBadRows, checked_bad_rows
from fastresume.options.cache import Cache
from fastresume.options.checks import at_least, quoted
from fastresume.options.rows import Shuffle

EARLIER = {
    "rank": "world=(rank, world_size)",
    "world_size": "world=(rank, world_size)",
    "block_rows": "shuffle=fr.Shuffle(block_rows=n)",
    "window_rows": "shuffle=fr.Shuffle(window_rows=n)",
    "manifest_cache": "cache=fr.Cache(manifest=path)",
    "filter_cache": "cache=fr.Cache(manifest=path)",
    "cache_dir": "cache=fr.Cache(data=path)",
    "cache_bytes": "cache=fr.Cache(data=path, data_bytes=n)",
    "max_bad_rows": "bad_rows=fr.MaskBadRows(at_most=n)",
    "version": "'delta://path?version=12'",
}
"""What to write today for each."""


def of_today(args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by the names of today; `args` are itself and the paths.

    Raises:
        TypeError: if one is given by both names, or `rank` without `world_size`.
        ValueError: if a value is out of range, or `version` is given for files.
    """
    if not EARLIER.keys() & options.keys():
        return args, dict(options)
    given = {name: options[name] for name in EARLIER if options.get(name) is not None}
    found = {name: value for name, value in options.items() if name not in EARLIER}
    for name in given:
        argument = EARLIER[name].partition("=")[0]
        if argument in ("world", "cache") and found.get(argument) is not None:
            raise TypeError(f"{argument}= and {name}= say the same: write {EARLIER[name]} alone")
    rank, world_size = given.get("rank"), given.get("world_size")
    if (rank is None) != (world_size is None):
        lacking = "world_size" if world_size is None else "rank"
        raise TypeError(f"rank and world_size come together: write world=(rank, world_size), {lacking} too")
    if rank is not None and world_size is not None:
        found["world"] = (rank, world_size)
    kept = given.get("manifest_cache", given.get("filter_cache"))
    data, data_bytes = given.get("cache_dir"), given.get("cache_bytes")
    if any(one is not None for one in (kept, data, data_bytes)):
        found["cache"] = Cache(kept, data, data_bytes)
    if "block_rows" in given or "window_rows" in given:
        if found.get("shuffle") is not True:
            raise ValueError(
                "block_rows and window_rows are sizes of the shuffled order, of shuffle=True: write "
                "shuffle=fr.Shuffle(block_rows=, window_rows=)"
            )
        found["shuffle"] = Shuffle(block_rows=given.get("block_rows"), window_rows=given.get("window_rows"))
    if "max_bad_rows" in given:
        masks = checked_bad_rows(found.get("bad_rows") or "error").damaged
        found["bad_rows"] = MaskBadRows(given["max_bad_rows"], masks)
    if "version" in given:
        paths = found.pop("paths") if "paths" in found else args[1]
        args = (args[0], _at_version(paths, given["version"]))
    return args, found


def _at_version(paths: Any, version: object) -> Any:
    number = at_least(0, "version", version, bits=63)
    if isinstance(paths, str) and paths.startswith(("delta://", "iceberg://")):
        return f"{paths}?version={number}"
    if hasattr(paths, "snapshot_by_id") and hasattr(paths, "scan"):
        return paths.scan(snapshot_id=number)
    raise ValueError(
        f"version={number} names a snapshot of a table, and paths is {quoted(paths)}: write 'delta://' "
        f"before the table's path, and the version at its end, as 'delta://path?version={number}'"
    )
