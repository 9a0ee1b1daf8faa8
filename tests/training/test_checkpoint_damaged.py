"""Checkpoints that are damaged or can't be read now: the newest whole one is named, none is passed over."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from fastresume import files
from fastresume.checkpoint import Checkpointer, CheckpointError, Entry, manifest
from fastresume.checkpoint.directory import CheckpointDirectory
from support.training import small, steps_of


def test_damage_is_found_before_torch_reads_anything(directory: Path, tmp_path: Path) -> None:
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, model=small(1))
    checkpointer.save(2, model=small(2))
    entry = checkpointer.latest()
    assert entry is not None
    for name in entry.manifest.files:
        good = (entry.path / name).read_bytes()
        for place in (0, len(good) // 2, len(good) - 1):
            (entry.path / name).write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            model = small(7)
            found = (
                rf"{re.escape(name)} is damaged: it has {len(good)} bytes of .*: restore\(step=1\) takes it"
            )
            with pytest.raises(fr.StateError, match=found):
                checkpointer.restore(model=model)
            assert model.weight.tolist() == small(7).weight.tolist(), "nothing was changed"
        (entry.path / name).write_bytes(good)
    marker = tmp_path / "owned"
    bad = b"cos\nmkdir\n(S'" + os.fsencode(marker) + b"'\ntR."
    (entry.path / ".metadata").write_bytes(bad.ljust(entry.manifest.files[".metadata"].size, b"#"))
    with pytest.raises(fr.StateError, match=r"\.metadata is damaged"):
        checkpointer.restore(model=small())
    assert not marker.exists(), "what is pickled was not loaded"
    restored = checkpointer.restore(model=small(), step=1)
    assert restored is not None
    assert restored.step == 1, "the others are there still"


def test_the_newest_checkpoint_that_is_whole_is_named_where_a_newer_one_is_damaged(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=None)
    for step in (1, 2, 3, 3):
        checkpointer.save(step, model=small(step), pin=True)

    def damage(path: Path) -> None:
        file = path / "__0_0.distcp"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    paths = [entry.path for entry in checkpointer.entries()]
    for place, way_on in (
        (3, rf"of step 3: remove {paths[3].name}, and restore\(step=3\) takes it"),
        (2, r"of step 2: restore\(step=2\) takes it"),
        (1, r"of step 1: restore\(step=1\) takes it"),
        (0, "no other one there is whole"),
    ):
        damage(paths[place])
        with pytest.raises(fr.StateError, match=rf"{paths[3].name}/\S+ is damaged: .*{way_on}"):
            checkpointer.restore(model=small())
    assert len(steps_of(checkpointer)) == 4, "nothing is removed"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "a/b", "manifest.json", "", "\x00"])
def test_a_manifest_names_no_file_outside_of_its_directory(directory: Path, name: str) -> None:
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, model=small(1))
    entry = checkpointer.latest()
    assert entry is not None
    content = manifest.Manifest(**{**vars(entry.manifest), "files": {name: files.Digest(0, "")}})
    with pytest.raises(fr.StateError, match="which is no file of its directory"):
        manifest.Manifest.from_json(content.to_json())
    (entry.path / "manifest.json").write_bytes(content.to_json())
    assert steps_of(checkpointer) == []


def test_a_job_does_not_begin_anew_because_of_damage(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    for step in (1, 2):
        checkpointer.save(step, model=small(step))
    paths = [entry.path for entry in checkpointer.entries()]
    for path in paths:
        (path / ".metadata").unlink()
    message = rf"no checkpoint of .* is whole; damaged: {paths[0].name}, {paths[1].name}; remove them"
    for step in (None, 1, "best"):
        with pytest.warns(RuntimeWarning, match="is not whole"), pytest.raises(fr.StateError, match=message):
            Checkpointer(directory).restore(model=small(), step=step)
    before = sorted(directory.iterdir())
    for wait in (True, False):
        with pytest.raises(fr.StateError, match=message), Checkpointer(directory) as hasty:
            hasty.save(3, model=small(), wait=wait)
    assert sorted(directory.iterdir()) == before, "what may be mended is there still"
    checkpointer.save(3, model=small(3))
    assert steps_of(checkpointer) == [3], "a job that goes on saves what it has, whatever became of the rest"
    with pytest.raises(fr.StateError, match=r"up to step 3, and none of them was restored: call restore\(\)"):
        Checkpointer(directory).save(3, model=small())
    paths.append(checkpointer.entries()[0].path)
    for path in paths:
        (path / "manifest.json").unlink()
    with pytest.warns(RuntimeWarning, match="is not whole"):
        assert Checkpointer(directory).restore(model=small()) is None, "without a manifest it never was one"
    unclear: Any = "bset"
    with pytest.raises(
        ValueError, match="step must be a number, 'best', or None for the latest, found 'bset'"
    ):
        Checkpointer(directory / "other").restore(model=small(), step=unclear)


def test_what_can_not_be_read_now_is_not_passed_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = Checkpointer(directory, keep=1)
    for step in (1, 2):
        checkpointer.save(step, model=small(step), pin=True)
    read, commit, unreadable = Path.read_bytes, CheckpointDirectory.commit, [checkpointer.entries()[-1].path]

    def failing(path: Path) -> bytes:
        if path.parent in unreadable:
            raise OSError(5, "Input/output error", str(path))
        return read(path)

    def committed(*given: Any) -> Entry:
        entry = commit(*given)
        unreadable.append(entry.path)
        return entry

    monkeypatch.setattr(Path, "read_bytes", failing)
    for call in (
        lambda: checkpointer.restore(model=small()),
        lambda: Checkpointer(directory),
        lambda: checkpointer.save(3, model=small(3)),
    ):
        with pytest.raises(CheckpointError, match=r"OSError: \[Errno 5\] .*step-0000000002-000002/manifest"):
            call()
    unreadable.clear()
    monkeypatch.setattr(CheckpointDirectory, "commit", committed)
    with pytest.warns(
        RuntimeWarning, match=r"nothing older than .*step-0000000003-000003 is removed: .*Errno 5"
    ):
        checkpointer.save(3, model=small(3))
    monkeypatch.undo()
    restored = checkpointer.restore(model=small())
    assert restored is not None
    assert (restored.step, steps_of(checkpointer)) == (3, [1, 2, 3])


def test_a_file_in_which_the_system_can_not_go_to_a_place_is_no_wrong_value(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path)) as raised, files.naming(tmp_path):
        raise io.UnsupportedOperation("File or stream is not seekable.")
    assert not isinstance(raised.value, ValueError), "which a restore would hand on as it came"
