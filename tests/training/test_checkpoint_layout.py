"""What ranks do not have alike: each gets its own back, and other numbers of ranks are told what that is."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # DistributedDataParallel needs it, which takes 2 s: once, and not in every rank
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from support.forks import in_ranks
from support.training import small

pytestmark = pytest.mark.processes


class Stage(nn.Module):
    """A stage of a pipeline: layers of its own, one that all have, one of another shape on each, a buffer."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.add_module(f"layer_{stage}", nn.Linear(2, 2))
        self.shared = nn.Linear(2, 2)
        self.head = nn.Linear(2, 2 + stage)
        self.register_buffer("seen", torch.zeros(3))


class Masters:
    """An optimizer that steps copies of the parameters: its state is nested, with numbers as keys."""

    def __init__(self, model: nn.Module) -> None:
        self.copies = [one.detach().clone().float() for one in model.parameters()]
        self.inner = torch.optim.AdamW(self.copies, lr=0.1)
        self.scale: dict[Any, Any] = {0: (1.5, torch.zeros(2)), "kinds": {(1, 2): [None, "x"]}, "empty": {}}

    def step(self, value: float) -> None:
        for one in self.copies:
            one.grad = torch.full_like(one, value)
        self.inner.step()
        self.scale[0][1].fill_(value)

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict(), "copies": self.copies, "scale": self.scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])
        for one, saved in zip(self.copies, state["copies"], strict=True):
            one.data.copy_(saved)
        self.scale = state["scale"]


class Kept:
    """Something with a state of any form."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


def plain(value: Any) -> Any:
    """A state as plain values, types of containers and all."""
    if isinstance(value, Tensor):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, dict):
        return {repr(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    return value


def job(stage: int, value: float) -> dict[str, Any]:
    """A job whose numbers differ by stage, but those of what is shared."""
    torch.manual_seed(1)
    model = Stage(stage)
    for name, one in model.state_dict().items():
        one.fill_(value if name.startswith("shared") else value + stage + 0.5)
    masters, adam = Masters(model), torch.optim.AdamW(model.parameters())
    masters.step(value + stage)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    adam.step()
    ema = small(value + stage)
    extra = {
        "ema": ema,
        "alike": small(value),
        "tensor": torch.full((2,), value + stage),
        "kept": Kept({stage: [torch.ones(1) * value], "same": torch.ones(2) * value}),
        "number": value + stage,
        "note": ["alike", value],
    }
    if stage == 0:
        extra |= {"run": "a3", "log": small(value)}
    return {"model": model, "optimizer": [adam, masters], "extra": extra}


def seen(parts: dict[str, Any]) -> dict[str, Any]:
    """All there is to see of a job."""
    extra = parts["extra"]
    return {
        "model": plain(parts["model"].state_dict()),
        "optimizers": [plain(one.state_dict()) for one in parts["optimizer"]],
        "extra": {
            name: plain(one.state_dict() if hasattr(one, "state_dict") else one)
            for name, one in extra.items()
        },
    }


def save_apart(rank: int, directory: Path) -> list[dict[str, Any]]:
    found = []
    with Checkpointer(directory, keep=None) as checkpointer:
        for step in (1, 2):
            parts = job(rank, 10.0 * step)
            found.append(seen(parts))
            checkpointer.save(step, **parts, wait=step == 1)
    return found


def restore_apart(rank: int, directory: Path) -> list[dict[str, Any]]:
    found = []
    checkpointer = Checkpointer(directory, keep=None)
    for step in (1, 2):
        parts = job(rank, 7.0)
        restored = checkpointer.restore(**parts, step=step)
        assert restored is not None
        parts["extra"] |= restored.extra
        found.append(seen(parts))
    lacking = job(rank, 7.0)
    del lacking["extra"]["ema" if rank else "number"]
    with pytest.raises(fr.StateError, match=r"rank 1: .* has extra\.ema, which restore was not given"):
        checkpointer.restore(**lacking)
    with pytest.raises(fr.StateError, match=r"rank 0: the checkpoint's model .* it had no 'layer_1"):
        checkpointer.restore(model=Stage(1), partial=True)
    return found


def test_what_differs_between_ranks_comes_back_to_each(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    saved = in_ranks(2, tmp_path / "save", save_apart, directory)
    restored = in_ranks(2, tmp_path / "restore", restore_apart, directory)
    for rank in range(2):
        for before, after in zip(saved[rank], restored[rank], strict=True):
            if rank:  # what rank 0 alone has noted is plain, and every rank's
                assert after["extra"].pop("run") == "a3"
            assert after == before
    layout = Checkpointer(directory).entries()[0].manifest.layout
    assert {"model.seen", "model.head.weight", "extra.tensor.value", "optimizer.groups"} <= layout.own.keys()
    assert {name for name in layout.own if "shared" in name or "alike" in name} == set(), "equal ones once"
    assert layout.leaves["model.layer_1.weight"] == (1,)
    assert layout.parts == {"extra.log": (0,)}
    assert layout.extra == {"number": {0: 10.0, 1: 11.0}}


def test_another_number_of_ranks_is_told_what_each_rank_had_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    saved = in_ranks(2, tmp_path / "save", save_apart, directory)
    checkpointer = Checkpointer(directory)
    parts = {"extra": {name: job(0, 7.0)["extra"][name] for name in ("ema", "alike", "tensor", "log")}}
    refused = r"saved by 2 ranks, and each of them had its own {}.*; there are 1 now; allow={{'ranks'}} gives"
    with pytest.raises(
        fr.StateError, match=refused.format(r"extra\.ema\.bias, extra\.ema\.weight, extra\.tensor")
    ):
        checkpointer.restore(**parts, partial=True)
    whole = {**job(0, 7.0)["extra"]}
    with pytest.raises(fr.StateError, match=refused.format(".* more")):
        checkpointer.restore(extra=whole, partial=True)
    restored = checkpointer.restore(**parts, partial=True, allow={"ranks"})
    assert restored is not None
    assert restored.extra == {"number": 20.0, "note": ["alike", 20.0], "run": "a3"}
    for name, one in parts["extra"].items():
        found = plain(one.state_dict() if hasattr(one, "state_dict") else one)
        assert found == saved[0][1]["extra"][name], "what the lowest had"
    alike = {"extra": {"alike": small(7.0)}}
    assert checkpointer.restore(**alike, partial=True) is not None, "what was alike is anybody's"
    assert plain(alike["extra"]["alike"].state_dict()) == saved[1][1]["extra"]["alike"]


def lay_out(rank: int, directory: Path) -> dict[str, Any]:
    """A pipeline's stages, by names alone: each has layers of its own, of which one rank may have several."""
    world_size = dist.get_world_size()
    layers = range(4)[rank::world_size] if world_size <= 4 else []
    model = nn.ModuleDict({f"layer_{layer}": small(float(layer)) for layer in layers})
    checkpointer = Checkpointer(directory)
    if world_size == 2:
        checkpointer.save(1, model=model)
    else:
        for one in model.parameters():
            nn.init.constant_(one, 9.0)
        with pytest.raises(fr.StateError, match=r"it had model\.layer_0\.bias, .* which no rank has"):
            checkpointer.restore(model=nn.ModuleDict({"layer_1": small()}))
        checkpointer.restore(model=model)
    return plain(model.state_dict())


