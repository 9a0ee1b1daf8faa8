"""Which of how many ranks this process is, and how they and their workers share what is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import torch.distributed

import fastresume._core as _core
from fastresume.options.checks import at_least, integer, nearest, quoted
from fastresume.options.unknown import takes_no_other

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

MAX_THREADS = 32
"""The default uses no more: nodes have hundreds of cores, and jobs that share them with others."""


_LAUNCHERS = (
    ("srun", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ("mpirun", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("mpiexec", "PMI_RANK", ("PMI_SIZE",)),
)
"""Launchers that don't set torch's variables: the variables that they set instead."""

_OF_MODELS = ("tp", "pp", "cp", "sp", "ep", "tensor", "pipeline", "context", "sequence", "expert", "model")
"""The last words in names of a device mesh's dimensions whose ranks share a model, and read the same rows."""


def has_process_group() -> bool:
    """Whether there is a default process group."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def check_others(call: str, alone: str) -> None:
    """Refuses to ask all ranks where no process group reaches those that the environment names.

    Args:
        call: what asks them.
        alone: what a process that means itself alone does instead.

    Raises:
        FastresumeError: if there is no process group, and `WORLD_SIZE` is above 1.
    """
    ranks = None if has_process_group() else from_environment("WORLD_SIZE", least=1)
    if ranks is not None and ranks > 1:
        raise _core.FastresumeError(
            f"{call} asks all ranks, and no process group reaches them: the environment has "
            f"WORLD_SIZE={ranks}. Call torch.distributed.init_process_group before; {alone}"
        )


def check_group(group: object, hint: str = "world=(rank, world_size) says which rows a rank reads") -> None:
    """Refuses what is no process group, also where there is none.

    Args:
        group: what was given.
        hint: what to write; of a device mesh it is known.

    Raises:
        TypeError: saying what to write.
    """
    if group is None or isinstance(group, getattr(torch.distributed, "ProcessGroup", ())):
        return
    if _is_mesh(group):
        hint = f"write group=mesh{'' if group.ndim == 1 else '[name]'}.get_group()"
    raise TypeError(f"group must be a torch.distributed.ProcessGroup or None, found {quoted(group)}: {hint}")


@takes_no_other("fr.World", "world")
@dataclass(frozen=True)
class World:
    """A rank among `world_size` ranks.

    Args:
        rank: this process, in `[0, world_size)`.
        world_size: how many processes share the data, at least 1.

    Raises:
        ValueError: if `rank` is not in `[0, world_size)`.
        TypeError: if either is not an integer.

    Examples:
        >>> World(rank=1, world_size=4)
        World(rank=1, world_size=4)
    """

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        # As plain integers, whatever kind was passed: they go into file names and JSON.
        rank, size = integer("rank", self.rank), integer("world_size", self.world_size)
        object.__setattr__(self, "world_size", size)
        object.__setattr__(self, "rank", rank)
        if 0 <= rank < size:
            at_least(1, "world_size", size)
            return
        hint = f": it is (rank, world_size), did you mean ({size}, {rank})?" if 0 <= size < rank else ""
        if 0 < rank == size:
            hint = f": ranks count from 0, so the last one is ({rank - 1}, {size})"
        if size < 1:
            raise ValueError(f"world_size must be at least 1, found {size}{hint}")
        raise ValueError(f"rank {rank} is not in [0, {size}), the range that world_size gives{hint}")

    @classmethod
    def detect(cls) -> World:
        """The rank and world size of `torch.distributed`, else of the environment, else 0 of 1.

        The environment is `RANK` and `WORLD_SIZE`, as `torchrun` sets them.

        Raises:
            ValueError: if a variable is not a whole number, one is set without the other, or the rank
                is out of range; if neither is, and srun, mpirun or mpiexec started this process beside
                others: each would take itself for rank 0 of 1.

        Examples:
            >>> World.detect()
            World(rank=0, world_size=1)
        """
        current = cls.of_default_group()
        if current is not None:
            return current
        world_size = from_environment("WORLD_SIZE", least=1)
        rank = from_environment("RANK", least=0, most=None if world_size is None else world_size - 1)
        if world_size is None and rank is not None:
            raise ValueError(f"RANK is set ({rank}), but WORLD_SIZE is not")
        if rank is None and world_size not in (None, 1):
            raise ValueError(
                f"WORLD_SIZE is set ({world_size}), but RANK is not, as in processes that Lightning starts "
                "by itself: start them with torchrun, or make the dataset after init_process_group, or pass "
                "world=(rank, world_size)"
            )
        if world_size is None:
            _check_launcher()
        return cls(rank or 0, 1 if world_size is None else world_size)

    @classmethod
    def of_default_group(cls) -> World | None:
        """The rank and size of the default process group; None where there is none."""
        if has_process_group():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return None

    @classmethod
    def of(cls, group: World | tuple[int, int] | ProcessGroup | DeviceMesh) -> World:
        """The rank and size of a process group, of a one-dimensional device mesh, or of a pair of both.

        Raises:
            ValueError: if a mesh has more than one dimension, or this process is not in the group.
            TypeError: if `group` is none of them.
        """
        if isinstance(group, World):
            return group
        if isinstance(group, tuple | list) and len(group) == 2:
            return cls(*group)
        outside: object = torch.distributed.GroupMember.NON_GROUP_MEMBER
        if group is outside:
            raise ValueError("this process is not a member of the process group")
        if _is_mesh(group):
            if group.ndim != 1:
                raise ValueError(_several_dimensions(group))
            return cls(group.get_local_rank(), group.size())
        if hasattr(group, "rank") and hasattr(group, "size"):
            return cls(group.rank(), group.size())
        kind = type(group).__name__
        raise TypeError(
            f"world must be a World, a pair, a process group or a device mesh, found {kind}: write "
            "world=(rank, world_size)"
        )


def _is_mesh(group: Any) -> TypeGuard[DeviceMesh]:
    return hasattr(group, "get_local_rank") and hasattr(group, "ndim")


def _several_dimensions(mesh: Any) -> str:
    """Which part of a mesh says whose rows a rank reads."""
    names = mesh.mesh_dim_names
    found = f"the device mesh has {mesh.ndim} dimensions"
    if not names:
        return (
            f"{found} without names: write init_device_mesh(..., mesh_dim_names=('data', 'model')), and pass "
            "world=mesh['data'], the one over which the rows are divided"
        )
    found += f", {', '.join(names)}"
    words = {name: name.lower().removesuffix("_parallel").split("_") for name in names}
    divided = [name for name in names if words[name][-1] not in _OF_MODELS]
    if not divided:
        return f"{found}, whose ranks share one model, and read the same rows: write world=(0, 1)"
    if len(divided) == 1:
        way = f"world=mesh[{divided[0]!r}]"
    else:
        way = f"world=mesh[{', '.join(map(repr, divided))}]._flatten('data_ranks'), which is all of them"
    return (
        f"{found}: pass those over which the rows are divided, as {way}; ranks that "
        "differ in another one read the same rows"
    )


def default_threads() -> int:
    """The cores that this process may use, shared with the other ranks of the node, at most 32.

    Its affinity says which, and the quota of its container (its control groups) how many.

    Raises:
        ValueError: if `LOCAL_WORLD_SIZE` is no number of ranks.
    """
    ranks = from_environment("LOCAL_WORLD_SIZE", least=1)
    return max(1, min(MAX_THREADS, _core.cores() // (1 if ranks is None else ranks)))


def _check_launcher() -> None:
    for launcher, rank_name, size_names in _LAUNCHERS:
        rank = os.environ.get(rank_name, "")
        size_name = next((name for name in size_names if name in os.environ), size_names[-1])
        size = os.environ.get(size_name, "")
        if _is_count(rank) and _is_count(size) and int(size) > 1:
            raise ValueError(
                f"{launcher} started this process as {rank_name}={rank} of {size_name}={size}, but RANK and "
                "WORLD_SIZE are not set, so that each of them would read all rows: write "
                f'world=(int(os.environ["{rank_name}"]), int(os.environ["{size_name}"])); or start with '
                "torchrun, or make the dataset after init_process_group. If this process reads alone, write "
                "world=(0, 1)"
            )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def from_environment(name: str, least: int | None = None, most: int | None = None) -> int | None:
    """The number in an environment variable; None if it is not set.

    Raises:
        ValueError: if it is no whole number, or out of range.
    """
    text = os.environ.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} is not a whole number: {text!r}") from None
    if (least is not None and number < least) or (most is not None and number > most):
        expected = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"the environment variable {name} must be {expected}, found {text!r}")
    return number


Cut = tuple[int, int, int]
"""Lanes, groups, and rows per lane and batch."""


def cut_of(batch_size: int, world_size: int, workers: int, lanes: int | None, groups: int | None) -> Cut:
    """The cut of a job.

    Args:
        batch_size: rows per rank and step.
        world_size: how many ranks there are.
        workers: how many loader workers each rank has; 1 without any.
        lanes: what the user named; None for one per rank and group.
        groups: what the user named; None for one per worker, or one where `lanes` is 1.

    Raises:
        ValueError: for numbers that do not divide; names the nearest that do.
    """
    if groups is None:
        groups = 1 if lanes == 1 else workers
    ways = world_size * groups
    if lanes == 1:
        if groups > 1:
            raise ValueError(
                f"lanes=1 is one stretch of the order per batch: groups must be 1, found {groups}"
            )
        return 1, 1, batch_size * world_size
    if groups % workers:
        raise ValueError(
            f"groups {groups} is not a multiple of {workers} workers; {nearest(groups, workers)}"
        )
    if lanes is None:
        lanes = ways
    if lanes % ways:
        raise ValueError(
            f"lanes {lanes} is not a multiple of {ways} (world_size {world_size} times groups {groups}); "
            + nearest(lanes, ways)
        )
    rows, rest = divmod(batch_size * ways, lanes)
    if rest:
        each = lanes // ways
        raise ValueError(
            f"batch_size {batch_size} is not a multiple of {each}, the lanes that a rank has in each group "
            f"(lanes {lanes}, world_size {world_size}, groups {groups}); {nearest(batch_size, each)}"
        )
    return lanes, groups, rows


def global_share(global_batch_size: object, world_size: int) -> int:
    """The rows of each rank in a global batch.

    Raises:
        ValueError: if the ranks can't have equal shares; names the nearest sizes that can be shared.
    """
    number = at_least(1, "global_batch_size", global_batch_size)
    share, rest = divmod(number, world_size)
    if rest:
        raise ValueError(
            f"global_batch_size {number} can't be shared equally by {world_size} ranks; "
            + nearest(number, world_size)
        )
    return share


def resolve_world(world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None) -> tuple[World, bool]:
    """The world that an argument names, and whether it was detected since it names none.

    Raises:
        TypeError: if it is no world.
        ValueError: if the rank is out of range, or the environment says what can't be.
    """
    return (World.detect(), True) if world is None else (World.of(world), False)


def rows_of_each_rank(batch_size: object, global_batch_size: object, world_size: int) -> int | None:
    """The rows of each rank in a batch; None if neither size is named.

    Raises:
        TypeError: if both are named.
        ValueError: if the ranks can't have equal shares; names the nearest sizes that can be shared.
    """
    if batch_size is None:
        return None if global_batch_size is None else global_share(global_batch_size, world_size)
    if global_batch_size is not None:
        found = f"both, {batch_size!r} and {global_batch_size!r}"
        raise TypeError(f"one of batch_size and global_batch_size must be given, found {found}")
    return at_least(1, "batch_size", batch_size)
