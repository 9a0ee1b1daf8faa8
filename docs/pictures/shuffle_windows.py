"""Draws docs/pictures/shuffle_windows.svg: blocks, windows and rows of a shuffled order.

The order is that of a dataset that is read here. After a change: python docs/pictures/shuffle_windows.py
"""

from __future__ import annotations

import colorsys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr

BLOCKS, BLOCK, PER_WINDOW = 12, 6, 4
CELL, HEIGHT, LEFT, TOP, BETWEEN = 9, 22, 0, 30, 50
STYLE = "text{font-family:system-ui,sans-serif;fill:#6b7280;font-size:12px}.w{fill:none;stroke:#6b7280}"


@cache
def order() -> list[int]:
    """The rows of a pass in the order in which they come."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        pq.write_table(pa.table({"row": np.arange(BLOCKS * BLOCK)}), path, row_group_size=BLOCK)
        dataset = fr.ParquetDataset(
            path,
            batch_size=1,
            shuffle=fr.Shuffle(block_rows=BLOCK, window_rows=BLOCK * PER_WINDOW),
            seed=17,
            world=(0, 1),
        )
        return [row for batch in dataset for row in batch.rows().tolist()]


def color(row: int) -> str:
    """One color for each block."""
    block = row // BLOCK
    red, green, blue = colorsys.hls_to_rgb(block / BLOCKS, 0.45 + 0.15 * (block % 2), 0.65)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def strip(rows: list[int], y: int) -> list[str]:
    """Rows side by side."""
    return [
        f'<rect x="{LEFT + place * CELL}" y="{y}" width="{CELL - 1.5}" height="{HEIGHT}" rx="1.5" '
        f'fill="{color(row)}"/>'
        for place, row in enumerate(rows)
    ]


def picture() -> str:
    """The SVG, in colors that stand on light and dark."""
    shuffled = order()
    per = BLOCK * PER_WINDOW
    blocks = [
        row
        for start in range(0, len(shuffled), per)
        for block in dict.fromkeys(row // BLOCK for row in shuffled[start : start + per])
        for row in range(block * BLOCK, block * BLOCK + BLOCK)
    ]
    said = [
        ("the files: a color for each block", list(range(BLOCKS * BLOCK))),
        ("blocks of the whole dataset in random order; a frame is a window, which is held in memory", blocks),
        ("the rows of each window in random order: so they come", shuffled),
    ]
    parts = []
    for number, (text, rows) in enumerate(said):
        y = TOP + number * (HEIGHT + BETWEEN)
        parts.append(f'<text x="{LEFT}" y="{y - 12}">{text}</text>')
        parts += strip(rows, y)
        if number:
            parts += [
                f'<rect x="{LEFT + start * CELL - 0.75}" y="{y - 4}" width="{per * CELL}" '
                f'height="{HEIGHT + 8}" rx="3" class="w"/>'
                for start in range(0, len(rows), per)
            ]
    width, height = LEFT + BLOCKS * BLOCK * CELL + 2, TOP + 3 * (HEIGHT + BETWEEN) - 36
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 0 {width} {height}" role="img" '
        f'aria-label="Blocks are shuffled over the dataset, rows within windows">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())
