"""Values on their way to another process: one block of shared memory for all tensors, which is used again."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch

from fastresume.batch.jagged import Jagged
from fastresume.reading.workers import parcels
from support.child import open_files, shared_memory_files

DTYPES = sorted(parcels._DTYPES, key=str)


@pytest.fixture
def sender() -> Iterator[parcels.Sender]:
    found = parcels.Sender()
    yield found
    parcels.forget(found._name)
    resource_sharer.stop()


def sent(sender: parcels.Sender, value: object) -> Any:
    """Return what arrives of a value: here in the same process, elsewhere in another one."""
    return parcels.unpack(pickle.loads(bytes(ForkingPickler.dumps(sender.pack(value)))))


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    bits = torch.arange(int(np.prod(shape)) * dtype.itemsize) % 251 % (2 if dtype is torch.bool else 251)
    return bits.to(torch.uint8).view(dtype).view(shape)


def bits_of(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().view(-1).view(torch.uint8).tolist()


def mapped(sender: parcels.Sender) -> int:
    """Return how many blocks of the sender this process has mapped."""
    return len(parcels._mapped.get(sender._name, {}))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_and_shape_arrive_bit_for_bit(
    sender: parcels.Sender, dtype: torch.dtype
) -> None:
    value = [numbers(dtype, *shape) for shape in ((1,), (3,), (0,), (2, 0), (5, 7), (2, 3, 4))]
    value.append(numbers(dtype, 1)[0])
    found = sent(sender, value)
    for one, other in zip(value, found, strict=True):
        assert (other.dtype, other.shape) == (one.dtype, one.shape)
        assert bits_of(other) == bits_of(one)
    assert all(tensor.data_ptr() % dtype.itemsize == 0 for tensor in found)
    assert mapped(sender) == 1


def test_all_that_a_transform_may_return_arrives(sender: parcels.Sender) -> None:
    matrix = torch.arange(12.0).view(3, 4)
    value = {
        "column": matrix[:, 1],
        "transposed": matrix.T,
        "expanded": torch.tensor([7]).expand(5),
        "twice": [matrix, matrix],
        "jagged": Jagged(torch.arange(6), torch.tensor([0, 2, 6]), torch.tensor([True, True])),
        "gradient": torch.ones(2, requires_grad=True),
        "complex": torch.tensor([1 + 2j]).conj(),
        "negated": torch.tensor([1 + 2j]).conj().imag,
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "strings": np.array(["a", "bc"], dtype=object),
        "empty": np.empty((0, 2)),
        "text": "words",
    }
    found = sent(sender, value)
    assert list(found) == list(value)
    for name in ("column", "transposed", "expanded", "complex", "negated", "gradient"):
        assert torch.equal(found[name], value[name]), name  # type: ignore[arg-type]  # tensors, all of them
    assert found["gradient"].requires_grad
    assert torch.equal(found["twice"][1], matrix)
    assert found["jagged"].to_list() == [[0, 1], [2, 3, 4, 5]]
    for name in ("array", "fortran", "strings", "empty"):
        assert np.array_equal(found[name], value[name])  # type: ignore[arg-type]  # arrays, all of them
        assert found[name].dtype == value[name].dtype  # type: ignore[attr-defined]  # see above
    assert found["text"] == "words"
    found["column"] += 1  # a value of its own
    assert torch.equal(matrix[:, 1], torch.tensor([1.0, 5.0, 9.0]))


def test_tensors_that_lie_side_by_side_are_copied_as_one_run(sender: parcels.Sender) -> None:
    block = torch.arange(64, dtype=torch.uint8)
    parts = [block[0:8].view(torch.int64), block[8:11], block[16:32].view(torch.float32).view(2, 2)]
    sources = [(part.data_ptr(), part.nbytes) for part in parts]
    offsets, runs, _ = parcels._laid_out(sources)
    assert len(runs) == 1
    assert [offset - offsets[0] for offset in offsets] == [0, 8, 16]
    backwards, runs, _ = parcels._laid_out(sources[::-1])
    assert len(runs) == 3
    for one, other in zip(parts, sent(sender, parts), strict=True):
        assert bits_of(one) == bits_of(other)
    for one, other in zip(parts[::-1], sent(sender, parts[::-1]), strict=True):
        assert bits_of(one) == bits_of(other)
    assert all(offset % 8 == source % 8 for offset, (source, _) in zip(backwards, sources[::-1], strict=True))


def test_a_block_is_used_again_when_nobody_looks_at_it_and_not_before(sender: parcels.Sender) -> None:
    kept = []
    for number in range(20):
        found = sent(sender, {"a": torch.full((100,), number), "b": torch.full((10,), -number)})
        if number % 5 == 0:
            kept.append(found["b"][2:4])  # a view holds on to all of it
    del found
    assert len(sender._blocks) == mapped(sender) <= len(kept) + 2
    assert [view.tolist() for view in kept] == [[-number] * 2 for number in (0, 5, 10, 15)]
    kept.clear()
    values = [sent(sender, torch.full((100,), number)) for number in range(5)]
    assert len(sender._blocks) == 5
    assert [value[0].item() for value in values] == list(range(5))


def test_an_array_holds_on_to_its_block_as_a_tensor_does(sender: parcels.Sender) -> None:
    found = [sent(sender, np.full((100, 2), number)) for number in range(5)]
    assert len(sender._blocks) == 5
    assert [array[0, 0] for array in found] == list(range(5))


def test_blocks_that_were_many_are_given_up(sender: parcels.Sender) -> None:
    values = [sent(sender, torch.full((100,), number)) for number in range(30)]
    assert len(sender._blocks) == mapped(sender) == 30
    values.clear()
    for _ in range(3):
        sent(sender, torch.zeros(100))
    assert len(sender._blocks) == mapped(sender) == parcels.MAX_IDLE_BLOCKS + 1
    assert not sender._blocks[-1].memory[0]
    large = sent(sender, torch.ones(1 << 20))
    assert large.sum() == 1 << 20
    assert len(sender._blocks) <= parcels.MAX_IDLE_BLOCKS + 1


def test_what_a_forked_child_looks_at_is_never_written_again(sender: parcels.Sender) -> None:
    value = sent(sender, torch.arange(1000))
    go, found = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go[0], 1)
        os.write(found[1], b"same" if torch.equal(value, torch.arange(1000)) else b"other")
        os._exit(0)
    del value
    values = [sent(sender, torch.zeros(1000, dtype=torch.int64)) for _ in range(3)]
    os.write(go[1], b"x")
    assert os.read(found[0], 10) == b"same"
    os.waitpid(child, 0)
    assert len(values) == 3
    values.clear()
    again = sent(sender, torch.ones(1000))
    assert again.sum() == 1000
    for end in (*go, *found):
        os.close(end)


def test_a_child_that_lets_go_frees_nothing_of_its_parents(sender: parcels.Sender) -> None:
    value = sent(sender, torch.arange(1000))
    child = os.fork()
    if child == 0:
        del value
        os._exit(0)
    os.waitpid(child, 0)
    for _ in range(3):
        sent(sender, torch.zeros(1000, dtype=torch.int64))
    assert torch.equal(value, torch.arange(1000))


def test_neither_descriptors_nor_files_remain(sender: parcels.Sender) -> None:
    sent(sender, torch.zeros(10))  # the thread that hands out descriptors has some of its own
    before, before_shared = open_files(), shared_memory_files()
    values = [sent(sender, torch.zeros(10)) for _ in range(50)]
    assert open_files() <= before + 10, "one that remained of each would be 50; others come and go meanwhile"
    assert shared_memory_files() <= before_shared
    assert len(values) == mapped(sender) == 50


def test_a_block_of_another_process_is_refused(sender: parcels.Sender) -> None:
    packed = sender.pack(torch.zeros(10))
    stranger = packed._replace(block=("stranger", 1, 4096), handle=None)
    with pytest.raises(RuntimeError, match="block 1 of stranger is not known in process"):
        parcels.unpack(stranger)
