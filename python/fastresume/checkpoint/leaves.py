"""The leaves of a state: what is saved by a name of its own, and what a rank tells the others of it."""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

import fastresume._core as _core
from fastresume.checkpoint import tree

_CHUNK_BYTES = 64 << 20
"""So much of a tensor of another device is on the CPU at a time."""

_RANK = "rank-"
"""How the first key begins of what one rank alone has kept."""


class Leaf(NamedTuple):
    """A rank's summary of a leaf; ranks with equal summaries have equal leaves.

    Attributes:
        form: its type, of a tensor dtype and shape.
        digest: of what it holds; empty for what torch divides between ranks, or where one rank's counts.
        mesh: of a tensor that torch divides: over which mesh, and how; else empty.
        place: of such a one: where in the mesh this rank is.
    """

    form: str
    digest: bytes
    mesh: str = ""
    place: str = ""

    @classmethod
    def of(cls, value: Any, ranks: int, counts_of_one: bool) -> Leaf:
        """The summary of a leaf, in a job of this many ranks.

        Args:
            value: of the leaf.
            ranks: of the job.
            counts_of_one: whether one rank's is taken by all, whatever others have.
        """
        if isinstance(value, DTensor):
            mesh = value.device_mesh
            place = mesh.get_coordinate()
            # Where the mesh is not of all ranks, another one may have a tensor of the same name.
            digest = b"" if mesh.size() == ranks or place is None else digest_of(value.to_local())
            layout = f"{tuple(mesh.shape)} by {value.placements}"
            return cls(_form(value), digest, layout, str(place))
        return cls(_form(value), b"" if counts_of_one else digest_of(value))


def leaves(state: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of nested mappings by their paths; a list is one leaf."""
    for key, value in state.items():
        path = (*above, str(key))
        if isinstance(value, Mapping):
            yield from leaves(value, path)
        else:
            yield path, value


def name_of(path: Collection[str | int]) -> str:
    """The name of a leaf, or of that which something within a leaf belongs to."""
    found = []
    for part in path:
        if isinstance(part, int):
            break
        found.append(part)
    return ".".join(found)


def under_ranks(state: Mapping[str, Any], rank_of: Mapping[str, int]) -> dict[str, Any]:
    """A state whose named leaves are below the rank that each belongs to."""
    found: dict[str, Any] = {}
    for path, value in leaves(state):
        rank = rank_of.get(name_of(path))
        _put(found, path if rank is None else (f"{_RANK}{rank}", *path), value)
    return found


def put_back(state: dict[str, Any], arranged: Mapping[str, Any]) -> None:
    """Gives a state the leaves of what `under_ranks` made of it."""
    for path, value in leaves(arranged):
        _put(state, path[rank_in(path) is not None :], value)


def rank_in(path: Collection[str | int]) -> int | None:
    """The rank that a path is below, or None."""
    first = str(next(iter(path), ""))
    return int(first[len(_RANK) :]) if first.startswith(_RANK) else None


def digest_of(value: Any) -> bytes:
    """32 bytes that tell other values apart, and are the same in every process.

    Tensors are compared by their bytes, wherever they are; other values by what they are.
    """
    hashed = hashlib.sha256()
    _feed(value, hashed.update)
    return hashed.digest()


def _feed(value: Any, take: Callable[[bytes], object]) -> None:
    if isinstance(value, bytes):
        value = _unpacked(value)
    elif isinstance(value, torch.device):
        value = value.type  # each rank has one of its own
    if isinstance(value, Tensor):
        take(_form(value).encode())
        for chunk in _bytes_of(value):
            take(_core.digest(chunk))
    elif isinstance(value, Mapping):
        take(b"{%d" % len(value))
        keys = {digest_of(key): key for key in value}
        for digest in sorted(keys):  # in whatever order they were put in
            take(digest)
            _feed(value[keys[digest]], take)
    elif isinstance(value, list | tuple):
        take(b"[%d" % len(value))
        for one in value:
            _feed(one, take)
    elif isinstance(value, set | frozenset):
        take(b"<%d" % len(value))
        take(b"".join(sorted(map(digest_of, value))))
    else:
        plain = value is None or isinstance(
            value, bool | int | float | complex | str | bytes | torch.dtype | np.generic
        )
        text = repr(value).encode(errors="surrogatepass") if plain else pickle.dumps(value)
        take(b"%s:%d:" % (type(value).__name__.encode(), len(text)))
        take(text)


def _bytes_of(tensor: Tensor) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """The bytes of a tensor in chunks, on the CPU."""
    if tensor.is_meta:
        return
    plain = tensor.detach().resolve_conj().resolve_neg() if tensor.layout == torch.strided else tensor
    if plain.layout != torch.strided or plain.is_quantized:
        buffer = io.BytesIO()
        torch.save(plain.cpu(), buffer)
        yield np.frombuffer(buffer.getvalue(), np.uint8)
        return
    flat = plain.contiguous().reshape(-1).view(torch.uint8)
    for start in range(0, len(flat), _CHUNK_BYTES):
        yield flat[start : start + _CHUNK_BYTES].cpu().numpy()


def _unpacked(content: bytes) -> Any:
    """What `tree.packed` packed, or other bytes as they are: the same value may be packed otherwise."""
    if not content.startswith(b"PK") or not zipfile.is_zipfile(io.BytesIO(content)):
        return content
    try:
        return ("packed", tree.unpacked(content))
    except Exception:  # noqa: BLE001  (bytes of another kind are compared as they are)
        return content


def _form(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _put(found: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        found = found.setdefault(part, {})
    found[path[-1]] = value
