"""Every value that is cast is what the oracle, pyarrow, numpy and torch make of it, or an error."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.asked import with_nulls
from support.casts import open_dataset, read, write
from support.cells import assert_holds, is_delivered, written_cells
from support.columns import tables
from support.each_of import each_of
from support.shapes import CASTS, fits, shapes, with_plain_bits, with_plain_nans
from support.strategies import FLOATS, INTEGERS, DatasetSpec, extremes, written
from support.topologies import Shuffle

# Their files hold what casts do not, as footers tell (test_known_misfits.py).
pytestmark = pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")


@given(spec=tables(max_columns=3), data=st.data())
def test_every_cell_is_what_the_oracle_makes_of_it_or_an_error(
    spec: DatasetSpec, data: st.DataObject
) -> None:
    with written(spec) as files:
        given_cells = written_cells(spec)
        shape = data.draw(shapes(given_cells))
        nulls = data.draw(st.sampled_from(("mask", 0)))
        asked = [
            shape.named(name, with_nulls(shape.asked_of(name), nulls))
            for name, of in given_cells.items()
            if of.kind != "mask"
        ]
        how = {"batch_size": 1, "columns": asked}
        dataset = fr.ParquetDataset(files.directory, **how)
        table = with_plain_nans(shape.of_cells(given_cells))
        good, bad = [], []
        for row in range(spec.num_rows):
            if all(is_delivered(cells, [row], nulls) for cells in table.values()):
                (good if all(fits(cells, row) for cells in table.values()) else bad).append(row)
        # What does not fit lies between these rows, and is nobody's business.
        assert_holds(with_plain_bits(dataset.read_rows(good)), table, nulls)
        for row in bad[:2]:
            with pytest.raises(fr.DataError, match=r"row \d+ of the row group holds .*, which does not fit"):
                dataset.read_rows([row])
        if good:
            mask = np.isin(np.arange(spec.num_rows), good)
            order = data.draw(st.sampled_from(({}, Shuffle(17, 20, 45).arguments)))
            how |= {"batch_size": 5, "tail": "short", "rows": mask}
            for batch in fr.ParquetDataset(files.directory, **how, **order):
                assert_holds(with_plain_bits(batch), table, nulls)


def candidates(dtype: str) -> pa.Array:
    """Numbers of a type at which casts go wrong: bounds of all types, and what lies beside them."""
    bounds = [0, 1, 2, 255, 256, 257, 2**11, 2**11 + 1, 65504, 65519, 65520, 2**24, 2**24 + 1, 2**53 + 1]
    bounds += [2**bits + offset for bits in (7, 8, 15, 16, 31, 32, 63, 64) for offset in (-1, 0, 1)]
    numbers = np.array([*bounds, *(-bound for bound in bounds)], dtype=object)
    if dtype not in FLOATS:
        least, largest = oracle.bounds_of(dtype)
        return pa.array([int(n) for n in numbers if least <= n <= largest], pa.type_for_alias(dtype))
    floats = [0.5, 1.5, -0.5, 1e-8, 6e-8, 1e-40, 1e-46, 3.4028235677973366e38, 3.3895313892515355e38, 1e300]
    with np.errstate(over="ignore"):
        given = np.concatenate([numbers.astype(np.float64), floats]).astype(dtype)
    return pa.array(np.concatenate([given, extremes(np.dtype(dtype))]))


@each_of("stored", ["bool", *INTEGERS, *FLOATS])
def test_numbers_at_the_bounds_of_all_types_are_cast_as_the_oracle_does(path: Path, stored: str) -> None:
    array = pa.array([False, True]) if stored == "bool" else candidates(stored)
    write(path, x=array)
    for to in CASTS:
        dataset = open_dataset(path, fr.col("x").cast(getattr(torch, to)))
        expected = [oracle.cast(value, to) for value in array.to_pylist()]
        good = [row for row, bits in enumerate(expected) if bits is not None]
        tensor = with_plain_bits(dataset.read_rows(good))["x"]
        assert tensor.numpy().tobytes() == b"".join(expected[row] or b"" for row in good), to
        bad = sorted(set(range(len(array))) - set(good))
        for row in bad[:: 1 + len(bad) // 5]:
            with pytest.raises(fr.DataError, match=rf"row {row % 10} of the row group holds .* {to}"):
                dataset.read_rows([row])


@each_of("stored", INTEGERS)
def test_integers_become_the_nearest_float_where_rounding_is_asked(path: Path, stored: str) -> None:
    numbers = np.random.default_rng(5).integers(-(2**63), 2**63, 400) >> np.arange(400) % 60
    # Halfway between two bfloat16, and one beside it, which a float32 on the way would lose.
    halves = [2**digits + 2 ** (digits - 8) + one for digits in range(26, 63) for one in (-1, 0, 1)]
    numbers = np.concatenate([numbers, np.array(halves), -np.array(halves)])
    array = pa.concat_arrays([candidates(stored), pa.array(numbers.astype(stored))])
    write(path, x=array, lists=pa.array([[number] for number in array.to_pylist()], pa.list_(array.type)))
    for to in (*FLOATS, "bfloat16"):
        columns = [fr.col(name).cast(getattr(torch, to), rounding=True) for name in ("x", "lists")]
        dataset = fr.ParquetDataset(path, batch_size=7, columns=columns)
        expected = [oracle.cast(value, to, rounding=True) for value in array.to_pylist()]
        good = [row for row, bits in enumerate(expected) if bits is not None]
        batch = dataset.read_rows(good)
        of_lists = batch["lists"]
        assert isinstance(of_lists, fr.Jagged)
        for tensor in (batch["x"], of_lists.values):
            found = tensor.view(torch.uint8).numpy().tobytes()
            assert found == b"".join(expected[row] or b"" for row in good)
        for row in sorted(set(range(len(array))) - set(good))[:5]:  # beyond the largest float16
            with pytest.raises(fr.DataError, match=rf"does not fit {to} exactly"):
                dataset.read_rows([row])


def test_an_integer_that_would_be_rounded_says_how_to_round_it(path: Path) -> None:
    write(path, x=pa.array([2**24 + 1]))
    dataset = open_dataset(path, fr.col("x").cast(torch.float32))
    with pytest.raises(fr.DataError, match=r"\.cast\(torch.float32, rounding=True\) takes the nearest"):
        dataset.read_rows([0])
    assert read(path, fr.col("x").cast(torch.float32, rounding=True)).item() == 2**24


@each_of("stored", [*INTEGERS, *FLOATS])
def test_the_oracle_casts_as_pyarrow_does_where_it_does_so_safely(stored: str) -> None:
    for value, to in itertools.product(candidates(stored), (*INTEGERS, "float32", "float64")):
        found = oracle.cast(value.as_py(), to)
        try:
            safe = pc.cast(value, pa.type_for_alias(to), safe=True).as_py()
        except pa.ArrowInvalid:
            # It lets no integer beyond 2^24 be a float32, here those may that are one.
            assert found is None or to in FLOATS
            continue
        if stored in FLOATS and to in FLOATS and np.isinf(safe) != np.isinf(value.as_py()):
            continue  # and a float64 become infinite
        assert found == oracle.cast(safe, to), (value, to)


@pytest.mark.parametrize("to", ["float16", "float32"])
def test_floats_are_rounded_as_numpy_does(path: Path, to: str) -> None:
    values = np.random.default_rng(3).normal(size=5000) * 10.0 ** np.random.default_rng(4).integers(
        -9, 4, 5000
    )
    write(path, x=pa.array(values))
    assert torch.equal(read(path, fr.col("x").cast(getattr(torch, to))), torch.from_numpy(values.astype(to)))


def test_singles_become_bfloat16_as_torch_does(path: Path) -> None:
    values = np.random.default_rng(3).normal(size=5000).astype(np.float32)
    write(path, x=pa.array(values))
    assert torch.equal(
        read(path, fr.col("x").cast(torch.bfloat16)), torch.from_numpy(values).to(torch.bfloat16)
    )
