"""Mistakes with what a training loop is made of: each is refused in words that say what to write."""

from __future__ import annotations

import argparse
import copy
import pickle
import random
import re
import signal
import warnings
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.checkpoint.directory import CheckpointDirectory
from fastresume.training import Evaluator, Preemption, accumulate
from support.each_of import each_of
from support.refusals import each_refused
from support.strategies import Dataset
from support.training import small

MINUTE: Any = timedelta(minutes=1)


@dataclass
class Settings:
    """What a job may keep in `extra`."""

    rate: float = 0.1


def test_what_no_checkpointer_can_be_made_of_or_save_says_what_to_write(
    directory: Path, small_dataset: Dataset
) -> None:
    made: Any = Checkpointer(directory)
    dataset = fr.ParquetDataset(small_dataset.files, batch_size=4, world=(0, 1))
    of: Any = Checkpointer
    with torch.device("meta"):
        empty = nn.Linear(3, 1)
    each_refused(
        (
            (lambda: made.save(1), ValueError, r"step 1 has nothing to save: write save\(step, model=model"),
            (lambda: made.save(1, metrics={"l": 0.5}), ValueError, "nothing to save"),
            (
                lambda: made.save(1, extra={"a": 1}, metrics={"l": "0.5"}),
                TypeError,
                r"write .*float\(value\)",
            ),
            (lambda: made.save(1, extra={"a": 1}, metrics={"l": b"1"}), TypeError, "found bytes"),
            (
                lambda: made.save(1, model=empty),
                ValueError,
                r"'weight' .* meta device.* write model\.to_empty",
            ),
            (
                lambda: made.restore(model=empty),
                ValueError,
                r"'weight' .* meta device.* write model\.to_empty",
            ),
            (
                lambda: made.save(1, loader=iter(dataset)),
                TypeError,
                "an iterator over it: write loader=loader",
            ),
            (
                lambda: made.save(1, loader=[dataset]),
                TypeError,
                r"found 1 in a list: .* extra=\{'name': loader",
            ),
            (
                lambda: made.save(1, extra={"t": {"a": torch.ones(1)}}),
                TypeError,
                r"extra\['t'\]\['a'\] .*found Tensor: a tensor, .* is taken only at the top, as extra=",
            ),
            (
                lambda: made.restore(model=small(), strict=False),
                TypeError,
                r"restore has no argument strict=: write allow=\{'model'\}, which takes what fits",
            ),
            *(
                (lambda value=value: made.save(1, extra={"a": value}), kind, way)
                for value, kind, way in (
                    (
                        float("inf"),
                        ValueError,
                        r"is inf: .*write None, or str\(value\), which float\(\) reads",
                    ),
                    (np.float32(1), TypeError, r"found float32: write value\.tolist\(\)$"),
                    (np.bool_(True), TypeError, r"write value\.tolist\(\)$"),
                    (np.arange(3), TypeError, r"found ndarray: write value\.tolist\(\)$"),
                    (MappingProxyType({"b": 1}), TypeError, r"write dict\(value\)$"),
                    (torch.Generator(), TypeError, r"found Generator: write value\.get_state\(\)"),
                    (Path("a"), TypeError, r"write str\(value\)$"),
                    ((1, 2), TypeError, r"found tuple: write list\(value\)$"),
                    (MINUTE, TypeError, "found timedelta$"),
                    (dict, TypeError, r"found the class dict: call it, as dict\(\.\.\.\)"),
                    (nn.Linear, TypeError, r"found the class Linear: call it, as Linear\(\.\.\.\)"),
                    (argparse.Namespace(lr=1), TypeError, r"found Namespace: write vars\(value\)$"),
                    (Settings(), TypeError, r"write dataclasses\.asdict\(value\)$"),
                    ({0: "cat"}, TypeError, r"the key 0, .* write \[\[key, one\] for"),
                    ({"b": {0: "cat"}}, TypeError, r"extra\['a'\]\['b'\] has the key 0"),
                )
            ),
            (lambda: made.save(1, model=[small()]), TypeError, r"write torch\.nn\.ModuleList\(models\)$"),
            (
                lambda: made.save(1, model={"a": small()}),
                TypeError,
                r"write torch\.nn\.ModuleDict\(models\)$",
            ),
            (
                lambda: made.save(1, extra={"a": 1}, scheduler=[1]),
                TypeError,
                r"found list: pass one as scheduler=, and others as extra=\{'name': scheduler\}",
            ),
            (lambda: made.save(1, extra={"a": b"1"}), TypeError, r"found bytes: write value\.hex\(\)$"),
            (
                lambda: made.save(1, model=small().state_dict()),
                TypeError,
                "pass the model itself, and not its",
            ),
            (
                lambda: made.save(1, model=small(), optimizer={}),
                TypeError,
                "pass the optimizer itself, and not",
            ),
            *(
                (
                    lambda method=method, part=part, of_class=of_class: method(**{part: of_class}),
                    TypeError,
                    rf"^{part} must .*, found the class {of_class.__name__}: call it, as ",
                )
                for method in (partial(made.save, 1), made.restore)
                for part, of_class in (
                    ("model", nn.Linear),
                    ("optimizer", torch.optim.SGD),
                    ("scheduler", torch.optim.lr_scheduler.StepLR),
                    ("loader", fr.Loader),
                )
            ),
            (lambda: made.restore(model=small(), allow=True), TypeError, r"as \{'model'\}, found True$"),
            (lambda: of(directory, save_every=3), TypeError, r"save_every=: write if step % n == 0"),
            (lambda: made.load, AttributeError, r"no attribute 'load': write \.restore\(\.\.\.\)"),
            (lambda: made.restored, AttributeError, r"did you mean \.restore\?"),
            (
                lambda: of(directory, group="gloo"),
                TypeError,
                "found 'gloo': write torch.distributed.new_group",
            ),
            (lambda: of(directory, timeout_seconds=MINUTE), TypeError, "write timeout_seconds=60$"),
            (lambda: of(directory, timeout_seconds="60"), TypeError, "timeout_seconds must be a number"),
            (lambda: of(directory, max_to_keep=3), TypeError, "no argument max_to_keep=: write keep=n"),
            (lambda: made.save(1, epoch=3), TypeError, r"epoch=: write extra=\{name: value\}"),
            (lambda: of(directory, keeps=3), TypeError, r"no argument keeps=: did you mean keep=\?"),
        )
    )
    assert made.entries() == []


