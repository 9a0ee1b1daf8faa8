"""Evaluation: each row once over all ranks, the same for any number of them, and training as before."""

from __future__ import annotations

import math
import random
import re
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

import fastresume as fr
from fastresume.training import Evaluator
from fastresume.training.agreement import Agreement
from fastresume.training.tally import Tally
from support.forks import in_ranks
from support.strategies import Dataset

TOPOLOGIES = [(1, (1, 7, 200)), (2, (4, 30)), (3, (5, 64))]
"""Ranks, and batch sizes; under the last ones some ranks have no rows of their own."""


def held_out(data: Dataset, batch_size: int, **options: Any) -> fr.ParquetDataset:
    options = {"on_iter": "restart", "tail": "pad", "columns": ["i_1", "label"], **options}
    return fr.ParquetDataset(data.files, batch_size=batch_size, **options)


def losses(batch: fr.Batch) -> torch.Tensor:
    """Of each row by itself, so that no batch size changes a bit of it."""
    return (batch["i_1"].nan_to_num().clamp(-1e5, 1e5) * 0.3).square() + 1e-7


def score(_model: object, batch: fr.Batch) -> dict[str, Any]:
    if dist.is_initialized():  # as a sharded model does it, on every rank alike
        dist.all_reduce(torch.ones(1))
    return {
        "loss": losses(batch),
        "positive": batch["label"],
        "weighed": (losses(batch), batch["label"].float() + 0.1),
        "nothing": (losses(batch), torch.zeros(batch.num_rows)),
    }


def exact(data: Dataset) -> dict[str, float]:
    """The same, by fractions over all rows at once."""
    batch = held_out(data, 1, rank=0, world_size=1).read_rows(range(data.num_rows))
    each = [Fraction(value) for value in losses(batch).double().tolist()]
    weights = (batch["label"].float() + 0.1).double().tolist()
    products = [Fraction(float(value) * weight) for value, weight in zip(each, weights, strict=True)]
    return {
        "loss": float(sum(each) / len(each)),
        "positive": float(Fraction(int(batch["label"].sum()), len(each))),
        "weighed": float(sum(products) / sum(map(Fraction, weights))),
    }


def evaluate(_rank: int, data: Dataset, batch_sizes: tuple[int, ...]) -> list[dict[str, float]]:
    return [Evaluator(held_out(data, size), score).run(None) for size in batch_sizes]


@pytest.mark.processes
@pytest.mark.law(1)
def test_every_number_of_ranks_and_batch_size_gives_the_same_bits(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    wanted = exact(small_dataset)
    for world_size, sizes in TOPOLOGIES:
        store = tmp_path / str(world_size)
        for of_rank in in_ranks(world_size, store, evaluate, small_dataset, sizes):
            assert of_rank == [wanted] * len(sizes)


# --------------------------------------------------------------------------------------------- torchmetrics


def score_metrics(_model: object, batch: fr.Batch) -> dict[str, Any]:
    guess = torch.sigmoid(batch["i_1"].nan_to_num().clamp(-2, 2) + 3 * batch["label"].float())
    return {"auc": (guess, batch["label"]), "all": (guess, batch["label"].long()), "loss": losses(batch)}


def evaluate_metrics(_rank: int, data: Dataset, sizes: tuple[int, ...]) -> list[dict[str, float]]:
    from torchmetrics import MeanSquaredError, MetricCollection
    from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

    metrics = {
        "auc": BinaryAUROC(),
        "all": MetricCollection([MeanSquaredError(), BinaryAccuracy()]),
    }
    found = [Evaluator(held_out(data, size), score_metrics, metrics=metrics).run(None) for size in sizes]
    assert not metrics["auc"].update_called, "it is a template"
    return found


@pytest.mark.processes
def test_metrics_of_torchmetrics_see_each_row_once(small_dataset: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    (wanted,) = evaluate_metrics(0, small_dataset, (1000,))
    assert list(wanted) == ["loss", "auc", "all/MeanSquaredError", "all/BinaryAccuracy"]
    batch = held_out(small_dataset, 1, rank=0, world_size=1).read_rows(range(small_dataset.num_rows))
    guess, label = score_metrics(None, batch)["auc"]
    pairs = [(one > other) + (one == other) / 2 for one in guess[label] for other in guess[~label]]
    assert wanted["auc"] == pytest.approx(float(sum(pairs)) / len(pairs), rel=1e-6)
    for world_size, sizes in TOPOLOGIES:
        store = tmp_path / str(world_size)
        for of_rank in in_ranks(world_size, store, evaluate_metrics, small_dataset, sizes):
            for found in of_rank:
                assert found == pytest.approx(wanted, rel=1e-12)
                assert found["loss"] == wanted["loss"]


# ------------------------------------------------------------------------------------------ training goes on


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 1))
        self.layers[1].eval()  # frozen, as some do it

    def forward(self, batch: fr.Batch) -> torch.Tensor:
        return self.layers(batch["i_1"].nan_to_num().clamp(-1, 1).unsqueeze(1)).squeeze(1)


