"""Law 4: named lanes and groups make one sequence of global batches, whatever the ranks and workers."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.reading.torch_dataloader.iterator import WorkerIterator
from support import oracle
from support.each_of import each_of
from support.jobs import (
    FEWER,
    MANY_WORKERS,
    Job,
    Ledger,
    data_loader,
    do_step,
    fields_of,
    make,
    make_reader,
    parallel,
    rows_of,
)
from support.strategies import ColumnSpec, Dataset, plain_spec, written
from support.topologies import Shuffle, Topology, one_order, orders

pytestmark = MANY_WORKERS

BOTH_ORDERS = each_of("shuffle", [None, Shuffle(17, 30, 100)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """1003 rows in four files: 20 global batches of 48 rows, and 43 rows."""
    columns = [ColumnSpec("x", "float32", fill="bits"), ColumnSpec("y", "int16", fill="bits", seed=1)]
    spec = plain_spec([200, 0, 51], [], [400, 2], [350], columns=columns)
    return spec.write(tmp_path_factory.mktemp("lanes"))


def readers(
    data: Dataset, world_size: int, shuffle: Shuffle | None, threads: int | None = None, **how: Any
) -> list[fr.ParquetDataset | fr.Loader]:
    """The readers of all ranks of a job with 48 rows in a global batch, unless `how` says otherwise."""
    order = {} if shuffle is None else shuffle.arguments
    sizes = {"batch_size": None, "global_batch_size": 48, "lanes": 16, **how}
    return [
        make_reader(make(data, **order, **sizes, **parallel(rank, world_size)), threads)
        for rank in range(world_size)
    ]


def digest_of(batches: list[fr.Batch]) -> str:
    """A hash of a global batch: of the rows, and of the values of every column, of all ranks in turn."""
    digest = hashlib.sha256()
    for name in batches[0]:
        for batch in batches:
            digest.update(batch[name].numpy().tobytes())
    for batch in batches:
        digest.update(batch.rows().tobytes())
    for batch in batches:
        digest.update(batch.valid.numpy().tobytes())
    return digest.hexdigest()


def global_digests(iterators: list[Any]) -> list[str]:
    """The hashes of the global batches that all ranks give in lockstep."""
    return [digest_of(list(step)) for step in zip(*iterators, strict=True)]


# -------------------------------------------------------------------------------------------- law 4, by hash


@pytest.mark.law(4)
@BOTH_ORDERS
@each_of("threads", [None, 2])
@each_of("how", [{}, {"tail": "pad"}, {"lanes": 1}, {"groups": 2, "lanes": 48}])
def test_the_global_batches_are_the_same_at_every_world_size(
    data: Dataset, shuffle: Shuffle | None, threads: int | None, how: dict[str, Any]
) -> None:
    """Of two passes; those of a shuffled job differ from each other, but not between jobs."""
    digests = []
    for world_size in (1, 2, 4, 8):
        ranks = readers(data, world_size, shuffle, threads, **how)
        passes = [global_digests([iter(rank) for rank in ranks]) for _ in range(2)]
        assert [len(found) for found in passes] == [21 if "tail" in how else 20] * 2
        assert (passes[0] == passes[1]) == (shuffle is None)
        digests.append(passes)
    assert digests == [digests[0]] * 4
    assert len(set(digests[0][0])) == len(digests[0][0])  # a hash tells batches apart


@pytest.mark.law(4)
@BOTH_ORDERS
@each_of("lanes", [16, 1])
def test_the_global_batches_are_the_same_when_the_world_size_changes_in_mid_pass(
    data: Dataset, shuffle: Shuffle | None, lanes: int
) -> None:
    unbroken = global_digests(readers(data, 1, shuffle, lanes=lanes, tail="pad"))
    found: list[str] = []
    state = None
    for world_size, steps in ((4, 3), (8, 5), (2, 1), (1, 6), (8, 2), (4, 99)):
        ranks = readers(data, world_size, shuffle, lanes=lanes, tail="pad")
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
        for step in itertools.islice(zip(*ranks, strict=True), steps):
            found.append(digest_of(list(step)))
            state = step[0].state_dict()
            assert [batch.state_dict() for batch in step] == [state] * world_size
            if len(found) < len(unbroken):
                assert len(fields_of(state)["cuts"]) == 1  # it is one cut throughout
    assert found == unbroken


@pytest.mark.law(4)
@given(rows=st.integers(1, 80), data=st.data())
@FEWER
def test_one_cut_is_one_sequence_of_global_batches(rows: int, data: st.DataObject) -> None:
    """Under every topology that the cut allows, with simulated workers, from any state of the pass."""
    tail = data.draw(st.sampled_from(("drop", "pad")))
    same = data.draw(one_order(rows=rows, tail=tail))
    same = data.draw(st.lists(st.sampled_from(same), min_size=2, max_size=4))
    shuffle = data.draw(orders(rows))
    with written(plain_spec([rows // 2], [rows - rows // 2])) as files:
        table = oracle.read_table(files.directory)
        first = Job(files, same[0], shuffle=shuffle, table=table)
        for _ in range(data.draw(st.integers(0, first.oracle.batches_left - 1))):
            first.step()
        runs = []
        for topology in same:
            job = Job(files, topology, shuffle=shuffle, table=table, state=first.state())
            assert job.oracle.cut == first.oracle.cut
            runs.append([[row for rows in step for row in rows] for step in job.run_pass()])
        assert all(run == runs[0] for run in runs), same


@pytest.mark.law(4)
@pytest.mark.processes
@BOTH_ORDERS
@pytest.mark.parametrize(
    ("how", "workers"), [({"lanes": 16, "groups": 4}, (0, 1, 2, 4)), ({"lanes": 1}, (0, 1, 3))], ids=str
)
def test_a_dataloader_gives_the_same_batches_with_any_number_of_workers(
    data: Dataset, shuffle: Shuffle | None, how: dict[str, Any], workers: tuple[int, ...]
) -> None:
    """Torch's own workers; and a state of some workers goes on with others in the same cut."""
    (plain,) = readers(data, 1, shuffle, tail="pad", **how)
    unbroken = list(plain)
    expected = global_digests([unbroken])
    for count in workers:
        loaders = [data_loader(rank, count) for rank in readers(data, 2, shuffle, tail="pad", **how)]
        if count == 0 or "groups" in how:
            loaders[0].dataset.load_state_dict(unbroken[6].state_dict())
            loaders[1].dataset.load_state_dict(unbroken[6].state_dict())
            assert global_digests(loaders) == expected[7:]
        else:
            assert global_digests(loaders) == expected


