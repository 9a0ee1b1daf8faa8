"""The whole job in one directory, in one process: it goes on bit for bit, random generators and all."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import random
import re
import resource
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

import fastresume as fr
from fastresume import files
from fastresume.checkpoint import Checkpointer, CheckpointError, Randomness
from fastresume.checkpoint.randomness import derive
from fastresume.rng import untouched
from support import training
from support.code_blocks import program
from support.strategies import Dataset
from support.training import small, steps_of

STEPS = 25


@pytest.mark.law(2)
def test_a_run_that_resumes_after_any_step_ends_with_the_weights_of_one_that_was_never_killed(
    data: Dataset, directory: Path
) -> None:
    untouched = training.job(data)
    losses = list(untouched.steps(STEPS))
    weights = untouched.weights()
    job = training.job(data)
    with Checkpointer(directory, keep=None) as checkpointer:
        checkpointer.save(0, **job.parts())
        for step, loss in enumerate(job.steps(STEPS), start=1):
            checkpointer.save(step, **job.parts(), wait=step % 2 == 0)
            assert loss == losses[step - 1], "to save changes nothing of a run, nor does saving in a thread"
    assert training.equal(job.weights(), weights)
    for step in range(STEPS + 1):
        job = training.job(data, seed=step)
        restored = checkpointer.restore(**job.parts(), step=step)
        assert restored is not None
        assert restored.step == step
        assert list(job.steps(STEPS - step)) == losses[step:]
        assert training.equal(job.weights(), weights)


def careless(batch: fr.Batch) -> fr.Batch:
    """A transform that draws from torch's global generator, as most do."""
    batch["x"] = batch["x"].nan_to_num().clamp(-10, 10) + torch.rand(batch["x"].shape)
    return batch


def test_a_batch_that_is_drawn_before_the_generators_are_set_breaks_a_resume(
    data: Dataset, directory: Path
) -> None:
    job = training.job(data, transform=careless)
    checkpointer = Checkpointer(directory)
    list(job.steps(10))
    checkpointer.save(10, **job.parts())
    golden = list(job.steps(10))

    def resumed(order: Callable[[fr.Loader, Any], None], **options: Any) -> list[float]:
        job = training.job(data, transform=careless, seed=1)
        order(job.loader, checkpointer.restore(**job.parts(), **options))
        return list(job.steps(10))

    def batch_first(loader: fr.Loader, restored: Any) -> None:
        loader.peek()
        restored.restore_random()

    assert resumed(lambda *_: None) == golden, "restore sets the generators last, before the first batch"
    assert resumed(lambda loader, _: loader.start()) == golden, "and a loader draws nothing by itself"
    assert resumed(batch_first, random=False) != golden, (
        "the order that breaks other trainers breaks here, too"
    )


def test_random_generators_come_back_and_the_next_rank_gets_others(tmp_path: Path) -> None:
    def draws() -> list[float]:
        return [
            random.random(),
            random.gauss(0, 1),
            *np.random.rand(2),
            np.random.randn(),
            *torch.rand(2).tolist(),
        ]

    before = Randomness.now()
    random.gauss(0, 1)  # half of a pair is kept
    np.random.randn()
    text = Randomness.now().to_json()
    drawn = draws()
    Randomness.from_json(text).restore()
    assert draws() == drawn
    assert json.loads(text)["accelerator"] is None or torch.accelerator.is_available()
    streams = []
    for rank, world_size in ((0, 2), (1, 2), (0, 3), (0, 2)):
        derive(text, rank, world_size)
        streams.append(draws())
        words = struct.pack(">QQ", world_size, rank)
        seed = hashlib.sha256(b"fastresume random 1" + hashlib.sha256(text).digest() + words).digest()[:8]
        torch.manual_seed(int.from_bytes(seed, "big"))
        random.seed(int.from_bytes(seed, "big"))
        np.random.seed(struct.unpack(">II", seed))
        assert draws() == streams[-1], "the rule that is stated"
    assert streams[0] == streams[3]
    assert len({tuple(stream) for stream in streams}) == 3
    for damaged in (b"", b"[]", b"{}", text.replace(b'"torch":"', b'"torch":"x')):
        with pytest.raises(fr.StateError, match="can't be read"):
            Randomness.from_json(damaged)
    before.restore()


