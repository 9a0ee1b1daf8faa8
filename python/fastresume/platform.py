"""What Linux has and other systems lack: a port is this file, since nothing else asks for it."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# -------------------------------------------------------------------------------------------------- Memory


def unnamed_file(size: int) -> int:
    """The descriptor of a file of `size` zeros in memory, without a name, so that none is left over.

    Raises:
        OSError: if there is not enough memory, or the system has no such files.
    """
    if hasattr(os, "memfd_create"):  # not bounded by the size of /dev/shm
        try:
            file = os.memfd_create("fastresume", os.MFD_CLOEXEC)
        except OSError as error:
            message = (
                f"processes can't share memory here, memfd_create failed ({error.strerror}): use no workers"
            )
            raise OSError(error.errno, message) from error
    else:
        with tempfile.TemporaryFile() as draft:
            file = os.dup(draft.fileno())
    try:
        os.ftruncate(file, size)
        if hasattr(os, "posix_fallocate"):  # an error now, and no signal later
            os.posix_fallocate(file, 0, size)
    except BaseException:
        os.close(file)
        raise
    return file


def path_of(file: int) -> str:
    """A path that opens an unnamed file by its descriptor; none is there on a system without /proc."""
    return f"/proc/self/fd/{file}"


class Descriptor:
    """A descriptor. What closes it is no line of Python, in which a signal handler might raise."""

    def __init__(self, file: int) -> None:
        self._kept = select.epoll.fromfd(file)

    def fileno(self) -> int:
        """The descriptor."""
        return self._kept.fileno()


# ------------------------------------------------------------------------------------------------ Processes

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Has the system kill this process when the thread that started it ends, where it can.

    A thread that watches the parent can't do that while a call of C holds Python's lock.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def end_of(process: int) -> int | None:
    """A descriptor that can be read when a process has ended; None on old kernels, and in some sandboxes.

    Raises:
        ProcessLookupError: if it has ended, and its parent knows.
    """
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def kill(end: int) -> None:
    """Kills the process of an `end_of`, and no other that has its number now.

    Raises:
        OSError: if it has ended.
    """
    signal.pidfd_send_signal(end, signal.SIGKILL)


def first_steps(main: int, method: str, ignored: list[int]) -> str:
    """What a worker process runs before it imports anything but Python's own modules, as code.

    The user's script, and torch, take seconds, in which it would learn nothing of its parent's end.

    Under a fork server the main process is no parent: a thread waits for its end. And the server ends when
    the last process closes a pipe to it, so a worker closes its own end. Then the system kills the worker,
    also in a call of C that holds Python's lock.

    Args:
        main: the main process.
        method: how workers are started.
        ignored: the signals that they leave to it.
    """
    return _FIRST.format(main=main, method=method, ignored=ignored, death_signal=_PR_SET_PDEATHSIG)


_FIRST = """
import ctypes, os, select, signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {ignored})
name = "fastresume-parent"
if {method!r} == "forkserver" and all(thread.name != name for thread in threading.enumerate()):
    try:
        main = os.pidfd_open({main})
        end = select.poll()
        end.register(main, select.POLLIN)
        threading.Thread(target=lambda: (end.poll(), os._exit(1)), name=name, daemon=True).start()
    except ProcessLookupError:
        os._exit(1)
    except (AttributeError, OSError):
        pass
    try:
        from multiprocessing.forkserver import _forkserver as server
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None
    except (AttributeError, ImportError, OSError, TypeError):
        pass
try:
    ctypes.CDLL(None).prctl({death_signal}, int(signal.SIGKILL), 0, 0, 0)
except (AttributeError, OSError):
    pass
if {method!r} == "spawn" and os.getppid() != {main}:
    os._exit(1)
"""


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs, as far as the system tells."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as status:  # noqa: PTH123  (quick)
            return status.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return not os.path.isdir("/proc/self")  # noqa: PTH112  (as above)
    except OSError:
        return True


# -------------------------------------------------------------------------------------------------- Sockets

NO_SIGNAL = socket.MSG_NOSIGNAL
"""Sent with this, a message to a dead process is an error, and no SIGPIPE, which a program might hear."""

CLOSED_BY_EXEC = socket.MSG_CMSG_CLOEXEC
"""A descriptor that is received so is in no program that this process becomes."""

# ------------------------------------------------------------------------------------------ Want of memory

_SELF = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")


def kills_for_memory() -> dict[str, int]:
    """How many processes the system has killed so far for want of memory, by where: what can be known.

    The container's count comes first: it is the one whose limit is met first.
    """
    found: dict[str, int] = {}
    for where, path in _counters():
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                found.setdefault(where, int(count))
    return found


def _counters() -> Iterator[tuple[str, Path]]:
    """The files that have a count, by what it is of."""
    container = "in this container"
    try:
        lines = _SELF.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        place = path.lstrip("/")
        if number == "0":
            yield container, _CGROUPS / place / "memory.events"
        elif "memory" in controllers.split(","):
            yield container, _CGROUPS / "memory" / place / "memory.oom_control"
    yield "on this machine", _MACHINE


# -------------------------------------------------------------------------------------------- Measurements

_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
_STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """The memory of this process that is resident."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most of it so far, since `reset_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    """A memory size that Linux reports; elsewhere the peak resident size so far.

    getrusage's peak begins with the memory of the process that started this one.
    """
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def private_bytes(process: int | None) -> int:
    """The memory that a process shares with no other; 0 where the system does not report it."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it may have ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def reset_peak() -> None:
    """Makes the peak the memory of now; imports may have needed more."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def processor_facts() -> dict[str, str]:
    """What Linux says about the first processor, by its own names; nothing elsewhere."""
    file = _PROCESSORS
    first = file.read_text().partition("\n\n")[0].splitlines() if file.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first)}


_PROCESSORS = Path("/proc/cpuinfo")