@pytest.mark.law(4)
def test_without_named_lanes_the_order_depends_on_ranks_and_workers(small_dataset: Dataset) -> None:
    """What the defaults give: lanes = ranks x workers, so two jobs of one shape agree."""
    one = Job(small_dataset, Topology(2, 2, 4)).run_pass()
    other = Job(small_dataset, Topology(2, 2, 4)).run_pass()
    assert one == other
    assert one != Job(small_dataset, Topology(4, 1, 2)).run_pass()


# ---------------------------------------------------------------------------------- lanes against the oracle


@pytest.mark.law(1)
@each_of("each", [1, 2, 3, 4])
@each_of("groups", [1, 2, 3])
@BOTH_ORDERS
def test_one_to_four_lanes_for_each_rank_and_group(
    small_dataset: Dataset, each: int, groups: int, shuffle: Shuffle | None
) -> None:
    for world_size, workers in ((1, 0), (2, 0), (2, groups), (3, 1)):
        lanes = world_size * groups * each
        topology = Topology(world_size, workers, 2 * each, None if lanes == 1 else lanes, groups, "pad")
        job = Job(small_dataset, topology, shuffle=shuffle, threads=None if workers else 2)
        assert job.oracle.cut[0] == lanes
        for _ in range(2):
            assert job.run_pass()
        job.kill()


@pytest.mark.law(1)
@each_of("workers", [0, 1, 2, 4])
def test_named_lanes_are_divided_among_as_many_groups_as_there_are_workers(
    small_dataset: Dataset, workers: int
) -> None:
    job = Job(small_dataset, Topology(2, workers, 8, lanes=8, tail="pad"))
    assert job.oracle.cut == [8, max(workers, 1), 2 * max(workers, 1)]
    for _ in range(2):
        assert len(job.run_pass()) == 7


@pytest.mark.law(1)
def test_several_lanes_of_a_rank_make_one_batch(small_dataset: Dataset) -> None:
    """Of 103 rows, four lanes of 24: a batch of 8 rows takes two of each, in lane order; then the tail."""
    batches = rows_of(make(small_dataset, 8, lanes=4))
    assert batches[0] == [0, 1, 24, 25, 48, 49, 72, 73]
    assert batches[11] == [22, 23, 46, 47, 70, 71, 94, 95]
    assert len(batches) == 12  # 96..102 are less than a batch
    groups = rows_of(make(small_dataset, 8, lanes=4, groups=2))
    # Lanes 0 and 2 are in group 0, lanes 1 and 3 in group 1; each lane gives four rows to a batch.
    assert groups[:3] == [
        [0, 1, 2, 3, 48, 49, 50, 51],
        [24, 25, 26, 27, 72, 73, 74, 75],
        [4, 5, 6, 7, 52, 53, 54, 55],
    ]


