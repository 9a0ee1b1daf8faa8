"""Values on their way to another process: their tensors in one block of shared memory, which is used again.

torch sends every tensor in a file of its own: made, filled, sent over a socket, mapped, page by page. Here
all tensors of a value lie side by side in one block. The sender keeps the block, the receiver maps it once,
and a byte in it says whether somebody still looks at it: it is used again when the last tensor over it is
gone.
"""

from __future__ import annotations

import ctypes
import io
import math
import os
import pickle
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.reduction import DupFd, ForkingPickler
from operator import call, methodcaller
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.memory_file import Mapping, Memory, mapped_file
from fastresume.platform import unnamed_file

FREE, TAKEN, KEPT = 0, 1, 2
"""What the first byte of a block says: it may be filled; it holds a value; it is never filled again."""

_KNOWN = 1  # the place of the byte that says whether the receiver has mapped the block
_HEAD_BYTES = 64
_ALIGNMENT = 64
_BLOCK_BYTES = 1 << 16
_BODY_BYTES = 1 << 14
MAX_IDLE_BLOCKS = 4
"""A sender keeps no more unused blocks than these."""

_NAMES = """
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 float8_e4m3fn
    float8_e5m2 complex64 complex128
"""
_DTYPES = frozenset(getattr(torch, name) for name in _NAMES.split() if hasattr(torch, name))


Array = npt.NDArray[Any]
Place = tuple[int, torch.dtype | np.dtype[Any], tuple[int, ...]]
"""Offset, type and shape of a tensor or an array."""


class _Handle(Protocol):
    def detach(self) -> int: ...


class Enclosed(NamedTuple):
    """A descriptor that goes beside the message, where there is a channel for it: the handle of a block."""

    file: int

    def detach(self) -> int:
        """The descriptor, which is the caller's from now on."""
        return self.file

    def __reduce__(self) -> tuple[type[Enclosed], tuple[int]]:
        return Enclosed, (-1,)


class Parcel(NamedTuple):
    """What goes through the pipe of a value whose tensors lie in a block.

    `block` is (sender, number, bytes), or None where there is nothing to put into one. `handle` is the file
    of a block that the receiver has not mapped. `gone` are blocks that the sender gave up. An empty `body`
    is in the block, too, in the last place.
    """

    block: tuple[str, int, int] | None
    handle: _Handle | None
    gone: tuple[int, ...]
    places: tuple[Place, ...]
    body: bytes


class _Packer(ForkingPickler):
    """Pickles a value, and leaves out the tensors and arrays that a block can hold."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.held: list[Tensor | Array] = []
        self.sources: list[tuple[int, int]] = []
        """Address and bytes of each."""

    def persistent_id(self, value: object) -> int | None:
        if type(value) is Tensor and _fits(value):
            # The bits that mark a lazy minus or conjugate would be lost, as torch's own pickling loses them.
            tensor = value.resolve_neg().resolve_conj().contiguous()
            self.held.append(tensor)
            self.sources.append((tensor.data_ptr(), tensor.nbytes))
        elif type(value) is np.ndarray and value.dtype.kind in "biuf" and value.flags.c_contiguous:
            self.hold(value)
        else:
            return None
        return len(self.held) - 1

    def hold(self, array: Array) -> None:
        """Has an array put into the block."""
        self.held.append(array)
        self.sources.append((array.ctypes.data, array.nbytes))


def why_unsent(values: dict[str, Any], error: Exception) -> str:
    """Why a batch can't be sent, in words: the error, and which of its values raised it."""
    reason = f"{type(error).__name__}: {error}"
    for name, value in values.items():
        try:
            _Packer(io.BytesIO()).dump(value)
        except Exception:  # noqa: BLE001  (the reason is of this value)
            needs_grad = isinstance(value, Tensor) and value.requires_grad
            way = "write .detach() after it" if needs_grad else "leave it out of what the function returns"
            return f"{reason}. It is the value {name!r}: {way}"
    return reason


def _fits(tensor: Tensor) -> bool:
    return bool(
        tensor.is_cpu
        and tensor.dtype in _DTYPES
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_nested)
    )


class _Unpacker(pickle.Unpickler):
    def __init__(self, body: bytes | memoryview, held: list[Tensor | Array]) -> None:
        super().__init__(io.BytesIO(body))
        self._held = held

    def persistent_load(self, number: Any) -> Tensor | Array:
        held: Tensor | Array = self._held[number]
        return held


