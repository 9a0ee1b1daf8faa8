"""Preemption: a job that is asked to end finishes its step, the same on all ranks, and can be resumed."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from fastresume.options.attributes import METHODS_OF_PREEMPTIONS
from fastresume.options.checks import at_least, quoted
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.options.world import check_others
from fastresume.training.agreement import Agreement

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

RESUMABLE = 75
"""The exit code of a job that ended early, saved its state, and continues when it is started again:
EX_TEMPFAIL of sysexits.h, "try again later"."""

INTERRUPTED = 130
"""The exit code after a second Ctrl-C, as a shell has it: 128 and the number of SIGINT."""


@takes_no_other("fr.training.Preemption", "preemption")
class Preemption:
    """A context in which SIGTERM and Ctrl-C end the job after the current step, the same one on every rank.

    Signals reach ranks at different moments, or only one of them. So every rank asks `is_due()` after each
    step, and gets the same answer. A second Ctrl-C ends the process at once, even while it waits.

    Args:
        every: ranks communicate only once in this many calls of `is_due`; the other calls return False.
        signals: the signals that ask the job to end.
        group: the ranks; None for the default group. All of them make it together, after `init_process_group`
            if the job calls it.

    Raises:
        TypeError, ValueError: for an argument of another type, a number out of range, or a signal that no
            process can handle (SIGKILL, SIGSTOP).
        RuntimeError: on entry, outside of the main thread (where Python handles signals), or if it was
            entered already.
        FastresumeError: without a process group, if the environment (`torchrun`) names several ranks.

    Threads and forks: a thread listens for signals, because the main thread can't while it waits in a
    collective. A forked child has the handlers from before. Workers of a `Loader` leave SIGTERM to the main
    process, so that a signal to the whole process group lets the step end.

    Examples:
        >>> with Preemption() as preemption:
        ...     for batch in loader:
        ...         train(batch)
        ...         if preemption.is_due():
        ...             save({"data": batch.state_dict()})
        ...             preemption.exit()  # the process ends with the code 75
    """

    def __init__(
        self,
        *,
        every: int = 1,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        group: ProcessGroup | None = None,
    ) -> None:
        self.every = at_least(1, "every", every)
        self.signals = _handled(signals)
        check_others("Preemption", "a process that is alone unsets RANK and WORLD_SIZE")
        self._agreement = Agreement(group, made="Preemption(...)")
        self._calls = 0
        self._is_due = False
        self._received: signal.Signals | None = None
        self._interrupts = 0
        self._process = 0
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakeup = -1
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    @property
    def received(self) -> signal.Signals | None:
        """The first signal that this process got; None if there was none. Other ranks may have got one."""
        return self._received

    def is_due(self) -> bool:
        """Whether the job ends here: the same on every rank. Ask once after each step, on all of them.

        Every `every`-th call is one collective of one number, over gloo; after the first True, none is
        needed.

        Raises:
            RuntimeError: outside of the `with` block, where no signal is noticed.
            FastresumeError: if it was made before the process group; see `Agreement`.
        """
        if self not in _active:
            raise RuntimeError(
                "is_due() is for inside of `with Preemption() as preemption:`, which hears of signals"
            )
        self._calls += 1
        if not self._is_due and self._calls % self.every == 0:
            self._is_due = self._agreement.any(self._received is not None)
        return self._is_due

    def exit(self) -> NoReturn:
        """Ends the process by `SystemExit` with the exit code 75, which says that the job can be resumed."""
        raise SystemExit(RESUMABLE)

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("Preemption handles signals, which Python does in the main thread alone")
        if self in _active:
            raise RuntimeError("this Preemption was entered already: make one for each `with`")
        self._process = os.getpid()
        self._sockets = socket.socketpair()
        for each in self._sockets:
            each.setblocking(False)
        self._sockets[0].setblocking(True)
        threading.Thread(target=self._listen, args=(self._sockets[0],), daemon=True).start()
        self._wakeup = signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
        self._handlers = {}
        _active.append(self)
        try:
            for number in self.signals:
                self._handlers[number] = signal.signal(number, self._handle)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self not in _active:
            return
        _active.remove(self)
        for each, handler in self._handlers.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup)
        if self._sockets is not None:
            self._sockets[1].close()  # the listener ends, and closes the other one
            if self._process != os.getpid():  # a forked child has no listener
                self._sockets[0].close()
            self._sockets = None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """The handler that Python runs in the main thread, when that thread runs Python code."""
        if self._process != os.getpid():  # of a child that was forked just now: the signal is its own
            self._leave()
            os.kill(os.getpid(), number)
            return
        self._received = self._received or signal.Signals(number)

    def _listen(self, heard: socket.socket) -> None:
        """Receives signals as they come, even while the main thread is in a collective."""
        with heard:
            while numbers := heard.recv(64):
                for number in numbers:
                    self._hear(number)

    def _hear(self, number: int) -> None:
        if self._wakeup >= 0:  # of asyncio, say
            with suppress(OSError):
                os.write(self._wakeup, bytes([number]))
        if number in self.signals:
            self._received = self._received or signal.Signals(number)
            self._interrupts += number == signal.SIGINT
            if self._interrupts > 1:
                os._exit(INTERRUPTED)

    def __bool__(self) -> NoReturn:
        """Refused: it would be true before any signal.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError("a Preemption is always true: write preemption.is_due(), after each step")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what others' classes have."""
            refuse_attribute(self, name, "a Preemption", METHODS_OF_PREEMPTIONS)

    def __repr__(self) -> str:
        name = "no signal" if self._received is None else self._received.name
        return f"Preemption({name}, every={self.every})"


def _handled(given: Any) -> tuple[signal.Signals, ...]:
    """The signals, if handlers can be set for them."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeError(f"signals must be a tuple of signals, as (signal.SIGTERM,), found {quoted(given)}")
    signals = tuple(map(_signal, given))
    for each in signals:
        if each in (signal.SIGKILL, signal.SIGSTOP):
            raise ValueError(f"signals must be such that a process can handle, found {each.name}")
    return signals


def _signal(each: Any) -> signal.Signals:
    try:
        return signal.Signals(each)
    except (TypeError, ValueError):
        named = f"SIG{str(each).upper().removeprefix('SIG')}"
        way = named if named in signal.Signals.__members__ else "SIGTERM"
        raise TypeError(
            f"signals must be a tuple of signals, found {quoted(each)} in it: write signals=(signal.{way},)"
        ) from None


_active: list[Preemption] = []


def _forget() -> None:
    """In a forked child: its signals are its own."""
    for preemption in _active[:]:
        preemption._leave()


os.register_at_fork(after_in_child=_forget)
