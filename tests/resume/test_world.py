"""Which rank of how many: from the arguments, a process group, a mesh, the environment."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

import fastresume as fr
from fastresume import _core
from fastresume.agreement import attendance
from fastresume.training import Evaluator
from support.each_of import each_of
from support.strategies import Dataset

Launch = Callable[[int, int], None]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def init_process_group() -> Iterator[Launch]:
    """A function that makes the default process group, of ranks that are not there: nothing is sent."""

    def init(rank: int, world_size: int) -> None:
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)

    yield init
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def set_environment(
    monkeypatch: pytest.MonkeyPatch, rank: str | None = None, world_size: str | None = None
) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)


# -------------------------------------------------------------------------------------------- the environment


def test_alone_it_is_rank_0_of_1() -> None:
    assert fr.World.detect() == fr.World(0, 1)


@pytest.mark.parametrize(
    ("rank", "world_size", "expected"),
    [
        ("0", "1", (0, 1)),
        ("2", "4", (2, 4)),
        ("3", "4", (3, 4)),
        ("0", "4096", (0, 4096)),
        (None, "1", (0, 1)),
    ],
)
def test_the_environment_of_torchrun_is_read(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, world_size: str, expected: tuple[int, int]
) -> None:
    set_environment(monkeypatch, rank, world_size)
    assert fr.World.detect() == fr.World(*expected)


@pytest.mark.parametrize(
    ("rank", "world_size", "named"),
    [
        ("4", "4", ["RANK", "from 0 to 3", "'4'"]),
        ("7", "4", ["RANK", "from 0 to 3", "'7'"]),
        ("-1", "4", ["RANK", "from 0 to 3", "'-1'"]),
        ("0", "0", ["WORLD_SIZE", "at least 1", "'0'"]),
        ("0", "-2", ["WORLD_SIZE", "at least 1", "'-2'"]),
        ("one", "4", ["RANK", "'one'"]),
        ("", "4", ["RANK", "''"]),
        ("1.0", "4", ["RANK", "'1.0'"]),
        ("1", "four", ["WORLD_SIZE", "'four'"]),
        ("1", "", ["WORLD_SIZE", "''"]),
        ("1", None, ["RANK", "1", "WORLD_SIZE"]),
        ("0", None, ["RANK", "0", "WORLD_SIZE"]),
        (None, "4", ["WORLD_SIZE", "4", "RANK"]),
        (None, "x", ["WORLD_SIZE", "'x'"]),
    ],
)
def test_an_environment_that_makes_no_sense_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
    small_dataset: Dataset,
    rank: str | None,
    world_size: str | None,
    named: list[str],
) -> None:
    set_environment(monkeypatch, rank, world_size)
    with pytest.raises(ValueError, match=r".") as caught:
        fr.World.detect()
    for name in named:
        assert name in str(caught.value)
    with pytest.raises(ValueError, match=r".") as again:
        fr.ParquetDataset(small_dataset.directory, batch_size=5)
    assert str(again.value) == str(caught.value)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (
            {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"},
            ["srun", "SLURM_PROCID=3 of SLURM_NTASKS=4", 'int(os.environ["SLURM_NTASKS"]))'],
        ),
        (
            {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "1"},
            ["srun", "SLURM_PROCID=0 of SLURM_STEP_NUM_TASKS=2"],
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, ["mpirun", "OMPI_COMM_WORLD_RANK=1"]),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ["mpiexec", "PMI_RANK=1 of PMI_SIZE=2"]),
    ],
)
def test_processes_that_torch_knows_nothing_of_are_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
    small_dataset: Dataset,
    environment: dict[str, str],
    named: list[str],
) -> None:
    """Each would take itself for rank 0 of 1, and read all rows."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="each of them would read all rows: write world=") as raised:
        fr.ParquetDataset(small_dataset.directory, batch_size=5)
    for text in [*named, "torchrun", "init_process_group", "world=(0, 1)"]:
        assert text in str(raised.value)
    assert fr.ParquetDataset(small_dataset.directory, batch_size=5, world=(0, 1)).world == fr.World(0, 1)
    set_environment(monkeypatch, "1", "2")  # as torchrun sets them in a job of srun
    assert fr.World.detect() == fr.World(1, 2)


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_NTASKS": "4"},
        {"SLURM_PROCID": "", "SLURM_NTASKS": "4"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "9" * 100},
    ],
)
def test_a_process_that_was_started_alone_is_rank_0_of_1(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert fr.World.detect() == fr.World(0, 1)


def test_processes_that_lightning_starts_by_itself_are_told_of_torchrun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"Lightning starts by itself.*torchrun.*world=\(rank, world_size"):
        fr.World.detect()


def test_a_dataset_takes_its_rank_from_the_environment_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch, small_dataset: Dataset
) -> None:
    set_environment(monkeypatch, "1", "2")
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5)
    set_environment(monkeypatch, "0", "3")
    assert dataset.world == fr.World(1, 2)
    assert next(iter(dataset)).rows().tolist() == [50, 51, 52, 53, 54]


