"""Evaluation during training: each row once over all ranks, and the same result on all of them."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.options.attributes import METHODS_OF_EVALUATORS
from fastresume.options.checks import at_least, integer, positive, quoted
from fastresume.options.unknown import refuse_attribute, takes_no_other
from fastresume.options.world import World, has_process_group
from fastresume.reading.map_function import name_of
from fastresume.reading.resumable import ResumableDataset, dataset_behind
from fastresume.rng import untouched
from fastresume.training.agreement import Agreement
from fastresume.training.tally import Tally

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Score = Callable[[Any, Batch], Mapping[str, Any]]
"""A function of a model and a batch that returns values by name, one for each row of the batch."""

_OF_TOKENS = (
    ": of losses [B, T], give the mean of each row and its weight, as (losses.sum(1) / counts, counts) with "
    "counts = (labels != -100).sum(1)"
)
"""What to write instead of a value for each token."""

_OF_COLUMNS = ": a model gives [B, 1], and a column is [B]: write model(...).squeeze(1) in score"
"""The same where both were compared, and where one of them was given."""

_Sums = dict[str, tuple[Tally, Tally]]
_Metrics = dict[str, dict[str, Any]]
"""For each name in a score, the metrics by their names in the results: `name/key` for a collection."""


@takes_no_other("fr.training.Evaluator", "evaluator")
class Evaluator:
    """Evaluates a model over a dataset, each row once over all ranks, on any number of ranks.

    Every rank runs the model on the same number of batches, so that collectives inside it match. So does a
    rank without rows of its own: `tail="pad"` fills its batches up, and padding is left out of every result.
    Sums are exact, over all ranks, before anything is divided. So a mean does not depend on batch size,
    number of ranks or order of rows, unless the model's outputs for a row do.

    Training is not affected: the dataset is another one, and afterwards the modes of the model's modules and
    the random generators are as before.

    Args:
        loader: a `Loader`, a torch DataLoader or a `ParquetDataset`, with `on_iter="restart"` and
            `tail="pad"`; None if there are no rows to evaluate on. Or a `KafkaDataset` with `stop=`, which is
            read from `start=` to there each time, and filled up at its end.
        score: a function of the model and a batch, which returns a mapping by name. For a tensor `[B]` of one
            value per row, the result is their mean; for a pair of values and weights, their weighted mean.
            Under a name of `metrics`, the value is the arguments of its `update`.
        metrics: `torchmetrics` Metrics or MetricCollections, by name. They work in float64, on rows that are
            not padding; the states of all ranks are gathered on rank 0.
        every: the number of steps between two evaluations.
        seconds: an evaluation is due this many seconds after the last one, by rank 0's clock.
        group: the ranks; None for the default group. All of them make it together, after `init_process_group`
            if the job calls it.

    Raises:
        TypeError, ValueError: for an argument of another type, or a number out of range. Also for a dataset
            that continues (`on_iter="continue"`), does not deliver all rows (`tail="drop"`, "short"), or is a
            stream without an end.

    Examples:
        >>> import fastresume as fr
        >>> columns = ["label", fr.stack("i_*", name="dense")]
        >>> held_out = fr.ParquetDataset("data/*.parquet", batch_size=64, columns=columns,
        ...                              on_iter="restart", tail="pad")
        >>> def score(model, batch):
        ...     return {"error": (model(batch["dense"]).squeeze(1) - batch["label"]).abs()}
        >>> evaluator = Evaluator(held_out, score, every=1000)
        >>> if evaluator.is_due(step=3000):
        ...     found = evaluator.run(torch.nn.Linear(3, 1))
        >>> list(found)
        ['error']
    """

    def __init__(
        self,
        loader: Any,
        score: Score,
        *,
        metrics: Mapping[str, Any] | None = None,
        every: int | None = None,
        seconds: float | None = None,
        group: ProcessGroup | None = None,
    ) -> None:
        self._agreement = Agreement(group, made="Evaluator(...)")
        self._loader: Iterable[Batch] | None = loader
        if loader is not None:
            _check(loader, World(self._agreement.rank, self._agreement.world_size), group)
        if not callable(score):
            raise TypeError(f"score must be a function of a model and a batch, found {quoted(score)}")
        self._score = score
        self._metrics = _checked(metrics)
        self.every = None if every is None else at_least(1, "every", every)
        self.seconds = None if seconds is None else positive("seconds", seconds)
        self._last = time.monotonic()

    def is_due(self, step: int) -> bool:
        """Whether to evaluate now: rank 0 decides, and one collective of one number tells all ranks.

        Call it on all ranks alike, after a step.

        Args:
            step: the number of optimizer steps so far.

        Raises:
            ValueError: if neither `every` nor `seconds` is set.
            TypeError: if `step` is not an integer.
            FastresumeError: if it was made before the process group; see `Agreement`.
        """
        step = integer("step", step)
        if self.every is None and self.seconds is None:
            raise ValueError("is_due needs every= or seconds= of the Evaluator")
        due = self.every is not None and step > 0 and step % self.every == 0
        if self.seconds is not None:
            due = due or time.monotonic() - self._last >= self.seconds
        return bool(self._agreement.of_lead(int(due)))

    def run(self, model: Any) -> dict[str, Any]:
        """The results by name, the same on every rank; {} if there are no rows.

        Means are floats. A metric's single number is a float, other tensors are on the CPU. For a
        MetricCollection, or a metric that returns a mapping, the names are `name/key`. A name without any
        counted row (if all weights are 0, say) is left out.

        Raises:
            TypeError, ValueError: on all ranks, if one was raised on one of them, which is named: for a wrong
                result of `score`, say.
            FastresumeError: on all ranks, if anything else failed on one; there it has the cause. Ranks that
                wait in a collective of the model get it when that collective ends.
        """
        metrics = {name: _fresh(name, metric) for name, metric in self._metrics.items()}
        with _as_it_was(model), untouched(), torch.no_grad():
            sums, states = self._agreement.together("evaluation", lambda: self._own(model, metrics), _joined)
        self._last = time.monotonic()
        return self._agreement.lead("evaluation", lambda: _results(sums, _by_key(metrics), states))

    def _own(self, model: Any, metrics: _Metrics) -> tuple[_Sums, dict[str, Any]]:
        """The sums and states of this rank's rows."""
        dataset = dataset_behind(self._loader)
        with nullcontext() if dataset is None else dataset._from_the_beginning():
            return self._scored(model, metrics, _batches(self._loader, dataset))

    def _scored(
        self, model: Any, metrics: _Metrics, batches: Iterable[Batch]
    ) -> tuple[_Sums, dict[str, Any]]:
        sums: _Sums = {}
        names: dict[str, None] | None = None
        for batch in batches:
            valid = batch.valid
            try:
                scored = self._score(model, batch)
            except Exception as error:
                error.add_note(
                    f"raised by {name_of(self._score)}, which is called as score(model, batch), on the batch "
                    f"of step {batch.step}, rank {self._agreement.rank}: {plural(batch.num_rows, 'row')}"
                )
                raise
            if not isinstance(scored, Mapping):
                raise TypeError(
                    f"score must return a mapping of names to tensors, found {type(scored).__name__}"
                )
            names = {**(names or {}), **dict.fromkeys(scored)}
            for name, value in scored.items():
                own = [
                    _of_rows(name, each, batch)[valid.to(each.device)]
                    for each in (value if isinstance(value, tuple) else (value,))
                ]
                if name in metrics:
                    _update(name, metrics[name], own)
                elif len(own) > 2:
                    raise ValueError(f"score gave {len(own)} tensors for {name!r}, which is no metric")
                else:
                    mean = sums.get(name, (Tally(), Tally()))
                    more = _weighed(name, *own)
                    sums[name] = mean[0] + more[0], mean[1] + more[1]
        for name in metrics:
            if names is not None and name not in names:
                raise ValueError(
                    f"metric {name!r} needs arguments under its name, but score gave {list(names)}"
                )
        return sums, {key: _state_of(metric) for key, metric in _by_key(metrics).items()}

    def __call__(self, *_arguments: object) -> NoReturn:
        """Refused.

        Raises:
            TypeError: always; it says what to write.
        """
        raise TypeError("an Evaluator is no function: write evaluator.run(model)")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what others' classes have."""
            refuse_attribute(self, name, "an Evaluator", METHODS_OF_EVALUATORS)

    def __repr__(self) -> str:
        return f"Evaluator({self._loader!r}, every={self.every}, seconds={self.seconds})"


