"""Optimizers whose state is not that of torch's own: nested, with any keys, or of a form of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from support.each_of import each_of
from support.training import small


class Lookahead:
    """A wrapper that is no torch optimizer, and whose state is one of its own."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.inner = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        self.slow = {number: one.detach().clone() for number, one in enumerate(model.parameters())}
        self.steps = 0

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self) -> None:
        self.inner.step()
        self.steps += 1
        if self.steps % 2:
            return
        for slow, fast in zip(self.slow.values(), self.inner.param_groups[0]["params"], strict=True):
            slow.lerp_(fast.detach(), 0.5)
            fast.data.copy_(slow)

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict(), "slow": self.slow, "counts": (self.steps, [])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])
        self.slow, (self.steps, _) = state["slow"], state["counts"]


class Nested(torch.optim.Optimizer):
    """A torch optimizer whose state of a parameter is nested, with numbers and pairs as keys."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        super().__init__(model.parameters(), {"lr": rate})

    def step(self, closure: Any = None) -> None:
        for one in self.param_groups[0]["params"]:
            state = self.state[one]
            if not state:
                state.update({"sums": {0: torch.zeros_like(one), (1, "a"): [torch.zeros(())]}, "count": 0})
            state["count"] += 1
            state["sums"][0] += one.grad
            state["sums"][1, "a"][0] += 1
            one.data -= self.param_groups[0]["lr"] * state["sums"][0] / state["sums"][1, "a"][0]


class Wrapped(torch.optim.Optimizer):
    """A torch optimizer whose state has a form of its own."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        super().__init__(model.parameters(), {"lr": rate})
        self.inner = torch.optim.AdamW(model.parameters(), lr=rate)

    def step(self, closure: Any = None) -> None:
        self.inner.step()

    def state_dict(self) -> dict[str, Any]:
        return {"inner": [self.inner.state_dict()], 0: None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"][0])


def step(model: nn.Module, optimizer: Any, count: int) -> list[list[float]]:
    for number in range(count):
        optimizer.zero_grad()
        model(torch.full((1, 2), float(number + 1))).square().sum().backward()
        optimizer.step()
    return [one.tolist() for one in model.parameters()]


@each_of("kind", [Lookahead, Nested, Wrapped])
@each_of("wait", [True, False])
def test_an_optimizer_with_any_state_comes_back(tmp_path: Path, kind: Any, wait: bool) -> None:
    model = small(0.5)
    optimizer = kind(model, 0.01)
    step(model, optimizer, 3)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(3, model=model, optimizer=optimizer, wait=wait)
        golden = step(model, optimizer, 3)
    for steps in (0, 1):
        other = small(7.0)
        fresh = kind(other, 0.5)
        step(other, fresh, steps)
        checkpointer.restore(model=other, optimizer=fresh)
        assert step(other, fresh, 3) == golden


def test_what_the_first_format_kept_of_an_optimizer_is_restored_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(torch.optim.AdamW):
        def state_dict(self) -> dict[str, Any]:
            return {**super().state_dict(), "count": 3}

    model = small(0.5)
    optimizer = Counting(model.parameters(), lr=0.01)
    step(model, optimizer, 3)
    checkpointer = Checkpointer(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("fastresume.checkpoint.optimizer_state._is_plain", lambda *_: True)
        checkpointer.save(3, model=model, optimizer=optimizer)
    golden = step(model, optimizer, 3)
    other = small(7.0)
    fresh = Counting(other.parameters(), lr=0.5)
    checkpointer.restore(model=other, optimizer=fresh)
    assert step(other, fresh, 3) == golden


def test_copies_that_are_stepped_are_kept_beside(tmp_path: Path) -> None:
    def make(value: float) -> tuple[dict[str, Any], Any]:
        copies = nn.ParameterList([nn.Parameter(torch.full((2,), value))])
        optimizer = torch.optim.AdamW(copies, lr=value)
        return {"copies": copies, "optimizer": optimizer}, copies

    def go(extra: dict[str, Any], copies: list[Tensor]) -> list[float]:
        copies[0].grad = torch.ones(2)
        extra["optimizer"].step()
        return copies[0].tolist()

    extra, copies = make(0.5)
    go(extra, copies)
    checkpointer = Checkpointer(tmp_path)
    with pytest.raises(
        ValueError,
        match=r"none of the model's: make it after .* One that steps copies .*extra={'optimizer': ",
    ):
        checkpointer.save(1, model=small(), optimizer=extra["optimizer"])
    checkpointer.save(1, extra=extra)
    golden = go(extra, copies)
    extra, copies = make(0.1)
    checkpointer.restore(extra=extra)
    assert go(extra, copies) == golden


def test_a_state_of_another_form_is_refused(tmp_path: Path) -> None:
    model = small()
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, optimizer=Lookahead(model, 0.1))
    assert checkpointer.restore(optimizer=Lookahead(model, 0.1)) is not None, "no names, and so no model"
    checkpointer.save(2, model=model, optimizer=Lookahead(model, 0.1))
    with pytest.raises(fr.StateError, match="optimizer was Lookahead, and is AdamW"):
        checkpointer.restore(model=model, optimizer=torch.optim.AdamW(model.parameters()))
    masked: Any = type("Lookahead", (torch.optim.AdamW,), {})(model.parameters())
    with pytest.raises(fr.StateError, match=r"had a form of its own, and has that of torch\.optim"):
        checkpointer.restore(model=model, optimizer=masked)
    odd = type("Odd", (), {"state_dict": lambda _: {"a": object()}, "load_state_dict": print})()
    for parts in ({"optimizer": odd}, {"scheduler": odd}):
        with pytest.raises(
            TypeError, match="a state must hold tensors, numbers, texts and containers of these"
        ):
            checkpointer.save(3, **parts)


class Kept:
    """An object with a state of its own."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


@pytest.mark.parametrize("is_of_before", [False, True])
@pytest.mark.parametrize(
    ("saved", "fresh"),
    [
        ({}, {}),
        ({"hist": {}, "n": 3}, {"hist": {}, "n": 0}),
        ({"hist": {"a": {"b": [1, torch.ones(2)]}}, "n": 3}, {"hist": {}, "n": 0}),
        ({"a": 1}, {}),
    ],
)
def test_empty_mappings_of_extra_come_back_and_those_that_grew_do(
    saved: dict[str, Any],
    fresh: dict[str, Any],
    is_of_before: bool,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_of_before:  # whose empty mappings are in no file
        monkeypatch.setattr("fastresume.checkpoint.tree._is_kept", lambda _: True)
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, model=small(), extra={"kept": Kept(saved)})
    found = Kept(fresh)
    checkpointer.restore(model=small(), extra={"kept": found})
    assert repr(found.state) == repr(saved)


def test_an_optimizer_without_a_state_is_restored_from_extra(directory: Path) -> None:
    model = small()
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, extra={"other": torch.optim.SGD(model.parameters(), lr=0.5)})
    other = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.weight.sum().backward()
    other.step()
    checkpointer.restore(extra={"other": other})
    assert (other.param_groups[0]["lr"], dict(other.state)) == (0.5, {}), "as it was saved"
