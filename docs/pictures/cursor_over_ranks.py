"""Draws docs/pictures/cursor_over_ranks.svg: a cursor's life over three numbers of ranks.

The rows and the states are those of jobs that are run here. After a change:
python docs/pictures/cursor_over_ranks.py
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr

ROWS, GLOBAL_BATCH = 72, 6
LIVES = [(3, 4), (2, 3), (6, None)]
"""The ranks of each life, and after how many steps it is killed; None: never."""

CELL, HEIGHT, LEFT, TOP, BETWEEN = 9, 22, 84, 34, 62
COLORS = ["#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#14b8a6"]
STYLE = (
    "text{font-family:system-ui,sans-serif;fill:#6b7280}.t{font-size:14px;font-weight:600}"
    ".s{font-size:12px}.m{font-size:12px;font-family:ui-monospace,monospace}"
)

Life = tuple[dict[int, int], dict[str, str]]


@cache
def lives() -> list[Life]:
    """What each life delivers, as the rank that gets each row, and the state that it leaves."""
    found: list[Life] = []
    state: dict[str, str] | None = None
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        pq.write_table(pa.table({"row": np.arange(ROWS)}), path)
        for ranks, steps in LIVES:
            taken: dict[int, int] = {}
            left: dict[str, str] = {}
            for rank in range(ranks):
                dataset = fr.ParquetDataset(path, global_batch_size=GLOBAL_BATCH, world=(rank, ranks))
                if state is not None:
                    dataset.load_state_dict(state)
                for number, batch in enumerate(dataset, 1):
                    taken |= dict.fromkeys(batch["row"].tolist(), rank)
                    left = batch.state_dict()
                    if number == steps:
                        break
            found.append((taken, left))
            state = left
    return found


def picture() -> str:
    """The SVG, in colors that stand on light and dark."""
    parts = [
        f'<text x="{LEFT}" y="16" class="s">the rows of one pass, in order; a color for each rank</text>'
    ]
    done: set[int] = set()
    for number, ((ranks, steps), (taken, state)) in enumerate(zip(LIVES, lives(), strict=True)):
        y = TOP + number * (HEIGHT + BETWEEN)
        parts.append(f'<text x="0" y="{y + 16}" class="t">{ranks} ranks</text>')
        for row in range(ROWS):
            color = COLORS[taken[row]] if row in taken else "#9ca3af"
            faint = 1 if row in taken else (0.55 if row in done else 0.12)
            parts.append(
                f'<rect x="{LEFT + row * CELL}" y="{y}" width="{CELL - 1.5}" height="{HEIGHT}" rx="1.5" '
                f'fill="{color}" fill-opacity="{faint}"/>'
            )
        done |= taken.keys()
        cursor = json.loads(state["fastresume"])
        end = f"killed after {steps} steps" if steps else "the pass is done: each row came once"
        cuts = json.dumps(cursor["cuts"], separators=(",", ":"))
        said = f"&quot;epoch&quot;:{cursor['epoch']}, &quot;cuts&quot;:{cuts}"
        below = y + HEIGHT
        parts.append(f'<text x="{LEFT}" y="{below + 17}" class="s">{end}. The state says</text>')
        parts.append(f'<text x="{LEFT}" y="{below + 33}" class="m">{said}</text>')
    width, height = LEFT + ROWS * CELL, TOP + len(LIVES) * (HEIGHT + BETWEEN) - 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="A pass begins on 3 ranks, goes on on 2, ends on 6">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())
