"""Messages between the main process and one worker, over a pair of sockets that has no name.

A message is bytes, and at most one descriptor. Nothing of it can be left over: there is no file, no
semaphore, and no lock that a dead process holds.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from array import array
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from fastresume.platform import CLOSED_BY_EXEC, NO_SIGNAL

_HEAD = struct.Struct("=Q?")
"""Bytes of the message that follows; whether a descriptor comes with it."""

_CHUNK = 1 << 18
_RIGHTS = socket.CMSG_SPACE(8 * struct.calcsize("i"))


class HungUpError(Exception):
    """The other side of a channel has ended."""


class Channel:
    """One end. The main process never waits in it, but in `wait`; a worker does."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._came = bytearray()
        self._files: deque[int] = deque()
        self._due = bytearray()

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._end.fileno()

    @property
    def is_behind(self) -> bool:
        """Whether there are messages that were posted and did not fit yet."""
        return bool(self._due)

    def send(self, data: bytes, file: int = -1) -> None:
        """Sends a message, and a descriptor with it, if there is one; waits until there is room.

        Raises:
            HungUpError: if the other side has ended.
        """
        head = _HEAD.pack(len(data), file >= 0)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file]))] if file >= 0 else []
        try:
            sent = self._end.sendmsg([head, data], rights, NO_SIGNAL)
            if sent < len(head) + len(data):
                self._end.sendall(memoryview(head + data)[sent:], NO_SIGNAL)
        except OSError as error:
            raise HungUpError from error

    def post(self, data: bytes) -> None:
        """Puts a message after those that wait to be sent, and sends what goes without waiting.

        Raises:
            HungUpError: if the other side has ended.
        """
        self._due += _HEAD.pack(len(data), False) + data
        self.flush()

    def flush(self) -> None:
        """Sends what was posted, as far as it goes without waiting.

        Raises:
            HungUpError: if the other side has ended.
        """
        while self._due:
            try:
                sent = self._end.send(self._due, socket.MSG_DONTWAIT | NO_SIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                raise HungUpError from error
            del self._due[:sent]

    def receive(self, waits: bool = False) -> tuple[bytes, int] | None:
        """The next message, and the descriptor that came with it or -1; None if it is not there yet.

        Raises:
            HungUpError: if the other side has ended.
        """
        while (message := self._next()) is None:
            flags = CLOSED_BY_EXEC | (0 if waits else socket.MSG_DONTWAIT)
            try:
                data, rights, _, _ = self._end.recvmsg(_CHUNK, _RIGHTS, flags)
            except BlockingIOError:
                return None
            except OSError as error:
                raise HungUpError from error
            for level, kind, content in rights:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self._files.extend(array("i", content))
            if not data:
                raise HungUpError
            self._came += data
        return message

    def _next(self) -> tuple[bytes, int] | None:
        came = self._came
        if len(came) < _HEAD.size:
            return None
        size, has_file = _HEAD.unpack_from(came)
        end = _HEAD.size + size
        if len(came) < end:
            return None
        data = bytes(memoryview(came)[_HEAD.size : end])
        del came[:end]
        return data, self._files.popleft() if has_file else -1

    def hang_up(self) -> None:
        """Ends the conversation for both sides, even if another process holds a copy of this end."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes this end, and the descriptors that came and were not taken. Copies elsewhere stay open."""
        self._end.close()
        while self._files:
            os.close(self._files.popleft())


def wait(due: Channel, others: Iterable[Channel], milliseconds: int) -> None:
    """Waits until something comes on the first one, one with messages left can send, or time is over."""
    poll = select.poll()
    poll.register(due, select.POLLIN | (select.POLLOUT if due.is_behind else 0))
    for other in others:
        if other is not due and other.is_behind:
            poll.register(other, select.POLLOUT)
    poll.poll(milliseconds)