@each_of(
    ("of", "draw"),
    [
        (random.Random, lambda value: value.random()),
        (np.random.RandomState, lambda value: value.rand()),
        (np.random.default_rng, lambda value: value.random()),
    ],
)
def test_a_generator_is_kept_as_the_error_says(directory: Path, of: Any, draw: Any) -> None:
    checkpointer, value = Checkpointer(directory / of.__name__), of(7)
    words = "write pickle.dumps(value).hex(), and pickle.loads(bytes.fromhex(...)) of it after restore"
    with pytest.raises(TypeError, match=re.escape(words)):
        checkpointer.save(1, extra={"draws": value})
    checkpointer.save(1, extra={"draws": pickle.dumps(value).hex()})
    expected, restored = draw(value), checkpointer.restore()
    assert restored is not None
    assert draw(pickle.loads(bytes.fromhex(restored.extra["draws"]))) == expected


def test_a_model_that_rounds_what_was_saved_is_warned_of_once(directory: Path) -> None:
    Checkpointer(directory).save(1, model=small())
    with pytest.warns(
        UserWarning, match=r"2 of 2 tensors .* was torch.float32, and is torch.bfloat16"
    ) as warned:
        Checkpointer(directory).restore(model=small().bfloat16())
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Checkpointer(directory).restore(model=small().double())  # loses nothing


