"""A dataset that rank 0 opens for all: no other rank looks at a file, and all read their own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from fastresume.distributed import opening
from support.forks import in_ranks
from support.strategies import Dataset

pytestmark = pytest.mark.processes


def opened(rank: int, directory: str, how: dict[str, Any]) -> tuple[tuple[int, int], list[int]] | str:
    """This rank's world and rows, or the error. Only rank 0 finds the files."""
    here = directory if rank == 0 else "/there/is/nothing"
    try:
        dataset = fr.distributed.open(here, batch_size=4, **how)
    except fr.FastresumeError as error:
        return f"{type(error).__name__}: {error}"
    world = dataset.world
    return (world.rank, world.world_size), [int(row) for batch in dataset for row in batch.rows()]


@pytest.mark.parametrize("how", [{}, {"shuffle": True, "seed": 3}, {"rows": fr.Split(0.0, 0.7)}])
def test_ranks_read_what_they_would_have_opened(
    small_dataset: Dataset, tmp_path: Path, how: dict[str, Any]
) -> None:
    found = in_ranks(3, tmp_path / "store", opened, str(small_dataset.directory), how)
    for rank, of_rank in enumerate(found):
        own = fr.ParquetDataset(small_dataset.directory, batch_size=4, world=(rank, 3), **how)
        assert of_rank == ((rank, 3), [int(row) for batch in own for row in batch.rows()])


def test_what_rank_0_meets_is_an_error_on_all(tmp_path: Path) -> None:
    found = in_ranks(2, tmp_path / "ranks", opened, str(tmp_path / "none"), {})
    assert len(set(found)) == 1, "all ranks say the same"
    assert found[0].startswith("SourceError: ")
    assert str(tmp_path / "none") in found[0]


class OddError(Exception):
    """An error that does not survive a pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def met(rank: int, directory: str) -> list[str]:
    """What this rank says of each mistake, one after another."""

    def refused(name: str = "odd", **how: Any) -> str:
        def credentials() -> dict[str, str]:
            raise OddError(1, 2) if name == "odd" else BaseException(name)

        try:
            fr.distributed.open(f"delta://{directory}", batch_size=4, credentials=credentials, **how)
        except BaseException as error:  # noqa: BLE001  (it is told)
            return f"{type(error).__name__}: {error}"
        return "opened"

    said = [refused(), refused("a panic")]
    if rank == 1:
        try:
            fr.distributed.open(directory, batch_size=4, rank=5, world_size=0)
        except ValueError as error:
            return [*said, str(error)]
    return [*said, str(len(fr.distributed.open(directory, batch_size=4).files))]


def test_no_rank_waits_for_one_that_met_an_error_of_any_kind(small_dataset: Dataset, tmp_path: Path) -> None:
    of_rank_0, of_rank_1 = in_ranks(2, tmp_path / "ranks", met, str(small_dataset.directory))
    assert of_rank_0 == ["OddError: 1 and 2", "BaseException: a panic", str(len(small_dataset.files))]
    assert of_rank_1 == [
        "FastresumeError: rank 0 met OddError: 1 and 2",
        "FastresumeError: rank 0 met BaseException: a panic",
        "world_size must be at least 1, found 0: it is (rank, world_size), did you mean (0, 5)?",
    ]


def asking_its_own(rank: int, directory: str) -> bool:
    """Whether a dataset has the function of this rank, which no pickle can hold."""
    dataset = fr.distributed.open(directory, batch_size=4, credentials=lambda: {"rank": str(rank)})
    _, arguments = dataset._spec.manifest.stores.__reduce__()  # type: ignore[misc]
    return bool(arguments[1]() == {"rank": str(rank)})


def test_each_rank_asks_its_own_credentials(small_dataset: Dataset, tmp_path: Path) -> None:
    assert in_ranks(2, tmp_path / "ranks", asking_its_own, str(small_dataset.directory)) == [True, True]


def too_much(rank: int, directory: str) -> str:
    opening.MOST_BYTES = 10
    return opened(rank, directory, {})  # type: ignore[return-value]


def test_more_than_the_bound_is_not_sent(small_dataset: Dataset, tmp_path: Path) -> None:
    found = in_ranks(2, tmp_path / "ranks", too_much, str(small_dataset.directory))
    assert len(set(found)) == 1, "all ranks say the same"
    assert "but at most 10 are sent: let each rank open it" in found[0]


def test_without_a_process_group_it_opens_the_files_here(small_dataset: Dataset) -> None:
    dataset = fr.distributed.open(small_dataset.directory, batch_size=4)
    assert dataset.fingerprint == fr.ParquetDataset(small_dataset.directory, batch_size=4).fingerprint


def test_files_stand_as_they_are_given_if_that_is_asked(small_dataset: Dataset) -> None:
    files = [str(path) for path in small_dataset.files]
    dataset = fr.ParquetDataset([[file] for file in files[::-1]], batch_size=4, world=(0, 1))
    assert list(dataset.files) == files[::-1]
    with pytest.raises(TypeError, match=r"no argument order_paths=: write \[\[path\] for path in paths\]"):
        fr.ParquetDataset(files, batch_size=4, order_paths="as given")  # type: ignore[call-arg]