def test_arguments_come_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, small_dataset: Dataset
) -> None:
    set_environment(monkeypatch, "not a number", "4")
    for arguments in ({"rank": 1, "world_size": 2}, {"world": fr.World(1, 2)}):
        dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5, **arguments)  # type: ignore[arg-type]
        assert dataset.world == fr.World(1, 2)


# ------------------------------------------------------------------------------------------ groups and meshes


def test_the_process_group_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, init_process_group: Launch
) -> None:
    set_environment(monkeypatch, "0", "2")
    init_process_group(5, 8)
    assert fr.World.detect() == fr.World(5, 8)
    torch.distributed.destroy_process_group()
    assert fr.World.detect() == fr.World(0, 2)


def test_a_process_group_or_a_mesh_of_one_dimension_is_a_world(
    init_process_group: Launch, small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other ranks are not there.
    monkeypatch.setattr(attendance, "WAIT_SECONDS", 0.0)
    init_process_group(5, 8)
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    worlds = {
        torch.distributed.group.WORLD: fr.World(5, 8),
        torch.distributed.new_group([1, 3, 5]): fr.World(2, 3),
        mesh["data"]: fr.World(2, 4),
        mesh["model"]: fr.World(1, 2),
        init_device_mesh("cpu", (8,)): fr.World(5, 8),
        fr.World(3, 4): fr.World(3, 4),
    }
    for given, world in worlds.items():
        assert fr.World.of(given) == world
        dataset = fr.ParquetDataset(small_dataset.directory, batch_size=2, world=given)
        assert dataset.world == world
        assert pickle.loads(pickle.dumps(dataset)).world == world
        # A data-parallel group may be smaller than the job: the default group says nothing against it.
        assert next(iter(dataset)).rows()[0] == world.rank * (103 // (2 * world.world_size)) * 2


def test_what_is_no_world_is_refused(init_process_group: Launch) -> None:
    init_process_group(5, 8)
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    with pytest.raises(ValueError, match=r"has 2 dimensions, data, model: .*, as world=mesh\['data'\];"):
        fr.World.of(mesh)
    hybrid = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicate", "shard", "tp"))
    way = r"as world=mesh\['replicate', 'shard'\]\._flatten\('data_ranks'\)"
    with pytest.raises(ValueError, match=way):
        fr.World.of(hybrid)
    assert fr.World.of(hybrid["replicate", "shard"]._flatten("data_ranks")) == fr.World(2, 4)
    for names, way in (
        (("data_parallel", "tensor_parallel"), r"as world=mesh\['data_parallel'\];"),
        (("tp", "pp"), r"whose ranks share one model, and read the same rows: write world=\(0, 1\)"),
        (("rep", "step"), r"as world=mesh\['rep', 'step'\]\._flatten"),
    ):
        with pytest.raises(ValueError, match=way):
            fr.World.of(init_device_mesh("cpu", (4, 2), mesh_dim_names=names))
    with pytest.raises(ValueError, match=r"without names: write init_device_mesh\(\.\.\., mesh_dim_names="):
        fr.World.of(init_device_mesh("cpu", (4, 2)))
    with pytest.raises(ValueError, match="not a member of the process group"):
        fr.World.of(torch.distributed.new_group([0, 1]))
    assert fr.World.of((1, 4)) == fr.World.of([1, 4]) == fr.World(1, 4)
    for wrong in ((4, 4), (-1, 4), ("0", 4), (0, 4.0)):
        with pytest.raises((TypeError, ValueError), match=r"rank|world_size"):
            fr.World.of(wrong)  # type: ignore[arg-type]
    for nothing in (None, "1/4", (1, 4, 2), {"rank": 1}):
        with pytest.raises(TypeError, match=f"found {type(nothing).__name__}"):
            fr.World.of(nothing)  # type: ignore[arg-type]
    for group, way in ((mesh, r"mesh\[name\]"), (mesh["data"], "mesh")):
        with pytest.raises(TypeError, match=rf"found DeviceMesh.*: write group={way}\.get_group\(\)$"):
            Evaluator(None, lambda *_: {}, group=group)  # type: ignore[arg-type]


def test_a_process_group_that_says_otherwise_at_iter_is_an_error_that_names_both(
    small_dataset: Dataset, init_process_group: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendance, "WAIT_SECONDS", 0.0)
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5)
    loader = fr.Loader(dataset, threads=1)
    placed = fr.ParquetDataset(small_dataset.directory, batch_size=5, world=(0, 1))
    init_process_group(1, 4)
    for reader in (dataset, loader):
        with pytest.raises(fr.FastresumeError, match=r"world_size=1.*world_size=4.*init_process_group"):
            next(iter(reader))
    assert next(iter(placed)).rows()[0] == 0  # what was said by argument is meant
    after = fr.ParquetDataset(small_dataset.directory, batch_size=5)
    assert (after.world, next(iter(after)).rows()[0]) == (fr.World(1, 4), 25)
    torch.distributed.destroy_process_group()
    assert next(iter(dataset)).rows()[0] == 0


# -------------------------------------------------------------------------------------------------- the value


def test_a_world_is_a_value() -> None:
    world = fr.World(1, 4)
    assert world == fr.World(rank=1, world_size=4)
    assert world != fr.World(2, 4)
    assert (world.rank, world.world_size) == (1, 4)
    assert repr(world) == "World(rank=1, world_size=4)"
    assert pickle.loads(pickle.dumps(world)) == world
    assert len({world, fr.World(1, 4)}) == 1
    with pytest.raises(AttributeError):
        world.rank = 2  # type: ignore[misc]


@each_of(
    ("rank", "world_size", "error", "message"),
    [
        (
            4,
            4,
            ValueError,
            r"rank 4 is not in \[0, 4\), .*: ranks count from 0, so the last one is \(3, 4\)$",
        ),
        (4, 2, ValueError, r"rank 4 is not in \[0, 2\), .*: it is \(rank, world_size\), .* \(2, 4\)\?$"),
        (2, 0, ValueError, r"world_size must be at least 1, found 0: it is .*, did you mean \(0, 2\)\?$"),
        (-1, 4, ValueError, r"rank -1 is not in \[0, 4\), the range that world_size gives$"),
        (0, 0, ValueError, "world_size must be at least 1, found 0$"),
        (0, -1, ValueError, "world_size must be at least 1, found -1"),
        (0.5, 2, TypeError, "rank.*0.5"),
        (0, 2.0, TypeError, "world_size.*2.0"),
        ("0", 2, TypeError, "rank.*'0'"),
        (True, 2, TypeError, "rank.*True"),
        (None, 2, TypeError, "rank.*None"),
    ],
)
def test_what_is_no_rank_of_a_world_is_refused(
    rank: int, world_size: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fr.World(rank, world_size)


# ------------------------------------------------------------------------------------ how many threads it has

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
several_cores = pytest.mark.skipif(len(CORES) < 2, reason="there is one core, or nothing says which")


def threads_of(
    small_dataset: Dataset, ranks: str = "1", cores: str = "", group: Path | None = None
) -> tuple[int, bool]:
    """How many threads a loader has in a process so placed, and whether it says so."""

    def place_and_count(queue: Any) -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
        os.environ["LOCAL_WORLD_SIZE"] = ranks
        dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5, world=(0, 1))
        loader = fr.Loader(dataset)
        queue.put((loader.threads, f"threads={loader.threads}" in repr(loader)))
        os._exit(0)  # a process of torch's ends by itself after a second, and under a quota after many

    # To start anew would be to import torch, which takes seconds, and ten times as many under a quota.
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=place_and_count, args=(queue,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    found: tuple[int, bool] = queue.get()
    return found


@pytest.fixture
def quota() -> Iterator[Callable[[float], Path]]:
    """A function that makes a control group which has so many cores: what a container is to the system."""
    made: list[Path] = []

    def make(cores: float) -> Path:
        root = Path("/sys/fs/cgroup")
        is_second = (root / "cgroup.controllers").exists()
        group = root / ("" if is_second else "cpu") / f"fastresume-test-{os.getpid()}-{len(made)}"
        try:
            group.mkdir()
            made.append(group)
            if is_second:
                (group / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")
            else:
                (group / "cpu.cfs_period_us").write_text("100000")
                (group / "cpu.cfs_quota_us").write_text(f"{int(cores * 100_000)}")
        except OSError as cause:
            pytest.skip(f"no control group can be made here: {cause}")
        return group

    yield make
    for group in made:
        group.rmdir()


@several_cores
def test_a_loader_has_the_threads_of_the_cores_that_its_affinity_names(small_dataset: Dataset) -> None:
    assert threads_of(small_dataset) == (min(len(CORES), 32), True)
    assert threads_of(small_dataset, cores=f"{CORES[-1]}") == (1, True)
    assert threads_of(small_dataset, cores=f"{CORES[0]},{CORES[-1]}") == (2, True)


@several_cores
def test_a_loader_has_the_threads_that_the_quota_of_its_container_gives(
    small_dataset: Dataset, quota: Callable[[float], Path]
) -> None:
    assert threads_of(small_dataset, group=quota(1)) == (1, True)
    assert threads_of(small_dataset, group=quota(1.9)) == (1, True)
    assert threads_of(small_dataset, group=quota(0.1)) == (1, True), "it takes one to read"
    assert threads_of(small_dataset, group=quota(2), cores=f"{CORES[0]},{CORES[1]}") == (2, True)


@several_cores
@each_of(("ranks", "threads"), [("1", 2), ("2", 1), ("5", 1)])
def test_cores_are_shared_with_the_other_ranks_of_the_node(
    small_dataset: Dataset, ranks: str, threads: int
) -> None:
    cores = f"{CORES[0]},{CORES[1]}"
    assert threads_of(small_dataset, ranks, cores) == (threads, True)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (9, 9), (32, 32), (33, 32), (256, 32)])
def test_on_large_machines_more_than_32_threads_are_for_those_who_name_them(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    """No machine of so many cores is at hand: what they are counted by has tests of its own, above."""
    monkeypatch.setattr(_core, "cores", lambda: cores)
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5)
    assert fr.Loader(dataset).threads == threads
    assert fr.Loader(dataset, threads=cores).threads == cores