@each_of(
    ("saved", "now", "way", "wrapped"),
    [
        (nn.DataParallel, nn.Identity, r"pass the module whose \.module is .*DataParallel\(model\)$", True),
        (nn.Identity, nn.DataParallel, r"now begin with 'module\.': pass model=model\.module$", False),
        (nn.Sequential, nn.Identity, r"pass the module whose \.0 is this model$", True),
    ],
)
def test_names_that_differ_by_a_wrapper_say_what_to_pass_instead_of_allow(
    tmp_path: Path, saved: Any, now: Any, way: str, wrapped: bool
) -> None:
    def job(wrap: Any, inner: nn.Module) -> dict[str, Any]:
        model = inner if wrap is nn.Identity else wrap(inner)
        return {"model": model, "optimizer": torch.optim.AdamW(inner.parameters())}

    was, inner = nn.Linear(3, 1), nn.Linear(3, 1)
    Checkpointer(tmp_path).save(1, **job(saved, was))
    with pytest.raises(fr.StateError, match=way) as refused:
        Checkpointer(tmp_path).restore(**job(now, inner))
    assert "allow" not in str(refused.value)
    before = inner.weight.clone()
    with pytest.warns(UserWarning, match=f"restored 0 of 2 tensors of the model, .*{way}"):
        Checkpointer(tmp_path).restore(model=job(now, inner)["model"], allow={"model"}, partial=True)
    assert torch.equal(inner.weight, before)
    Checkpointer(tmp_path).restore(**job(saved if wrapped else nn.Identity, inner))
    assert torch.equal(inner.weight, was.weight), "the advice restores it"


def test_an_average_of_weights_is_restored_into_one_as_the_error_says(tmp_path: Path) -> None:
    def average() -> nn.Module:
        return torch.optim.swa_utils.AveragedModel(nn.Linear(3, 1))

    was = average()
    Checkpointer(tmp_path).save(1, model=was)
    with pytest.raises(fr.StateError, match=r"as torch\.optim\.swa_utils\.AveragedModel\(model\)$"):
        Checkpointer(tmp_path).restore(model=nn.Linear(3, 1))
    now = average()
    Checkpointer(tmp_path).restore(model=now)
    assert all(map(torch.equal, now.parameters(), was.parameters()))


@each_of(
    ("now", "way", "count"),
    [
        (nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 1)), "takes what fits, 2 of 4 tensors", 2),
        (nn.Sequential(nn.Linear(4, 1)), "takes what fits, 1 of 2 tensors", 1),
        (nn.ModuleDict({"a": nn.Conv2d(1, 1, 1)}), "nothing of it fits: partial=True without model=", 0),
    ],
)
def test_a_model_of_which_a_part_is_restored_is_warned_of_with_how_much(
    tmp_path: Path, now: nn.Module, way: str, count: int
) -> None:
    Checkpointer(tmp_path).save(1, model=nn.Sequential(nn.Linear(3, 1)))
    with pytest.raises(fr.StateError, match=way):
        Checkpointer(tmp_path).restore(model=now)
    with pytest.warns(UserWarning, match=rf"restored {count} of \d tensors of the model, and left") as told:
        Checkpointer(tmp_path).restore(model=now, allow={"model"})
    assert len(told) == 1


@pytest.mark.parametrize("of", [torch.optim.AdamW, torch.optim.Adagrad], ids=["AdamW", "Adagrad"])
def test_a_vocabulary_that_grew_trains_on_and_its_optimizer_starts_over_for_it_alone(
    tmp_path: Path, of: Any
) -> None:
    def job(size: int) -> dict[str, Any]:
        model = nn.Sequential(nn.Embedding(size, 3), nn.Linear(3, 1))
        return {"model": model, "optimizer": of(model.parameters(), lr=0.1)}

    def step(job: dict[str, Any]) -> None:
        job["model"](torch.tensor([0, 1])).sum().backward()
        job["optimizer"].step()

    was, now = job(4), job(6)
    step(was)
    Checkpointer(tmp_path).save(1, **was)
    with pytest.raises(fr.StateError, match=r"'0.weight' had the shape \[4, 3\].*allow=\{'model'\}"):
        Checkpointer(tmp_path).restore(**now)
    with pytest.warns(UserWarning, match=r"restored 2 of 3 .*the optimizer starts over for '0.weight'"):
        Checkpointer(tmp_path).restore(**now, allow={"model"})
    kept, begun = now["model"][1].weight, now["model"][0].weight
    for name, value in was["optimizer"].state[was["model"][1].weight].items():
        assert torch.equal(now["optimizer"].state[kept][name], value)
    step(now)
    assert {tuple(value.shape) for value in now["optimizer"].state[begun].values()} == {(), (6, 3)}