def _batches(loader: Iterable[Batch] | None, dataset: ResumableDataset | None) -> Iterator[Batch]:
    """All batches. Over a stream, a DataLoader with workers has those of one round in an iteration."""
    while loader is not None:
        has_one = False
        for batch in loader:
            has_one = True
            yield batch
        if not has_one or dataset is None or not dataset._is_stream:
            return


def _check(loader: Any, world: World, group: ProcessGroup | None) -> None:
    dataset = dataset_behind(loader)
    if dataset is None:
        raise TypeError(f"loader must be a Loader or a dataset, found {type(loader).__name__}")
    if not dataset._has_end:
        raise ValueError(
            "an Evaluator runs to the end of the rows, and this stream, or Mixture with one, has none: write "
            'KafkaDataset(..., stop="end") for what the topic has now, or evaluate on a table, as '
            'fr.ArrowDataset(table, batch_size=n, on_iter="restart", tail="pad")'
        )
    if not dataset._is_stream and (dataset.on_iter, dataset.tail) != ("restart", "pad"):
        raise ValueError(
            'an Evaluator needs a dataset with on_iter="restart" and tail="pad", so that each run has each '
            f"row once, found on_iter={dataset.on_iter!r}, tail={dataset.tail!r}"
        )
    if dataset.world != world:
        way = "make the dataset with world=group"
        if not has_process_group():
            way = "call torch.distributed.init_process_group before the Evaluator is made"
        elif group is None:
            way = "make it after init_process_group without world=, or give the Evaluator its ranks by group="
        raise ValueError(f"the dataset was made for {dataset.world}, but this is {world}: {way}")


