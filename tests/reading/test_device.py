"""`Loader(device="cuda")`, on a device that copies as late as it may: see devices.py."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from itertools import islice
from typing import Any

import pytest
import torch

import fastresume as fr
from fastresume.reading import device as module
from fastresume.reading.device import AHEAD
from fastresume.reading.workers import parcels
from fastresume.testing import assert_exact_resume
from support.device_jobs import (
    HOW,
    MAPPED,
    ORDERS,
    SHUFFLED,
    assert_same,
    in_order,
    made,
)
from support.devices import LateDevices, LateStream
from support.jobs import assert_same_batch, make, tensors_of
from support.strategies import Dataset

# ----------------------------------------------------------------------------------------- what is delivered


@pytest.mark.law(6)
@pytest.mark.parametrize("how", HOW)
@MAPPED
@ORDERS
def test_batches_on_a_device_are_those_of_the_cpu(
    wide: Dataset, late: LateDevices, how: dict[str, Any], mapped: bool, order: dict[str, Any]
) -> None:
    plain = made(wide, mapped, tail="pad", **order)
    expected = [*plain, *plain]
    with fr.Loader(made(wide, mapped, tail="pad", **order), device="cuda", **how) as loader:
        found = [*loader, *loader]
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other)
    used = late.stream.used
    assert all(
        tensor.data_ptr() in used
        for batch in found
        for tensor in tensors_of({**batch, "note": torch.empty(0)}).values()
        if tensor.numel()
    ), "the memory of what was handed over is kept from other use"
    assert threading.get_ident() not in late.stream.threads
    assert threading.get_ident() == late.stream.opened_in, "another thread may have another current device"


@pytest.mark.parametrize("how", HOW)
@ORDERS
def test_without_the_guard_of_its_copy_memory_would_be_filled_again_too_soon(
    numbers: Dataset,
    late: LateDevices,
    monkeypatch: pytest.MonkeyPatch,
    how: dict[str, Any],
    order: dict[str, Any],
) -> None:
    monkeypatch.setattr(module, "_Held", Forgetful)
    monkeypatch.setattr(LateStream, "wait", lambda stream, mark: None)  # so late that all else has happened
    # What workers share would be gone by then, its reader killed: only what is filled again is to be seen.
    mapped, kept = parcels.mapped_file, []

    def keep(*given: Any) -> Any:
        kept.append(mapped(*given))
        return kept[-1]

    monkeypatch.setattr(parcels, "mapped_file", keep)
    plain = made(numbers, **order)
    expected = [*plain, *plain, *plain]
    with fr.Loader(made(numbers, **order), device="cuda", **how) as loader:
        found = [*loader, *loader, *loader]
        late.stream.finish_all()
    assert any(
        not torch.equal(one["row"], other["row"]) for one, other in zip(expected, found, strict=True)
    ), "this test sees no memory that is used again"


class Forgetful:
    """In the place of what holds a batch's memory."""

    def __init__(self, mark: Any, values: tuple[object, ...]) -> None:
        self.mark = mark


@pytest.mark.parametrize("how", HOW)
@ORDERS
def test_with_it_memory_that_nobody_waits_for_stays_as_it_is(
    numbers: Dataset,
    late: LateDevices,
    monkeypatch: pytest.MonkeyPatch,
    how: dict[str, Any],
    order: dict[str, Any],
) -> None:
    monkeypatch.setattr(LateStream, "wait", lambda stream, mark: None)
    monkeypatch.setattr(LateStream, "may_finish", lambda stream, number: False)
    plain = made(numbers, **order)
    expected = [*plain, *plain, *plain]
    with fr.Loader(made(numbers, **order), device="cuda", **how) as loader:
        found = [*loader, *loader, *loader]
    late.stream.finish_all()
    for one, other in zip(expected, found, strict=True):
        assert_same_batch(one, other)


