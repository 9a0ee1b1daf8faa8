"""The rows of the sources that a pass of a mixture has still to deliver."""

from __future__ import annotations

from itertools import product

import numpy as np

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer
from fastresume.mixing.spec import MixtureSpec
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.random_access import by_group


def remaining_rows(spec: MixtureSpec, cursor: _core.Cursor) -> dict[str, Intervals]:
    """The numbers of the rows of each source in the rest of a cursor's pass; each number once."""
    here = spec.fitted(cursor)
    return {name: rows_left(here, name, source) for name, source in spec.sources}


def rows_left(here: _core.Cursor, name: str, source: FilesSpec) -> Intervals:
    """The numbers of the rows of a source in the rest of the pass of a mixture's cursor; each number once."""
    axes, left = _core.Axes(here), of_buffer(here.remaining()).tolist()
    places = {name: place for place, name in enumerate(axes.names)}
    start, rows = source.start(), [np.empty((0, 2), np.int64)]
    of_state = [places[name]] if name in places else []
    for place, (first, end) in product(of_state, left):
        for point, last in of_buffer(axes.points(place, first, end)).tolist():
            of_pass = axes.stretch(place, start, point)
            position = of_pass.consumed_rows()
            positions = np.array([[position, position + last - point]], np.int64)
            rows.append(source.rows_at(of_pass, positions))
    total = source.manifest.num_rows
    others = of_buffer(_core.remaining(np.concatenate(rows), total))
    return of_buffer(_core.remaining(others, total))


def remaining_by_group(spec: MixtureSpec, cursor: _core.Cursor) -> list[tuple[str, int, Intervals]]:
    """The same by file and row group, of one source after another; see `Cursor.remaining`."""
    rows = remaining_rows(spec, cursor)
    return [each for name, source in spec.sources for each in by_group(source, rows[name])]
