"""Which checkpoint is the latest, which is the best, and which ones stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from support.training import small, steps_of


def test_the_latest_is_found_by_looking_and_never_by_a_link(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    assert checkpointer.restore(model=small()) is None
    for step in (1, 2, 3):
        checkpointer.save(step, model=small(step))
    assert (directory / "latest").readlink() == Path("step-0000000003-000003")
    first = next(iter(checkpointer.entries())).path
    for target in (first.name, "nowhere", "/etc"):
        (directory / "latest").unlink()
        (directory / "latest").symlink_to(target)
        model = small()
        restored = checkpointer.restore(model=model)
        assert restored is not None
        assert (restored.step, model.weight.tolist()) == (3, small(3).weight.tolist())
    (directory / "latest").unlink()
    (directory / "latest").mkdir()
    with pytest.warns(RuntimeWarning, match="is no link, and is left as it is"):
        checkpointer.save(4, model=small(4))
    assert steps_of(checkpointer) == [2, 3, 4]


def test_what_is_not_whole_does_not_exist(directory: Path, tmp_path: Path) -> None:
    checkpointer = Checkpointer(directory, keep=None)
    assert checkpointer.restore(model=small()) is None
    for step in range(1, 10):
        checkpointer.save(step, model=small(step))
    paths = [entry.path for entry in checkpointer.entries()]
    (paths[8] / "manifest.json").unlink()
    text = (paths[7] / "manifest.json").read_bytes()
    (paths[7] / "manifest.json").write_bytes(text[:-9])
    (paths[6] / "manifest.json").write_bytes(
        (paths[6] / "manifest.json").read_bytes().replace(b'"pinned":false', b'"pinned":true')
    )
    (paths[5] / ".metadata").unlink()
    with (paths[4] / "__0_0.distcp").open("ab") as file:
        file.write(b"x")
    (paths[3] / "manifest.json").rename(tmp_path / "manifest.json")
    (paths[3] / "manifest.json").symlink_to(tmp_path / "manifest.json")
    paths[2].rename(tmp_path / paths[2].name)
    paths[2].symlink_to(tmp_path / paths[2].name)
    (directory / "step-0000000011-000011").write_text("a file")
    (directory / "step-12").mkdir()
    assert steps_of(checkpointer) == [1, 2]
    with pytest.warns(RuntimeWarning, match="is not whole, and is passed over") as warned:
        restored = checkpointer.restore(model=small())
    assert restored is not None
    assert restored.step == 2
    assert len(warned) == 8
    checkpointer.save(3, model=small(3))
    assert not paths[8].exists(), "what has no manifest and nothing of others is none any more, and goes"
    assert all(path.exists() for path in paths[3:8]), "what may be mended stays"
    latest = checkpointer.latest()
    assert latest is not None
    assert (latest.step, latest.serial) == (3, 12), "a serial that was used comes not again"


def test_keep_spares_the_best_the_pinned_and_the_newest(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=2, best=("auc", "max", 0.1))
    assert checkpointer.restore(model=small()) is None
    values = [0.5, 0.55, 0.65, float("nan"), 0.7, float("inf"), 0.9, 0.2, 0.3]
    kept = []
    for step, value in enumerate(values, start=1):
        assert checkpointer.is_best({"auc": value}) == (step in (1, 3, 7))
        checkpointer.save(step, model=small(step), metrics={"auc": value}, pin=step == 2)
        kept.append(steps_of(checkpointer))
    # The first is the best until the third, which is better by more than 0.1, and so on.
    assert kept == [
        [1],
        [1, 2],
        [2, 3],
        [2, 3, 4],
        [2, 3, 4, 5],
        [2, 3, 5, 6],
        [2, 6, 7],
        [2, 7, 8],
        [2, 7, 8, 9],
    ]
    assert (directory / "best").readlink() == Path("step-0000000007-000007")
    again = Checkpointer(directory, keep=1, best=("auc", "max", 0.1))
    model = small()
    restored = again.restore(model=model, step="best")
    assert restored is not None
    assert (restored.step, restored.metrics) == (7, {"auc": 0.9})
    assert again.is_best({"auc": torch.tensor(1.01)})
    assert not again.is_best({"auc": 1.0}), "the record survives a restart"
    assert not again.is_best({}), "an evaluation of nothing is never better"
    with pytest.raises(ValueError, match="metrics have no 'auc', by which best is chosen; they have 'loss'"):
        again.is_best({"loss": 1.0})
    again.restore(model=model)
    again.save(10, model=model)
    assert steps_of(again) == [2, 7, 10]
    lower = Checkpointer(directory, best=("loss", "min"))
    assert lower.is_best({"loss": 3.0}), "the record of another metric says nothing"
    with pytest.raises(ValueError, match="is_best needs best="):
        Checkpointer(directory).is_best({"auc": 1.0})


def test_the_record_outlives_its_checkpoint(directory: Path) -> None:
    checkpointer = Checkpointer(directory, best=("auc", "max"))
    assert checkpointer.restore(model=small()) is None
    checkpointer.save(1, model=small(), metrics={"auc": 0.9})
    checkpointer.save(2, model=small(), metrics={"auc": 0.1})
    best = checkpointer.best_entry()
    assert best is not None
    for path in best.path.iterdir():
        path.unlink()
    best.path.rmdir()
    assert not Checkpointer(directory, best=("auc", "max")).is_best({"auc": 0.8})


def test_to_look_at_an_earlier_one_is_not_to_go_back(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=None)
    for step in (1, 2, 3):
        checkpointer.save(step, model=small(step))
    teacher = small()
    restored = checkpointer.restore(model=teacher, step=1, partial=True)
    assert restored is not None
    assert teacher.weight.tolist() == small(1).weight.tolist()
    checkpointer.save(4, model=small(4))
    assert steps_of(checkpointer) == [1, 2, 3, 4]
    other = Checkpointer(directory, keep=None)
    other.restore(model=teacher, step=2, partial=True)
    other.save(5, model=small(5))
    assert steps_of(other) == [1, 2, 5], "a job that begins with a part of it goes on from there"


def test_going_back_begins_another_timeline_which_is_the_latest(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=None, best=("auc", "max"))
    assert checkpointer.restore(model=small()) is None
    for step in (1, 2, 3, 4, 5, 6):
        metrics = {"auc": 0.9 if step == 5 else 0.1}
        checkpointer.save(step, model=small(step), metrics=metrics, pin=step == 4)
    model = small()
    again = Checkpointer(directory, keep=None)
    restored = again.restore(model=model, step=2)
    assert restored is not None
    assert steps_of(again) == [1, 2, 3, 4, 5, 6], "to look at the past removes nothing"
    again.save(3, model=small(3.5))
    assert steps_of(again) == [1, 2, 4, 5, 3], "the pinned and the best one stay"
    restored = Checkpointer(directory).restore(model=model)
    assert restored is not None
    assert model.weight.tolist() == small(3.5).weight.tolist(), "what was saved last, whatever its step"
    again.restore(model=model, step=2)
    again.save(9, model=small(9))
    assert steps_of(again) == [1, 2, 4, 5, 9], "the pinned and the best one stay"
    again.save(9, model=small(9.5))
    restored = again.restore(model=model)
    assert restored is not None
    assert model.weight.tolist() == small(9.5).weight.tolist()
    assert steps_of(again) == [1, 2, 4, 5, 9]
    with pytest.raises(fr.StateError, match=r"no checkpoint of step 3 in .*; steps .* first: 9, 5, 4, 2, 1"):
        again.restore(model=model, step=3)
    with pytest.raises(fr.StateError, match="no best checkpoint"):
        Checkpointer(directory / "other").restore(model=model, step="best")


def test_a_second_checkpointer_of_a_process_restores_and_does_not_save_beside_the_first(
    directory: Path,
) -> None:
    rolling, milestones = Checkpointer(directory, keep=2), Checkpointer(directory, keep=None)
    for step in (1, 2):
        rolling.save(step, model=small(step))
    refused = (
        r"step 1 that another Checkpointer of this process saved after this job had begun .*pin=True, or name"
    )
    with pytest.raises(fr.StateError, match=refused):
        milestones.save(3, model=small(3))
    assert milestones.restore(model=small()) is not None
    rolling.save(3, model=small(3), pin=True)
    for step in (4, 5, 6):
        rolling.save(step, model=small(step))
    assert steps_of(milestones) == [3, 5, 6], "what the advice keeps"
    rolling.close()
    assert milestones.restore(model=small()) is not None
    milestones.save(7, model=small(7))
    assert steps_of(milestones) == [3, 5, 6, 7]


def test_whoever_counts_steps_from_0_again_is_refused_and_removes_nothing(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=None)
    for step in (10, 20, 30, 30):
        checkpointer.save(step, model=small(step))
    found = (
        r"step 20 is saved after step 30, .*batch\.step starts over.*Restored\.step.*restore\(step=\.\.\.\)"
    )
    again = Checkpointer(directory, keep=None)
    again.restore(model=small())
    for one in (checkpointer, again):
        before = sorted(directory.iterdir())
        with pytest.raises(fr.StateError, match=found):
            one.save(20, model=small(40))
        one.save(20, model=small(40), wait=False)
        with pytest.raises(fr.StateError, match=found):
            one.wait()
        assert sorted(directory.iterdir()) == before
    again.save(40, model=small(40), pin=True)
    again.restore(model=small(), step=10)
    with pytest.raises(fr.StateError, match="step 9 is saved after step 10"):
        again.save(9, model=small())
    again.save(15, model=small(60))
    again.save(20, model=small(70))
    assert steps_of(again) == [10, 40, 15, 20], "who restores an earlier one goes back on purpose"


def test_the_best_of_a_timeline_that_was_left_stands_in_the_way_of_none(directory: Path) -> None:
    checkpointer = Checkpointer(directory, keep=1, best=("auc", "max"))
    for step, auc in ((1, 0.5), (2, 0.4), (3, 0.9)):
        checkpointer.save(step, model=small(step), metrics={"auc": auc}, pin=step == 2)
    again = Checkpointer(directory, keep=1, best=("auc", "max"))
    assert not again.is_best({"auc": 0.7})
    again.restore(model=small(), step=2)
    again.save(3, model=small(3.5), metrics={"auc": 0.45})
    assert steps_of(again) == [2, 3, 3], "the best one stays until there is another"
    assert again.is_best({"auc": 0.7}), "the record is 0.5 on the way that goes on from step 2"
    again.save(4, model=small(4), metrics={"auc": 0.7})
    assert not again.is_best({"auc": 0.6})
    assert steps_of(again) == [2, 4]
    other = Checkpointer(directory, keep=1, best=("auc", "max"))
    restored = other.restore(model=small(), step="best")
    assert restored is not None
    assert (restored.step, other.is_best({"auc": 0.6})) == (4, False)


def test_nobody_starts_over_by_accident(directory: Path) -> None:
    Checkpointer(directory).save(5, model=small(5))
    fresh = Checkpointer(directory)
    with pytest.raises(fr.StateError, match=r"has checkpoints up to step 5, and none of them was restored"):
        fresh.save(1, model=small(1))
    assert steps_of(fresh) == [5]
    fresh.restore(model=small())
    fresh.save(6, model=small(6))
    assert steps_of(fresh) == [5, 6]


def test_what_can_t_be_removed_is_a_warning(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointer = Checkpointer(directory, keep=1)
    checkpointer.save(1, model=small(1))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no")

    for name in ("rename", "unlink"):
        with monkeypatch.context() as patch:
            kept = Path.rename

            def rename(path: Path, target: Path, kept: Any = kept) -> Any:
                return refuse() if ".removed" in str(target) else kept(path, target)

            patch.setattr(Path, name, rename if name == "rename" else refuse)
            with pytest.warns(RuntimeWarning, match="can't be removed"):
                checkpointer.save(2 if name == "rename" else 3, model=small())
    assert steps_of(checkpointer) == [3]
