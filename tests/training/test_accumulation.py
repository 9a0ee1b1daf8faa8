"""Gradients of several batches in one optimizer step: when they are reduced, and what is saved meanwhile."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.training import Accumulation, accumulate
from support.forks import in_ranks
from support.strategies import Dataset


def make(data: Dataset, **options: Any) -> fr.Loader:
    dataset = fr.ParquetDataset(
        data.files, batch_size=4, columns=fr.stack("i_1", name="x"), shuffle=True, **options
    )
    return fr.Loader(dataset, threads=1)


def loss_of(model: nn.Module, batch: fr.Batch) -> torch.Tensor:
    return model(batch["x"].double().nan_to_num().clamp(-1, 1)).square().mean()


def new_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    found = [parameter.grad for parameter in model.parameters()]
    return [
        getattr(gradient, "full_tensor", lambda gradient=gradient: gradient)().clone() for gradient in found
    ]


# ------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("steps", [1, 2, 5, 25, 100])
def test_windows_end_with_the_pass_and_know_their_size_from_their_first_batch(
    small_dataset: Dataset, steps: int
) -> None:
    loader, accumulation, windows = make(small_dataset), accumulate(nn.Identity(), steps), []
    for _ in range(2):
        for batch in loader:
            with accumulation(batch) as window:
                assert window.is_last == (window.index == window.size - 1)
            windows.append((window.index, window.size))
    whole, rest = divmod(len(loader), steps)
    of_a_pass = [(index, steps) for _ in range(whole) for index in range(steps)]
    of_a_pass += [(index, rest) for index in range(rest)]
    assert windows == 2 * of_a_pass


def test_what_a_window_has_is_asked_of_the_window() -> None:
    accumulation: Any = accumulate(nn.Identity(), 4)
    for name in ("is_last", "size", "index", "sync_gradients"):
        with pytest.raises(AttributeError, match=r"write with accumulation\(batch\) as window"):
            getattr(accumulation, name)


@pytest.mark.law(2)
def test_the_state_within_a_window_is_that_of_the_last_optimizer_step(small_dataset: Dataset) -> None:
    loader, accumulation = make(small_dataset), accumulate(nn.Identity(), 4)
    with pytest.raises(fr.FastresumeError, match=r"save loader\.state_dict\(\)"):
        accumulation.state_dict()
    saved, batches = loader.state_dict(), []
    for batch in [*loader, *loader]:
        batches.append(batch)
        with accumulation(batch) as window:
            assert accumulation.state_dict() == saved, "the step of this window is not made"
        if window.is_last:
            saved = batch.state_dict()
        assert accumulation.state_dict() == saved
        assert accumulation.cursor == fr.Cursor.from_state(saved)
    # What a window had before the kill comes again, from its first micro-batch on.
    again = make(small_dataset)
    again.load_state_dict(batches[3].state_dict())
    resumed = accumulate(nn.Identity(), 4)
    for batch in batches[4:7]:
        found = next(iter(again))
        with resumed(found) as window:
            assert (window.index, window.size) == ((found.step - 4), 4)
        assert torch.equal(found["x"].view(torch.int32), batch["x"].view(torch.int32))
    assert resumed.state_dict() == batches[3].state_dict()


def trained(data: Dataset, directory: Path, until: int, saves_at: int | None = None) -> list[torch.Tensor]:
    """The weights after so many batches; a checkpoint is restored if there is one, and saved at a batch."""
    model, loader = new_model(), make(data)
    optimizer, accumulation = torch.optim.SGD(model.parameters(), lr=0.1), accumulate(model, 5)
    with Checkpointer(directory, accumulation=5) as checkpointer:
        restored = checkpointer.restore(model=model, optimizer=optimizer, loader=loader)
        step = 0 if restored is None else restored.step
        for batch in loader:
            with accumulation(batch) as window:
                (loss_of(model, batch) / window.size).backward()
            if window.is_last:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
            if batch.step == saves_at:
                checkpointer.save(step, model=model, optimizer=optimizer, loader=accumulation.cursor)
            if batch.step == until:
                break
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.law(2)
def test_a_job_that_saves_within_a_window_and_is_killed_ends_with_the_same_weights(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    wanted = trained(small_dataset, tmp_path / "golden", 24)
    for saves_at in (2, 5, 9, 13):
        directory = tmp_path / f"{saves_at}"
        trained(small_dataset, directory, saves_at + 1, saves_at)
        found = trained(small_dataset, directory, 24)
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True)), saves_at


def test_a_batch_of_another_process_knows_how_many_come_after_it_and_where_it_begins(
    small_dataset: Dataset,
) -> None:
    loader = make(small_dataset, tail="short")
    before, left = loader.state_dict(), len(loader)
    for batch in loader:
        left -= 1
        for one in (batch, pickle.loads(pickle.dumps(batch)), copy.copy(batch)):
            assert (one.batches_left, one.cursor_before.to_state()) == (left, before)
        before = batch.state_dict()
    assert left == 0
    with pytest.raises(fr.FastresumeError, match="no batch of a pass"):
        loader.dataset.read_rows([1]).batches_left  # noqa: B018


def test_a_window_that_was_broken_off_is_refused_and_can_be_forgotten(small_dataset: Dataset) -> None:
    loader, accumulation = make(small_dataset), accumulate(nn.Identity(), 4)
    batches = iter(loader)
    first, second = next(batches), next(batches)
    with accumulation(first):
        pass
    with pytest.raises(ZeroDivisionError), accumulation(second):
        1 / 0  # noqa: B018
    with pytest.raises(fr.FastresumeError, match=r"1 of 4 .* step 0, which epoch 0, step 2 .*reset"):
        accumulation(next(batches)).__enter__()
    with accumulation(second) as window:
        assert window.index == 1, "the same micro-batch may be tried again"
    loader.load_state_dict(first.state_dict())
    again = next(iter(loader))
    with pytest.raises(fr.FastresumeError, match="step 1, which epoch 0, step 1 does not follow"):
        accumulation(again).__enter__()
    accumulation.reset()
    with accumulation(again) as window:
        assert (window.index, window.size) == (0, 4)
    assert accumulation.state_dict() == first.state_dict()


def test_what_is_no_batch_or_no_number_of_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1, found 0"):
        accumulate(nn.Identity(), 0)
    with pytest.raises(TypeError, match=r"must be a Batch.* found dict: pass the Batch itself$"):
        accumulate(nn.Identity(), 2)({"x": torch.zeros(2)}).__enter__()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module, found NoneType"):
        accumulate(None, 2)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------- reductions over real ranks


class Counted(nn.Module):
    """A model of the user's that has the one that reduces inside, as torchrec does it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def train(model: nn.Module, loader: fr.Loader, accumulation: Accumulation | None, steps: int) -> list[Any]:
    """Gives the gradients of each window of a pass; without accumulation they are reduced each time."""
    found, size = [], 0
    for batch in loader:
        if accumulation is None:
            left = batch.batches_left
            size = size or min(steps, left + 1)
            (loss_of(model, batch) / size).backward()
            is_last = left == 0 or (batch.step + 1) % steps == 0
        else:
            with accumulation(batch) as window:
                (loss_of(model, batch) / window.size).backward()
            is_last = window.is_last
        if is_last:
            found.append(gradients(model))
            model.zero_grad()
            size = 0
    return found