def _of_rows(name: str, value: Any, batch: Batch) -> Tensor:
    if isinstance(value, Tensor) and value.shape[:1] == (batch.num_rows,):
        return value
    found: object = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
    if found == [] or isinstance(value, float):
        named = "a tensor []" if found == [] else found
        found = f"{named}, a single number: leave out .mean(), and write reduction='none' for torch's losses"
    elif isinstance(value, Tensor) and value.dim() == 1 and len(value) and not len(value) % batch.num_rows:
        found = f"{found}{_OF_TOKENS}"
    raise ValueError(
        f"score must give {name!r} as tensors of one value for each row ({batch.num_rows}), found {found}"
    )


def _instead(value: Tensor) -> str:
    """What to write instead of a value of more dimensions than one."""
    is_of_columns = value.dim() == 2 and value.shape[1] in (1, value.shape[0])
    return _OF_COLUMNS if is_of_columns else _OF_TOKENS


def _weighed(name: str, values: Tensor, weights: Tensor | None = None) -> tuple[Tally, Tally]:
    """The exact sums of weighted values and of weights."""
    for each in (values, weights):
        if each is not None and each.dim() != 1:
            raise ValueError(f"score must give {name!r} as [B], found {list(each.shape)}{_instead(each)}")
    numbers = values.double()
    if weights is None:
        return Tally.of(numbers), Tally.of(torch.ones_like(numbers))
    shares = weights.double()
    if not bool((shares.isfinite() & (shares >= 0)).all()):
        raise ValueError(f"weights of {name!r} must be finite and at least 0")
    # A value with weight 0 may be anything.
    return Tally.of(torch.where(shares == 0, 0.0, numbers * shares)), Tally.of(shares)


def _checked(metrics: Any) -> dict[str, Any]:
    """The metrics by name, each a Metric or a MetricCollection."""
    if metrics is not None and not hasattr(metrics, "items"):
        raise TypeError(f"metrics must be a mapping of names to metrics, found {type(metrics).__name__}")
    found = dict((metrics or {}).items())
    for name, metric in found.items():
        for key, one in _singles(name, metric).items():
            if not all(hasattr(one, needed) for needed in ("update", "compute", "_reductions")):
                raise TypeError(
                    f"metrics[{key!r}] must be a Metric of torchmetrics, found {type(one).__name__}"
                )
    return found