class FakeDevice:
    """The module of an accelerator: one current device, whose generator is a number."""

    def __init__(self, state: int) -> None:
        self.state = state

    def get_rng_state(self) -> torch.Tensor:
        return torch.tensor([self.state], dtype=torch.uint8)

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.state = int(state.item())

    def manual_seed(self, seed: int) -> None:
        self.state = seed


def test_the_generator_of_the_current_accelerator_comes_back_where_there_is_one_of_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = FakeDevice(7)
    monkeypatch.setattr(torch, "get_device_module", lambda _: device)

    def present(kind: str | None) -> None:
        found = None if kind is None else torch.device(kind)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: found)

    present("cuda")
    text = Randomness.now().to_json()
    assert json.loads(text)["accelerator"] == ["cuda", "07"], "the current device's alone"
    for kind, restored in (("cuda", 7), ("xpu", 9), (None, 9)):
        present(kind)
        device.state = 9
        Randomness.from_json(text).restore()
        assert device.state == restored
    present("cuda")
    before = Randomness.now()
    derive(text, 1, 2)
    first = device.state
    derive(text, 0, 2)
    assert len({7, 9, first, device.state}) == 4
    device.state = 9
    before.restore()


def test_what_is_drawn_on_an_accelerator_within_a_call_is_given_back_and_none_is_started_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = FakeDevice(7)
    monkeypatch.setattr(torch, "get_device_module", lambda _: device)
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda")
    )
    with untouched():
        device.state = 9
    assert device.state == 7
    monkeypatch.setattr(device, "is_initialized", lambda: False, raising=False)
    monkeypatch.setattr(device, "get_rng_state", lambda: pytest.fail("started"))
    with untouched():
        device.state = 9
    assert device.state == 9


@pytest.mark.parametrize("optimizers", ["sgd", "momentum", "two", "unused"])
def test_any_optimizer_comes_back(directory: Path, optimizers: str) -> None:
    def make(value: float) -> dict[str, Any]:
        torch.manual_seed(2)
        model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
        a, b = list(model["a"].parameters()), list(model["b"].parameters())
        found: Any = {
            "sgd": lambda: torch.optim.SGD(a + b, lr=value),
            "momentum": lambda: torch.optim.SGD(
                [{"params": a, "lr": value}, {"params": b}], lr=2 * value, momentum=0.9
            ),
            "two": lambda: [torch.optim.Adam(a, lr=value), torch.optim.RMSprop(b, lr=value, momentum=0.5)],
            "unused": lambda: torch.optim.AdamW(model.parameters(), lr=value, amsgrad=True),
        }[optimizers]()
        return {"model": model, "optimizer": found}

    def step(job: dict[str, Any], count: int) -> list[list[float]]:
        found = job["optimizer"] if isinstance(job["optimizer"], list) else [job["optimizer"]]
        for number in range(count):
            inputs = torch.full((1, 2), float(number + 1))
            loss = (job["model"]["a"](inputs) + job["model"]["b"](inputs)).square().sum()
            for one in found:
                one.zero_grad()
            loss.backward()
            for one in found:
                one.step()
        return [parameter.flatten().tolist() for parameter in job["model"].parameters()]

    checkpointer, job = Checkpointer(directory), make(0.01)
    step(job, 3)
    checkpointer.save(3, **job)
    golden = step(job, 3)
    other = make(0.5)
    checkpointer.restore(**other)
    assert step(other, 3) == golden
    stepped = make(0.5)
    step(stepped, 1)  # one that has a state, and gradients
    checkpointer.restore(**stepped)
    assert step(stepped, 3) == golden