@pytest.mark.law(2)
@pytest.mark.parametrize("how", HOW)
@MAPPED
def test_a_resume_after_any_batch_equals_no_interruption(
    wide: Dataset, late: LateDevices, how: dict[str, Any], mapped: bool
) -> None:
    loaders: list[fr.Loader] = []

    def fresh() -> fr.Loader:
        for loader in loaders:
            loader.close()
        loaders.append(fr.Loader(made(wide, mapped, tail="pad", **SHUFFLED), device="cuda", **how))
        return loaders[-1]

    every = 5 if "num_workers" in how else 1
    assert assert_exact_resume(fresh, every) == 15 // every
    loaders[-1].close()


@pytest.mark.parametrize("threads", [1, 4])
@MAPPED
def test_two_batches_are_copied_ahead_and_enter_no_state(
    wide: Dataset, late: LateDevices, threads: int, mapped: bool
) -> None:
    dataset = made(wide, mapped)
    with fr.Loader(dataset, device="cuda", threads=threads) as loader:
        for step, batch in enumerate(loader):
            due = min(step + 1 + AHEAD, len(dataset))
            late.stream.wait_for(due)
            assert late.stream.put == due
            assert late.stream.blocked == 0, "nobody waits for a copy but the device"
            assert loader.state_dict() == batch.state_dict()
            assert loader.batches_left == len(dataset) - step - 1 or step + 1 == len(dataset)


@pytest.mark.parametrize("how", HOW)
def test_a_peek_a_break_and_a_loaded_state_lose_nothing(
    wide: Dataset, late: LateDevices, how: dict[str, Any]
) -> None:
    expected = list(made(wide, tail="pad"))
    with fr.Loader(made(wide, tail="pad"), device="cuda", **how) as loader:
        first = loader.peek()
        assert first is loader.peek() is next(iter(loader))
        found = [first, *islice(loader, 4)]
        loader.start()
        assert loader.peek().step == 5
        loader.load_state_dict(found[2].state_dict())
        found = [*found[:3], *loader]
    for one, other in zip(expected, found, strict=True):
        assert_same_batch(one, other)


# ------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("how", HOW)
@MAPPED
def test_a_copy_that_fails_is_told_at_its_batch_and_nothing_is_lost(
    wide: Dataset, late: LateDevices, how: dict[str, Any], mapped: bool
) -> None:
    expected = list(made(wide, mapped))
    copies = 11 + 2 * mapped  # of a batch: 3 of words, 3 of tokens, 3 of name, ...
    late.fail_at = {4, 5 * copies, 9 * copies + 1}
    found, failures = [], []
    with fr.Loader(made(wide, mapped), device="cuda", **how) as loader:
        iterator = iter(loader)
        while len(found) < len(expected):
            try:
                found.append(next(iterator))
            except torch.cuda.OutOfMemoryError:
                failures.append(len(found))
                assert loader.batches_left == len(expected) - len(found)
        with pytest.raises(StopIteration):
            next(iterator)
    assert failures[0] == 0
    # With threads, one of these may be a copy that was begun ahead of an error, and is never asked for.
    assert len(failures) == 3 if how.get("threads", 0) == 0 else 1 <= len(failures) <= 3
    in_order(found)
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("how", HOW)
@MAPPED
def test_a_copy_that_fails_midway_keeps_what_is_still_read_and_nothing_longer(
    wide: Dataset, late: LateDevices, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], mapped: bool
) -> None:
    expected = list(made(wide, mapped))
    copied: list[tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor]]] = []
    failed: list[tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor]]] = []
    failures: list[bool] = []
    copy = LateStream._copied

    def noted(stream: LateStream, tensor: torch.Tensor) -> torch.Tensor:
        if stream.put == 2 and len(failed) == 4 and not failures:
            failures.append(True)
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        there = copy(stream, tensor)
        copied.append((weakref.ref(tensor), weakref.ref(there)))
        if stream.put == 2 and not failures:
            failed.append(copied[-1])
        return there

    monkeypatch.setattr(LateStream, "_copied", noted)
    monkeypatch.setattr(LateStream, "may_finish", LateStream.has_finished)  # none is done before its time
    gc.disable()  # memory of a device that is short is let go of at once, and not some day
    try:
        with fr.Loader(made(wide, mapped), device="cuda", **how) as loader:
            iterator = iter(loader)
            found = list(islice(iterator, 2))
            message = ""
            try:
                next(iterator)
            except torch.cuda.OutOfMemoryError as error:
                message = str(error)
            assert message == "CUDA out of memory"
            assert loader.state_dict() == found[-1].state_dict()
            assert late.stream.pending >= 4
            assert all(source() is not None for source, _ in failed), "the device reads them yet"
            late.stream.finish_all()
            found += islice(iterator, 2)
            assert [(source(), there()) for source, there in failed] == [(None, None)] * 4
            found += iterator
    finally:
        gc.enable()
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other)
    del found, other, iterator
    assert not any(source() is not None or there() is not None for source, there in copied)


