"""`Loader(device="cuda")`: values that torch does not know, the same tensors again, which device it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import fastresume as fr
from fastresume.reading.device import device_of
from support.device_jobs import (
    BATCH,
    HOW,
    MAPPED,
    SHUFFLED,
    THREADS,
    assert_same,
    made,
)
from support.devices import LateDevices
from support.jobs import rows_of
from support.strategies import Dataset

# ---------------------------------------------------------------------------------------------- other values


class Movable:
    """A value of a user's own, as torchrec has them."""

    def __init__(self, where: str = "cpu", log: list[str] | None = None) -> None:
        self.where = where
        self.log = [] if log is None else log

    def to(self, device: torch.device, non_blocking: bool = False) -> Movable:
        self.log.append(f"to {device.type}, {non_blocking}, {threading.get_ident()}")
        return type(self)(f"moved to {device.type}", self.log)


class Streamed(Movable):
    def record_stream(self, stream: Any) -> None:
        self.log.append("used")


@pytest.mark.parametrize("how", THREADS)
def test_values_that_torch_does_not_know_move_when_they_can_be_used_safely(
    wide: Dataset, late: LateDevices, how: dict[str, Any]
) -> None:
    def enriched(batch: fr.Batch) -> dict[str, Any]:
        return {
            "plain": Movable(),
            "streamed": Streamed(),
            "sparse": batch["weight"].to_sparse(),
            "weight_itself": batch["weight"],
            "array": batch.rows(),
            "text": "a",
        }

    expected = list(made(wide).map(enriched))
    with fr.Loader(made(wide).map(enriched), device="cuda", **how) as loader:
        for one, other in zip(expected, loader, strict=True):
            assert (other["plain"].where, other["streamed"].where) == ("moved to cpu", "moved to cpu")
            (here,) = other["plain"].log
            assert here == f"to cpu, False, {threading.get_ident()}"
            there, used = other["streamed"].log
            assert there.startswith("to cpu, True, ")
            assert not there.endswith(str(threading.get_ident()))
            assert used == "used"
            assert torch.equal(other["sparse"].to_dense(), one["weight_itself"])
            assert (other["array"] == one["array"]).all()
            assert other["text"] == "a"


# ---------------------------------------------------------------------------------------------------- static


def addresses(batch: fr.Batch) -> dict[str, int]:
    return {name: value.data_ptr() for name, value in batch.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("how", HOW)
@MAPPED
def test_static_batches_come_in_the_same_tensors_pass_after_pass(
    numbers: Dataset, late: LateDevices, how: dict[str, Any], mapped: bool
) -> None:
    plain = made(numbers, mapped, tail="pad", **SHUFFLED)
    expected = [*plain, *plain]
    with fr.Loader(
        made(numbers, mapped, tail="pad", **SHUFFLED), device="cuda", static=True, **how
    ) as loader:
        places = None
        for one, other in zip(expected, (batch for _ in range(2) for batch in loader), strict=True):
            assert_same(one, other)
            places = places or addresses(other)
            assert addresses(other) == places
            following = loader.peek()
            if following is not None:
                assert_same(one, other)


def test_what_has_no_one_shape_can_not_be_static(wide: Dataset, numbers: Dataset, late: LateDevices) -> None:
    with pytest.raises(TypeError, match=r"rows differ in length of tokens, name, words: pad them \(fr.col"):
        fr.Loader(made(wide), device="cuda", static=True)
    with pytest.raises(ValueError, match="tail='short' the last batch"):
        fr.Loader(made(numbers, tail="short"), device="cuda", static=True)
    with pytest.raises(ValueError, match="static=True is for batches on a device: pass device='cuda'"):
        fr.Loader(made(numbers), static=True)
    dense = made(wide).map(lambda batch: {"weight": batch["weight"]})
    with fr.Loader(dense, device="cuda", static=True) as loader:
        assert len(list(loader)) == len(dense)


def shorter(batch: fr.Batch) -> dict[str, Any]:
    return {"x": batch["row"][batch.step :], "row": batch["row"]}


def narrower(batch: fr.Batch) -> dict[str, Any]:
    return {"x": batch["row"].to(torch.int32) if batch.step else batch["row"]}


def renamed(batch: fr.Batch) -> dict[str, Any]:
    return {f"x{batch.step}": batch["row"]}


def jagged(batch: fr.Batch) -> dict[str, Any]:
    return {"x": fr.Jagged(batch["row"], torch.arange(BATCH + 1)) if batch.step else batch["row"]}


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (shorter, ValueError, r"'x' of int64 \[599\], which is int64 \[600\] in the first one"),
        (narrower, ValueError, r"'x' of int32 \[600\], which is int64 \[600\]"),
        (renamed, ValueError, r"the tensors \['x1'\], the first one has \['x0'\]"),
        (jagged, TypeError, "'x', a Jagged whose shape differs"),
    ],
)
def test_a_static_tensor_that_changes_is_named(
    numbers: Dataset, late: LateDevices, change: Callable[[fr.Batch], Any], kind: type[Exception], said: str
) -> None:
    with fr.Loader(made(numbers).map(change), device="cuda", static=True, threads=1) as loader:
        iterator = iter(loader)
        next(iterator)
        for _ in range(2):
            with pytest.raises(kind, match=f"the batch of epoch 0, step 1 has .*{said}"):
                next(iterator)
        assert loader.batches_left == len(loader) - 1


# ---------------------------------------------------------------------------------------------- which device


@pytest.mark.parametrize(
    ("given", "asked_for"),
    [("cuda", "cuda"), ("cuda:1", "cuda:1"), (1, "cuda:1"), (torch.device("cuda", 0), "cuda:0")],
)
def test_a_device_is_named_as_torch_names_it(
    numbers: Dataset, late: LateDevices, given: Any, asked_for: str
) -> None:
    with fr.Loader(made(numbers), device=given) as loader:
        assert loader.device == torch.device(asked_for)
        assert f"device={asked_for!r}" in repr(loader)
        next(iter(loader))
    assert late.stream.asked_for == torch.device(asked_for)


@pytest.mark.parametrize("given", [None, "cpu", torch.device("cpu")])
def test_batches_stay_where_they_are_without_a_device(numbers: Dataset, given: Any) -> None:
    with fr.Loader(made(numbers), device=given) as loader:
        assert loader.device == torch.device("cpu")
        assert next(iter(loader))["row"].device == torch.device("cpu")


def test_each_loader_has_a_device_of_its_own(numbers: Dataset, late: LateDevices) -> None:
    loaders = [fr.Loader(made(numbers), device=index) for index in range(2)]
    pairs = list(zip(*loaders, strict=True))
    assert [stream.asked_for.index for stream in late.streams] == [0, 1]
    assert rows_of([one for one, _ in pairs]) == rows_of([other for _, other in pairs])
    for loader in loaders:
        loader.close()


def test_a_device_that_is_not_there_is_told(numbers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for given in ("cuda", "cuda:1", 0):
        with pytest.raises(fr.FastresumeError, match=rf"device={given!r}, but .*: pass device='cpu'"):
            fr.Loader(made(numbers), device=given)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(fr.FastresumeError, match="there are 2 CUDA devices, 'cuda:0' to 'cuda:1'"):
        device_of("cuda:2")
    for given in ("gpu", "meta", "mps"):
        with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:INDEX', found"):
            device_of(given)
    for given in (True, 1.5, []):
        with pytest.raises(TypeError, match=r"device must be a torch\.device, a string or an index"):
            device_of(given)
