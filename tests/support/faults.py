"""Saves that are killed, or fail, at one call to the file system, in a process that has preloaded faults.c.

`sweep` forks ranks that restore and save, arms the fault in one of them, and then looks at what is there as
the next job would: one whole checkpoint, the old one or the new one, with which that job goes on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import shutil
import signal
import subprocess
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import fastresume as fr
from fastresume.checkpoint import Checkpointer, CheckpointError

SOURCE = Path(__file__).with_name("faults.c")

KILL, TORN, FAIL, FAIL_ON = 1, 2, 3, 4

ACTIONS = {
    "kill": (KILL, 0, 0),
    "torn write": (TORN, 0, 1),
    "EIO": (FAIL, errno.EIO, 1),
    "ENOSPC": (FAIL, errno.ENOSPC, 1),
    "ENOSPC from then on": (FAIL_ON, errno.ENOSPC, 1),
    "EIO anywhere": (FAIL, errno.EIO, 0),
}
"""What happens at the chosen call: action, error number, and whether only writes and syncs are counted."""

SECONDS = 60
"""Within these every rank has ended, or hangs."""


@dataclass(frozen=True)
class Scenario:
    """What a job finds, restores and saves."""

    found: tuple[int, ...]
    restored: int | None
    saved: int
    keep: int | None = None
    wait: bool = True


SCENARIOS = {
    "first": Scenario((), None, 1),
    "next step": Scenario((1, 2), None, 3),
    "same step": Scenario((1, 2), None, 2),
    "rewind": Scenario((1, 2, 3), 1, 2),
    "rotation": Scenario((1, 2, 3), None, 4, keep=2),
    "asynchronous": Scenario((1, 2), None, 3, wait=False),
}


def compiled(directory: Path) -> Path | None:
    """The library, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = directory / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


# ---------------------------------------------------------------------------- in the process with the library


class Fault:
    """The library that this process has preloaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)

    def arm(self, directory: Path, at: int, action: str) -> None:
        what, number, only_data = ACTIONS[action]
        self._library.faults_arm(os.fsencode(directory), ctypes.c_long(at), what, number, only_data)

    def arm_looks(self, directory: Path, at: int, number: int) -> None:
        self._library.faults_arm_looks(os.fsencode(directory), ctypes.c_long(at), number)

    def count(self) -> int:
        return int(self._library.faults_count())

    def journal(self, path: Path | None) -> None:
        self._library.faults_journal(None if path is None else os.fsencode(path))

    def mark(self, text: str) -> None:
        self._library.faults_mark(text.encode())


def parts(value: float, steps: int, files: list[str], rank: int = 0, world_size: int = 1) -> dict[str, Any]:
    """A job all of whose numbers are one value, after so many steps."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    with torch.no_grad():
        for tensor in _tensors(model, optimizer):
            tensor.fill_(value)
    dataset = fr.ParquetDataset(files, batch_size=2, world=(rank, world_size))
    iterator = iter(dataset)
    for _ in range(steps):
        next(iterator)
    return {"model": model, "optimizer": optimizer, "loader": dataset}


def _tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    state = [optimizer.state[parameter] for parameter in model.parameters()]
    return [*model.parameters(), *(tensor for one in state for tensor in one.values())]


def value_of(job: dict[str, Any]) -> set[float]:
    """All numbers of a job; of one that is whole, it is one."""
    return {
        number for tensor in _tensors(job["model"], job["optimizer"]) for number in tensor.flatten().tolist()
    }