class AlarmError(Exception):
    """What the signal handler raises."""


@pytest.mark.parametrize("threads", [0, 2])
def test_whatever_a_signal_handler_interrupts_no_batch_is_lost(
    numbers: Dataset, late: LateDevices, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is raised where an object ends, or memory is collected, Python can only tell of.
    ignored: set[type[BaseException]] = set()
    monkeypatch.setattr(sys, "unraisablehook", lambda message: ignored.add(message.exc_type))

    def alarm(*_: object) -> None:
        if armed:
            raise AlarmError

    armed = False
    before = signal.signal(signal.SIGALRM, alarm)
    dataset = make(numbers, 120)
    steps, interrupts = [], 0
    iterator = iter(fr.Loader(dataset, device="cuda", threads=threads))
    batch = previous = None
    try:
        while len(steps) < len(dataset):
            try:
                armed = (
                    interrupts < 400
                )  # where others have the processor, no batch may come before the alarm
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 2 * (interrupts + len(steps)) % 800))
                for batch in iterator:  # noqa: B007  (it is looked at below)
                    break
                armed = False
            except AlarmError:
                armed = False
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if batch is not None and batch is not previous:
                assert batch["row"].shape == (120,)
                steps.append(batch.step)
                assert len(dataset) - dataset.batches_left == batch.step + 1 or batch.step + 1 == len(dataset)
                previous = batch
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 20
    assert steps == list(range(len(dataset)))
    assert ignored <= {AlarmError}


def test_a_forked_child_is_told_what_to_do_and_disturbs_nothing(numbers: Dataset, late: LateDevices) -> None:
    dataset = made(numbers)
    loader = fr.Loader(dataset, device="cuda", threads=2)
    iterator = iter(loader)
    first = next(iterator)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said, calls = [], late.stream.calls
        try:
            for again in (lambda: next(iter(loader)), lambda: next(iterator)):
                try:
                    again()
                except fr.FastresumeError as error:
                    said.append(str(error))
            del iterator, again
            gc.collect()
            loader.close()
            said.append(f"{late.stream.calls - calls} calls")
        finally:
            os.write(writing, "\n".join(said).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        anew, old, calls = pipe.read().splitlines()
    os.waitpid(child, 0)
    assert "CUDA was started before process" in anew
    assert "'spawn'" in anew
    assert "Loader.start()" in anew
    assert "before it forked" in old or "newer iterator" in old
    assert calls == "0 calls"
    found = [first, *iterator]
    in_order(found)


def test_where_cuda_was_started_before_a_fork_the_child_is_told(
    numbers: Dataset, late: LateDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    for how in ({"threads": 0}, {"threads": 2}):
        with (
            fr.Loader(made(numbers), device="cuda", **how) as loader,
            pytest.raises(fr.FastresumeError, match="fork before anything uses CUDA"),
        ):
            next(iter(loader))
        assert late.streams == []


def test_what_is_not_copied_any_more_is_let_go_of(numbers: Dataset, late: LateDevices) -> None:
    loader = fr.Loader(made(numbers), device="cuda", threads=2)
    for _ in loader:
        assert len(loader._device._held) <= AHEAD + 4
    held = loader._device._held
    loader.close()
    assert not held
    assert late.stream.pending == 0
    loader = fr.Loader(made(numbers), device="cuda", threads=2)
    loader.start()
    stream = late.streams[-1]
    stream.wait_for(1 + AHEAD)
    assert stream.pending
    del loader
    gc.collect()
    assert stream.pending == 0, "memory that is still read was let go of"
