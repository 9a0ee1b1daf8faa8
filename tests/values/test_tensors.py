"""Tensors over the core's memory, by torch's own interface and by Python's buffers."""

from __future__ import annotations

import ctypes
import gc
import pickle
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

import fastresume as fr
from fastresume import _core
from fastresume.batch.jagged import dtype_name
from support.jobs import tensors_of

DTYPES = [
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
CASTS = {f"to_{dtype_name(dtype)}": dtype for dtype in DTYPES}
EXCHANGE = "__dlpack_c_exchange_api__"

needs_exchange = pytest.mark.skipif(
    not hasattr(Tensor, EXCHANGE), reason="this release of torch makes tensors of buffers alone"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of rows of every shape: numbers to be cast to every type, masks, text, lists, lists of text."""
    rows = 50
    columns = dict.fromkeys(CASTS, pa.array([0, 1] * (rows // 2)))
    columns["whole"] = pa.array(range(rows))
    columns["maybe"] = pa.array([None, 5] * (rows // 2), pa.int64())
    columns["text"] = pa.array([None, "rot", "grün", "", "blau"] * (rows // 5))
    columns["list"] = pa.array([[1, 2], [], None, [3], [4, 5, 6]] * (rows // 5), pa.list_(pa.int32()))
    columns["words"] = pa.array([["a", "bc"], [], None, [""], ["d"]] * (rows // 5))
    columns["empty"] = pa.array([[]] * rows, pa.list_(pa.float32()))
    pq.write_table(pa.table(columns), tmp_path / "part.parquet", row_group_size=20)
    return tmp_path


def open_all(path: Path) -> fr.ParquetDataset:
    """A dataset with all of these columns, two of them stacked besides."""
    columns = [
        "*",
        *(fr.col(name).cast(to) for name, to in CASTS.items() if name != "to_int64"),
        fr.col("maybe", "text", "list", "words").mask_null(),
        "!to_int64",
        "!whole",
        fr.stack("to_int64", "whole", name="matrix"),
    ]
    return fr.ParquetDataset(path, batch_size=8, columns=columns, tail="short")


def memory_of(path: Path) -> _core.Memory:
    """The memory of the first four rows of one column of int64."""
    dataset = fr.ParquetDataset(path, batch_size=8, columns=["to_int64"])
    memory, _ = dataset._spec.layout.read_rows(dataset._spec.manifest, np.array([[0, 4]]), 4)
    return memory


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch did not offer it."""
    monkeypatch.delattr(Tensor, EXCHANGE, raising=False)


@pytest.fixture(params=[pytest.param(True, marks=needs_exchange), False], ids=["interface", "buffers"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch's interface, and without."""
    if not request.param:
        without_exchange(monkeypatch)


def test_tensors_are_the_same_whether_torch_offers_its_interface_or_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = list(open_all(path))
    without_exchange(monkeypatch)
    twins = list(open_all(path))
    assert [batch.num_rows for batch in batches] == [8] * 6 + [2]
    assert {tensor.dtype for tensor in tensors_of(batches[0]).values()} == set(DTYPES)
    for batch, twin in zip(batches, twins, strict=True):
        assert list(batch) == list(twin)
        others = tensors_of(twin)
        assert list(tensors_of(batch)) == list(others)
        for name, tensor in tensors_of(batch).items():
            other = others[name]
            assert (tensor.dtype, tensor.shape, tensor.stride()) == (
                other.dtype,
                other.shape,
                other.stride(),
            )
            assert torch.equal(tensor, other)
            assert not tensor.requires_grad
            assert tensor.device.type == "cpu"
            if tensor.stride() == (0,):
                assert tensor.untyped_storage().nbytes() == 1, "marks of elements of which none is null"
            else:
                assert tensor.is_contiguous()
                assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


@pytest.mark.usefixtures("each_way")
def test_rows_by_their_numbers_and_no_rows_at_all_are_tensors_as_well(path: Path) -> None:
    dataset = open_all(path)
    some, none = dataset.read_rows([1, 48]), dataset.read_rows([])
    assert [len(value) for value in some.values()] == [2] * len(some)
    assert [len(value) for value in none.values()] == [0] * len(some)
    assert [t.dtype for t in tensors_of(some).values()] == [t.dtype for t in tensors_of(none).values()]


@pytest.mark.usefixtures("each_way")
def test_a_tensor_keeps_its_memory_and_nothing_else(path: Path) -> None:
    dataset = open_all(path)
    first = next(iter(dataset))
    kept, expected = first["to_float32"], pickle.loads(pickle.dumps(first["to_float32"]))
    assert isinstance(kept, Tensor)
    kept += 1
    del first
    for _ in range(3):  # memory that was let go of is used again
        for batch in dataset:
            assert set(batch["to_float32"].tolist()) <= {0.0, 1.0}  # type: ignore[union-attr]
    assert torch.equal(kept, expected + 1)


@needs_exchange
def test_the_last_reference_may_go_in_any_thread(path: Path) -> None:
    dataset = open_all(path)
    batches = list(dataset)
    threads = [threading.Thread(target=lambda some: some.clear(), args=([batch],)) for batch in batches]
    del batches
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert sum(batch.num_rows for batch in dataset) == 50


class Version(ctypes.Structure):
    """What an interface begins with, and room for what may follow."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("functions", ctypes.c_void_p * 8),
    )


@pytest.mark.parametrize(
    ("name", "major"), [(b"dlpack_exchange_api", 2), (b"dlpack_exchange_api", 0), (b"other", 1)]
)
def test_an_interface_of_another_version_or_name_is_not_called(path: Path, name: bytes, major: int) -> None:
    made = ctypes.pythonapi.PyCapsule_New
    made.restype, made.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    offered = Version(major=major)  # functions at address 0: a call would end the process
    capsule = made(ctypes.addressof(offered), name, None)
    asked: list[torch.dtype] = []

    def over(buffer: _core.Buffer, dtype: torch.dtype) -> Tensor:
        asked.append(dtype)
        return torch.frombuffer(buffer, dtype=dtype)

    for sizes, expected in [((), [0, 1, 0, 1]), ((2,), [[0, 1], [0, 1]])]:
        maker = _core.TensorMaker([("int64", torch.int64, sizes)], over, capsule)
        assert [tensor.tolist() for tensor in maker.tensors(memory_of(path))] == [expected]
    assert asked == [torch.int64] * 2


@needs_exchange
@pytest.mark.parametrize("sizes", [(), (1,), (2,), (2, 1), (1, 4), (2, 1, 2), (1, 1, 1, 4)])
def test_a_tensor_of_any_number_of_dimensions_is_over_the_memory(path: Path, sizes: tuple[int, ...]) -> None:
    exchange = getattr(Tensor, "__dlpack_c_exchange_api__")  # noqa: B009 - no stub knows it
    maker = _core.TensorMaker([("int64", torch.int64, sizes)], torch.frombuffer, exchange)
    memory = memory_of(path)
    (tensor,), (same,) = maker.tensors(memory), maker.tensors(memory)
    expected = torch.tensor([0, 1, 0, 1]).view(-1, *sizes)
    assert torch.equal(tensor, expected)
    assert tensor.stride() == expected.stride()
    assert tensor.is_contiguous()
    assert tensor._is_view() == (len(sizes) > 2)
    same.zero_()
    assert not tensor.any()


def test_memory_of_other_fields_and_types_that_no_tensor_has_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="found memory of 1 fields, expected 0"):
        _core.TensorMaker([], torch.frombuffer).tensors(memory_of(path))
    for name in ("complex64", "float", "int7x", "int999", ""):
        with pytest.raises(ValueError, match="no tensor has elements of the type"):
            _core.TensorMaker([(name, torch.int64, ())], torch.frombuffer)
