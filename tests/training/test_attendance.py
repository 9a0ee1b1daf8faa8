"""A rank that waits in a call of all ranks says who is missing, and where to write the call."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import fastresume as fr
from fastresume.agreement import attendance, peers
from fastresume.agreement.peers import Peers
from fastresume.checkpoint import Checkpointer, CheckpointError
from fastresume.training import Evaluator, Preemption
from fastresume.training.agreement import Agreement
from support.each_of import each_of
from support.forks import in_ranks
from support.strategies import Dataset

pytestmark = pytest.mark.processes

MINUTE = timedelta(minutes=1)


def tell_ranks_of_warnings() -> list[str]:
    """What this rank warns of; each is a key in the store of all ranks, too."""
    attendance.WAIT_SECONDS = 0.2
    said: list[str] = []
    store = attendance._own_store()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        said.append(str(message))
        store.set(f"said {len(said)}", "")

    warnings.showwarning = show
    warnings.simplefilter("always")
    return said


def come_late(rank: int, data: Dataset, directory: Path) -> list[str]:
    """Rank 1 makes each call once rank 0 has warned; gives what rank 0 warned of."""
    said, store = tell_ranks_of_warnings(), attendance._own_store()
    calls = 0

    def call(work: Callable[[], Any]) -> Any:
        nonlocal calls
        calls += 1
        if rank == 1:
            store.wait([f"said {calls}"], MINUTE)
        return work()

    loader = fr.Loader(fr.ParquetDataset(data.directory, batch_size=4), threads=1)
    call(lambda: loader.load_state_dict(loader.state_dict(), check_same=True))
    call(lambda: fr.distributed.open(data.directory, batch_size=4))
    evaluator = call(lambda: Evaluator(None, lambda *_: {}, every=1))
    call(lambda: evaluator.is_due(1))
    call(lambda: evaluator.run(None))
    with call(Preemption) as preemption:
        call(preemption.is_due)
    checkpointer = call(lambda: Checkpointer(directory))
    call(lambda: checkpointer.save(1, loader=loader))
    return said


def test_a_rank_that_calls_alone_says_who_is_missing_and_goes_on_with_them(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    said, nothing = in_ranks(2, tmp_path / "store", come_late, small_dataset, tmp_path / "checkpoints")
    assert nothing == []
    calls = ["check_same", "fr.distributed.open", "Evaluator(...)", "is_due", "evaluation", "Preemption(...)"]
    for text, name in zip(said, [*calls, "is_due", "Checkpointer(...)", "save"], strict=True):
        assert text.startswith(f"rank 1 did not come to {name} in 0 s, and the others wait there: all ranks ")
        assert "write it outside of `if rank == 0:`" in text
    assert "world=(0, 1)" in said[1]


def work_long(rank: int) -> list[str]:
    """Rank 1 is in the call, at work, until rank 2 comes; gives what each warned of."""
    said, store = tell_ranks_of_warnings(), attendance._own_store()
    peers = Peers()

    def work() -> None:
        store.wait(["came"], MINUTE)

    if rank == 2:
        store.wait(["said 1"], MINUTE)
        store.set("came", "")
    peers.all("work", work if rank == 1 else lambda: None)
    return said


def test_a_rank_that_works_for_the_others_is_not_missing_and_one_rank_speaks(tmp_path: Path) -> None:
    first, *others = in_ranks(3, tmp_path / "store", work_long)
    assert others == [[], []]
    assert [text.partition(",")[0] for text in first] == ["rank 2 did not come to work in 0 s"]


def come_last(rank: int, prepare: Callable[[Path], Callable[[], Any]], path: Path) -> list[str]:
    """Rank 3 makes a call once rank 0 has warned; gives what this rank warned of."""
    said, store = tell_ranks_of_warnings(), attendance._own_store()
    call = prepare(path)
    attendance._POLLS = 1  # who is done at once has said nothing
    dist.barrier()
    if rank == 3:
        store.wait(["said 1"], MINUTE)
    call()
    return said


def to_open(directory: Path) -> Callable[[], Any]:
    fr.ParquetDataset(directory, batch_size=4)  # the first one is slower
    return lambda: fr.distributed.open(directory, batch_size=4)


def to_ask_the_lead(_: Path) -> Callable[[], Any]:
    agreement = Agreement()
    return lambda: agreement.of_lead(3)


@each_of("prepare", [to_open, to_ask_the_lead])
def test_no_rank_is_gone_before_all_have_come_and_called_missing(
    small_dataset: Dataset, tmp_path: Path, prepare: Callable[[Path], Callable[[], Any]]
) -> None:
    first, *others = in_ranks(6, tmp_path / "store", come_last, prepare, small_dataset.directory)
    assert others == [[]] * 5
    assert [text.partition(" to ")[0] for text in first] == ["rank 3 did not come"]


def test_a_rank_that_came_in_the_last_moment_is_not_missing_and_short_calls_ask_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = dist.HashStore()
    calls = attendance.Attendance("test", [0, 1, 2])
    wait = attendance._Wait(calls, 1, "call", "")
    wait.look()  # which would fail, without a process group
    monkeypatch.setattr(attendance, "_own_store", lambda: store)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    wait._began -= attendance.WAIT_SECONDS
    wait.look()
    store.set(f"{calls.place}1", "1")
    wait._began -= attendance.WAIT_SECONDS
    with pytest.warns(UserWarning, match="^rank 2 did not come to call in 10 s"):
        wait.look()


def lose_a_rank(rank: int, data: Dataset, directory: Path) -> list[str]:
    """What rank 0 gets when the group's timeout is over, and rank 1 never came."""
    warnings.simplefilter("ignore")
    store = attendance._own_store()
    short: Any = dist.new_group(timeout=timedelta(seconds=0.2))
    loader = fr.Loader(fr.ParquetDataset(data.directory, batch_size=4), threads=1)
    preemption = Preemption(group=short)
    found = []
    assert peers._timeout_of_all() == timedelta(minutes=30)
    if rank == 0:
        backend: Any = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        backend.options._timeout = timedelta(seconds=0.2)
        for call in (
            lambda: fr.distributed.check_same(loader.state_dict(), short),
            lambda: Checkpointer(directory, timeout_seconds=0.2),
            lambda: Evaluator(None, lambda *_: {}),
        ):
            with pytest.raises(fr.FastresumeError) as failed:
                call()
            found.append(f"{type(failed.value).__name__}: {failed.value}")
        backend.options._timeout = MINUTE
        store.set("over", "")
    store.wait(["over"], MINUTE)
    del preemption
    return found


def test_a_rank_that_never_comes_is_an_error_of_ours_when_the_groups_timeout_is_over(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    (same, checkpointer, evaluator), _ = in_ranks(
        2, tmp_path / "store", lose_a_rank, small_dataset, tmp_path / "checkpoints"
    )
    assert same.startswith("FastresumeError: check_same: another rank is lost or late: RuntimeError: ")
    assert same.endswith("; all of them call it together")
    assert checkpointer.startswith(f"{CheckpointError.__name__}: not all of 2 ranks are here")
    assert evaluator.startswith("FastresumeError: not all of 2 ranks are here, and they make it together")


def test_a_call_that_is_over_leaves_no_thread_behind() -> None:
    def threads() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "fastresume-attendance"]

    with attendance.Attendance("test", [0]).at("call"):
        (watcher,) = threads()
    watcher.join(60)
    assert threads() == []


def test_a_call_goes_on_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    watch, calls = attendance._Watch(), attendance.Attendance("test", [0])
    monkeypatch.setattr(attendance, "_watch", watch)
    with monkeypatch.context() as ending:
        ending.setattr(threading.Thread, "start", refuse)
        with calls.at("call"):
            pass
    assert not watch._has_thread
