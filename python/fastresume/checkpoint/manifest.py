"""What a checkpoint says of itself: the file that is written last, and without which there is none."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint.layout import Layout
from fastresume.files import Digest
from fastresume.options.checks import kind_of, quoted

NAME = "manifest.json"

FORMAT = 2
"""1 was that of checkpoints that kept rank 0's value of what differed between ranks; it is read as ever."""

_DIRECTORY = re.compile(r"step-(\d{10,16})-(\d{6,16})")

_FILE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Record:
    """The best evaluation of a directory until now."""

    metric: str
    mode: str
    value: float
    step: int


@dataclass(frozen=True)
class Writer:
    """A Checkpointer that saves: its host, its process, and a word of its own."""

    host: str
    process: int
    word: str

    @classmethod
    def here(cls, word: str) -> Self:
        """The one of a word in this process."""
        return cls(platform.node(), os.getpid(), word)

    @property
    def is_here(self) -> bool:
        """Whether it is one of this process."""
        return self == Writer.here(self.word)

    def __str__(self) -> str:
        process = f"process {self.process} on {self.host}"
        return "another Checkpointer of this process" if self.is_here else process


_LATER = ("writer", "layout")
"""Fields that the first manifests did not have."""


@dataclass(frozen=True)
class Manifest:
    """The contents of a checkpoint.

    Attributes:
        step: the optimizer's steps at its moment, as the user counts them.
        serial: counts the saves into a directory: the highest one is the latest.
        world_size: by how many ranks it was saved.
        parts: what there is: "model", "optimizer", "scheduler", "loader", and "extra." with a name.
        cursor: the place in the data, or None.
        terms: what a job that resumes must have in common with the one that saved.
        extra: plain values of the user's.
        metrics: the evaluation of this step; not finite ones, too.
        is_best: whether it was better than all before it.
        record: the best evaluation up to here.
        pinned: whether it stays until its user removes it.
        files: the digest of every other file, by its name in the directory.
        writer: the Checkpointer that saved it; None from releases that did not record it.
        layout: what differed between ranks.
    """

    step: int
    serial: int
    world_size: int
    parts: tuple[str, ...]
    cursor: dict[str, Any] | None
    terms: dict[str, Any]
    extra: dict[str, Any]
    metrics: dict[str, float]
    is_best: bool
    record: Record | None
    pinned: bool
    files: dict[str, Digest]
    writer: Writer | None = None
    layout: Layout = field(default_factory=Layout)

    def to_json(self) -> bytes:
        """Canonical JSON, with the SHA-256 of the text without it under "check"."""
        found = asdict(self)
        found["layout"] = self.layout.to_plain()
        found["fastresume_checkpoint"] = FORMAT
        found["metrics"] = {name: _number(value) for name, value in self.metrics.items()}
        found["files"] = {name: [size, sha256] for name, (size, sha256) in self.files.items()}
        return _canonical({**found, "check": hashlib.sha256(_canonical(found)).hexdigest()})

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """What `to_json` wrote.

        Raises:
            StateError: if it is not whole, of another format, or names files outside of its directory.
        """
        try:
            found = json.loads(text)
            check = found.pop("check")
            if found["fastresume_checkpoint"] not in (1, FORMAT):
                raise _core.StateError(
                    f"the manifest's format is {found['fastresume_checkpoint']}, this release reads up to "
                    f"{FORMAT}"
                )
            if hashlib.sha256(_canonical(found)).hexdigest() != check:
                raise _core.StateError("the manifest is damaged: its check does not fit it")
            given = {one.name: found[one.name] for one in fields(cls) if one.name not in _LATER}
            record, writer = given["record"], found.get("writer")
            files = {name: Digest(*digest) for name, digest in given["files"].items()}
            given |= {
                "parts": tuple(given["parts"]),
                "metrics": {name: float(value) for name, value in given["metrics"].items()},
                "record": None if record is None else Record(**record),
                "files": files,
                "writer": None if writer is None else Writer(**writer),
                "layout": Layout.from_plain(found.get("layout")),
            }
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, _core.StateError):
                raise
            raise _core.StateError(f"the manifest is not whole: {error!r}") from None
        outside = [name for name in files if not _FILE.fullmatch(name) or name in (".", "..", NAME)]
        if outside:
            raise _core.StateError(f"the manifest names {outside[0]!r}, which is no file of its directory")
        return cls(**given)


