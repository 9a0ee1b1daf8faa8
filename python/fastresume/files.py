"""Durable files and directories: they survive a power cut, once a call has returned."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from io import UnsupportedOperation
from pathlib import Path
from typing import NamedTuple, Self

_CHUNK_BYTES = 1 << 20

_CAN_NOT = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What systems say that can't sync a directory at all (FUSE, SMB), and not that this one could not be."""


class Digest(NamedTuple):
    """The size of a file in bytes, and the SHA-256 of its bytes as hexadecimal digits."""

    size: int
    sha256: str


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives errors of the system the path, which those of an open file lack."""
    try:
        yield
    except UnsupportedOperation as error:
        # Also a ValueError, though no value was wrong: the system refused to seek in the file.
        raise OSError(errno.ESPIPE, str(error), str(path)) from error
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def is_there(path: Path) -> bool:
    """Whether there is something of that name, were it a link to nothing.

    Raises:
        OSError: if that can't be known: it is not taken for a no.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


class Draft:
    """A new file that is being written; durable once it is closed.

    The digest is that of the bytes that were passed to it, whatever the disk wrote.

    Raises:
        FileExistsError: if the name exists, even as a link.
        OSError: if it can't be written or made durable.

    Examples:
        >>> with Draft(Path("draft.bin")) as draft:
        ...     draft.write(b"abc")
        3
        >>> draft.digest.size
        3
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._hash = hashlib.sha256()
        self._size = 0
        self.error: OSError | None = None
        """The first error while writing, with its path; a copy."""

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Writes all of it, and returns its length in bytes."""
        view = memoryview(data).cast("B")
        with self._errors_kept():
            self._file.write(view)
        self._hash.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        """The bytes written until now."""
        return self._size

    def flush(self) -> None:
        """Passes the buffered bytes to the system."""
        with self._errors_kept():
            self._file.flush()

    def close(self) -> None:
        """Makes the file durable: its bytes, not yet its name."""
        if not self._file.closed:
            with self._errors_kept(), self._file:
                self._file.flush()
                os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(OSError):  # the first error is the one to raise
            self._file.close()

    @contextlib.contextmanager
    def _errors_kept(self) -> Iterator[None]:
        """Adds the path to errors, which those of an open file lack, and keeps the first."""
        try:
            with naming(Path(self._file.name)):
                yield
        except OSError as error:
            # A copy: with its traceback it would hold on to this draft.
            self.error = self.error or OSError(error.errno, error.strerror, error.filename)
            raise

    @property
    def digest(self) -> Digest:
        """The digest of everything that was written."""
        return Digest(self._size, self._hash.hexdigest())


def write(path: Path, content: bytes) -> Digest:
    """Writes a new file durably; its name is durable once `settle` was called for its directory."""
    with Draft(path) as draft:
        draft.write(content)
    return draft.digest


def digest_of(path: Path) -> Digest:
    """The digest of a regular file as it is now; a link is an error.

    Raises:
        OSError: if it is not a regular file, or can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    hashed, size = hashlib.sha256(), 0
    with naming(path), os.fdopen(descriptor, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            hashed.update(chunk)
            size += len(chunk)
    return Digest(size, hashed.hexdigest())


def settle(directory: Path) -> OSError | None:
    """Makes the names in a directory durable; gives the error of a system that can't do it for any directory.

    Raises:
        OSError: if it can, and could not.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with naming(directory):
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _CAN_NOT:
                raise
            return OSError(error.errno, error.strerror, str(directory))
        finally:
            os.close(descriptor)
    return None


def make_directory(directory: Path) -> OSError | None:
    """Makes a directory and those above it that are missing; durable, as far as `settle` can."""
    missing, found = [], None
    while not _is_directory(directory):
        missing.append(directory)
        directory = directory.parent
    for made in reversed(missing):
        made.mkdir(exist_ok=True)
        found = settle(made.parent) or found
    return found


def publish(draft: Path, place: Path) -> OSError | None:
    """Moves a directory that is durable to its place in the same directory; durable, as far as `settle` can.

    Raises:
        OSError: if the place is taken, or can't be made durable.
    """
    draft.rename(place)
    return settle(place.parent)


def remove(directory: Path, first: str) -> Iterator[OSError]:
    """Removes a directory of files, `first` first; yields errors, and continues after them."""
    names = [first, *(name for name in names_in(directory) if name != first)]
    for name in names:
        try:
            (directory / name).unlink(missing_ok=True)
        except OSError as error:
            yield error
    try:
        directory.rmdir()
    except OSError as error:
        yield error


def link(place: Path, target: str, draft: Path) -> None:
    """Makes a name point at another one in its directory, atomically; a convenience, not durable."""
    draft.symlink_to(target)
    draft.replace(place)


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return False


def names_in(directory: Path) -> list[str]:
    """The names in a directory, sorted; none if it can't be read."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208  (names, not paths)
    except OSError:
        return []


def put(path: Path, content: bytes) -> None:
    """Writes a file next to its place, and moves it there.

    Raises:
        OSError: if it can't be written; the unfinished file is removed.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
