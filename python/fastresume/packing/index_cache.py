"""The index of units, kept in a file beside the manifest's, so that another process reads no levels."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume import files

Words = npt.NDArray[np.int64]

MAGIC = b"fastresume units 1\n"
"""The number changes with what tables are made of: another file is not read, and replaced."""


class IndexCache:
    """A file that holds the words of a table of units.

    Args:
        beside: the file of the manifest.
        key: what the table is of, as JSON has it: the files, their selected rows, and how units are made.
    """

    def __init__(self, beside: str, key: dict[str, Any]) -> None:
        self._key = json.dumps(key, sort_keys=True)
        # Files that were added since take the place of those without them.
        named = json.dumps({**key, "fingerprint": None}, sort_keys=True)
        name = hashlib.sha256(named.encode()).hexdigest()[:16]
        self.path = Path(f"{beside}.units-{name}")

    def read(self) -> list[Words] | None:
        """The arrays that were kept; None if there are none, or they are damaged or of something else."""
        try:
            data = self.path.read_bytes()
            told, content = data[len(MAGIC) :].split(b"\n", 1)
            found = json.loads(told)
            if not data.startswith(MAGIC) or found["key"] != self._key:
                return None
            if found["sha256"] != hashlib.sha256(content).hexdigest():
                return None
            words = np.frombuffer(content, "<i8").astype(np.int64)
            return np.split(words, np.cumsum(found["lengths"])[:-1])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, arrays: list[Words]) -> None:
        """Keeps the arrays.

        Warns:
            UserWarning: if that can't be done.
        """
        content = b"".join(each.astype("<i8").tobytes() for each in arrays)
        told = {"key": self._key, "sha256": hashlib.sha256(content).hexdigest()}
        text = json.dumps({**told, "lengths": [len(each) for each in arrays]}).encode()
        try:
            files.put(self.path, MAGIC + text + b"\n" + content)
        except OSError as cause:
            warnings.warn(
                f"the index of units '{self.path}' can't be written: {cause.strerror}", stacklevel=6
            )
