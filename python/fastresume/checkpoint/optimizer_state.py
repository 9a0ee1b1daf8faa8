"""The state of optimizers under the names of parameters, so that it loads on other ranks and shards."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.nn import Module
from torch.optim import Optimizer

import fastresume._core as _core

_WRAPPERS = ("module", "_orig_mod")
"""Parts of parameters' names that wrappers put there: DistributedDataParallel and `torch.compile`."""


def names_of(model: Module) -> dict[Tensor, str]:
    """The names of a model's parameters, without what wrappers put before them."""
    found: dict[Tensor, str] = {}
    for name, parameter in model.named_parameters():
        found.setdefault(parameter, canonical(model, name))
    return found


def canonical(model: Module, name: str) -> str:
    """A name of a parameter or buffer as it is without wrappers."""
    kept, module = [], model
    for part in name.split("."):
        is_wrapper = part in _WRAPPERS and _wraps(module, part)
        module = getattr(module, part, module)
        if not is_wrapper:
            kept.append(part)
    return ".".join(kept)


def capture(optimizers: Sequence[Optimizer], model: Module) -> dict[str, Any]:
    """The state of optimizers: {"state": {name: {...}}, "groups": bytes}.

    Nothing is stepped or made: the state of an optimizer that has not stepped yet is empty.

    Raises:
        ValueError: if an optimizer has a parameter that is none of the model's.
    """
    names = names_of(model)
    state: dict[str, Any] = {}
    groups = []
    for optimizer in optimizers:
        own = _names(optimizer, names)
        found = optimizer.state_dict()
        state |= {own[number]: with_texts_as_keys(own[number], one) for number, one in found["state"].items()}
        groups.append(
            [
                {**group, "params": [own[number] for number in group["params"]]}
                for group in found["param_groups"]
            ]
        )
    return {"state": state, "groups": packed(groups)}


def template(
    optimizers: Sequence[Optimizer], model: Module, shapes: Mapping[tuple[str | int, ...], Any]
) -> dict[str, Any]:
    """What `capture` gave, with tensors to fill: sharded as the parameters are whose shape they have."""
    by_name = {name: parameter for parameter, name in names_of(model).items()}
    live = capture(optimizers, model)["state"]
    made: dict[str, Any] = {"state": {}, "groups": b""}
    for path, found in shapes.items():
        if path[0] == "groups":
            continue
        _, name, *rest = path
        at = made["state"].setdefault(name, {})
        for part in rest[:-1]:
            at = at.setdefault(part, {})
        at[rest[-1]] = _empty(found, by_name.get(str(name)), _at(live.get(name), rest))
    return made


def restore(optimizers: Sequence[Optimizer], model: Module, filled: Mapping[str, Any]) -> None:
    """Gives optimizers the state that `capture` gave of others.

    Raises:
        StateError: if their groups have other parameters.
    """
    names = names_of(model)
    saved = unpacked(filled["groups"])
    for place, optimizer in enumerate(optimizers):
        own = _names(optimizer, names)
        groups = optimizer.state_dict()["param_groups"]
        present = [[own[number] for number in group["params"]] for group in groups]
        past = [group["params"] for group in saved[place]]
        if present != past:
            raise _core.StateError(
                f"the groups of the optimizer were {_told(past)}, and are {_told(present)}"
            )
        numbers = {name: number for number, name in own.items()}
        optimizer.load_state_dict(
            {
                "state": {
                    numbers[name]: values for name, values in filled["state"].items() if name in numbers
                },
                "param_groups": [
                    {**group, "params": [numbers[name] for name in group["params"]]} for group in saved[place]
                ],
            }
        )


def with_texts_as_keys(name: str, state: Any) -> Any:
    """A state, if all its mappings have texts as keys: torch makes texts of others, and so loses them.

    Raises:
        TypeError: if one has another key; it is named.
    """
    if isinstance(state, Mapping):
        for key, value in state.items():
            if not isinstance(key, str):
                raise TypeError(f"the state of {name} has the key {key!r}: keys must be texts")
            with_texts_as_keys(name, value)
    elif isinstance(state, list | tuple):
        for value in state:
            with_texts_as_keys(name, value)
    return state


def packed(value: Any) -> bytes:
    """A value as one leaf, that comes back without running any code of its own.

    Raises:
        TypeError: if it holds more than tensors, numbers, texts and containers of these.
    """
    buffer = io.BytesIO()
    torch.save(value, buffer)
    content = buffer.getvalue()
    try:
        unpacked(content)
    except (AttributeError, RuntimeError, pickle.UnpicklingError) as error:
        raise TypeError(
            f"a state must hold tensors, numbers, texts and containers of these: {error}"
        ) from None
    return content


def unpacked(content: bytes) -> Any:
    """What `packed` packed."""
    return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")


def _names(optimizer: Optimizer, names: Mapping[Tensor, str]) -> dict[int, str]:
    """The names of an optimizer's parameters by the numbers that its `state_dict` gives them."""
    found: dict[int, str] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter not in names:
                shape = tuple(parameter.shape)
                raise ValueError(
                    f"the optimizer has a parameter of shape {shape} that is none of the model's"
                )
            found[len(found)] = names[parameter]
    return found


def _empty(found: Any, parameter: Tensor | None, live: Any) -> Any:
    if not isinstance(found, TensorStorageMetadata):
        return None
    dtype = found.properties.dtype
    for like in (live, parameter):
        if isinstance(like, Tensor) and like.shape == found.size:
            return torch.zeros_like(like, dtype=dtype, requires_grad=False).detach()
    return torch.zeros(found.size, dtype=dtype)


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _wraps(module: Module, part: str) -> bool:
    """Whether a module is a wrapper around its only child, rather than a model that calls a layer so."""
    if part == "_orig_mod":
        return True
    return isinstance(module, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel)


def _told(groups: Sequence[Sequence[str]]) -> str:
    return ", ".join(
        f"{len(group)} parameters from {group[0]!r}" if group else "no parameters" for group in groups
    )
