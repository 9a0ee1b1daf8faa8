"""A dataset that rank 0 opens for all ranks."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed

import fastresume._core as _core
from fastresume.agreement.attendance import in_call
from fastresume.amounts import plural
from fastresume.dataset import ParquetDataset, Path
from fastresume.options.earlier import of_today
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import check_group, has_process_group, resolve_world
from fastresume.reading.files_spec import FilesSpec

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_WAY = "; for a dataset that one rank reads alone write fr.ParquetDataset(paths, ..., world=(0, 1))"

MOST_BYTES = 1 << 30
"""What rank 0 found is sent if it has no more bytes than these."""


@takes_no_other("fr.distributed.open")
def open(  # noqa: A001  (fastresume.distributed.open, as users call it)
    paths: Path | Sequence[Path] | Sequence[Sequence[Path]], *, group: ProcessGroup | None = None, **how: Any
) -> ParquetDataset:
    """The dataset of `ParquetDataset(paths, **how)`, listed and opened by rank 0 alone.

    The other ranks get what it found: the files, what their footers say, the rows that a filter selects, the
    dictionaries of `.codes()`, and `storage_options`. So a thousand ranks do not ask a store for a hundred
    thousand footers each. All ranks of the group call it. Without a process group it opens the files here.
    Each rank asks its own `credentials`: a function is not sent.

    Args:
        paths: as for `ParquetDataset`.
        group: the ranks; None for the default process group.
        how: arguments of `ParquetDataset`, the same on all ranks except `world`; those of rank 0 are used.

    Raises:
        SourceError, DataError, ValueError, TypeError: on all ranks, the error that rank 0 met.
        FastresumeError: on all ranks, if what was found has more than 1 GiB: let each open it by itself, with
            `cache=fr.Cache(manifest=)`. Also if a rank is lost or late.

    Examples:
        >>> len(open("data/*.parquet", batch_size=32).files)
        1
    """
    check_group(group)
    if not has_process_group() or torch.distributed.get_world_size(group) == 1:
        return ParquetDataset(paths, **how)
    mine: ParquetDataset | BaseException | None = None
    shared: list[Any] = [None]
    with in_call("fr.distributed.open", group, _WAY):
        if torch.distributed.get_rank(group) == 0:
            mine, shared = _opened(paths, how)
        # Of the broadcast some ranks are done before all have come, and would be taken for missing.
        torch.distributed.all_gather_object([None] * torch.distributed.get_world_size(group), None, group)
        source = torch.distributed.get_global_rank(group, 0) if group is not None else 0
        torch.distributed.broadcast_object_list(shared, src=source, group=group)
    if isinstance(mine, ParquetDataset):
        return mine
    (found,) = shared
    if mine is not None or isinstance(found, Exception):
        raise mine or found
    # Its own place, not that of rank 0; a mistake in it is raised when no rank waits here.
    world, was_detected = resolve_world(of_today((), how)[1].get("world"))
    spec: FilesSpec = _Unpickler(io.BytesIO(found), how.get("credentials")).load()
    return ParquetDataset._of_spec(dataclasses.replace(spec, world=world, world_was_detected=was_detected))


class _Pickler(pickle.Pickler):
    """Leaves out a function: each rank has it."""

    def __init__(self, file: io.BytesIO, function: object) -> None:
        super().__init__(file)
        self._function = function

    def persistent_id(self, value: object) -> str | None:
        return None if value is None or value is not self._function else "credentials"


class _Unpickler(pickle.Unpickler):
    """Fills in the function of this rank. Rank 0 of this job made the rest."""

    def __init__(self, file: io.BytesIO, function: object) -> None:
        super().__init__(file)
        self._function = function

    def persistent_load(self, _: object) -> object:
        return self._function


def _sendable(error: BaseException) -> Exception:
    """The error as other processes can have it: a class of a library's may not survive the way."""
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (it was made here)
    except Exception:  # noqa: BLE001  (its class may do anything)
        copy = None
    if isinstance(copy, Exception):
        return copy
    return _core.FastresumeError(f"rank 0 met {type(error).__name__}: {error}")


def _opened(paths: Any, how: dict[str, Any]) -> tuple[ParquetDataset | BaseException, list[Any]]:
    """What this rank has, and what it sends to the others: a pickled spec, or an error."""
    try:
        dataset = ParquetDataset(paths, **how)
        _Pickler(pickled := io.BytesIO(), how.get("credentials")).dump(dataset._spec)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  (the others wait for this one)
        return error, [_sendable(error)]
    content = pickled.getvalue()
    if len(content) > MOST_BYTES:
        too_many = (
            f"what rank 0 found of {plural(len(dataset.files), 'file')} has {len(content)} bytes, but at "
            f"most {MOST_BYTES} are sent: let each rank open it, as ParquetDataset(..., "
            "cache=fr.Cache(manifest='m'))"
        )
        refused = _core.FastresumeError(too_many)
        return refused, [refused]
    return dataset, [content]
