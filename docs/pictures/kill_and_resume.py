"""Draws docs/pictures/kill_and_resume.svg: a job that is killed and goes on on other ranks.

The rows are those that the arithmetic of lanes gives. After a change: python docs/pictures/kill_and_resume.py
"""

from __future__ import annotations

from pathlib import Path

ROWS = 48
CELL, HEIGHT, LEFT, TOP = 13, 24, 96, 34
COLORS = ["#3b82f6", "#f59e0b", "#10b981"]
LIVES = [("3 ranks", 3, 2, 3), ("2 ranks", 2, 3, 9)]
"""What is said of each life, its ranks, rows a rank and step, and steps until it is killed or done."""


def rows_of(left: list[int], ranks: int, batch: int, steps: int) -> dict[int, int]:
    """The rank that gets each of the rows that so many steps take: contiguous lanes of what is left."""
    lane = len(left) // (ranks * batch) * batch
    taken = {}
    for rank in range(ranks):
        for row in left[rank * lane : rank * lane + min(steps * batch, lane)]:
            taken[row] = rank
    return taken


def picture() -> str:
    """The SVG, in colors that stand on light and dark."""
    left = list(range(ROWS))
    parts = []
    lines = []
    for name, ranks, batch, steps in LIVES:
        taken = rows_of(left, ranks, batch, steps)
        lines.append((name, taken, set(range(ROWS)) - set(left)))
        left = [row for row in left if row not in taken]
    for number, (name, taken, done) in enumerate(lines):
        y = TOP + number * (HEIGHT + 46)
        parts.append(f'<text x="0" y="{y + 17}" class="t">{name}</text>')
        for row in range(ROWS):
            color = COLORS[taken[row]] if row in taken else "#9ca3af"
            faint = 1 if row in taken else (0.55 if row in done else 0.12)
            x = LEFT + row * CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{HEIGHT}" rx="2" fill="{color}" '
                f'fill-opacity="{faint}"/>'
            )
        said = (
            "SIGKILL after step 3: the state of the last batch is saved"
            if number == 0
            else ("resumes on 2 ranks: each row of the pass was delivered once")
        )
        parts.append(f'<text x="{LEFT}" y="{y + HEIGHT + 19}" class="s">{said}</text>')
    width, height = LEFT + ROWS * CELL, TOP + 2 * (HEIGHT + 46)
    style = (
        "text{font-family:system-ui,sans-serif;fill:#6b7280}.t{font-size:15px;font-weight:600}"
        ".s{font-size:13px}.h{font-size:13px}"
    )
    head = f'<text x="{LEFT}" y="16" class="h">the rows of a pass, in order; a color for each rank</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="A job on 3 ranks is killed and resumes on 2">\n<style>{style}</style>\n{head}\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())