class _Block:
    """Shared memory of the sender: a head, and room for the tensors of one value."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.file = -1
        self.file = unnamed_file(size)
        self.mapping = Mapping(self.file, size)
        self.memory = self.mapping.bytes()
        self.address = self.mapping.address

    def close_file(self, close: Callable[[int], None] = os.close) -> None:
        """Closes the descriptor, which is not needed any more when the receiver has mapped the block."""
        file, self.file = self.file, -1
        if file >= 0:
            close(file)  # by a name that is there at the interpreter's end, too

    def __del__(self) -> None:
        self.close_file()


class Sender:
    """The blocks of a process that sends values to one other.

    Args:
        handle: makes of the descriptor of a block what goes with the parcel.
    """

    def __init__(self, handle: Callable[[int], Any] = DupFd) -> None:
        self._handle = handle
        self.process = os.getpid()
        self._name = f"{self.process}-{os.urandom(8).hex()}"
        self._blocks: list[_Block] = []
        self._made = 0

    def pack(self, value: object) -> Parcel:
        """The value as a parcel, to be pickled by a `ForkingPickler` and given to `unpack` over there.

        Raises:
            Exception: what pickling a part of the value raises.
            OSError: if there is no memory for a block.
        """
        file = io.BytesIO()
        packer = _Packer(file)
        packer.dump(value)
        body = file.getvalue()
        if len(body) > _BODY_BYTES:  # a pipe holds this many, and the sender would wait
            packer.hold(np.frombuffer(body, dtype=np.uint8))
            body = b""
        offsets, runs, size = _laid_out(packer.sources)
        places = tuple(
            (offset, held.dtype, tuple(held.shape)) for offset, held in zip(offsets, packer.held, strict=True)
        )
        if not runs:
            return Parcel(None, None, (), places, body)
        block, gone = self._take(size)
        for target, source, length in runs:
            ctypes.memmove(block.address + target, source, length)
        handle: Any = None if block.memory[_KNOWN] else self._handle(block.file)
        return Parcel((self._name, block.number, block.size), handle, gone, places, body)

    def _take(self, size: int) -> tuple[_Block, tuple[int, ...]]:
        """A block with room for this many bytes, and the numbers of those that are given up."""
        gone: list[_Block] = []
        free: list[_Block] = []
        for block in self._blocks:
            if block.memory[_KNOWN]:
                block.close_file()
            is_of_use = block.memory[0] == FREE and (block.memory[_KNOWN] or block.file >= 0)
            if is_of_use:
                free.append(block)
            elif block.memory[0] != TAKEN:
                gone.append(block)
        free.sort(key=lambda block: block.size)
        found = next((block for block in free if block.size >= size), None)
        if found is not None:
            free.remove(found)
        else:
            self._made += 1
            found = _Block(self._made, -(-(size + size // 8) // _BLOCK_BYTES) * _BLOCK_BYTES)
            self._blocks.append(found)
        gone += free[: max(len(free) - MAX_IDLE_BLOCKS, 0)]
        if gone:
            self._blocks = [kept for kept in self._blocks if kept not in gone]
        found.memory[0] = TAKEN
        return found, tuple(given_up.number for given_up in gone)


def _laid_out(sources: list[tuple[int, int]]) -> tuple[list[int], list[tuple[int, int, int]], int]:
    """The offset of each of these (address, bytes), the runs to copy (target, source, bytes), all bytes.

    Tensors that lie side by side in memory, as those of one batch may, are copied as one run.
    """
    offsets: list[int] = []
    runs: list[tuple[int, int, int]] = []
    end = _HEAD_BYTES
    begin_source = end_source = -1
    for source, size in sources:
        if size == 0:
            offsets.append(0)
            continue
        if runs and 0 <= source - end_source <= _ALIGNMENT:
            target = runs[-1][0]
            runs[-1] = target, begin_source, source - begin_source + size
            offsets.append(target + source - begin_source)
        else:
            target = -(-end // _ALIGNMENT) * _ALIGNMENT + source % _ALIGNMENT
            runs.append((target, source, size))
            begin_source = source
            offsets.append(target)
        end, end_source = offsets[-1] + size, source + size
    return offsets, runs, end


# ------------------------------------------------------------------------------------------ on the other side

_mapped: dict[str, dict[int, Memory]] = {}
_leases: dict[int, _Lease] = {}


class _Lease(weakref.ref[Memory]):
    """Lets go of a block when no tensor looks at it any more: what `end` is, is called then.

    No line of Python runs for that: in a destructor Python drops what a signal handler raises.
    """

    __slots__ = ("_fill", "_leave", "end")
    _fill: Callable[[int], None]
    _leave: Callable[[], object]
    end: Callable[[], object]

    def __new__(cls, view: Memory, block: Memory) -> Self:
        """Holds on to the block, and not to the view."""
        self = super().__new__(cls, view, _call_end)
        self._fill = block[:1].fill
        self._leave = partial(_leases.pop, id(self), None)
        self._end_with(FREE)
        _leases[id(self)] = self
        return self

    def _end_with(self, state: int) -> None:
        both: tuple[Callable[[], object], ...] = (partial(self._fill, state), self._leave)
        calls = map(_call, both)
        self.end = partial(any, calls)

    def keep(self) -> None:
        """Has the block never filled again."""
        self._end_with(KEPT)

    def leave(self) -> None:
        """Has nothing written: this is a forked copy."""
        self.end = self._leave


_call: Callable[[Callable[[], object]], object] = call
_call_end = methodcaller("end")


def _keep_all() -> None:
    """A forked child looks at the same memory, for as long as it likes: no one writes there again."""
    for lease in list(_leases.values()):
        lease.keep()


def _leave_all() -> None:
    for lease in list(_leases.values()):
        lease.leave()


os.register_at_fork(before=_keep_all, after_in_parent=_keep_all, after_in_child=_leave_all)


def unpack(
    parcel: Parcel,
    page_lock: Callable[[], _core.PageLock | None] | None = None,
    blocks: dict[int, Memory] | None = None,
) -> Any:
    """The value in this process: its tensors over the block, which they share; nothing is copied.

    Args:
        parcel: what was sent.
        page_lock: gives what locks the pages of a block that is new here, for a device.
        blocks: those of the sender that are mapped here, by number; None for those that `forget` lets go of.

    Raises:
        FastresumeError: if the block is not known here: the value was meant for another process.
        Exception: what unpickling a part of the value raises.
    """
    view: Any = None
    if parcel.block is not None:
        sender, number, size = parcel.block
        if blocks is None:
            blocks = _mapped.get(sender, {}) if parcel.handle is None else _mapped.setdefault(sender, {})
        for given_up in parcel.gone:
            blocks.pop(given_up, None)
        if parcel.handle is not None:
            blocks[number] = _map(parcel.handle, size, page_lock)
        block = blocks.get(number)
        if block is None:
            raise _core.FastresumeError(f"block {number} of {sender} is not known in process {os.getpid()}")
        block[_KNOWN] = 1
        view = block[:size]
        _Lease(view, block)
    held = [_held(view, place) for place in parcel.places]
    body: Any = parcel.body or memoryview(held.pop().data)  # type: ignore[arg-type]  # of an array
    return _Unpacker(body, held).load()


def give_back(parcel: Parcel, blocks: dict[int, Memory]) -> None:
    """Lets the sender fill the block again with something else: no one looks at this value."""
    unpack(parcel._replace(places=(), body=_NOTHING), None, blocks)


_NOTHING = pickle.dumps(None)


def _map(handle: _Handle, size: int, page_lock: Callable[[], _core.PageLock | None] | None) -> Memory:
    file = handle.detach()
    try:
        return mapped_file(file, size, page_lock)
    finally:
        os.close(file)


def _held(view: Memory, place: Place) -> Tensor | Array:
    """The tensor or array at a place of a block, or an empty one."""
    offset, dtype, shape = place
    if isinstance(dtype, torch.dtype):
        if offset == 0:
            return torch.empty(shape, dtype=dtype)
        if len(shape) == 1:
            return torch.frombuffer(view, dtype=dtype, count=shape[0], offset=offset)
        return torch.frombuffer(view, dtype=dtype, count=math.prod(shape), offset=offset).view(shape)
    if offset == 0:
        return np.empty(shape, dtype=dtype)
    # An array over another one holds on to what that one looks at, and not to it: the lease would end.
    return np.frombuffer(view.data, dtype=dtype, count=math.prod(shape), offset=offset).reshape(shape)


def sender_of(parcel: Parcel) -> str | None:
    """The name of the process that sent it, for `forget`."""
    return None if parcel.block is None else parcel.block[0]


def num_bytes(parcel: Parcel) -> int:
    """The bytes of the tensors and arrays in its block."""
    places = parcel.places if parcel.body else parcel.places[:-1]
    return sum(math.prod(shape) * dtype.itemsize for _, dtype, shape in places)


def forget(sender: str) -> None:
    """Lets go of the blocks of a process that sends nothing any more; tensors over them stay as they are."""
    for block in _mapped.pop(sender, {}).values():
        block[_KNOWN] = 0
