"""Kills and failing disks at every call of a save: one whole checkpoint is always there."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import faults, training
from support.child import Child
from support.profile import SOAK

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """A process whose calls to the file system can be struck."""
    library = faults.compiled(tmp_path_factory.mktemp("library"))
    if library is None:
        pytest.skip("no C compiler, to make the library that strikes calls of a process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        child = Child(anew=True)
    with child:
        yield child


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in training.written(tmp_path_factory.mktemp("data")).files]


# A sample, and which calls are struck: some while files are written, some around the rename, some behind it.
SAMPLE = [
    ("next step", 1, 0, "kill", [7, 18, 24]),
    ("same step", 1, 0, "kill", [24]),
    ("rewind", 1, 0, "kill", [28]),
    ("rotation", 1, 0, "kill", [26]),
    ("asynchronous", 1, 0, "kill", [22]),
    ("next step", 1, 0, "torn write", [16]),
    ("rotation", 1, 0, "EIO", [17]),
    ("next step", 1, 0, "ENOSPC from then on", [12]),
    ("rotation", 1, 0, "EIO anywhere", [24]),
    ("rotation", 2, 0, "kill", [26]),
    ("next step", 2, 1, "EIO", [2]),
]
EVERY = [
    (name, world_size, victim, action, [])
    for world_size, victim in ((1, 0), (2, 0), (2, 1))
    for name in faults.SCENARIOS
    for action in faults.ACTIONS
]


# One test, so that one process is struck, however many run tests.
@pytest.mark.parametrize("strikes", [[one] for one in EVERY] if SOAK else [SAMPLE])
def test_a_save_that_is_struck_leaves_a_whole_checkpoint(
    faulty: Child, files: list[str], tmp_path: Path, strikes: list[tuple[str, int, int, str, list[int]]]
) -> None:
    for name, world_size, victim, action, chosen in strikes:
        arguments = (str(tmp_path), files, name, world_size, victim, action, chosen)
        found = faulty.call(faults.sweep, *arguments, seconds=3600 if SOAK else 100)
        print(f"{name}, {world_size} ranks, rank {victim}, {action}: {found}")
        assert found["wrong"] == []
        assert found["runs"] > 0


def test_whoever_can_not_look_is_told_at_what_and_takes_nothing_older(
    faulty: Child, files: list[str], tmp_path: Path
) -> None:
    every = 1 if SOAK else 23  # a prime, so that the calls for each file are struck in turns
    for what in ("restore", "save"):
        for number in (errno.EIO, errno.ESTALE) if SOAK else (errno.EIO,):
            found = faulty.call(faults.look_at, str(tmp_path), files, what, number, every, seconds=1000)
            print(f"{what}, {errno.errorcode[number]}: {found}")
            assert found["wrong"] == []
            assert found["runs"] > 25


class Disk:
    """What a directory holds after a power cut, by the calls that were made: both ends of what may be left.

    A file's bytes are there once it was synced after its last write, a name once its directory was.
    """

    def __init__(self, checkpoints: list[str]) -> None:
        """With checkpoints that are there and durable, each a manifest and what it names."""
        self.names: dict[str, dict[str, str]] = {"": {name: name for name in checkpoints}}
        self.names |= {name: {"manifest.json": f"{name}/manifest.json"} for name in checkpoints}
        self.settled = {place: dict(names) for place, names in self.names.items()}
        self.synced = {f"{name}/manifest.json" for name in checkpoints}
        self.listed = {f"{name}/manifest.json": {"manifest.json"} for name in checkpoints}
        self._count = 0

    def apply(self, call: str, path: str, other: str) -> None:
        directory, name = self._place(path)
        names = self.names[directory]
        if call in ("create", "mkdir", "symlink"):
            self._count += 1
            names[name] = made = f"{call} {self._count}"
            if call == "mkdir":
                self.names[made], self.settled[made] = {}, {}
        elif call == "rename":
            source, old = self._place(other)
            names[name] = self.names[source].pop(old)
        elif call in ("unlink", "rmdir"):
            names.pop(name, None)
        elif call == "write":
            self.synced.discard(names[name])
            self.listed[names[name]] = set(names)
        else:
            assert call == "fsync", call
            found = names[name] if path else ""
            self.synced.add(found)
            if found in self.names:
                self.settled[found] = dict(self.names[found])

    def _place(self, path: str) -> tuple[str, str]:
        directory, _, name = path.rpartition("/")
        return (self.names[""][directory] if directory else ""), name

    def whole(self, names: dict[str, dict[str, str]]) -> set[str]:
        """The checkpoints that are whole, of `names` as they are, or as they were `settled`."""
        found = set()
        for name, directory in names[""].items():
            files = names.get(directory, {})
            manifest = files.get("manifest.json", "")
            needed = {manifest, *(files.get(one, "") for one in self.listed.get(manifest, ()))}
            if name.startswith("step-") and needed <= self.synced - {""}:
                found.add(name)
        return found


def after_a_power_cut(calls: list[list[str]], found: list[str]) -> list[str]:
    """What is wrong where the power goes after any of the calls of a save; nothing, if all is well."""
    disk, wrong = Disk(found), []
    for number, (call, path, other) in enumerate(calls[:-1]):
        disk.apply(call, path, other)
        for what, names in (("what is settled", disk.settled), ("all names", disk.names)):
            left = disk.whole(names)
            if not (left - set(found) or left >= set(found)):
                wrong.append(f"after call {number}, {call} {path}, there are {sorted(left)} in {what}")
    if len(disk.whole(disk.settled) - set(found)) != 1:
        wrong.append("the save has returned, and is not there")
    return wrong


def test_a_save_that_has_returned_survives_a_power_cut(
    faulty: Child, files: list[str], tmp_path: Path
) -> None:
    for name in faults.SCENARIOS:
        found, calls = faulty.call(faults.journal, str(tmp_path), files, name)
        assert after_a_power_cut(calls, found) == []
        made = [number for number, (call, _, _) in enumerate(calls) if call == "fsync"]
        assert len(made) == 6
        for number in made:
            assert after_a_power_cut(calls[:number] + calls[number + 1 :], found) != [], "each of them counts"
        removed = [one for one in calls if ".removed" in one[1]]
        if removed:
            others = [one for one in calls if one not in removed]
            assert after_a_power_cut([others[0], *removed, *others[1:]], found) != [], "and their order does"