def test_a_layer_that_is_new_is_restored_as_the_errors_say(tmp_path: Path) -> None:
    def job(layers: int) -> dict[str, Any]:
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
        return {"model": model, "optimizer": torch.optim.AdamW(model.parameters())}

    Checkpointer(tmp_path).save(1, **job(1))
    now = job(2)
    with pytest.raises(fr.StateError, match=r"allow=\{'model'\} takes what fits, 2 of 4"):
        Checkpointer(tmp_path).restore(**now)
    with pytest.raises(fr.StateError, match=r"partial=True, allow=\{'model'\}\) restores the rest"):
        Checkpointer(tmp_path).restore(**now, allow={"model"})
    with pytest.warns(UserWarning, match="restored 2 of 4 tensors"):
        Checkpointer(tmp_path).restore(model=now["model"], partial=True, allow={"model"})


def test_dtypes_that_torch_does_not_promote_are_compared_all_the_same(directory: Path) -> None:
    def counted(dtype: torch.dtype) -> torch.nn.Module:
        made = torch.nn.Module()
        made.register_buffer("count", torch.zeros(3, dtype=dtype))
        return made

    Checkpointer(directory).save(1, model=counted(torch.uint16))
    Checkpointer(directory).restore(model=counted(torch.uint16))
    with pytest.warns(UserWarning, match=r"'count' was torch.uint16, and is torch.int64"):
        Checkpointer(directory).restore(model=counted(torch.int64))


def test_the_batch_of_an_evaluation_is_told_where_it_is_saved(
    directory: Path, small_dataset: Dataset
) -> None:
    def dataset(rows: fr.Split, **how: Any) -> fr.ParquetDataset:
        return fr.ParquetDataset(small_dataset.files, batch_size=4, rows=rows, world=(0, 1), **how)

    loader = fr.Loader(dataset(fr.Split(0.0, 0.8)), threads=0)
    held_out = dataset(fr.Split(0.8, 1.0))
    checkpointer = Checkpointer(directory)
    checkpointer.restore(loader=loader)
    batch = next(iter(loader))
    checkpointer.save(1, loader=batch)
    *_, batch = held_out
    with pytest.warns(UserWarning, match=r"none of the loader's.*of the training loop, and not one of an"):
        checkpointer.save(2, loader=batch)
    checkpointer.save(3, loader=batch.state_dict())  # said once: warnings are errors
    again = dataset(fr.Split(0.0, 0.8), on_iter="restart").peek()
    with pytest.raises(ValueError, match="no place in it is resumed; pass the batch of the training loop"):
        checkpointer.save(4, loader=again)


