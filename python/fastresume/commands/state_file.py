"""Files that hold a state: JSON, what `torch.save` wrote, or the newest of a directory."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastresume._core as _core
from fastresume.options.checks import local_path, quoted
from fastresume.state.cursor import KEY, Cursor

_MANIFEST = "manifest.json"
"""Of a checkpoint, in its directory."""

_ORDER = "the state comes before the data, as fastresume state STATE DATA"

_CUT_OFF = "a write that was cut off leaves such a file; write another one, and rename it once it is whole"

_NAMED = 8
"""An error names at most this many states."""


def candidates(path: Path) -> list[Path]:
    """The file itself; for a directory the manifest of what `restore` takes from it, else its files.

    The newest file comes first, and files of the directory itself before those in others.

    Raises:
        StateError: if the directory has none, nor has one of those in it; if all its checkpoints are damaged,
            one has another name, or several directories in it have some.
        OSError: if it can't be read.
    """
    if not path.is_dir():
        return [path]
    if (path / _MANIFEST).exists():
        return [path / _MANIFEST]
    has_some = any(file for level in ("*/", "*/*/") for file in path.glob(f"{level}{_MANIFEST}"))
    if has_some and (found := _restored(path)) is not None:
        return [found / _MANIFEST]
    kept: list[Path] = []
    for level in ("", "*/", "*/*/"):
        files = [file for end in ("json", "pt", "pth", "ckpt") for file in path.glob(f"{level}*.{end}")]
        kept += sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True)
    if not kept:
        way = f"it has files of Parquet: {_ORDER}" if any(path.glob("**/*.parquet")) else "name the file"
        raise _core.StateError(f"{path} has no checkpoint and no *.json, *.pt, *.pth or *.ckpt: {way}")
    return kept


def _restored(directory: Path) -> Path | None:
    """The checkpoint that `restore` takes: of a directory, or of the one inside it that has some.

    Raises:
        StateError: if `restore` would refuse to start over there.
    """
    from fastresume.checkpoint.directory import CheckpointDirectory  # takes seconds, as it needs torch

    history = CheckpointDirectory(directory.absolute())
    seen, below = history.survey(), history.elsewhere()
    if not seen.entries and not seen.torn and len(below) == 1:
        history = CheckpointDirectory(below[0])
        seen = history.survey()
    for path in seen.torn:
        sys.stderr.write(f"{path} is not whole, and is passed over\n")
    entries = seen.usable()
    if not entries:
        history.check_empty()
        return None
    return entries[-1].path


def named(given: str, key: str | None = None) -> tuple[str, Cursor]:
    """Where the state is that an argument names, in words, and its cursor.

    Args:
        given: a file or directory, `-` for standard input, or the JSON of a state itself.
        key: the keys that lead to the state, with dots between them; None for the only one.

    Raises:
        StateError: if there is no state, or more than one; if a text is no JSON.
        OSError: if it can't be read.
        ValueError: if it is no local path.
    """
    if given.lstrip().startswith("{"):
        try:
            value = json.loads(given)
        except ValueError as cause:
            raise _core.StateError(
                f"the text is no JSON ({cause}): a shell keeps it whole in '...'"
            ) from None
        return "as given", _only_state(value, "the text", key)
    if given == "-":
        value = _value(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
        return "standard input", _only_state(value, "standard input", key)
    paths = candidates(Path(local_path(given)))
    for path in paths:
        value = _value(path.read_bytes(), str(path))
        if len(paths) == 1 or any(_states(value)):  # a log of metrics is newer than the checkpoint
            return str(path), _only_state(value, str(path), key)
    raise _core.StateError(
        f"{given}: none of {len(paths)} files, {quoted(paths[0].name)} and older ones, has a state under the "
        f"key '{KEY}': name the file"
    )


def _value(content: bytes, place: str) -> object:
    """What the bytes of a file hold: JSON, or what `torch.save` wrote.

    Raises:
        StateError: if it is neither.
    """
    try:
        return json.loads(content)
    except ValueError as cause:
        if not content.strip():
            raise _core.StateError(f"{place} is empty: {_CUT_OFF}") from None
        if content.lstrip()[:1] == b"{":
            raise _core.StateError(f"{place} is no JSON ({cause}): {_CUT_OFF}") from None
        if content.startswith(b"PAR1"):
            raise _core.StateError(f"{place} is a file of Parquet, and no state: {_ORDER}") from None
        import torch  # takes seconds, and JSON needs it not

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's ask for reports to torch about files of others
                return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception as cause:  # noqa: BLE001  (torch's own are of many kinds)
            raise _core.StateError(
                f"{place} is neither JSON nor a file of torch.save that is read without running code "
                f"({type(cause).__name__}): write the state alone, as json.dump(batch.state_dict(), file)"
            ) from None


def _only_state(value: object, place: str, key: str | None) -> Cursor:
    """The cursor of the only state in nested mappings, or of the one to which keys lead.

    Raises:
        StateError: if there is none, or more than one; says where.
    """
    there = dict(_states(value))
    chosen = list(there) if key is None else [name for name in there if name == key]
    if len(chosen) == 1:
        return Cursor.from_state(there[chosen[0]])
    names = ", ".join(map(quoted, list(there)[:_NAMED])) + (", ..." if len(there) > _NAMED else "")
    if not there:
        found = f"no state, which has the key '{KEY}'"
    elif key is None:
        way = f"fastresume state FILE --key {min(there)}"
        found = f"{len(there)} states, under the keys {names}: name one, as {way}"
    else:
        found = f"no state under the keys {quoted(key)}: there {'is' if len(there) == 1 else 'are'} {names}"
    raise _core.StateError(f"{place} holds {found}")


def _states(value: object, above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All states in nested mappings, each after the keys that lead to it, with dots between them."""
    if not isinstance(value, Mapping):
        return
    if KEY in value:
        yield above, value
        return
    for key, inner in value.items():
        yield from _states(inner, f"{above}.{key}" if above else str(key))