def directory_name(step: int, serial: int) -> str:
    """The name of a checkpoint's directory: no two saves share one, so none is ever written over."""
    return f"step-{step:010d}-{serial:06d}"


def parse_name(name: str) -> tuple[int, int] | None:
    """The step and serial in the name of a directory; None if it is another kind of name."""
    found = _DIRECTORY.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def name_it_needs(directory: Path) -> str | None:
    """The name that a renamed checkpoint needs; None if it has it, is a link, or is no checkpoint."""
    try:
        if not stat.S_ISDIR(directory.lstat().st_mode):
            return None
        found = Manifest.from_json((directory / NAME).read_bytes())
    except (OSError, _core.StateError):
        return None
    name = directory_name(found.step, found.serial)
    return None if name == directory.name else name


def read(directory: Path) -> Manifest | None:
    """The manifest of a directory; None if there is no whole checkpoint.

    Whole: it is intact and fits the directory's name, and every file that it names is a regular file of the
    size that it says. What the files hold is compared before it is used.

    Raises:
        OSError: if it exists and can't be read: it may be whole all the same, and no job may resume from an
            older one because of that.
    """
    place = directory / NAME
    try:
        if not stat.S_ISDIR(directory.lstat().st_mode) or not stat.S_ISREG(place.lstat().st_mode):
            return None
        with files.naming(place):
            found = Manifest.from_json(place.read_bytes())
        if parse_name(directory.name) != (found.step, found.serial):
            return None
        for name, digest in found.files.items():
            status = (directory / name).lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != digest.size:
                return None
    except (FileNotFoundError, _core.StateError):
        return None
    return found


_PICKLED = "pickle.dumps(value).hex(), and pickle.loads(bytes.fromhex(...)) of it after restore"

_WAYS = {
    "to_dict": "value.to_dict('list') of a frame, list(value) of a series",
    **dict.fromkeys(("getstate", "standard_normal"), _PICKLED),  # generators of Python, and of numpy
    "get_state": "value.get_state(), and value.set_state(...) of it after restore",
    "tolist": "value.tolist()",
    "isoformat": "value.isoformat()",
    "__fspath__": "str(value)",
    "hex": "value.hex()",
    "keys": "dict(value)",
    "__dataclass_fields__": "dataclasses.asdict(value)",
    "_get_kwargs": "vars(value)",
    "__iter__": "list(value)",
}
"""What to write instead of a value that JSON does not have, by an attribute of the value."""


def _has(value: object, name: str) -> bool:
    is_other = (
        isinstance(value, dict | type) or hasattr(value, "state_dict") or hasattr(value, "requires_grad")
    )
    return hasattr(value, name) and not is_other


def plain(name: str, value: object, is_top: bool = True) -> Any:
    """A value that JSON keeps as it is: None, a bool, int, finite float or str, lists and mappings of these.

    Raises:
        TypeError, ValueError: if it is something else.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(
                f"{name} is {value}: JSON has no such number; write None, or str(value), which float() reads"
            )
        return value
    if isinstance(value, list):
        return [plain(f"{name}[{place}]", one, False) for place, one in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(f"{name}[{key!r}]", one, False) for key, one in value.items()}
    if isinstance(value, dict):
        key = next(key for key in value if not isinstance(key, str))
        raise TypeError(
            f"{name} has the key {quoted(key)}, and JSON has texts alone as keys: write "
            "[[key, one] for key, one in value.items()], and dict(...) of it after restore"
        )
    expected = f"{name} must be a plain value (None, bool, int, float, str, list, dict of str)"
    found = kind_of(value)
    if way := next((text for name, text in _WAYS.items() if _has(value, name)), ""):
        raise TypeError(f"{expected}; found {found}: write {way}")
    if is_top:
        raise TypeError(f"{expected}, a tensor, or have state_dict and load_state_dict; found {found}")
    raise TypeError(
        f"{expected}; found {found}: a tensor, or what has a state_dict, is taken only at the top, as "
        "extra={'name': value}"
    )


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