def reduce_in_windows(rank: int, data: Dataset) -> dict[str, list[int]]:
    """Compares all kinds of models with reducing each time; gives how often each reduced in each window."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.debug import CommDebugMode

    steps, counts = 5, {}
    wanted = train(DistributedDataParallel(new_model()), make(data), None, steps)
    for kind in ("ddp", "inside", "fsdp2"):
        reductions: list[int] = [0]
        model = new_model()
        if kind == "fsdp2":
            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            fully_shard(model[0], mesh=mesh)
            fully_shard(model, mesh=mesh)
        else:
            ddp = model = DistributedDataParallel(model)

            # Without annotations: torch compares them, and here they would be strings.
            def hook(_state, bucket, reductions=reductions):  # type: ignore[no-untyped-def]
                reductions[0] += 1
                done = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
                return done.then(lambda each: each.value()[0] / dist.get_world_size())

            ddp.register_comm_hook(None, hook)
            model = Counted(ddp) if kind == "inside" else ddp
        loader, accumulation = make(data), accumulate(model, steps)
        found: list[Any] = []
        in_windows = []
        for batch in loader:
            with CommDebugMode() as counted, accumulation(batch) as window:
                (loss_of(model, batch) / window.size).backward()
            if kind == "fsdp2":
                scattered = sum(n for name, n in counted.get_comm_counts().items() if "scatter" in str(name))
                reductions[0] += scattered // 2  # of the two groups of parameters
            if window.is_last:
                found.append(gradients(model))
                model.zero_grad()
                in_windows.append(reductions[0])
                reductions[0] = 0
        counts[kind] = in_windows
        assert len(found) == len(wanted) == 3
        for one, other in zip(found, wanted, strict=True):
            for gradient, expected in zip(one, other, strict=True):
                torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-15)
    return counts


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*returned a view tensor:UserWarning")
def test_gradients_are_those_of_reducing_each_time_in_one_reduction_per_optimizer_step(
    small_dataset: Dataset, tmp_path: Path
) -> None:

    counts = in_ranks(2, tmp_path / "store", reduce_in_windows, small_dataset)
    assert counts[0] == counts[1] == {kind: [1, 1, 1] for kind in ("ddp", "inside", "fsdp2")}
