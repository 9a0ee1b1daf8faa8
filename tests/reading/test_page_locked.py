"""Page-locked memory: what is copied to a device was decoded into it, and it is unlocked before it goes."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
import torch

import fastresume as fr
from fastresume.reading.pinned import page_lock
from support.device_jobs import (
    HOW,
    ORDERS,
)
from support.devices import Driver, LateDevices
from support.jobs import assert_same_batch, make
from support.strategies import Dataset

LARGE = 9000
"""Rows of so many bytes that the memory of each tensor is pages of its own."""


@pytest.fixture(scope="module")
def driver() -> Driver:
    """One for all tests: memory that it has locked is used again in any of them."""
    return Driver()


@pytest.mark.parametrize("how", HOW)
@ORDERS
def test_what_is_copied_was_decoded_into_locked_pages_which_are_locked_once(
    numbers: Dataset, late: LateDevices, driver: Driver, how: dict[str, Any], order: dict[str, Any]
) -> None:
    late.driver = driver
    arguments = {"lanes": 2, "groups": 2, "tail": "pad", **order}
    plain = make(numbers, LARGE, **arguments)
    with fr.Loader(make(numbers, LARGE, **arguments), device="cuda", **how) as loader:
        for _ in range(3):
            for one, other in zip(list(plain), list(loader), strict=True):
                assert_same_batch(one, other)
        assert late.stream.begun >= 3 * 2 * 2
        assert late.stream.not_locked == []
        assert len(driver.locked) <= 40
    assert driver.wrong == []
    assert driver.page_lock.failure == 0
    assert driver.page_lock.locked_bytes == sum(driver.locked.values())


def test_blocks_of_workers_are_unlocked_before_they_go(
    numbers: Dataset, late: LateDevices, driver: Driver
) -> None:
    late.driver = driver
    before = driver.locked.copy()
    with fr.Loader(make(numbers, LARGE), device="cuda", num_workers=1) as loader:
        batch = next(iter(loader))
        assert len(driver.locked) > len(before)
    late.stream.finish_all()
    del batch
    gc.collect()
    assert driver.locked.items() <= before.items(), "what was kept goes with close(), too"
    assert driver.wrong == []


@pytest.mark.parametrize("how", HOW)
def test_memory_that_can_not_be_locked_is_as_any_other_and_one_warning_tells(
    numbers: Dataset, late: LateDevices, how: dict[str, Any]
) -> None:
    late.driver = Driver()
    late.driver.status = 2
    rows, arguments = 14_000, {"lanes": 2, "groups": 2, "tail": "pad"}  # of another size than what is locked
    expected = list(make(numbers, rows, **arguments))
    with (
        pytest.warns(
            UserWarning, match=r"can't be page-locked \(CUDA's status 2, 0 bytes .*`ulimit -l`, now"
        ) as warned,
        fr.Loader(make(numbers, rows, **arguments), device="cuda", **how) as loader,
    ):
        found = [*loader, *loader][:2]
    assert len(warned) == 1
    assert warned[0].filename == __file__
    for one, other in zip(expected, found, strict=True):
        assert_same_batch(one, other)
    assert late.driver.locked == {}


def test_a_forked_child_unlocks_nothing(numbers: Dataset, late: LateDevices, driver: Driver) -> None:
    late.driver = driver
    loader = fr.Loader(make(numbers, LARGE), device="cuda", threads=1)
    batch = next(iter(loader))
    calls = driver.calls
    child = os.fork()
    if child == 0:
        try:
            del batch
            loader.close()
            assert len(list(make(numbers, LARGE))) == 1
            gc.collect()
            address = next(iter(driver.locked))
            driver.page_lock.unlock(address, driver.locked[address])
            assert not driver.page_lock.lock(address, driver.locked[address])
            os._exit(driver.calls - calls)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert status == 0
    loader.close()


def test_the_real_driver_is_asked_where_there_is_one() -> None:
    """Without a device it refuses; how it is asked is right either way."""
    found = page_lock(torch.device("cuda", 0))
    assert found is None or found.failure == 0
    with pytest.raises(ValueError, match="a function has the address 0"):
        fr._core.PageLock(1, (1, 2, 0, 4))