def work(
    root: Path, scenario: Scenario, files: list[str], rank: int, world_size: int, say: int, strike: Any
) -> None:
    """What a rank does; it says: (s)aved; or (e)rror, and then saved (a)gain or (f)ailed again."""
    torch.set_num_threads(1)
    job = parts(-1.0, 0, files, rank, world_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what can't be removed is a warning; leftovers are looked for later
        checkpointer = Checkpointer(root, keep=scenario.keep, timeout_seconds=SECONDS / 3)
        checkpointer.restore(**job, step=scenario.restored)
        job = parts(scenario.saved + 0.5, scenario.saved, files, rank, world_size)
        strike()
        try:
            checkpointer.save(scenario.saved, **job, wait=scenario.wait)
            checkpointer.wait()
            os.write(say, b"s")
            strike(True)
        except CheckpointError as error:
            is_own = "OSError" in str(error) or "Error: [Errno" in str(error)
            os.write(say, b"?" if is_own and str(root) not in str(error) else b"e")
            try:
                checkpointer.save(scenario.saved, **job)
                os.write(say, b"a")
            except CheckpointError:
                os.write(say, b"f")
    checkpointer.close()


def ranks(
    root: Path, scenario: Scenario, files: list[str], world_size: int, victim: int, strike: Any
) -> list[str]:
    """What each of forked ranks says, with a "!" behind if it had to be ended."""
    store = root.with_name(f"{root.name}-store")
    store.unlink(missing_ok=True)
    pids, pipes = [], []
    for rank in range(world_size):
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _join(store, rank, world_size)
                own = strike if rank == victim else _nothing
                work(root, scenario, files, rank, world_size, writes, own)
                code = 0
            except BaseException as error:  # noqa: BLE001  (the one that waits is told)
                os.write(writes, f"<{type(error).__name__}: {error}>".encode()[:400])
            finally:
                os._exit(code)
        os.close(writes)
        pids.append(pid)
        pipes.append(reads)
    end, said = time.monotonic() + SECONDS, []
    for pid, pipe in zip(pids, pipes, strict=True):
        heard = b""
        while True:
            if not select.select([pipe], [], [], max(0, end - time.monotonic()))[0]:
                heard += b"!"
                os.kill(pid, signal.SIGKILL)
                break
            more = os.read(pipe, 1 << 10)
            if not more:
                break
            heard += more
        os.close(pipe)
        os.waitpid(pid, 0)
        said.append(heard.decode())
    return said


def look(
    root: Path, scenario: Scenario, files: list[str], before: dict[str, bytes], saved: bool
) -> str | None:
    """What is wrong with what is there, as the next job sees it; None if nothing is."""
    checkpointer = Checkpointer(root, keep=scenario.keep)
    entries = checkpointer.entries()
    newest = max((entry.serial for entry in entries), default=0)
    is_new = newest > len(before)
    if not entries and (before or saved):
        return "no checkpoint is left"
    if saved and not is_new:
        return "an acknowledged save is gone"
    left = {entry.path.name for entry in entries}
    if not is_new and set(before) - left:
        return f"{sorted(set(before) - left)} went before the new one was there"
    for entry in entries:
        text = (entry.path / "manifest.json").read_bytes()
        if before.get(entry.path.name, text) != text:
            return f"{entry.path.name} was written over"
    job = parts(-1.0, 0, files)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored = checkpointer.restore(**job, allow={"global_batch"})
    if restored is not None:
        value = scenario.saved + 0.5 if is_new else float(restored.step)
        if value_of(job) != {value}:
            return f"weights are {value_of(job)}, and should be {value}"
        rows = fr.Cursor.from_state(job["loader"].state_dict()).consumed_rows
        if rows != 2 * restored.step * restored.world_size:
            return f"the cursor of step {restored.step} has {rows} rows"
    step = 9
    checkpointer.save(step, **parts(9.0, step, files))
    names = os.listdir(root)  # noqa: PTH208  (names)
    if any(name.startswith(".") for name in names):
        return f"leftovers: {names}"
    last = checkpointer.latest()
    return None if last is not None and last.step == step else "the next save is not the latest"


def base(directory: Path, scenario: Scenario, files: list[str], world_size: int) -> dict[str, bytes]:
    """Writes what a job finds; gives the manifests by directory."""
    directory.mkdir(parents=True)

    def save_all(root: Path, _: Scenario, rank: int) -> None:
        checkpointer = Checkpointer(root, keep=None)
        for step in scenario.found:
            checkpointer.save(step, **parts(float(step), step, files, rank, world_size))

    _each(directory, scenario, world_size, save_all)
    return _found(directory)


def _found(directory: Path) -> dict[str, bytes]:
    entries = Checkpointer(directory).entries()
    return {entry.path.name: (entry.path / "manifest.json").read_bytes() for entry in entries}


def _each(directory: Path, scenario: Scenario, world_size: int, task: Any) -> None:
    store = directory.with_name(f"{directory.name}-store")
    pids = []
    for rank in range(world_size):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _join(store, rank, world_size)
                task(directory, scenario, rank)
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids), "the first checkpoints can't be made"


def _join(store: Path, rank: int, world_size: int) -> None:
    if world_size > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)


def _nothing(_is_over: bool = False) -> None:
    pass