def score_and_draw(model: nn.Module, batch: fr.Batch) -> dict[str, torch.Tensor]:
    assert not any(module.training for module in model.modules())
    assert not torch.is_grad_enabled()
    noise = torch.rand(batch.num_rows) + np.random.random() + random.random()
    return {"loss": (model(batch) - noise).square()}


def train(data: Dataset, threads: int, evaluates: bool) -> list[torch.Tensor]:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"shuffle": True, "rank": 0, "world_size": 1, "columns": "i_1"}
    loader = fr.Loader(fr.ParquetDataset(data.files, batch_size=8, **options), threads=threads)
    evaluator = Evaluator(fr.Loader(held_out(data, 16, rank=0, world_size=1), threads=1), score_and_draw)
    for batch in loader:
        optimizer.zero_grad()
        (model(batch) + random.random() + np.random.random()).square().mean().backward()
        optimizer.step()
        if evaluates:
            modes = [module.training for module in model.modules()]
            ahead = loader.state_dict()
            assert math.isfinite(evaluator.run(model)["loss"])
            assert [module.training for module in model.modules()] == modes
            assert loader.state_dict() == ahead == batch.state_dict()
    return [value.clone() for value in model.state_dict().values()]


@pytest.mark.law(10)
@pytest.mark.parametrize("threads", [0, 1])
def test_an_evaluation_after_every_step_changes_no_weight(small_dataset: Dataset, threads: int) -> None:
    without, beside = (train(small_dataset, threads, evaluates) for evaluates in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(without, beside, strict=True))


# --------------------------------------------------------------------------------------- all ranks are told


def fail_or_ask(rank: int, data: Dataset, alone: Agreement) -> dict[str, Any]:
    """What goes wrong on one rank, and what each is told."""
    message: dict[str, Any] = {}
    for question in (lambda: alone.any(True), lambda: alone.together("sum", lambda: 1, sum)):
        with pytest.raises(fr.FastresumeError, match=r"made before init_process_group.*make it after"):
            question()

    def failing(_model: object, batch: fr.Batch) -> dict[str, Any]:
        if rank == 1:
            raise ZeroDivisionError("of rank 1")
        return {"loss": losses(batch)}

    def other_names(_model: object, batch: fr.Batch) -> dict[str, Any]:
        return {f"loss{rank}": losses(batch)}

    def interrupted(_model: object, batch: fr.Batch) -> dict[str, Any]:
        if rank == 1:
            raise KeyboardInterrupt
        return {"loss": losses(batch)}

    try:
        Evaluator(held_out(data, 8), interrupted).run(None)
    except (fr.FastresumeError, KeyboardInterrupt) as error:
        message["interrupted"] = type(error).__name__, str(error)
    for scored in (failing, other_names):
        try:
            Evaluator(held_out(data, 8), scored).run(None)
        except (fr.FastresumeError, ValueError) as error:
            message[scored.__name__] = type(error).__name__, str(error), type(error.__cause__).__name__
    by_steps = Evaluator(held_out(data, 8), score, every=10)
    message["steps"] = [by_steps.is_due(step) for step in (0, 9 + rank, 10 - rank, 20)]
    by_clock = Evaluator(held_out(data, 8), score, seconds=3600 if rank else 1e-9)
    message["clock"] = [by_clock.is_due(step) for step in (1, 2)]
    return message


