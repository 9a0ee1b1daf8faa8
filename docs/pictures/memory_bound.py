"""Draws docs/pictures/memory_bound.svg: what a loader may hold, for more and more files.

The figures are those of `dataset.plan()` for files that are made here. After a change:
python docs/pictures/memory_bound.py
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr

COLUMNS, ROWS_OF_A_FILE, THREADS, PREFETCH = 8, 500_000, 4, 16 << 20
FILES = (1, 2, 4, 8, 16)
COLORS = {"window and batch": "#3b82f6", "4 decoding threads": "#f59e0b", "batches ahead": "#10b981"}
LEFT, BOTTOM, BAR, GAP, SCALE = 40, 250, 62, 54, 1.6
STYLE = (
    "text{font-family:system-ui,sans-serif;fill:#6b7280;font-size:12px}.d{fill:none;stroke:#9ca3af;"
    "stroke-dasharray:4 3}.a{stroke:#9ca3af}"
)


@cache
def bounds() -> list[tuple[int, dict[str, float]]]:
    """The MiB of the decoded data, and of each part of what a loader holds, for each number of files."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        one = Path(directory) / "00.parquet"
        zeros = np.zeros(ROWS_OF_A_FILE)
        table = pa.table({f"x_{i}": zeros for i in range(COLUMNS)})
        pq.write_table(table, one, row_group_size=50_000)
        have = 1
        for files in FILES:
            for number in range(have, files):
                shutil.copy(one, one.with_name(f"{number:02}.parquet"))
            have = files
            dataset = fr.ParquetDataset(
                directory, batch_size=4096, shuffle=fr.Shuffle(window_rows=400_000), world=(0, 1)
            )
            plan = dataset.plan()
            data = dataset.num_rows * COLUMNS * 8
            parts = (plan.bytes_per_rank, THREADS * plan.bytes_per_thread, PREFETCH)
            sizes = {name: part / 2**20 for name, part in zip(COLORS, parts, strict=True)}
            found.append((data >> 20, sizes))
    return found


def picture() -> str:
    """The SVG, in colors that stand on light and dark."""
    parts = []
    top = BOTTOM - 130 * SCALE
    for number, (data, sizes) in enumerate(bounds()):
        x = LEFT + number * (BAR + GAP)
        y = float(BOTTOM)
        outline = max(BOTTOM - data * SCALE, top)
        is_cut = data * SCALE > BOTTOM - top
        parts.append(
            f'<path d="M{x + BAR / 2} {BOTTOM}V{outline:.0f}H{x + BAR + 22}V{BOTTOM}" class="d"/>'
            if not is_cut
            else f'<path d="M{x + BAR / 2} {BOTTOM}V{top:.0f}M{x + BAR + 22} {top:.0f}V{BOTTOM}" class="d"/>'
        )
        for name, size in sizes.items():
            y -= size * SCALE
            parts.append(
                f'<rect x="{x}" y="{y:.1f}" width="{BAR}" height="{size * SCALE:.1f}" fill="{COLORS[name]}"/>'
            )
        parts.append(
            f'<text x="{x}" y="{BOTTOM + 18}">{FILES[number]} file{"s" * (FILES[number] > 1)}</text>'
        )
        parts.append(f'<text x="{x}" y="{BOTTOM + 34}">{data} MiB of rows</text>')
        parts.append(f'<text x="{x}" y="{BOTTOM + 50}">at most {sum(sizes.values()):.0f} MiB</text>')
    width = LEFT + len(FILES) * (BAR + GAP)
    parts.append(f'<path d="M{LEFT - 8} {BOTTOM}H{width - 20}" class="a"/>')
    x = 0
    for name, fill in COLORS.items():
        parts.append(f'<rect x="{x}" y="4" width="12" height="12" rx="2" fill="{fill}"/>')
        parts.append(f'<text x="{x + 18}" y="14">{name}</text>')
        x += 150
    parts.append(
        f'<path d="M{x} 16V5H{x + 12}V16" class="d"/><text x="{x + 18}" y="14">all rows, decoded</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {BOTTOM + 60}" role="img" '
        f'aria-label="The bound on memory stays while the data grows">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())
