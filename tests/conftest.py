"""What all tests share: hypothesis profiles, a clean environment, small datasets.

FASTRESUME_PROFILE chooses the profile: `dev` (the default, quick), `ci` (the same examples each time),
`all` (more of them, for `make test-all`) or `soak`.
"""

from __future__ import annotations

import gc
import os
import signal

# A shell has what it starts in the background ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything imports torch: its threads would fight with the ranks that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

# What a launcher left in the environment would place every dataset of these tests on some rank.
for _name in (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
):
    os.environ.pop(_name, None)

from collections.abc import Callable, Iterator  # noqa: E402  (the environment comes first)
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import pytest  # noqa: E402
import torch.utils.data  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from support.child import Reader  # noqa: E402
from support.columns import Kind  # noqa: E402
from support.strategies import ColumnSpec, Dataset, DatasetSpec, plain_spec  # noqa: E402

# Examples write files and start readers: how long one takes says nothing (deadline, too_slow).
settings.register_profile(
    "dev", max_examples=30, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# The same each time: they find nothing new, so fewer do.
settings.register_profile("ci", settings.get_profile("dev"), max_examples=10, derandomize=True)
settings.register_profile("all", settings.get_profile("dev"), max_examples=100)
# A soak draws for hours and so meets rare examples that are large or filtered; that is what it is for.
settings.register_profile(
    "soak",
    settings.get_profile("dev"),
    max_examples=5000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile(os.environ.get("FASTRESUME_PROFILE", "dev"))

# A DataLoader waits so long for a worker that raised, and then ends it: five seconds, were it not for this
# in any test in which its iterator is collected. No test looks at that wait.
torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 1


KEPT = Path(__file__).parents[1] / "target/tests"
"""Where a run keeps which tests were slowest and which failed."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keeps the 40 slowest tests, and those that failed: `make` repeats these after what libraries print."""
    reports = [one for each in terminalreporter.stats.values() for one in each if hasattr(one, "duration")]
    slowest = sorted(reports, key=lambda one: one.duration, reverse=True)[:40]
    failed = [one.nodeid for kind in ("failed", "error") for one in terminalreporter.stats.get(kind, ())]
    KEPT.mkdir(parents=True, exist_ok=True)
    lines = [f"{one.duration:7.2f} s {one.when:8} {one.nodeid}\n" for one in slowest]
    (KEPT / "slowest.txt").write_text("".join(lines))
    (KEPT / "failed.txt").write_text("".join(f"FAILED {name}\n" for name in failed))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nobody looks for garbage in what is collected, as it stays; a fork that did would copy all of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# function_scoped_fixture is suppressed nowhere: under @given take `written(spec)` or `dataset_root`, and not
# tmp_path, which all examples would share.


@pytest.fixture
def write_dataset(tmp_path: Path) -> Callable[[DatasetSpec], Dataset]:
    """A function that writes a spec into a fresh directory of this test and returns the dataset."""
    count = 0

    def write(spec: DatasetSpec) -> Dataset:
        nonlocal count
        count += 1
        directory = tmp_path / f"dataset-{count}"
        directory.mkdir()
        return spec.write(directory)

    return write


@pytest.fixture(scope="session")
def dataset_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the whole run below which `datasets(root)` may write."""
    return tmp_path_factory.mktemp("datasets")


@pytest.fixture(scope="session")
def small_dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """103 rows in three files, one of them empty, of a few types; nobody writes to it."""
    columns = [
        ColumnSpec("label", "bool"),
        ColumnSpec("i_1", "float32"),
        ColumnSpec("i_2", "float32", fill="bits", seed=1),
        ColumnSpec("c_1", "int64", fill="extremes", seed=2),
        ColumnSpec("c_2", "int64"),
        ColumnSpec("at", "timestamp[us]"),
    ]
    return plain_spec([40, 0, 13], [], [17, 33], columns=columns).write(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """103 rows in two files: lists, strings, lists of them, numbers, and nulls; nobody writes to it."""
    columns = [
        Kind("tokens", "int32", "list", nulls=0.1, longest=9),
        Kind("name", "string", nulls=0.1, seed=1),
        Kind("blob", "binary", nulls=None, seed=2),
        Kind("weight", "float32", nulls=0.2, seed=3),
        Kind("words", "string", "list", nulls=0.1, element_nulls=0.1, seed=4),
        Kind("grid", "int16", "list_of_list", nulls=0.1, seed=5),
    ]
    return plain_spec([40, 0, 13], [50], columns=columns).write(tmp_path_factory.mktemp("lists"))


@pytest.fixture(scope="session")
def slow_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A function that makes so many files, which take long to read: links to one that has many columns."""

    def write(count: int) -> Path:
        directory = tmp_path_factory.mktemp("slow")
        first = directory / "0000.parquet"
        pq.write_table(pa.table({f"c{index}": np.arange(4) for index in range(200)}), first, row_group_size=2)
        for index in range(1, count):
            (directory / f"{index:04}.parquet").hardlink_to(first)
        return directory

    return write


@pytest.fixture(scope="session")
def reader() -> Iterator[Reader]:
    """A process that reads damaged files; all tests have one, as it takes seconds to import torch."""
    found = Reader()
    yield found
    found.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the one file of a test lies."""
    return tmp_path / "x.parquet"
