"""Damaged files of Arrow's format: an error, or the rows that they state; no crash, and little memory."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import fastresume as fr
from support.arrow_rows import wide_table
from support.child import MIB, Child, forget_peak, peak
from support.damage import some_bytes
from support.ipc_writer import HOW, write_ipc

ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "nulls": "mask", "world": (0, 1)}
ROWS = 60


def damaged(content: bytes, draw: Random) -> bytes:
    """Return a file some of whose bytes are others, lie, or are gone."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if not found:
            break
        at = draw.randrange(len(found))
        match draw.randrange(6):
            case 0:
                found[at] ^= 1 << draw.randrange(8)
            case 1:  # a length, a count or a place
                at = at // 8 * 8
                number = draw.choice((0, 1, -1, 1 << 40, (1 << 63) - 1, draw.randrange(len(found))))
                found[at : at + 8] = number.to_bytes(8, "little", signed=True)
            case 2:
                at = at // 4 * 4
                number = draw.choice((0, 1, -1, (1 << 31) - 1, draw.randrange(len(found))))
                found[at : at + 4] = number.to_bytes(4, "little", signed=True)
            case 3:
                new = some_bytes(draw)
                found[at : at + len(new)] = new
            case 4:
                del found[at : at + draw.choice((1, 8, 1000))]
            case _:
                found = found[: at + 1]
    return bytes(found)


def read_damaged(folder: str, content: bytes, count: int, seed: int) -> tuple[int, list[str], int]:
    """Return how many damaged files are errors, what is wrong with others, and the memory that they took."""
    draw, refused, wrong = Random(seed), 0, []
    forget_peak()
    before = peak()
    for number in range(count):
        path = Path(folder, f"{number}.arrow")
        path.write_bytes(damaged(content, draw))
        found = ""
        try:
            dataset = fr.ArrowDataset(path, **ONE)
            found = f"{dataset.num_file_rows} rows"
            rows = sum(batch.num_rows for batch in dataset)
            if rows != dataset.num_file_rows or rows > ROWS:
                wrong.append(f"{number}: {rows} rows of {found}")
        except (fr.DataError, fr.SourceError, ValueError) as error:
            refused += 1
            if "gave up" in str(error) or (
                isinstance(error, fr.DataError)
                and "no batch" not in str(error)
                and str(path) not in str(error)
            ):
                wrong.append(f"{number}: {type(error).__name__}: {error}")
        path.unlink()
    return refused, wrong, peak() - before


@pytest.mark.parametrize(
    ("count", "seed"),
    # A run ends where one test takes five minutes.
    [(100, 1), *(pytest.param(4000, seed, marks=pytest.mark.slow) for seed in range(1, 6))],
)
@pytest.mark.parametrize("how", [how for how in HOW if how not in ("zstd", "V4")])
def test_damaged_files_are_errors_or_deliver_the_rows_that_they_state(
    tmp_path: Path, how: str, count: int, seed: int
) -> None:
    wide = wide_table(ROWS, 0.2)
    table = wide.select(range(Random(how).randrange(3), wide.num_columns, 3))
    content = write_ipc(table, tmp_path / "whole.arrow", how, 25).read_bytes()
    with Child(address_space=8 << 30) as child:
        refused, wrong, grown = child.call(read_damaged, str(tmp_path), content, count, seed, seconds=1500)
    assert not wrong, wrong[:5]
    assert refused > count // 10
    assert grown < 300 * MIB
