"""What a dataset's `state_dict()` is in a worker of a DataLoader: no state, and an error when it is saved.

torchdata's StatefulDataLoader asks the dataset in each worker for its state after each batch, whether anybody
saves it or not. So asking is no error, and neither is the way to the main process.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import fastresume._core as _core
from fastresume.state.cursor import KEY


class WorkerState:
    """Takes the place of what only the main process knows, in a worker. All of them are equal.

    Examples:
        >>> WorkerState() == WorkerState()
        True
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerState)

    def __hash__(self) -> int:
        return hash(WorkerState)

    def __reduce__(self) -> NoReturn:
        raise _core.StateError(
            "the state_dict() of a StatefulDataLoader with workers can't be saved: its workers do not know "
            "which batches were handed out. Save batch.state_dict() of the last batch, and load it by "
            "dataset.load_state_dict(state) in the main process; or use fastresume.Loader(dataset, "
            "num_workers=...)"
        )

    def __repr__(self) -> str:
        return "<no state: save batch.state_dict() of the last batch>"


def of_worker() -> dict[str, Any]:
    """What `state_dict()` returns in a worker."""
    return {KEY: WorkerState()}


def _sent(_state: WorkerState) -> tuple[type[WorkerState], tuple[()]]:
    """How it goes from process to process; see `WorkerState`."""
    return WorkerState, ()


ForkingPickler.register(WorkerState, _sent)
