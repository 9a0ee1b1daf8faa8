"""Files that hold a state: JSON, what `torch.save` wrote, or the newest of a directory."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastresume._core as _core
from fastresume.options.checks import local_path, quoted
from fastresume.state.cursor import KEY, Cursor

_MANIFEST = "manifest.json"
"""Of a checkpoint, in its directory."""


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
        raise _core.StateError(
            f"{path} has no checkpoint and no *.json, *.pt, *.pth or *.ckpt: name the file"
        )
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


def named(given: str) -> tuple[str, Cursor]:
    """Where the state is that an argument names, in words, and its cursor.

    Args:
        given: a file or directory, `-` for standard input, or the JSON of a state itself.

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
        return "as given", _only_state(value, "the text")
    if given == "-":
        return "standard input", _only_state(
            _value(sys.stdin.buffer.read() if sys.stdin else b"", "standard input"), "standard input"
        )
    paths = candidates(Path(local_path(given)))
    for path in paths:
        value = _value(path.read_bytes(), str(path))
        if len(paths) == 1 or _states(value):  # a log of metrics is newer than the checkpoint
            return str(path), _only_state(value, str(path))
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
    except ValueError:
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


def _only_state(value: object, place: str) -> Cursor:
    """The cursor of the one state in nested mappings.

    Raises:
        StateError: if there is none, or more than one; says where.
    """
    states = list(_states(value))
    if len(states) != 1:
        raise _core.StateError(f"{place} holds {len(states)} states under the key '{KEY}', expected one")
    return Cursor.from_state(states[0])


def _states(value: object) -> list[Mapping[str, Any]]:
    """All states in nested mappings."""
    if not isinstance(value, Mapping):
        return []
    if KEY in value:
        return [value]
    return [state for inner in value.values() for state in _states(inner)]
