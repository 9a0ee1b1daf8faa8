"""States that torch would not keep: it makes texts of other keys, and loses empty mappings.

Such a state is taken apart: its tensors under numbers, and one leaf that says where each was. It is restored
as it was, also into an object that has no state yet.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor

import fastresume._core as _core

SHAPE = "fastresume tree"
"""The key of the leaf that says where each tensor was."""

_SHARDED = "sharded"

Path = tuple[str | int, ...]


def kept(state: Any) -> dict[str, Any]:
    """A state that torch keeps as it is: the same one, or it taken apart."""
    if isinstance(state, Mapping) and _is_kept(state):
        return dict(state)
    return apart(state)


def apart(state: Any) -> dict[str, Any]:
    """A state taken apart.

    Raises:
        TypeError: if it holds more than tensors, numbers, texts and containers of these.
    """
    tensors: dict[str, Tensor] = {}
    shape = _taken(state, tensors)
    return {SHAPE: packed(shape), **tensors}


def together(found: Any) -> Any:
    """The state that `kept` was given."""
    if not isinstance(found, Mapping) or SHAPE not in found:
        return found
    return _put_back(unpacked(found[SHAPE]), found)


def template(
    name: str, shapes: Mapping[Path, Any], live: Mapping[str, Any], likes: Sequence[Tensor]
) -> dict[str, Any]:
    """What `apart` gave, with tensors to fill, of a state that need not be there yet.

    Args:
        name: of the state, for the error.
        shapes: what was saved of it, by path.
        live: what `apart` gives of the present state.
        likes: tensors that may show how one of their shape is sharded.

    Raises:
        StateError: if nothing shows how one is to be sharded.
    """
    return {str(path[0]): _empty(name, str(path[0]), found, live, likes) for path, found in shapes.items()}


def packed(value: Any) -> bytes:
    """A value as one leaf, that comes back without running any code of its own.

    Raises:
        TypeError: if it holds more than tensors, numbers, texts and containers of these.
    """
    buffer = io.BytesIO()
    try:
        torch.save(value, buffer)
        content = buffer.getvalue()
        unpacked(content)
    except (AttributeError, RuntimeError, pickle.PicklingError, pickle.UnpicklingError) as error:
        raise TypeError(
            f"a state must hold tensors, numbers, texts and containers of these: {str(error)[:_LONGEST]}"
        ) from None
    return content


def unpacked(content: bytes) -> Any:
    """What `packed` packed."""
    return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")


_LONGEST = 500
"""An error of torch's is shown up to this many characters."""


def opened(live: Any, shapes: Mapping[Path, Any]) -> Any:
    """A state whose empty mappings have what was saved there, to be filled: they grew since."""
    if not isinstance(live, Mapping):
        return live
    below = _below(shapes)
    if not live:
        return {key: _made(inner) for key, inner in below.items()}
    found = {key: opened(value, below.get(key, {})) for key, value in live.items()}
    return found if any(found[key] is not value for key, value in live.items()) else live


def _made(shapes: Mapping[Path, Any]) -> Any:
    """What can be filled with a value that was saved in these shapes."""
    if () in shapes:
        found = shapes[()]
        is_tensor = isinstance(found, TensorStorageMetadata)
        return torch.zeros(found.size, dtype=found.properties.dtype) if is_tensor else None
    below = {key: _made(inner) for key, inner in _below(shapes).items()}
    return [below[key] for key in sorted(below)] if all(isinstance(key, int) for key in below) else below


def _below(shapes: Mapping[Path, Any]) -> dict[str | int, dict[Path, Any]]:
    found: dict[str | int, dict[Path, Any]] = {}
    for path, saved in shapes.items():
        if path:
            found.setdefault(path[0], {})[path[1:]] = saved
    return found


def _is_kept(state: Any) -> bool:
    if isinstance(state, Mapping):
        return bool(state) and all(isinstance(key, str) and _is_kept(value) for key, value in state.items())
    if isinstance(state, list | tuple):
        return all(map(_is_kept, state))
    return True


def _taken(value: Any, tensors: dict[str, Tensor]) -> tuple[str, Any]:
    if isinstance(value, Tensor):
        is_sharded = isinstance(value, DTensor)
        key = f"{len(tensors)}.{value.device.type}" + (f".{_SHARDED}" if is_sharded else "")
        tensors[key] = value
        return "tensor", key
    if isinstance(value, Mapping):
        return "mapping", [(key, _taken(one, tensors)) for key, one in value.items()]
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        kind = "list" if isinstance(value, list) else "tuple"
        return kind, [_taken(one, tensors) for one in value]
    return "value", value


def _put_back(shape: tuple[str, Any], tensors: Mapping[str, Any]) -> Any:
    kind, content = shape
    if kind == "tensor":
        return tensors[content]
    if kind == "mapping":
        return {key: _put_back(one, tensors) for key, one in content}
    if kind == "value":
        return content
    items = [_put_back(one, tensors) for one in content]
    return items if kind == "list" else tuple(items)


def _empty(name: str, key: str, found: Any, live: Mapping[str, Any], likes: Sequence[Tensor]) -> Any:
    if not isinstance(found, TensorStorageMetadata):
        return None
    dtype = found.properties.dtype
    _, device, *rest = key.split(".")
    is_sharded = _SHARDED in rest
    for like in (live.get(key), *(likes if is_sharded else ())):
        if not isinstance(like, Tensor) or like.shape != found.size:
            continue
        if isinstance(like, DTensor) == is_sharded:
            return torch.zeros_like(like, dtype=dtype, requires_grad=False).detach()
    if is_sharded:
        raise _core.StateError(
            f"{name} had a sharded tensor of shape {list(found.size)}, and nothing there now shows how it "
            "is to be sharded: make its state before restore"
        )
    present = torch.accelerator.current_accelerator(check_available=True)
    is_there = present is not None and present.type == device
    return torch.zeros(found.size, dtype=dtype, device=device if is_there else "cpu")
