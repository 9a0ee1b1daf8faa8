"""Checkpoints that are damaged, of another job, or asked for what means nothing."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fastresume as fr
from fastresume.checkpoint import Checkpointer, CheckpointError, Randomness
from support import training
from support.each_of import each_of
from support.strategies import Dataset
from support.training import small, steps_of


def test_nothing_is_begun_anew_where_checkpoints_were_or_are_below(directory: Path, tmp_path: Path) -> None:
    checkpointer = Checkpointer(directory)
    assert checkpointer.restore(model=small()) is None
    directory.rmdir()
    gone = rf"the directory of checkpoints is gone, .*: '{directory}'"
    for call in (
        lambda: checkpointer.restore(model=small()),
        lambda: checkpointer.restore(model=small(), step=1),
        lambda: checkpointer.save(1, model=small()),
    ):
        with pytest.raises(CheckpointError, match=gone):
            call()
    with pytest.raises(FileNotFoundError, match=gone):
        checkpointer.entries()

    def emptied(checkpointer: Checkpointer) -> None:
        for entry in checkpointer.entries():
            shutil.rmtree(entry.path)
        with pytest.raises(
            fr.StateError, match=rf"{directory} has no checkpoint any more: .*; to start over"
        ):
            checkpointer.restore(model=small())

    again = Checkpointer(directory)
    again.save(1, model=small())
    emptied(again)
    Checkpointer(directory).save(1, model=small())
    emptied(Checkpointer(directory))
    assert Checkpointer(directory).restore(model=small()) is None, "who removes them all begins anew"

    for run in ("runs/a", "runs/b/checkpoints"):
        Checkpointer(tmp_path / run).save(1, model=small())
    (tmp_path / "runs/unreadable").mkdir(mode=0)
    (tmp_path / "runs/file").write_text("")
    for parent, names in (("runs", "a, b/checkpoints"), ("runs/b", "checkpoints")):
        found = (
            rf"{tmp_path / parent} has no checkpoint, but directories in it have: {names}; name one of them"
        )
        with pytest.raises(fr.StateError, match=found):
            Checkpointer(tmp_path / parent).restore(model=small())
    (tmp_path / "runs/unreadable").chmod(0o700)


def test_a_checkpoint_that_was_renamed_or_copied_is_named_and_nothing_starts_over(
    directory: Path, tmp_path: Path
) -> None:
    Checkpointer(directory).save(1, model=small())
    (saved,) = (entry.path for entry in Checkpointer(directory).entries())
    copies = tmp_path / "copies"
    shutil.copytree(saved, copies / "step-1000")
    saved.rename(directory / "good")
    for place, name in ((directory, "good"), (copies, "step-1000")):
        told = rf"{place} has no checkpoint by its name, but {name} is .* must be called {saved.name}: rename"
        with pytest.raises(fr.StateError, match=told):
            Checkpointer(place).restore(model=small())
        with pytest.raises(fr.StateError, match=rf"no checkpoint of step 7 .*; {name} is .* {saved.name}"):
            Checkpointer(place).restore(model=small(), step=7)
        with pytest.raises(ValueError, match=f"itself a checkpoint: rename it to {saved.name}, name its"):
            Checkpointer(place / name)
        (place / name).rename(place / saved.name)
        assert Checkpointer(place).restore(model=small(), required=True) is not None
    shutil.copytree(directory / saved.name, directory / "backup")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Checkpointer(directory).restore(model=small()) is not None, "a copy beside it is right"


def test_a_manifest_that_does_not_say_who_wrote_it_is_whole(directory: Path) -> None:
    Checkpointer(directory).save(1, model=small(1))
    place = Checkpointer(directory).entries()[0].path / "manifest.json"
    found = {name: value for name, value in json.loads(place.read_bytes()).items() if name != "writer"}
    del found["check"]
    text = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    found["check"] = hashlib.sha256(text).hexdigest()
    place.write_text(json.dumps(found))
    checkpointer = Checkpointer(directory)
    assert checkpointer.restore(model=small()) is not None
    assert checkpointer.entries()[0].manifest.writer is None


@pytest.mark.filterwarnings("ignore:the job resumes from step")  # which test_config.py tests
def test_another_job_is_refused_with_both_values_unless_it_is_allowed(data: Dataset, directory: Path) -> None:
    job = training.job(data)
    checkpointer = Checkpointer(directory, accumulation=4)
    list(job.steps(3))
    checkpointer.save(3, **job.parts())

    def other(**changes: Any) -> dict[str, Any]:
        return {**training.job(data, seed=1).parts(), **changes}

    def model(width: int = 8, more: bool = False) -> dict[str, Any]:
        net = training.Net(width)
        if more:
            net.more = nn.Linear(1, 1)
            del net.outer.bias
            net.outer.register_parameter("bias", None)
        return other(model=net, optimizer=torch.optim.AdamW(net.parameters()), scheduler=job.scheduler)

    def sgd() -> dict[str, Any]:
        found = other()
        return {**found, "optimizer": torch.optim.SGD(found["model"].parameters(), lr=0.1)}

    files = list(data.files)
    fewer = fr.ParquetDataset(
        files[:1], batch_size=4, shuffle=True, seed=3, columns=["*", "!x_*", fr.stack("x_*", name="x")]
    )
    seeded = fr.ParquetDataset(
        files, batch_size=4, shuffle=True, seed=4, columns=["*", "!x_*", fr.stack("x_*", name="x")]
    )
    larger = fr.ParquetDataset(
        files, batch_size=8, shuffle=True, seed=3, columns=["*", "!x_*", fr.stack("x_*", name="x")]
    )
    halving = torch.optim.lr_scheduler.LinearLR(torch.optim.AdamW(job.model.parameters()))
    cases: list[tuple[str, Callable[[], dict[str, Any]], int, str]] = [
        ("model", lambda: model(width=9), 4, r"'inner.weight' had the shape \[8, 2\], and has \[9, 2\]"),
        (
            "model",
            lambda: model(more=True),
            4,
            r"had no 'more.bias', 'more.weight'; it had 'outer.bias', which is not",
        ),
        ("optimizer", sgd, 4, "optimizer was AdamW, and is SGD"),
        ("scheduler", lambda: other(scheduler=halving), 4, "scheduler was MultiStepLR, and is LinearLR"),
        ("accumulation", other, 2, "accumulation was 4, and is 2"),
        ("global_batch", lambda: other(loader=larger), 4, "global_batch was 4, and is 8"),
        ("dataset", lambda: other(loader=fewer), 4, "dataset"),
        ("order", lambda: other(loader=seeded), 4, "seed"),
    ]
    for kind, make, accumulation, message in cases:
        given = make()
        before = [value.clone() for value in given["model"].state_dict().values()]
        one = Checkpointer(directory, accumulation=accumulation)
        with pytest.raises(fr.StateError, match=message) as refused:
            one.restore(**given)
        assert re.search(rf"allow={{'{kind}'}}", str(refused.value)), "it says how to go on"
        assert training.equal(list(given["model"].state_dict().values()), before), "nothing was changed"
        if kind == "model":
            with pytest.warns(UserWarning, match="tensors of the model, and left the others"):
                restored = one.restore(model=given["model"], partial=True, allow={kind})
        else:
            restored = one.restore(**given, allow={kind})
        assert restored is not None
        if kind in ("dataset", "order"):
            assert fr.Cursor.from_state(given["loader"].state_dict()).consumed_rows == 0, (
                "the data begin anew"
            )
        elif kind != "model":
            assert fr.Cursor.from_state(given["loader"].state_dict()).consumed_rows == 12
        assert torch.equal(given["model"].state_dict()["norm.num_batches_tracked"], torch.tensor(3))


@pytest.mark.parametrize("kind", ["batch", "cursor", "state"])
def test_the_global_batch_is_compared_whatever_the_place_was_saved_from(
    data: Dataset, directory: Path, kind: str
) -> None:
    def made(batch_size: int) -> fr.ParquetDataset:
        return fr.ParquetDataset(list(data.files), batch_size=batch_size, columns=["y"])

    batch = next(iter(made(4)))
    place = {"batch": batch, "cursor": batch.cursor, "state": batch.state_dict()}[kind]
    Checkpointer(directory).save(1, model=small(), loader=place)
    with pytest.raises(fr.StateError, match="global_batch was 4, and is 8"):
        Checkpointer(directory).restore(model=small(), loader=made(8))
    assert Checkpointer(directory).restore(model=small(), loader=made(4)) is not None


def test_a_job_that_saved_its_place_in_the_data_saves_it_ever_after(data: Dataset, directory: Path) -> None:
    dataset = fr.ParquetDataset(list(data.files), batch_size=4, columns=["y"])
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, model=small())
    checkpointer.save(2, model=small(), loader=next(iter(dataset)))
    resumed = Checkpointer(directory)
    resumed.restore(model=small(), loader=dataset)
    for one in (checkpointer, resumed):
        with pytest.raises(ValueError, match=r"step 3 is saved without loader=.*Pass loader="):
            one.save(3, model=small())
    assert [entry.step for entry in resumed.entries()] == [1, 2]
    resumed.save(3, model=small(), loader=dataset)


def test_a_checkpoint_that_is_required_is_missed(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    with pytest.raises(fr.StateError, match=rf"{directory} has no checkpoint, and restore\(required=True\)"):
        checkpointer.restore(model=small(), required=True)
    checkpointer.save(1, model=small())
    assert checkpointer.restore(model=small(), required=True) is not None


def test_parts_that_are_not_passed_are_missed(data: Dataset, directory: Path) -> None:
    job = training.job(data)
    checkpointer = Checkpointer(directory)
    ema = small(2.0)
    list(job.steps(3))
    checkpointer.save(3, **job.parts(), extra={"ema": ema, "note": "n"})
    parts = job.parts()
    with pytest.raises(
        fr.StateError, match=r"has extra\.ema, scheduler, which restore was not given; partial=True"
    ):
        checkpointer.restore(**{**parts, "scheduler": None})
    with pytest.raises(
        fr.StateError,
        match=r"has no extra\.other; it has extra\.ema, loader, model, optimizer.*; leave what is new out of",
    ):
        checkpointer.restore(**parts, extra={"ema": ema, "other": small()})
    filled = small()
    restored = checkpointer.restore(**parts, extra={"ema": filled})
    assert restored is not None
    assert restored.extra == {"note": "n"}
    assert filled.weight.tolist() == ema.weight.tolist()
    before = Randomness.now().to_json()
    other = training.job(data, seed=1)
    before = Randomness.now().to_json()
    checkpointer.restore(model=other.model, partial=True)
    assert training.equal(other.weights(), job.weights())
    assert Randomness.now().to_json() == before, "what is restored in part moves no generator"


class Kept:
    """Something with a state."""

    def __init__(self, state: dict[Any, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[Any, Any]:
        return self.state

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        self.state = state


def test_states_come_back_whole_or_are_refused(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    state = {"a": 1, "b": {"c": [torch.ones(2), torch.zeros(1)], "d": (1, "x"), "e": None}, "f": [1, 2]}
    checkpointer.save(1, extra={"kept": Kept(state)})
    found = Kept({"a": 0, "b": {"c": [torch.zeros(2), torch.ones(1)], "d": (), "e": 5}, "f": []})
    assert checkpointer.restore(extra={"kept": found}) is not None
    assert str(found.state) == str(state)
    for other, message in [
        ({**state, "b": {**state["b"], "c": [torch.ones(2)]}}, r"it had 'extra\.kept\.b\.c\.1'"),
        ({**state, "b": {**state["b"], "g": 1}}, r"it had no 'extra\.kept\.b\.g'"),
        (
            {**state, "b": {**state["b"], "c": [torch.ones(3), torch.zeros(1)]}},
            r"saved torch.Size\(\[2\]\) and current: torch.Size\(\[3\]\)",
        ),
    ]:
        found = Kept(other)
        with pytest.raises(fr.StateError, match=message):
            checkpointer.restore(extra={"kept": found})
        assert found.state is other


def test_arguments_that_mean_nothing_are_refused(data: Dataset, directory: Path) -> None:
    model = small()
    adam = torch.optim.AdamW(model.parameters())
    for changes, kind, message in [
        ({"model": 3}, TypeError, "model must be a torch.nn.Module, found int"),
        ({"optimizer": adam}, ValueError, "pass the model with it"),
        ({"model": small(), "optimizer": adam}, ValueError, "none of the model's"),
        (
            {"model": model, "optimizer": [3]},
            TypeError,
            "optimizer must be a torch.optim.Optimizer, or have state_dict and load_state_dict, found int",
        ),
        ({"scheduler": 3}, TypeError, "scheduler must have state_dict and load_state_dict, found int"),
        ({"loader": {}}, fr.StateError, "no key 'fastresume'"),
        ({"extra": {"a": {"b": [1, (2,)]}}}, TypeError, r"extra\['a'\]\['b'\]\[1\] must be a plain value"),
        ({"extra": {1: 2}}, TypeError, "extra has the key 1: its names must be texts"),
        ({"extra": [1]}, TypeError, "extra must be a mapping from names to values, found list"),
        ({"extra": {"a": {1: 2}}}, TypeError, r"extra\['a'\] has the key 1"),
        ({"extra": {"a": float("nan")}}, ValueError, r"extra\['a'\] is nan: JSON has no such number"),
        ({"metrics": {"auc": "high"}}, TypeError, r"metrics\['auc'\] must be a number, found str"),
        ({"step": -1}, ValueError, "step"),
        ({"step": 1.5}, TypeError, "step"),
    ]:
        for wait in (True, False):
            with pytest.raises(kind, match=message), Checkpointer(directory) as checkpointer:
                checkpointer.save(**{"step": 1, "wait": wait, **changes})
    assert list(directory.iterdir()) == []
    for changes, kind in [
        ({"keep": 0}, ValueError),
        ({"best": ("a", "up")}, ValueError),
        ({"best": 3}, TypeError),
        ({"best": ("a", "max", -1.0)}, ValueError),
        ({"accumulation": 0}, ValueError),
        ({"timeout_seconds": 0}, ValueError),
    ]:
        with pytest.raises(kind):
            Checkpointer(directory, **changes)
    with pytest.raises(ValueError, match=r"allow takes model, optimizer, .*; found speed"):
        Checkpointer(directory).restore(model=model, allow={"speed"})
    checkpointer = Checkpointer(directory)
    checkpointer.save(1, loader=training.job(data).loader)
    with pytest.raises(TypeError, match="loader must have load_state_dict to be restored, found Batch"):
        checkpointer.restore(loader=next(iter(fr.ParquetDataset(data.files, batch_size=4))))
    (directory / "file").write_text("")
    with pytest.raises(CheckpointError, match="open: "):
        Checkpointer(directory / "file" / "below")


def test_data_that_begin_anew_or_tell_no_place_are_refused(data: Dataset, directory: Path) -> None:
    again = fr.ParquetDataset(data.files, batch_size=4, on_iter="restart")
    checkpointer = Checkpointer(directory)
    for loader in (again, fr.Loader(again)):
        with pytest.raises(ValueError, match=r'on_iter="restart": .* no place in it is resumed'):
            checkpointer.save(1, loader=loader)
        with pytest.raises(ValueError, match=r'on_iter="restart": .* no place in it is resumed'):
            checkpointer.restore(loader=loader)
    dataset = fr.ParquetDataset(data.files, batch_size=4)
    drawn: Any = torch.utils.data.DataLoader(dataset, batch_size=None)
    found = r"under a DataLoader pass batch\.state_dict\(\) to save, and the dataset to restore"
    with pytest.raises(TypeError, match=found):
        checkpointer.save(1, loader=drawn)
    with pytest.raises(TypeError, match=found):
        checkpointer.restore(loader=drawn)
    checkpointer.save(1, loader=next(iter(drawn)).state_dict())
    assert checkpointer.restore(loader=dataset) is not None
    assert dataset.batches_left == len(list(dataset))


def test_ranks_that_know_of_each_other_by_the_environment_alone_do_not_save_each_by_itself(
    data: Dataset, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = Checkpointer(directory)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    found = "told the dataset of 4 ranks, but the Checkpointer knows of 1: .* call init_process_group before"
    loader = fr.Loader(fr.ParquetDataset(data.files, batch_size=4))
    with pytest.raises(ValueError, match=found):
        checkpointer.save(1, loader=loader)
    with pytest.raises(ValueError, match=found):
        checkpointer.restore(loader=loader)
    named = fr.ParquetDataset(data.files, batch_size=4, world=(1, 4))
    checkpointer.save(1, loader=named)
    assert checkpointer.restore(loader=named) is not None, "whoever names ranks knows what he does"


def test_the_best_says_which_way_and_is_among_the_metrics(directory: Path) -> None:
    unclear: Any
    for unclear in ("loss", ("loss",)):
        with pytest.raises(ValueError, match=r"\('loss', 'min'\) or \('loss', 'max'\)"):
            Checkpointer(directory, best=unclear)
    unclear = ("loss", "min", "x")
    with pytest.raises(TypeError, match="min_delta of best must be a number, found 'x'"):
        Checkpointer(directory, best=unclear)
    checkpointer = Checkpointer(directory, best=("loss", "min"))
    with pytest.raises(ValueError, match="no 'loss', by which best is chosen; they have 'auc', 'los'"):
        checkpointer.save(1, model=small(), metrics={"los": 0.3, "auc": 1.0})
    for metrics in (None, {}, {"loss": float("nan")}):
        checkpointer.save(1, model=small(), metrics=metrics)
    assert checkpointer.best_entry() is None


def test_a_directory_that_can_hold_no_checkpoints_is_refused(directory: Path) -> None:
    Checkpointer(directory).save(1, model=small())
    for inside in ("latest", "step-0000000001-000001"):
        with pytest.raises(ValueError, match="is itself a checkpoint: name its parent, and restore"):
            Checkpointer(directory / inside)
    for address in ("s3://bucket/checkpoints", "file:///checkpoints"):
        with pytest.raises(
            ValueError, match=f"directory must be a local path, found the address '{address}'"
        ):
            Checkpointer(address)
    with pytest.raises(ValueError, match="directory is an empty path"):
        Checkpointer("")


def test_no_message_is_longer_than_anybody_reads(directory: Path) -> None:
    name = "n" * 300_000
    checkpointer = Checkpointer(directory, best=("m" * 300_000, "max"))
    kept, many = Kept({name: torch.ones(1)}), {f"{name}{number}": small() for number in range(30)}
    calls: list[Callable[[], object]] = [
        lambda: checkpointer.save(1, extra={name: object()}),
        lambda: checkpointer.save(1, extra={"a": name * 9 + "\ud800"}, metrics={name: 1.0}),
        lambda: checkpointer.save(1, extra=many, metrics={name: "x"}),
        lambda: checkpointer.restore(model=small(), step=name),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError, fr.FastresumeError)) as refused:
            call()
        assert len(str(refused.value)) < 5000
    Checkpointer(directory).save(1, extra={"kept": kept, "ema": small()})
    for extra in ({"kept": Kept({"b": torch.ones(1)}), "ema": small()}, {**many}, {}):
        with pytest.raises(fr.StateError) as refused:
            checkpointer.restore(extra=extra)
        assert len(str(refused.value)) < 5000


def test_a_closed_one_saves_nothing(directory: Path) -> None:
    with Checkpointer(directory) as checkpointer:
        checkpointer.save(1, model=small())
    checkpointer.close()
    for wait in (True, False):
        with pytest.raises(ValueError, match=r"is closed, and saves nothing more: .*restore\(\) works"):
            checkpointer.save(2, model=small(), wait=wait)
    assert steps_of(checkpointer) == [1]
    assert checkpointer.restore(model=small()) is not None, "to read needs nothing open"


def test_what_was_made_before_the_process_group_does_not_act_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = Checkpointer(directory)
    found = "made before init_process_group, and used after it with 2 ranks: make it after"
    with fr.training.Preemption() as preemption:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        with pytest.raises(fr.FastresumeError, match=found):
            checkpointer.save(1, model=small())
        with pytest.raises(fr.FastresumeError, match=found):
            checkpointer.restore(model=small())
        with pytest.raises(fr.FastresumeError, match=found):
            preemption.is_due()
        monkeypatch.undo()
    assert steps_of(checkpointer) == []


def test_a_wrapper_whose_parameters_torch_does_not_find_is_named_with_what_to_write(tmp_path: Path) -> None:
    of_torchrec = type("DistributedModelParallel", (torch.nn.Linear,), {"__module__": "torchrec.distributed"})
    with pytest.raises(TypeError, match=r"torchrec's DistributedModelParallel .* save model.state_dict\(\)"):
        Checkpointer(tmp_path).save(1, model=of_torchrec(1, 1))


@each_of(
    ("call", "error", "said"),
    [
        (lambda place: Checkpointer(None), TypeError, "directory must be"),  # type: ignore[arg-type]
        (lambda place: Checkpointer(place / "file"), ValueError, "file is a file, not a directory"),
        (
            lambda place: Checkpointer(place / "new").save(1, metrics=0.5),  # type: ignore[arg-type]
            TypeError,
            "metrics must be a dict of numbers by name, found 0.5",
        ),
        (
            lambda place: Checkpointer(place / "new").restore(nn.Linear(3, 1)),  # type: ignore[misc]
            TypeError,
            r"^checkpointer.restore takes nothing by position, found .* checkpointer.restore\(model=",
        ),
        (
            lambda place: Checkpointer(place / "new").save(1, models=nn.Linear(3, 1)),  # type: ignore[call-arg]
            TypeError,
            r"^checkpointer.save has no argument models=: did you mean model=",
        ),
    ],
)
def test_arguments_of_a_checkpointer_are_named_in_its_errors(
    tmp_path: Path, call: Callable[[Path], Any], error: type[Exception], said: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(error, match=said):
        call(tmp_path)