def _singles(name: str, metric: Any) -> dict[str, Any]:
    if not hasattr(metric, "items"):
        return {name: metric}
    return {f"{name}/{key}": one for key, one in metric.items()}


def _fresh(name: str, metric: Any) -> dict[str, Any]:
    """Copies that have seen no rows, communicate with no rank, and work in float64."""
    made = {key: copy.deepcopy(one) for key, one in _singles(name, metric).items()}
    for one in made.values():
        one.reset()
        one.distributed_available_fn = _alone
        one.set_dtype(torch.float64)
    return made


def _alone() -> bool:
    """The answer to a metric that asks whether to communicate with other ranks: no."""
    return False


def _by_key(metrics: _Metrics) -> dict[str, Any]:
    return {key: one for of_name in metrics.values() for key, one in of_name.items()}


def _update(name: str, metrics: dict[str, Any], own: list[Tensor]) -> None:
    if not len(own[0]):
        return  # a rank without rows of its own: most metrics refuse empty batches
    wide = [each.double() if each.is_floating_point() else each for each in own]
    for metric in metrics.values():
        try:
            metric.to(wide[0].device).update(*wide)
        except Exception as error:
            error.add_note(
                f"raised by the metric {name!r}, which got {plural(len(wide), 'tensor')} of score: one "
                "that takes more gets a tuple, as (preds, target)"
            )
            raise


def _state_of(metric: Any) -> dict[str, Any] | None:
    """The state of a metric on the CPU; None if it has seen no rows."""
    if not metric.update_called:
        return None
    found = {name: getattr(metric, name) for name in metric._reductions}
    return {
        name: [each.cpu() for each in state] if isinstance(state, list) else state.cpu()
        for name, state in found.items()
    }


def _joined(own: list[tuple[_Sums, dict[str, Any]]]) -> tuple[_Sums, dict[str, list[Any]]]:
    """The sums over all ranks, and the states of each metric from ranks that had rows."""
    sums: _Sums = {}
    for rank, (of_rank, _) in enumerate(own):
        if list(of_rank) != list(own[0][0]):
            raise ValueError(f"score gave {list(of_rank)} on rank {rank}, but {list(own[0][0])} on rank 0")
        for name, mean in of_rank.items():
            before = sums.get(name, (Tally(), Tally()))
            sums[name] = before[0] + mean[0], before[1] + mean[1]
    names = own[0][1]
    return sums, {name: [found[name] for _, found in own if found[name] is not None] for name in names}


def _results(sums: _Sums, metrics: dict[str, Any], states: dict[str, list[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (values, weights) in sums.items():
        if (mean := values.over(weights)) is not None:
            found[name] = mean
    for name, of_ranks in states.items():
        if of_ranks:
            found |= _named(name, _computed(metrics[name], of_ranks))
    return found


def _computed(metric: Any, states: list[dict[str, Any]]) -> Any:
    """What a metric computes from the states of several ranks."""
    metric.to("cpu")
    for name, reduce in metric._reductions.items():
        of_ranks = [state[name] for state in states]
        if isinstance(of_ranks[0], list):
            merged: Any = [each for state in of_ranks for each in state]
        elif len(of_ranks) == 1:
            merged = of_ranks[0]
        else:
            stacked = torch.stack(of_ranks)
            merged = stacked if reduce is None else reduce(stacked)
        setattr(metric, name, merged)
    metric._update_count, metric._computed = len(states), None
    return metric.compute()


def _named(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {f"{name}/{key}": _plain(one) for key, one in value.items()}
    return {name: _plain(value)}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


@contextmanager
def _as_it_was(model: Any) -> Iterator[None]:
    """A context in which modules are in eval mode; afterwards each is in its former mode."""
    modes = {module: module.training for module in model.modules()} if isinstance(model, nn.Module) else {}
    try:
        for module in modes:
            module.train(False)
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
