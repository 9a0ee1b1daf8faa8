"""Several threads ask for batches at once: none is lost and none comes twice, whoever is refused."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader

import fastresume as fr
from support.strategies import Dataset, plain_spec

READERS = pytest.mark.parametrize(
    "how",
    [
        None,
        {"threads": 0},
        {"threads": 2},
        pytest.param({"num_workers": 2, "multiprocessing_context": "fork"}, marks=pytest.mark.processes),
    ],
    ids=["dataset", "no threads", "threads", "workers"],
)

BUSY = r"asks for a batch while thread \d+ is in next\(\) of the same iterator: let one thread draw"

NEWER = "a newer iterator of this dataset continues"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([400] * 5).write(tmp_path_factory.mktemp("threads"))


def slow(batch: fr.Batch) -> fr.Batch:
    time.sleep(0.001)
    return batch


def open_dataset(data: Dataset) -> fr.ParquetDataset:
    return fr.ParquetDataset(data.directory, batch_size=10, world=(0, 1)).map(slow)


def reader_of(dataset: fr.ParquetDataset, how: dict[str, Any] | None) -> Any:
    return dataset if how is None else fr.Loader(dataset, **how)


def drawn_by(threads: int, draw: Callable[[], Iterator[fr.Batch]]) -> tuple[Counter[int], list[Exception]]:
    """The rows that threads together were handed, each going on after what it was refused."""
    rows: list[list[int]] = [[] for _ in range(threads)]
    errors: list[Exception] = []
    together = threading.Barrier(threads)

    def run(number: int) -> None:
        together.wait(60)
        batches = draw()
        while True:
            try:
                rows[number] += next(batches).rows().tolist()
            except StopIteration:
                return
            except fr.FastresumeError as error:
                errors.append(error)
                if "newer iterator" in str(error):
                    return
                time.sleep(0.0005)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)
    return Counter(row for some in rows for row in some), errors


@pytest.mark.law(1)
@READERS
def test_threads_in_one_iterator_are_refused_and_nothing_is_lost_or_repeated(
    data: Dataset, how: dict[str, Any] | None
) -> None:
    dataset = open_dataset(data)
    iterator = iter(reader_of(dataset, how))
    rows, errors = drawn_by(4, lambda: iterator)
    assert rows == Counter(range(2000))
    assert dataset.epoch == 1
    assert errors
    assert all(re.search(BUSY, str(error)) for error in errors)


@pytest.mark.law(1)
@READERS
def test_threads_with_iterators_of_their_own_share_the_cursor_and_repeat_nothing(
    data: Dataset, how: dict[str, Any] | None
) -> None:
    """Only the newest one goes on; what an older one was about to hand over, the newest hands over."""
    dataset = open_dataset(data)
    reader = reader_of(dataset, how)
    rows, errors = drawn_by(3, lambda: iter(reader))
    assert rows == Counter(range(2000)) or sum(rows.values()) == 2000 - 10 * dataset.batches_left
    assert max(rows.values()) == 1
    assert len([error for error in errors if NEWER in str(error)]) <= 2
    rest = [row for batch in iter(reader) for row in batch.rows().tolist()] if dataset.epoch == 0 else []
    assert rows + Counter(rest) == Counter(range(2000))


@READERS
def test_threads_that_take_turns_are_not_refused(data: Dataset, how: dict[str, Any] | None) -> None:
    """With a lock of their own around next(), which is what the error says."""
    dataset = open_dataset(data)
    iterator, turn = iter(reader_of(dataset, how)), threading.Lock()

    class OneByOne:
        def __iter__(self) -> Iterator[fr.Batch]:
            return self

        def __next__(self) -> fr.Batch:
            with turn:
                return next(iterator)

    rows, errors = drawn_by(4, OneByOne)
    assert (rows, errors) == (Counter(range(2000)), [])


@pytest.mark.parametrize("ask", [lambda loader, _: loader.peek(), lambda loader, _: loader.start()])
def test_nobody_looks_ahead_while_another_thread_is_in_next(data: Dataset, ask: Any) -> None:
    inside, out = threading.Event(), threading.Event()

    def hang(batch: fr.Batch) -> fr.Batch:
        inside.set()
        assert out.wait(60)
        return batch

    loader = fr.Loader(fr.ParquetDataset(data.directory, batch_size=10).map(hang), threads=0)
    iterator, found = iter(loader), []
    drawing = threading.Thread(target=lambda: found.append(next(iterator)))
    drawing.start()
    assert inside.wait(60)
    with pytest.raises(fr.FastresumeError, match=BUSY):
        ask(loader, iterator)
    with pytest.raises(fr.FastresumeError, match=BUSY):
        next(iterator)
    out.set()
    drawing.join(60)
    assert [batch.step for batch in found] == [0]
    ask(loader, iterator)
    assert next(iterator).step == 1


@pytest.mark.law(2)
def test_a_state_that_is_loaded_while_a_batch_is_made_is_kept(data: Dataset) -> None:
    """The batch that was on its way is not handed over: it would take the cursor along."""
    inside, out = threading.Event(), threading.Event()

    def hang(batch: fr.Batch) -> fr.Batch:
        inside.set()
        assert out.wait(60)
        return batch

    plain = fr.ParquetDataset(data.directory, batch_size=10)
    state = plain.batch_at(0, 50).state_dict()
    dataset = plain.map(hang)
    iterator, errors = iter(dataset), []

    def draw() -> None:
        try:
            next(iterator)
        except fr.StateError as error:
            errors.append(str(error))

    drawing = threading.Thread(target=draw)
    drawing.start()
    assert inside.wait(60)
    dataset.load_state_dict(state)
    out.set()
    drawing.join(60)
    assert errors == ["a state was loaded after this iterator was made: call iter() again"]
    assert dataset.state_dict() == state
    assert next(iter(plain)).step == 51


class LeftError(Exception):
    """What a signal handler raises."""


def test_an_iterator_that_an_exception_led_out_of_lets_every_thread_in(data: Dataset) -> None:
    def leave(*_: Any) -> None:
        raise LeftError

    def interrupt(batch: fr.Batch) -> fr.Batch:
        if not interrupted:
            interrupted.append(True)
            os.kill(os.getpid(), signal.SIGUSR1)
        return batch

    interrupted: list[bool] = []
    before = signal.signal(signal.SIGUSR1, leave)
    try:
        iterator = iter(fr.ParquetDataset(data.directory, batch_size=10).map(interrupt))
        with pytest.raises(LeftError):
            next(iterator)
    finally:
        signal.signal(signal.SIGUSR1, before)
    found: list[fr.Batch] = []
    drawing = threading.Thread(target=lambda: found.append(next(iterator)))
    drawing.start()
    drawing.join(60)
    assert [batch.step for batch in found] == [0]
    assert next(iterator).step == 1


def test_a_forked_child_draws_though_a_thread_of_its_parent_is_in_next(data: Dataset) -> None:
    inside, out = threading.Event(), threading.Event()

    def hang(batch: fr.Batch) -> fr.Batch:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            assert out.wait(60)
        return batch

    iterator = iter(fr.ParquetDataset(data.directory, batch_size=10).map(hang))
    drawing = threading.Thread(target=lambda: next(iterator))
    drawing.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if next(iterator).step == 0 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    out.set()
    drawing.join(60)


def test_a_dataloader_in_this_process_is_told_so_too(data: Dataset) -> None:
    iterator = iter(DataLoader(open_dataset(data), batch_size=None))
    rows, errors = drawn_by(4, lambda: iterator)
    assert rows == Counter(range(2000))
    assert errors