def test_torch_reads_the_tensors_by_itself_and_nothing_of_ours_is_pickled(
    data: Dataset, directory: Path
) -> None:
    job = training.job(data)
    checkpointer = Checkpointer(directory)
    list(job.steps(3))
    checkpointer.save(3, **job.parts(), extra={"note": ["a", 1.5, None]})
    entry = checkpointer.latest()
    assert entry is not None
    weight = {"model": {"inner.weight": torch.zeros(8, 2)}}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(weight, checkpoint_id=entry.path)
    assert torch.equal(weight["model"]["inner.weight"], job.model.state_dict()["inner.weight"])
    found = json.loads((entry.path / "manifest.json").read_text())
    assert fr.Cursor.from_state(found["cursor"]) == fr.Cursor.from_state(job.loader.state_dict())
    assert found["extra"] == {"note": ["a", 1.5, None]}
    assert sorted(path.name for path in entry.path.iterdir()) == [
        ".metadata",
        "__0_0.distcp",
        "manifest.json",
        "random-0.json",
    ]
    for name, (size, sha256) in found["files"].items():
        content = (entry.path / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
    json.loads((entry.path / "random-0.json").read_text())


def test_a_save_that_is_not_waited_for_is_of_the_moment_of_the_call(data: Dataset, directory: Path) -> None:
    job = training.job(data)
    tensor = torch.zeros(3)
    with Checkpointer(directory, keep=None) as checkpointer:
        list(job.steps(3))
        saved, state = job.weights(), job.loader.state_dict()
        checkpointer.save(3, **job.parts(), extra={"tensor": tensor}, wait=False)
        for parameter in job.model.parameters():
            parameter.data.fill_(7)
        tensor.fill_(7)
        list(job.steps(2))
    other, found = training.job(data, seed=1), torch.ones(3)
    Checkpointer(directory, keep=None).restore(**other.parts(), extra={"tensor": found})
    assert training.equal(other.weights(), saved)
    assert found.tolist() == [0, 0, 0]
    assert other.loader.state_dict() == state


def test_errors_of_a_save_that_is_not_waited_for_are_raised_by_the_next_call(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name, call in (
        ("save", lambda one: one.save(2, model=small())),
        ("restore", lambda one: one.restore(model=small())),
        ("wait", lambda one: one.wait()),
        ("close", lambda one: one.close()),
    ):
        checkpointer = Checkpointer(directory / name)
        with monkeypatch.context() as patch:
            patch.setattr(files, "publish", full)
            checkpointer.save(1, model=small(), wait=False)
            with pytest.raises(CheckpointError, match=r"save: OSError: \[Errno 28\] No space left on device"):
                call(checkpointer)
        assert list((directory / name).iterdir()) == [], "what came to nothing is gone"
        if name == "close":
            checkpointer = Checkpointer(directory / name)
        checkpointer.save(1, model=small())
        checkpointer.close()
        assert steps_of(checkpointer) == [1], "and the next save is as good as any"


def test_why_a_file_could_not_be_written_is_told_with_its_path(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(
            CheckpointError, match=rf"save: OSError: \[Errno \d+\] File too large: '{directory}/.*distcp'$"
        ) as raised:
            checkpointer.save(1, model=nn.Linear(500, 500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(raised.value.__cause__, OSError)
    assert list(directory.iterdir()) == []
    checkpointer.save(1, model=small())


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EIO, errno.ENOSPC])
def test_a_file_system_that_can_t_sync_directories_is_told_of_once_and_any_other_error_has_its_path(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fsync, can_not = os.fsync, number not in (errno.EIO, errno.ENOSPC)

    def on_files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", on_files_alone)
    if not can_not:
        directory.mkdir()
        checkpointer = Checkpointer(directory)
        with pytest.raises(CheckpointError, match=rf"save: OSError: .*: '{directory}/\.writing-\w+'"):
            checkpointer.save(1, model=small())
        with pytest.raises(CheckpointError, match=rf"open: OSError: .*: '{directory}'"):
            Checkpointer(directory / "below")
        return
    checkpointer = Checkpointer(directory)
    with pytest.warns(RuntimeWarning, match=rf"{directory} is on a file system that can't sync"):
        checkpointer.save(1, model=small(1))
    for step in range(2, 6):
        checkpointer.save(step, model=small(step), wait=step % 2 == 0)
    checkpointer.close()
    assert steps_of(checkpointer) == [3, 4, 5]


def test_what_was_restored_is_told_in_a_line(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    extra = {f"name {number}": "x" * 10_000 for number in range(100)}
    metrics = {f"metric {number}": float(number) for number in range(100)}
    checkpointer.save(7, model=small(), extra=extra, metrics=metrics)
    found = repr(checkpointer.restore(model=small()))
    assert re.fullmatch(
        rf"Restored\(step=7, path='{directory}/step-0000000007-000001', "
        r"metrics={'metric 0': 0\.0, .*, \.\.\.}, extra=\['name 0', .*, \.\.\.\], world_size=1\)",
        found,
    )
    assert len(found) < 600


def test_an_error_that_nobody_would_hear_of_is_a_warning(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = threading.Event()

    def late(*_: object) -> None:
        assert may_go.wait(60)
        raise OSError(28, "No space left on device")

    def leave(is_over: bool) -> None:
        checkpointer = Checkpointer(directory)
        checkpointer.save(1, model=small(), wait=False)
        (thread,) = (one for one in threading.enumerate() if one.name.startswith("fastresume-checkpoint"))
        if is_over:
            may_go.set()
            checkpointer._pending[0].exception()
        del checkpointer
        gc.collect()
        may_go.set()
        thread.join()

    monkeypatch.setattr(files, "publish", late)
    for is_over in (False, True):
        may_go.clear()
        with pytest.warns(
            RuntimeWarning, match=r"the last save into .* failed, and .*not closed: save: OSErr"
        ):
            leave(is_over)


def test_a_batch_or_a_state_may_stand_for_the_loader(data: Dataset, directory: Path) -> None:
    dataset = fr.ParquetDataset(data.files, batch_size=4)
    iterator = iter(dataset)
    batch = next(iterator)
    next(iterator)
    checkpointer = Checkpointer(directory)
    for step, loader in enumerate(
        [batch, batch.state_dict(), batch.cursor, json.loads(batch.state_dict()["fastresume"])]
    ):
        checkpointer.save(step, loader=loader)
        fresh = fr.Loader(fr.ParquetDataset(data.files, batch_size=4))
        checkpointer.restore(loader=fresh)
        assert fresh.state_dict() == batch.state_dict()


def test_the_program_of_the_docs_runs_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Dataset
) -> None:
    page = Path(__file__).parents[2] / "docs/reference/checkpoint.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rows = np.arange(512 * 12, dtype=np.float32) / 512
    pq.write_table(pa.table({"label": rows, "i_0": rows, "i_1": -rows}), "data/0.parquet")
    code = compile(program(page), str(page), "exec")
    torch.manual_seed(0)
    exec(code, {})  # noqa: S102  (the page's own program)
    done = Checkpointer("checkpoints")
    assert steps_of(done) == [10, 20, 30]
    golden = {"model": nn.Linear(2, 1)}
    done.restore(**golden, step=30, partial=True)
    for entry in done.entries()[1:]:
        for path in entry.path.iterdir():
            path.unlink()
        entry.path.rmdir()
    torch.manual_seed(1)
    exec(code, {})  # noqa: S102  (the same program, after a kill)
    assert steps_of(done) == [10, 20, 30]
    again = {"model": nn.Linear(2, 1)}
    done.restore(**again, step=30, partial=True)
    assert torch.equal(again["model"].weight, golden["model"].weight)
