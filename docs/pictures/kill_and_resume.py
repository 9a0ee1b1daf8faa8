"""Draws docs/pictures/kill_and_resume.svg: a job that is killed on 3 ranks and resumes on 2, and its proof.

The picture moves. What its terminal shows was printed by a real job, kept in kill_and_resume.txt:

    python docs/pictures/kill_and_resume.py             # draw what is kept
    python docs/pictures/kill_and_resume.py --record    # run and kill the job, keep what it prints
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE / "kill_and_resume.txt"

BATCHES, GLOBAL_BATCH, KILL_AT = 200, 510, 100
"""Steps of the pass, rows of a step, and the step after which all ranks are killed."""

DATA = f"""
import pathlib
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

pathlib.Path("data").mkdir()
x = np.random.default_rng(0).normal(size={BATCHES * GLOBAL_BATCH}).astype(np.float32)
pq.write_table(pa.table({{"x": x, "y": 2 * x}}), "data/part-0.parquet")
"""

TRAIN = f"""
import pathlib
import torch
import torch.distributed as dist
import fastresume as fr

dist.init_process_group("gloo")
dataset = fr.ParquetDataset("data/*.parquet", global_batch_size={GLOBAL_BATCH}, shuffle=True)
loader = fr.Loader(dataset, audit="audit")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
checkpoint = pathlib.Path("checkpoint.pt")
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    loader.load_state_dict(saved["data"])
for epoch in range(loader.epoch, 1):
    for batch in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch["x"][:, None])[:, 0], batch["y"])
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save({{"model": model.state_dict(), "data": batch.state_dict()}}, "unfinished.pt")
            pathlib.Path("unfinished.pt").replace(checkpoint)
            print(f"epoch {{batch.epoch}}, step {{batch.step}}: loss {{loss:.4f}}", flush=True)
dist.destroy_process_group()
"""

SECONDS = 120.0
"""A job that has not come to its end by then hangs."""


# ---------------------------------------------------------------------------------------------- a real job


def record() -> list[str]:
    """What a terminal shows of a job whose 3 ranks are killed, of its second life on 2, and of its audit."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "train.py").write_text(TRAIN)
        subprocess.run([sys.executable, "-c", DATA], cwd=place, check=True)  # noqa: S603  (our own program)
        first = launch(place, 3, kill_at=KILL_AT)
        second = launch(place, 2, kill_at=None)
        audit = subprocess.run(
            [sys.executable, "-m", "fastresume", "audit", "audit"],
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
        )
    return [
        "$ torchrun --nproc-per-node 3 train.py",
        *(first[0], "...", first[-1]),
        "$ kill -9 $(pgrep -f train.py)",
        "$ torchrun --nproc-per-node 2 train.py",
        *(second[0], "...", second[-1]),
        "$ fastresume audit audit",
        audit.stdout.splitlines()[-1],
    ]