def test_a_job_that_is_refused_is_not_said_to_resume(directory: Path, small_dataset: Dataset) -> None:
    def dataset(seed: int) -> fr.ParquetDataset:
        return fr.ParquetDataset(small_dataset.files, batch_size=4, shuffle=True, seed=seed, world=(0, 1))

    Checkpointer(directory).save(1, loader=dataset(seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(fr.StateError, match="seed"):
            Checkpointer(directory).restore(loader=dataset(seed=2))


def test_what_evaluation_preemption_and_accumulation_are_not_says_what_to_write(
    small_dataset: Dataset,
) -> None:
    dataset = fr.ParquetDataset(
        small_dataset.files, batch_size=4, world=(0, 1), on_iter="restart", tail="pad"
    )
    model = nn.Linear(1, 1)
    batch = dataset.peek()
    evaluator: Any = Evaluator(dataset, lambda _, batch: {"loss": torch.tensor(0.5)})
    windows: Any = accumulate(model, steps=2)

    def nested() -> None:
        with windows(batch), windows(batch):
            pass

    def alone() -> None:
        with windows:
            pass

    score: Any = lambda *_: {}  # noqa: E731
    given: Any = Preemption
    over: Any = accumulate
    each_refused(
        (
            (lambda: evaluator.evaluate(model), AttributeError, r"'evaluate': write \.run\(model\)$"),
            (lambda: bool(given().is_due), TypeError, r"true without its parentheses: write \.is_due\(\)$"),
            (lambda: bool(evaluator.is_due), TypeError, r"is_due is a method, .*: write \.is_due\(\.\.\.\)$"),
            (
                lambda: bool(given()),
                TypeError,
                r"always true: write preemption\.is_due\(\)",
            ),
            (lambda: given().is_set, AttributeError, r"'is_set': write \.is_due\(\), after each step$"),
            (lambda: evaluator(model), TypeError, r"write evaluator\.run\(model\)"),
            (
                lambda: evaluator.run(model),
                ValueError,
                r"found a tensor \[\], a single number: leave out \.mean\(\)",
            ),
            (lambda: Evaluator(dataset, score, seconds=MINUTE), TypeError, "write seconds=60$"),
            (lambda: Evaluator(dataset, score, group="gloo"), TypeError, "found 'gloo'"),  # type: ignore[arg-type]
            (
                lambda: given(mesh="dp"),
                TypeError,
                r"no argument mesh=: write group=mesh\[name\]\.get_group\(\)$",
            ),
            (nested, fr.FastresumeError, "within the block of another one"),
            (alone, TypeError, r"write with accumulation\(batch\) as window:"),
            (
                lambda: windows(batch).size,
                AttributeError,
                r"no attribute 'size': write with accumulation\(batch\)",
            ),
            (windows, TypeError, r"lacks batch: write with accumulation\(batch\) as window"),
            (
                lambda: over(model, gradient_accumulation_steps=4),
                TypeError,
                "gradient_accumulation_steps=: write steps=",
            ),
            (lambda: over(model, accumulation_steps=4), TypeError, "accumulation_steps=: write steps="),
            (
                lambda: given(signals=("TERM",)),
                TypeError,
                r"found 'TERM' in it: write signals=\(signal\.SIGTERM,",
            ),
            (
                lambda: given((signal.SIGTERM,)),
                TypeError,
                r"write fr\.training\.Preemption\(every=1, signals=\(",
            ),
            (lambda: given(signals=("int",)), TypeError, r"write signals=\(signal\.SIGINT,"),
            (lambda: given(signals=(999,)), TypeError, "found 999 in it"),
            (lambda: given(signals=signal.SIGTERM), TypeError, "signals must be a tuple of signals"),
        )
    )
    with windows(batch) as window:  # the refused block counted nothing
        assert (window.index, window.size) == (0, 2)


def test_a_checkpointer_for_each_save_is_refused_with_where_to_make_one(directory: Path) -> None:
    Checkpointer(directory).save(1, model=small())
    with pytest.raises(fr.StateError, match=r"by another Checkpointer: make one for the whole job$"):
        Checkpointer(directory).save(2, model=small())


@pytest.mark.parametrize("name", ["step-0000000001-000001", "step-0000000009-000009", "manifest.json"])
def test_a_path_within_a_checkpoint_is_no_directory_for_others(directory: Path, name: str) -> None:
    Checkpointer(directory).save(1, model=small())
    with pytest.raises(ValueError, match=r"name (its parent|the directory that has the checkpoints), and"):
        Checkpointer(directory / name)
    assert len(list(directory.glob("step-*"))) == 1


def test_a_part_is_asked_of_a_checkpoint_that_is_there(directory: Path) -> None:
    with pytest.raises(fr.StateError, match=r"no checkpoint, and restore\(partial=True\) asks for one"):
        Checkpointer(directory).restore(model=small(), partial=True)
    assert Checkpointer(directory).restore(model=small(), partial=True, required=False) is None


def test_a_loss_that_has_a_graph_is_a_metric(directory: Path) -> None:
    model = small()
    loss = sum(each.sum() for each in model.parameters())
    Checkpointer(directory).save(1, model=model, metrics={"loss": loss})
    assert Checkpointer(directory).entries()[0].manifest.metrics == {"loss": float(loss.detach())}


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"link is a link to .*gone, which is not there: make that"):
        Checkpointer(tmp_path / "link")
    (tmp_path / "gone").mkdir()
    Checkpointer(tmp_path / "link").save(1, model=small())
    assert [one.step for one in Checkpointer(tmp_path / "gone").entries()] == [1]


def test_two_names_of_a_directory_are_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one, other = Checkpointer(tmp_path / "real"), Checkpointer(tmp_path / "link")
    one._history.draft("a save that is on its way")
    with pytest.raises(fr.StateError, match=r"another save into .*link has begun in this process"):
        other.save(1, model=small())
    one._history.end("a save that is on its way")
    other.save(1, model=small())
    assert [entry.step for entry in one.entries()] == [1]


@each_of("name", ["a/*", "run-?"])
def test_a_pattern_names_no_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="directory must be one path, found the pattern"):
        Checkpointer(tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_a_directory_that_is_called_like_a_pattern_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "what?").mkdir()
    Checkpointer(tmp_path / "what?").save(1, model=small())