def test_stages_that_have_names_of_their_own_are_dealt_out_to_other_numbers_of_ranks(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    saved = in_ranks(2, tmp_path / "two", lay_out, directory)
    for world_size in (1, 3):
        found = in_ranks(world_size, tmp_path / str(world_size), lay_out, directory)
        for one in found:
            assert one == {name: (saved[0] | saved[1])[name] for name in one}
        assert sum(map(len, found)) == 8


def replicate(rank: int, directory: Path) -> dict[str, Any]:
    """Replicas whose buffers are kept alike, and are not; names that mean two things."""
    checkpointer = Checkpointer(directory, timeout_seconds=30)
    layouts = []
    for gives_buffers in (True, False):
        model = DistributedDataParallel(nn.BatchNorm1d(2))
        model.broadcast_buffers = gives_buffers
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.arange(8.0).reshape(4, 2) * (rank + 1)).sum().backward()
        optimizer.step()
        checkpointer.save(len(layouts), model=model, optimizer=optimizer)
        layouts.append(sorted(checkpointer.entries()[-1].manifest.layout.own))
    mesh = init_device_mesh("cpu", (2,))
    whole = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    with pytest.raises(
        fr.StateError, match=r"'extra\.a\.value' is .* on rank 0, and .* over no mesh on rank 1"
    ):
        checkpointer.save(3, extra={"a": torch.zeros(4) if rank else whole})
    longer = DTensor.from_local(torch.zeros(3), mesh, [Shard(0)])
    with pytest.raises(fr.StateError, match=r"'extra\.a\.value' is torch.float32 \[4\] over .*, and .*\[6\]"):
        checkpointer.save(3, extra={"a": longer if rank else whole})
    single = [dist.new_group([one]) for one in range(2)][rank]
    alone = DTensor.from_local(
        torch.full((2,), float(rank)), DeviceMesh.from_group(single, "cpu"), [Shard(0)]
    )
    with pytest.raises(fr.StateError, match=r"over several groups .* ranks 0 and 1 have other values"):
        checkpointer.save(3, extra={"a": alone})
    checkpointer.save(3, extra={"a": whole}, loader=None)
    found = torch.zeros(4)
    checkpointer.restore(extra={"a": found})
    return {"layouts": layouts, "found": found.tolist()}


def test_replicas_are_saved_once_and_what_no_name_can_mean_is_refused(tmp_path: Path) -> None:
    for found in in_ranks(2, tmp_path / "store", replicate, tmp_path / "checkpoints"):
        assert found["layouts"] == [[], ["model.running_mean", "model.running_var"]]
        assert found["found"] == [0, 1, 2, 3]


GOLDEN = Path(__file__).parents[1] / "golden"

spec = importlib.util.spec_from_file_location("make_checkpoints", GOLDEN / "make_checkpoints.py")
assert spec is not None
assert spec.loader is not None
make_checkpoints = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_checkpoints)


def go_on_from(rank: int, place: Path, world_size: int) -> dict[str, Any]:
    parts, beside = make_checkpoints.job(rank, world_size), make_checkpoints.parts_beside()
    restored = Checkpointer(place).restore(**parts, extra=beside)
    assert restored is not None
    assert (restored.step, restored.extra, restored.metrics) == (3, {"note": ["n", 1.5, None]}, {"auc": 0.5})
    found: dict[str, Any] = make_checkpoints.described(parts, beside)
    return found


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("number", sorted(path.name for path in (GOLDEN / "checkpoints").iterdir()))
def test_what_was_ever_saved_is_restored(tmp_path: Path, number: str, world_size: int) -> None:
    saved = GOLDEN / "checkpoints" / number / str(world_size)
    shutil.copytree(saved, tmp_path / "checkpoints")
    expected = json.loads(saved.with_suffix(".json").read_text())
    found = in_ranks(world_size, tmp_path / "store", go_on_from, tmp_path / "checkpoints", world_size)
    for one, other in zip(found, expected, strict=True):
        # Of buffers rank 0's are given to all, by DistributedDataParallel and by the first format alike.
        assert one == {**other, "weights": expected[0]["weights"]}