def launch(place: Path, ranks: int, kill_at: int | None) -> list[str]:
    """The lines that rank 0 prints, until all ranks are killed or the pass is done."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    printed = place / f"printed-{ranks}"
    with printed.open("w") as stdout:
        job = subprocess.Popen(  # noqa: S603  (our own program)
            command, cwd=place, env=environment, stdout=stdout, stderr=subprocess.DEVNULL
        )
    end = time.monotonic() + SECONDS
    while job.poll() is None and time.monotonic() < end:
        if kill_at is not None and f"step {kill_at}:" in printed.read_text():
            for pid in [*children(job.pid), job.pid]:
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.01)
    code = job.wait(max(0.1, end - time.monotonic()))
    lines = [line for line in printed.read_text().splitlines() if line.startswith("epoch")]
    if (code == 0) != (kill_at is None):
        raise RuntimeError(f"{command} ended with {code}: {lines[-1:]}")
    return lines


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = path.read_text().rpartition(")")[2].split()
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


# ---------------------------------------------------------------------------------------------- the picture

WIDTH, LINE, TOP, LEFT, STRIP = 760, 21, 44, 18, 22
COLORS = ["#3b82f6", "#f59e0b", "#10b981"]
ROUND = 16.0
"""Seconds after which the picture starts over."""

WAITS = [1.0, 0.9, 0.2, 1.9, 0.8, 1.4, 0.9, 0.2, 1.9, 0.9, 0.9]
"""Seconds before each line is shown, one for each line of the terminal."""


def steps_of(lines: Sequence[str]) -> list[int]:
    """The steps that the lines name, in their order."""
    return [int(found[1]) for line in lines if (found := re.search(r"step (\d+)", line))]


def lanes(left: list[range], ranks: int) -> list[list[range]]:
    """The rows that each rank reads: as many for each, contiguous in what is left, in global batches."""
    each = sum(map(len, left)) // ranks
    found: list[list[range]] = [[]]
    room = each
    for part in left:
        rest = part
        while rest:
            if not room:
                found.append([])
                room = each
            taken = rest[: min(room, len(rest))]
            found[-1].append(taken)
            room -= len(taken)
            rest = rest[len(taken) :]
    return found[:ranks]


def cut(lane: list[range], count: int) -> tuple[list[range], list[range]]:
    """The first rows of a lane, and the others."""
    taken, others = [], []
    for part in lane:
        share = max(0, min(count, len(part)))
        count -= share
        taken += [part[:share]] if share else []
        others += [part[share:]] if share < len(part) else []
    return taken, others


def lives(lines: Sequence[str]) -> list[list[list[range]]]:
    """The positions that each rank delivered, for the first life and for the second."""
    _, killed_at, *_ = steps_of(lines)
    first = [
        cut(lane, (killed_at + 1) * GLOBAL_BATCH // 3) for lane in lanes([range(BATCHES * GLOBAL_BATCH)], 3)
    ]
    left = [part for _, others in first for part in others]
    return [[taken for taken, _ in first], lanes(left, 2)]


def shown(index: int) -> float:
    """The second in which a line appears."""
    return sum(WAITS[: index + 1])


def picture(lines: Sequence[str] | None = None) -> str:
    """The SVG: it moves, but for readers who asked for less motion."""
    lines = KEPT.read_text().splitlines() if lines is None else lines
    height = TOP + len(lines) * LINE + 96
    parts = [f'<rect width="{WIDTH}" height="{height}" rx="10" class="b"/>']
    parts += [f'<circle cx="{20 + 18 * dot}" cy="18" r="5.5" class="o"/>' for dot in range(3)]
    frames = []
    for index, line in enumerate(lines):
        start = 100 * shown(index) / ROUND
        frames.append(
            f"@keyframes l{index}{{0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,100%{{opacity:1}}}}"
        )
        kind = "c" if line.startswith("$") else ("p" if "PROVEN" in line else "t")
        y = TOP + index * LINE + 14
        parts.append(
            f'<text x="{LEFT}" y="{y}" class="{kind} m" style="animation-name:l{index}">{escape(line)}</text>'
        )
    strip_frames, strip_parts = strip(lines, TOP + len(lines) * LINE + 34)
    frames += strip_frames
    parts += strip_parts
    style = (
        ".b{fill:#0d1117}.o{fill:#30363d}.e{fill:#21262d}"
        "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:14px;fill:#c9d1d9}"
        ".c{fill:#f0f6fc;font-weight:600}.p{fill:#3fb950;font-weight:600}.s{font-size:12px;fill:#8b949e}"
        f".m{{animation-duration:{ROUND:g}s;animation-iteration-count:infinite;animation-timing-function:linear}}"
        ".r{transform-box:fill-box;transform-origin:left}"
        "@media (prefers-reduced-motion:reduce){.m{animation:none}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="A job on 3 ranks is killed, resumes on 2, and its audit says PROVEN">\n'
        f"<style>{style}\n" + "\n".join(frames) + "</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def strip(lines: Sequence[str], y: int) -> tuple[list[str], list[str]]:
    """The keyframes and the shapes of the rows below the terminal, which fill as the ranks read them."""
    scale = (WIDTH - 2 * LEFT) / (BATCHES * GLOBAL_BATCH)
    title = "the rows of the epoch, in shuffled order; a color for each rank"
    legend = "full color: before the kill, on 3 ranks; light: after it, on 2 ranks"
    frames = []
    parts = [
        f'<text x="{LEFT}" y="{y - 9}" class="s">{title}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH - 2 * LEFT}" height="{STRIP}" class="e"/>',
        f'<text x="{LEFT}" y="{y + STRIP + 18}" class="s">{legend}</text>',
    ]
    for life, (ranks, (begin, end)) in enumerate(zip(lives(lines), [(1, 3), (6, 8)], strict=True)):
        for rank, taken in enumerate(ranks):
            total, done = sum(map(len, taken)), 0
            for number, part in enumerate(taken):
                name = f"r{life}{rank}{number}"
                span = shown(end) - shown(begin)
                first, last = (
                    100 * (shown(begin) + span * rows / total) / ROUND for rows in (done, done + len(part))
                )
                frames.append(
                    f"@keyframes {name}{{0%,{first:.2f}%{{transform:scaleX(0)}}"
                    f"{last:.2f}%,100%{{transform:none}}}}"
                )
                place = f'x="{LEFT + part.start * scale:.2f}" y="{y}" width="{len(part) * scale:.2f}"'
                parts.append(
                    f'<rect {place} height="{STRIP}" fill="{COLORS[rank]}" '
                    f'fill-opacity="{0.6 if life else 1}" class="m r" style="animation-name:{name}"/>'
                )
                done += len(part)
    return frames, parts


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        KEPT.write_text("\n".join(record()) + "\n")
    (HERE / "kill_and_resume.svg").write_text(picture())