def sweep(
    directory: str, files: list[str], name: str, world_size: int, victim: int, action: str, chosen: list[int]
) -> dict[str, Any]:
    """Strikes at chosen calls of a save, or at each; gives what the ranks said, and what was wrong."""
    scenario, place = SCENARIOS[name], Path(directory)
    found, root, counted = place / f"{name}-{world_size}".replace(" ", "-"), place / "root", place / "count"
    before = _found(found) if found.exists() else base(found, scenario, files, world_size)
    fault = Fault()
    outcomes: dict[str, int] = {}
    wrong = []

    def run(at: int) -> list[str]:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(found, root, symlinks=True)

        def strike(is_over: bool = False) -> None:
            if is_over:
                counted.write_text(str(fault.count()))
            else:
                fault.arm(root, at, action)

        return ranks(root, scenario, files, world_size, victim, strike)

    if not chosen:  # a run without a fault counts the calls
        assert set(run(-1)) == {"s"}
        chosen = list(range(int(counted.read_text())))
    for at in chosen:
        said = run(at)
        is_saved = any("s" in one or "a" in one for one in said)
        problem = _judged(said, victim, action) or look(root, scenario, files, before, is_saved)
        if problem:
            wrong.append(f"{name}, {world_size} ranks, rank {victim}, {action} at call {at}: {problem}")
        outcome = ",".join(said)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return {"runs": len(chosen), "outcomes": outcomes, "wrong": wrong}


def look_at(directory: str, files: list[str], what: str, number: int, every: int) -> dict[str, Any]:
    """Lets calls fail by which a restore, or a save, looks at a directory; gives what was wrong.

    Whoever can't see what is there does not take it for nothing, nor an older checkpoint for the newest.
    """
    scenario, place, fault = Scenario((1, 2, 3), None, 4), Path(directory), Fault()
    found, root = place / f"found-{what}-{number}", place / "root"
    before = base(found, scenario, files, 1)
    wrong: list[str] = []
    outcomes: dict[str, int] = {}

    def run(at: int) -> str:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(found, root, symlinks=True)
        job = parts(-1.0, 0, files)
        checkpointer = None if what == "restore" else Checkpointer(root, keep=None)
        if checkpointer is not None:
            checkpointer.restore(**job)
            job = parts(4.5, 4, files)
        fault.arm_looks(root, at, number)
        try:
            if checkpointer is None:
                restored = Checkpointer(root, keep=None).restore(**job)
                message = "nothing" if restored is None else f"step {restored.step}"
            else:
                checkpointer.save(4, **job)
                message = "saved"
        except (CheckpointError, OSError) as error:
            is_told = f"'{root}" in str(error) and not isinstance(error, ValueError)
            message = "an error" if is_told else f"no path: {type(error).__name__}: {error}"
        finally:
            count.append(fault.count())
            fault.arm_looks(place / "nowhere", -1, 0)
        return message

    count: list[int] = []
    good = {"restore": "step 3", "save": "saved"}[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error", category=RuntimeWarning)
        assert run(-1) == good
        for at in range(0, count[0], every):
            try:
                message = run(at)
            except RuntimeWarning as warning:
                message = (
                    "a warning" if str(root) in str(warning) and what == "save" else f"a warning: {warning}"
                )
            outcomes[message] = outcomes.get(message, 0) + 1
            if message not in (good, "an error", "a warning"):
                wrong.append(f"{what}, call {at}: {message}")
            if what == "save":
                problem = look(root, scenario, files, before, message == "saved")
                wrong += [f"{what}, call {at}: {problem}"] if problem else []
    return {"runs": count[0], "outcomes": outcomes, "wrong": wrong}


def journal(directory: str, files: list[str], name: str) -> tuple[list[str], list[list[str]]]:
    """The checkpoints before a save, and its calls in their order: what, on which path, from where."""
    scenario, place = SCENARIOS[name], Path(directory) / f"journal-{name}".replace(" ", "_")
    root, written, fault = place / "root", place / "journal", Fault()
    before = base(root, scenario, files, 1)

    def strike(is_over: bool = False) -> None:
        if is_over:
            fault.mark("saved")
            fault.journal(None)
        else:
            fault.journal(written)
            fault.arm(root, -1, "kill")

    assert ranks(root, scenario, files, 1, 0, strike) == ["s"]
    found = [line.split("\t") for line in written.read_text().splitlines()]
    assert found[-1][:2] == ["mark", "saved"]
    below = [[call, f"{path}/", f"{other}/"] for call, path, other in found]
    return sorted(before), [
        [call, *(one.removeprefix(f"{root}/").removesuffix("/") for one in paths)] for call, *paths in below
    ]


def _judged(said: list[str], victim: int, action: str) -> str | None:
    """What is wrong with what ranks say; None if nothing is."""
    if action in ("kill", "torn write"):
        others = {one for rank, one in enumerate(said) if rank != victim}
        is_well = said[victim] == "" and others <= {"s", "ef"}
    else:
        is_well = len(set(said)) == 1 and said[0] in ("s", "ef" if action.endswith("on") else "ea")
    return None if is_well else f"they say {said}"