@pytest.mark.law(4)
@each_of("world_size", [1, 2, 5])
@each_of("workers", [0, 1, 2, 3, 4])
def test_one_lane_is_time_order(small_dataset: Dataset, world_size: int, workers: int) -> None:
    job = Job(small_dataset, Topology(world_size, workers, 10 // world_size, lanes=1, tail="short"))
    steps = [[row for rows in step for row in rows] for step in job.run_pass()]
    size = world_size * (10 // world_size)
    rest = 103 % size if 103 % size >= world_size else 0
    assert [row for step in steps for row in step] == list(range(103 // size * size + rest))
    assert {len(step) for step in steps[: 103 // size]} == {size}


@pytest.mark.law(12)
def test_one_lane_goes_on_from_any_state_with_other_workers(small_dataset: Dataset) -> None:
    """The cut of time order is the same at any number of workers, so the last cut goes on."""
    table = oracle.read_table(small_dataset.directory)
    state = None
    ledger = Ledger(103)
    for world_size, workers in ((1, 0), (2, 3), (3, 1), (6, 2), (2, 0), (1, 4)):
        topology = Topology(world_size, workers, 6 // world_size, lanes=1, tail="pad")
        job = Job(small_dataset, topology, table=table, state=state)
        for _ in range(2):
            do_step(job, ledger)
        state = job.state()
    assert fields_of(state)["cuts"] == [[1, 1, 6, 12]]
    while job.oracle.epoch == 0:
        do_step(job, ledger)


# -------------------------------------------------------------------------------------------- what is refused


@each_of(
    ("arguments", "words"),
    [
        # lanes that ranks x groups do not divide: the nearest multiples
        ({"lanes": 6, "batch_size": 6, **parallel(0, 4)}, ["lanes", "6", "4", "8"]),
        ({"lanes": 2, "batch_size": 6, **parallel(0, 4)}, ["lanes", "2", "4"]),
        ({"lanes": 7, "batch_size": 7, "groups": 3}, ["lanes", "7", "6", "9", "3"]),
        ({"lanes": 13, "batch_size": 4, "groups": 2, **parallel(1, 3)}, ["lanes", "13", "12", "18", "6"]),
        # a batch that the lanes of a rank and group can't share equally: the nearest that they can
        ({"lanes": 8, "batch_size": 5, **parallel(0, 2)}, ["batch_size", "5", "4", "8"]),
        ({"lanes": 3, "batch_size": 7}, ["batch_size", "7", "6", "9"]),
        ({"lanes": 4, "batch_size": 3}, ["batch_size", "3", "4"]),
        ({"lanes": 12, "groups": 2, "batch_size": 10, **parallel(0, 2)}, ["batch_size", "10", "9", "12"]),
        # time order has no groups
        ({"lanes": 1, "groups": 2, "batch_size": 4}, ["lanes=1", "groups", "2"]),
        ({"lanes": 0, "batch_size": 4}, ["lanes", "0"]),
        ({"lanes": -4, "batch_size": 4}, ["lanes", "-4"]),
        ({"groups": 0, "batch_size": 4}, ["groups", "0"]),
        # numbers that are too large for anything
        ({"lanes": 2**53, "batch_size": 2**53}, []),
        ({"lanes": 2**70, "batch_size": 2**70}, []),
        ({"groups": 2**62, "batch_size": 4}, []),
    ],
)
def test_numbers_that_do_not_divide_are_refused_with_the_nearest_that_do(
    small_dataset: Dataset, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make(small_dataset, **arguments)
    for word in words:
        assert word in str(caught.value)


@each_of("name", ["lanes", "groups"])
@each_of("value", [1.5, "4", True, [4]])
def test_lanes_and_groups_are_integers(small_dataset: Dataset, name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        make(small_dataset, **{name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": 3}, "groups 3 is not a multiple of 2 workers; the nearest: 2 and 4"),
        ({"groups": 1}, "groups 1 is not a multiple of 2 workers; the nearest: 2"),
        ({"lanes": 3}, r"lanes 3 is not a multiple of 2 .*; the nearest: 2 and 4"),
    ],
    ids=str,
)
def test_what_two_workers_can_not_share_is_refused_where_they_begin(
    small_dataset: Dataset, arguments: dict[str, Any], message: str
) -> None:
    """How many there are, only they know; torch takes ten seconds to end workers that raise as they begin."""
    dataset = make(small_dataset, **{"batch_size": 12, **arguments})
    assert len(list(dataset)) == 103 // dataset.batch_size
    with pytest.raises(ValueError, match=message):
        next(WorkerIterator(dataset._spec, dataset._shared_cursor, 0, 2))


def test_the_nearest_that_are_named_are_accepted(small_dataset: Dataset) -> None:
    for lanes in (4, 8):
        assert len(make(small_dataset, 6, lanes=lanes, **parallel(0, 4))) == 4
    for batch_size in (6, 9):
        assert make(small_dataset, batch_size, lanes=3).batches_left