def test_a_save_that_another_thread_has_begun_is_not_thrown_away(directory: Path) -> None:
    checkpointer = Checkpointer(directory)
    checkpointer._history.draft("a save that is on its way")
    with pytest.raises(fr.StateError, match=r"has begun in this process.*save\(\.\.\., wait=False\)"):
        checkpointer.save(2, model=small())
    with pytest.raises(fr.StateError, match="has begun in this process"):
        Checkpointer(directory).save(2, model=small())
    (draft,) = directory.glob(".writing-*")
    assert draft.is_dir()
    checkpointer._history.end("a save that is on its way")
    checkpointer.save(2, model=small())
    assert [one.step for one in checkpointer.entries()] == [2]


def test_a_save_that_is_interrupted_at_any_moment_keeps_no_other_from_saving(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer, draft = Checkpointer(directory), CheckpointDirectory.draft

    def interrupted(*given: Any) -> Path:
        draft(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as signals:
        signals.setattr(CheckpointDirectory, "draft", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkpointer.save(1, model=small())
    checkpointer.save(2, model=small())
    assert [one.step for one in checkpointer.entries()] == [2]


def test_an_optimizer_of_the_model_before_says_when_to_make_it(directory: Path) -> None:
    before = torch.optim.SGD(small().parameters(), 0.1)
    with pytest.raises(ValueError, match=r"none of the model's: make it after the model is wrapped, sharded"):
        Checkpointer(directory).save(1, model=small(), optimizer=before)


def test_layers_that_are_trained_since_leave_the_job_as_it_was_and_the_rest_can_be_restored(
    directory: Path,
) -> None:
    def job(trained: int) -> dict[str, Any]:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        parameters = [each for layer in list(model)[-trained:] for each in layer.parameters()]
        return {"model": model, "optimizer": torch.optim.SGD(parameters, 0.1)}

    saved, now = job(1), job(2)
    Checkpointer(directory).save(1, **saved)
    before = [each.clone() for each in now["model"].parameters()]
    with pytest.raises(fr.StateError, match=r"restore\(model=model, loader=loader, partial=True\) restores"):
        Checkpointer(directory).restore(**now)
    assert all(map(torch.equal, before, now["model"].parameters()))
    Checkpointer(directory).restore(model=now["model"], partial=True)
    assert all(map(torch.equal, saved["model"].parameters(), now["model"].parameters()))


def test_a_lazy_layer_gets_its_shape_before_it_is_saved_or_restored(directory: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    checkpointer = Checkpointer(directory)
    for call in (lambda: checkpointer.save(1, model=model), lambda: checkpointer.restore(model=model)):
        with pytest.raises(ValueError, match=r"'0\.weight' of the model has no shape yet.*model\(loader"):
            call()
    model(torch.ones(1, 3))
    checkpointer.save(1, model=model)


def test_what_was_restored_says_where_the_rest_is(directory: Path) -> None:
    Checkpointer(directory).save(3, model=small())
    restored: Any = Checkpointer(directory).restore(model=small())
    each_refused(
        (
            (
                lambda: restored.epoch,
                AttributeError,
                r"a Restored has no attribute 'epoch': write loader\.epoch",
            ),
            (lambda: restored.global_step, AttributeError, r"write \.step$"),
            (lambda: restored["step"], TypeError, r"no mapping: write restored\.step$"),
            (lambda: restored["loss"], TypeError, r"no mapping: write restored\.extra\['loss'\]$"),
            (lambda: range(restored), TypeError, r"no number: write restored\.step$"),
        )
    )
    assert pickle.loads(pickle.dumps(restored)).step == copy.deepcopy(restored).step == 3
