"""Draws the memory of a batch for the pages here, from the batch itself.

`python docs/layouts/draw.py` runs each page's example and puts the picture of its batch into the page.
"""

from __future__ import annotations

import os
import re
import runpy
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

import fastresume as fr

HERE = Path(__file__).resolve().parent
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def batch_of(page: Path) -> fr.Batch:
    """The batch that a page's example ends with, run where it may write files."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            code = Path("example.py")
            code.write_text("\n".join(CODE.findall(page.read_text())))
            found: fr.Batch = runpy.run_path(str(code))["batch"]
        finally:
            os.chdir(before)
    return found


def picture(batch: fr.Batch) -> str:
    """All tensors of a batch: cells as they lie in memory, which byte each begins at, whose row it is."""
    parts = [part for name, value in batch.items() for part in parts_of(name, value)]
    return "\n".join(parts)


def parts_of(name: str, value: torch.Tensor | fr.Jagged) -> Iterator[str]:
    """The pictures of one key."""
    if isinstance(value, torch.Tensor):
        each = value.numel() // len(value)
        yield strip(name, value, [row for row in range(len(value)) for _ in range(each)])
        return
    rows = [row for row, length in enumerate(value.lengths.tolist()) for _ in range(length)]
    if isinstance(value.values, fr.Jagged):
        yield from parts_of(f"{name}.values", value.values)
    else:
        yield strip(f"{name}.values", value.values, rows, is_text=value.kind == "string")
    if value.values_valid is not None:
        yield strip(f"{name}.values_valid", value.values_valid, rows)
    yield strip(f"{name}.offsets", value.offsets, [])
    if value.valid is not None:
        yield strip(f"{name}.valid", value.valid, list(range(len(value))))


def strip(name: str, tensor: torch.Tensor, rows: list[int], is_text: bool = False) -> str:
    """One tensor: a line of bytes, a line of cells, a line of rows."""
    if not tensor.is_contiguous():
        raise ValueError(f"{name} does not lie on end in memory: its strides are {tensor.stride()}")
    flat, width = tensor.flatten(), tensor.element_size()
    cells = [chr(value) if is_text else said(value) for value in flat.tolist()]
    places = [str(width * place) for place in range(len(cells))]
    wide = max(map(len, [*cells, *places]), default=1)
    lines = [
        "byte  " + " ".join(f" {place:<{wide}} " for place in places),
        "      ┌" + "┬".join("─" * (wide + 2) for _ in cells) + "┐",
        "      │" + "│".join(f" {cell:>{wide}} " for cell in cells) + "│",
        "      └" + "┴".join("─" * (wide + 2) for _ in cells) + "┘",
    ]
    if rows:
        firsts = ["" if place and rows[place - 1] == row else str(row) for place, row in enumerate(rows)]
        lines.append("row    " + " ".join(f" {first:<{wide}} " for first in firsts).lstrip(" "))
    dtype = str(tensor.dtype).removeprefix("torch.")
    return "\n".join([f"{name}: {dtype} {list(tensor.shape)}", *(line.rstrip() for line in lines)]) + "\n"


def said(value: object) -> str:
    """A number as short as it may be."""
    return {"True": "1", "False": "0"}.get(
        str(value), f"{value:g}" if isinstance(value, float) else str(value)
    )


def pages() -> list[Path]:
    """All pages that have an example."""
    return [page for page in sorted(HERE.glob("*.md")) if CODE.search(page.read_text())]


def main() -> None:
    """Draws all pictures again."""
    for page in pages():
        drawn = picture(batch_of(page))
        page.write_text(PICTURE.sub(lambda _, drawn=drawn: f"```text\n{drawn}```", page.read_text()))


if __name__ == "__main__":
    main()
