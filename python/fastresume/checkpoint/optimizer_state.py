"""The state of optimizers under the names of parameters, so that it loads on other ranks and shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.nn import Module
from torch.optim import Optimizer

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.checkpoint import tree

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


def capture(optimizers: Sequence[Any], model: Module | None) -> dict[str, Any]:
    """The state of optimizers: {"state": {name: {...}}, "groups": bytes, "own": {place: {...}}}.

    What a torch optimizer keeps is found by the names of parameters; what has a form of its own, as a
    wrapper's, is kept as it is. Nothing is stepped or made: an optimizer that has not stepped has no state.

    Raises:
        TypeError: if a state holds more than tensors, numbers, texts and containers of these.
        ValueError: if an optimizer has a parameter that is none of the model's, or there is no model.
    """
    names = {} if model is None else names_of(model)
    state: dict[str, Any] = {}
    groups, own_states = [], {}
    for place, optimizer in enumerate(optimizers):
        found = optimizer.state_dict()
        if not _is_plain(optimizer, found):
            own_states[str(place)] = tree.apart(found)
            continue
        if model is None:
            raise ValueError(
                "an optimizer's state is kept by the names of parameters: pass the model with it"
            )
        own = _names(optimizer, names)
        state |= {own[number]: tree.kept(one) for number, one in found["state"].items()}
        groups.append(
            [
                {**group, "params": [own[number] for number in group["params"]]}
                for group in found["param_groups"]
            ]
        )
    return {"state": state, "groups": tree.packed(groups), **({"own": own_states} if own_states else {})}


def template(
    optimizers: Sequence[Any],
    model: Module | None,
    shapes: Mapping[tuple[str | int, ...], Any],
    is_needed: Callable[[tuple[str | int, ...]], bool],
    starting_over: Collection[str],
) -> dict[str, Any]:
    """What `capture` gave, with tensors to fill: sharded as the parameters are whose shape they have.

    Args:
        optimizers: that are there now.
        model: whose parameters they have.
        shapes: what was saved, by path.
        is_needed: of the path of what is of no parameter of the model: whether to fill it all the same.
        starting_over: the names of parameters whose state is not filled.
    """
    by_name = {} if model is None else {parameter: name for name, parameter in names_of(model).items()}
    live = capture(optimizers, model)
    made: dict[str, Any] = {"groups": b""}
    own: dict[str, dict[tuple[str | int, ...], Any]] = {}
    for path, found in shapes.items():
        if path[0] == "groups":
            continue
        kind, name, *rest = path
        if kind == "own":
            own.setdefault(str(name), {})[tuple(rest)] = found
            continue
        if str(name) in starting_over or (str(name) not in by_name and not is_needed(path)):
            continue
        at = made.setdefault("state", {}).setdefault(name, {})
        for part in rest[:-1]:
            at = at.setdefault(part, {})
        at[rest[-1]] = _empty(found, by_name.get(str(name)), _at(live["state"].get(name), rest))
    for place, saved in own.items():
        present = live.get("own", {}).get(place, {})
        made.setdefault("own", {})[place] = tree.template(
            "the optimizer", saved, present, [*by_name.values()]
        )
    return made


def loads(
    optimizers: Sequence[Any],
    model: Module | None,
    filled: Mapping[str, Any],
    starting_over: Collection[str],
    allow: Collection[str],
) -> list[Callable[[], object]]:
    """Calls that give optimizers the state that `capture` gave of others.

    Only the groups need be filled for it, and nothing is changed until they are made.

    Args:
        optimizers: that get it.
        model: whose parameters they have.
        filled: what `template` gave, filled.
        starting_over: the names of parameters that keep the state that they have.
        allow: what `restore` was allowed.

    Raises:
        StateError: if their groups have other parameters, or the state had another form.
    """
    names = {} if model is None else names_of(model)
    calls: list[Callable[[], object]] = []
    saved, own_states = iter(tree.unpacked(filled["groups"])), filled.get("own", {})
    for place, optimizer in enumerate(optimizers):
        found = optimizer.state_dict()
        was_plain = str(place) not in own_states
        # The first format kept no more of any torch optimizer than what all of them have.
        has_more = isinstance(optimizer, Optimizer) and "param_groups" in found
        is_plain = _is_plain(optimizer, found) or (was_plain and has_more)
        if was_plain != is_plain:
            forms = ("a form of its own", "that of torch.optim")
            raise _core.StateError(
                f"the state of the optimizer {type(optimizer).__name__} had {forms[was_plain]}, and has "
                f"{forms[not was_plain]}"
            )
        if not was_plain:
            calls.append(partial(_load_own, optimizer, own_states[str(place)]))
            continue
        own = _names(optimizer, names)
        present = [[own[number] for number in group["params"]] for group in found["param_groups"]]
        groups: list[dict[str, Any]] = next(saved, [])
        past = [group["params"] for group in groups]
        if present != past:
            allowed = f", allow={{{', '.join(map(repr, sorted(allow)))}}}" if allow else ""
            raise _core.StateError(
                f"the groups of the optimizer were {_in_words(past)}, and are {_in_words(present)}: "
                f"restore(model=model, loader=loader, partial=True{allowed}) restores the rest, and this "
                "optimizer starts over"
            )
        numbers = {name: number for number, name in own.items()}
        kept = {
            own[number]: state for number, state in found["state"].items() if own[number] in starting_over
        }
        calls.append(partial(_load, optimizer, numbers, {**filled.get("state", {}), **kept}, groups))
    return calls


def _load_own(optimizer: Any, state: Any) -> None:
    optimizer.load_state_dict(tree.together(state))


def _load(
    optimizer: Any, numbers: Mapping[str, int], state: Mapping[str, Any], groups: Sequence[dict[str, Any]]
) -> None:
    optimizer.load_state_dict(
        {
            "state": {
                numbers[name]: tree.together(values) for name, values in state.items() if name in numbers
            },
            "param_groups": [
                {**group, "params": [numbers[name] for name in group["params"]]} for group in groups
            ],
        }
    )


def _is_plain(optimizer: Any, state: Any) -> bool:
    """Whether a state is a torch optimizer's, by its parameters' numbers, and not of a form of its own."""
    return (
        isinstance(optimizer, Optimizer)
        and isinstance(state, Mapping)
        and state.keys() == {"state", "param_groups"}
        and isinstance(state["state"], Mapping)
        and state["state"].keys() <= {number for group in state["param_groups"] for number in group["params"]}
        and all(isinstance(one, Mapping) for one in state["state"].values())
    )


def _names(optimizer: Optimizer, names: Mapping[Tensor, str]) -> dict[int, str]:
    """The names of an optimizer's parameters by the numbers that its `state_dict` gives them."""
    found: dict[int, str] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter not in names:
                shape = tuple(parameter.shape)
                raise ValueError(
                    f"the optimizer has a parameter of shape {shape} that is none of the model's: make it "
                    "after the model is wrapped, sharded, moved or replaced, since it steps what the model "
                    "had before. One of another model is saved with both models as "
                    "model=torch.nn.ModuleDict({...}). One that steps copies is kept as "
                    "extra={'optimizer': optimizer}, its copies beside it"
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


def _in_words(groups: Sequence[Sequence[str]]) -> str:
    return ", ".join(
        f"{plural(len(group), 'parameter')} from {group[0]!r}" if group else "no parameters"
        for group in groups
    )