@pytest.mark.processes
def test_a_failure_and_the_verdict_of_rank_0_are_everyones(small_dataset: Dataset, tmp_path: Path) -> None:
    one, other = in_ranks(2, tmp_path / "store", fail_or_ask, small_dataset, Agreement())
    assert one["interrupted"] == ("FastresumeError", "evaluation: rank 1: KeyboardInterrupt: ")
    assert other["interrupted"] == ("KeyboardInterrupt", "")
    failed = "FastresumeError", "evaluation: rank 1: ZeroDivisionError: of rank 1"
    assert one["failing"] == (*failed, "NoneType")
    assert other["failing"] == (*failed, "ZeroDivisionError")
    refused = "ValueError", "score gave ['loss1'] on rank 1, but ['loss0'] on rank 0", "NoneType"
    assert one["other_names"] == other["other_names"] == refused
    assert one["steps"] == other["steps"] == [False, False, True, True]
    assert one["clock"] == other["clock"] == [True, True]


def test_the_clock_begins_anew_with_each_evaluation(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    evaluator = Evaluator(None, score, seconds=30)
    assert not evaluator.is_due(1)
    now[0] += 30
    assert evaluator.is_due(2)
    evaluator.run(None)
    assert not evaluator.is_due(3)
    with pytest.raises(ValueError, match="is_due needs every= or seconds="):
        Evaluator(None, score).is_due(3)
    with pytest.raises(TypeError, match="step must be an integer, found '3'"):
        evaluator.is_due("3")  # type: ignore[arg-type]


def test_without_rows_there_are_no_results(small_dataset: Dataset) -> None:
    assert Evaluator(None, score).run(None) == {}
    weightless = Evaluator(
        held_out(small_dataset, 8), lambda _, batch: {"x": (losses(batch), losses(batch) * 0)}
    )
    assert weightless.run(None) == {}


def test_what_is_not_finite_is_told(small_dataset: Dataset) -> None:
    def scored(_model: object, batch: fr.Batch) -> dict[str, Any]:
        infinite = torch.where(batch["label"], torch.inf, 1.0)
        no_number = torch.where(batch["label"], torch.nan, 1.0)
        return {"inf": infinite, "nan": no_number, "left out": (no_number, ~batch["label"])}

    found = Evaluator(held_out(small_dataset, 8), scored).run(None)
    assert math.isnan(found.pop("nan"))
    assert found == {"inf": math.inf, "left out": 1.0}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"on_iter": "continue"}, 'needs a dataset with on_iter="restart" and tail="pad".*continue'),
        ({"tail": "drop"}, "found on_iter='restart', tail='drop'"),
        ({"rank": 1, "world_size": 2}, r"made for World\(rank=1, world_size=2\), but this is World\(rank=0"),
    ],
)
def test_a_dataset_that_does_not_give_each_row_once_is_refused(
    small_dataset: Dataset, given: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        Evaluator(held_out(small_dataset, 8, **given), score)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (torch.zeros(3), r"'x' as tensors of one value for each row \(8\), found \[3\]"),
        (0.5, "found float"),
        (
            torch.zeros(8, 2),
            r"'x' as \[B\], found \[8, 2\]: of losses \[B, T\], give the mean of each row and",
        ),
        (
            torch.zeros(8, 1),
            r"found \[8, 1\]: a model gives .*write model\(...\).squeeze\(1\) in score$",
        ),
        (torch.zeros(8, 8), r"found \[8, 8\]: a model gives \[B, 1\], and a column is \[B\]"),
        (
            torch.zeros(16),
            r"\(8\), found \[16\]: of losses \[B, T\], give the mean of each row and its weight",
        ),
        (torch.zeros(8, 2).flatten()[:15], r"\(8\), found \[15\]$"),
        ((torch.zeros(8),) * 3, "3 tensors for 'x', which is no metric"),
        ((torch.zeros(8), -torch.ones(8)), "weights of 'x' must be finite and at least 0"),
    ],
)
def test_scores_that_are_not_of_each_row_are_refused(small_dataset: Dataset, value: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Evaluator(held_out(small_dataset, 8), lambda _model, _batch: {"x": value}).run(None)


def test_the_loss_of_tokens_is_the_mean_over_all_of_them_as_the_error_says(small_dataset: Dataset) -> None:
    def parts(batch: fr.Batch) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.where(torch.arange(3) < batch["label"][:, None] * 2, 1, -100)  # rows of 2 and of 0
        return torch.where(labels == -100, 0.0, losses(batch)[:, None].double()), labels

    def of_tokens(_model: object, batch: fr.Batch) -> dict[str, Any]:
        found, labels = parts(batch)
        counts = (labels != -100).sum(1)
        return {"loss": (found.sum(1) / counts, counts)}

    found, labels = parts(held_out(small_dataset, 1).read_rows(range(small_dataset.num_rows)))
    result = Evaluator(held_out(small_dataset, 7), of_tokens).run(None)["loss"]
    assert result == pytest.approx(float(found.sum() / (labels != -100).sum()))


@pytest.mark.parametrize("scored", [torch.zeros(8), None])
def test_a_score_that_is_no_mapping_is_refused(small_dataset: Dataset, scored: Any) -> None:
    with pytest.raises(TypeError, match="score must return a mapping of names"):
        Evaluator(held_out(small_dataset, 8), lambda _model, _batch: scored).run(None)


def test_a_score_that_fails_has_a_note_of_its_call_and_its_batch(small_dataset: Dataset) -> None:
    def scored(batch: fr.Batch) -> dict[str, Any]:
        return {"loss": losses(batch)}

    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given") as caught:
        Evaluator(held_out(small_dataset, 8), scored).run(None)  # type: ignore[arg-type]  # a common mistake
    (note,) = caught.value.__notes__
    assert re.search(
        r"scored, which is called as score\(model, batch\), on the batch of step 0, rank 0: 8", note
    )


def test_a_metric_that_takes_more_has_a_note_of_what_it_got(small_dataset: Dataset) -> None:
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    evaluator = Evaluator(
        held_out(small_dataset, 8),
        lambda _model, batch: {"auc": losses(batch)},
        metrics={"auc": torchmetrics.classification.BinaryAUROC()},
    )
    with pytest.raises(TypeError) as caught:
        evaluator.run(None)
    assert "raised by the metric 'auc', which got 1 tensor of score" in caught.value.__notes__[0]


def test_metrics_that_are_none_or_get_nothing_are_refused(small_dataset: Dataset) -> None:
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    for metrics in ({"loss": 3}, [3]):
        with pytest.raises(TypeError, match=r"found (int|list)"):
            Evaluator(None, score, metrics=metrics)  # type: ignore[arg-type]
    unfed = Evaluator(
        held_out(small_dataset, 8),
        lambda _model, batch: {"loss": losses(batch)},
        metrics={"auc": torchmetrics.MeanMetric()},
    )
    with pytest.raises(ValueError, match=r"metric 'auc' needs .*score gave \['loss'\]"):
        unfed.run(None)


# --------------------------------------------------------------------------------------------- exact sums


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(0, 20))
@example([1e308, 1e308], 1)  # the sum of these is beyond a float64
@example([-1e308, -1e308], 0)
def test_a_tally_is_the_exact_sum_in_whatever_parts_it_is_made(numbers: list[float], cut: int) -> None:
    halves = (torch.tensor(half, dtype=torch.float64) for half in (numbers[:cut], numbers[cut:]))
    first, second = map(Tally.of, halves)
    assert first + second == second + first
    assert Fraction((first + second).units, 2**1126) == sum(map(Fraction, numbers))
    one = Tally.of(torch.ones(1))
    try:
        wanted = float(sum(map(Fraction, numbers), Fraction()))
    except OverflowError:
        wanted = math.inf if sum(map(Fraction, numbers)) > 0 else -math.inf
    assert (first + second).over(one) == wanted
