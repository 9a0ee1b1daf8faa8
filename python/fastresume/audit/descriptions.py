"""The files of the sources, as a log's directory describes them."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastresume.audit.axis import by_pass
from fastresume.audit.log_format import Start
from fastresume.audit.order import Dataset, Order
from fastresume.audit.place import ALONE, Place
from fastresume.audit.ranges import chunks
from fastresume.audit.report import Report
from fastresume.buffers import Intervals

NAMED_AT_ONCE = 1 << 20

Renamed = Mapping[str, str | None]
"""The names that sources had in states, with those of now."""


class Descriptions:
    """The files of the sources, looked up by what states say of them.

    A mixture's state has a hash of each source. A source that the stage reads has the files that are there:
    a start tells which these are.

    Args:
        directory: where the descriptions are.
        places: what starts say, each with its start.
    """

    def __init__(self, directory: Path, places: Iterable[tuple[Start, Place]]) -> None:
        self._directory = directory
        self._loaded: dict[tuple[str, int], Dataset | None] = {}
        self._named: dict[str, str] = {}
        self.contradictions: list[str] = []
        self._units: dict[tuple[str, str | None], Mapping[str, Any]] = {}
        for start, place in places:
            if start.units is not None:
                self._units[place.fingerprint, place.selection] = start.units
            for name, weight in zip(place.names, place.weights, strict=True):
                named = (start.sources or {}).get(name)
                if place.is_mixture and weight and named is not None and name not in place.rounds:
                    files = json.dumps(list(named))
                    if self._named.setdefault(place.files[name], files) != files:
                        self.contradictions.append(
                            f"{start.file} names other files of {name} than another log"
                        )

    def of(self, place: Place, name: str) -> Dataset | None:
        """The files of a source; None if they are not described."""
        if name in place.rounds:
            return self._of_round(place.rounds[name].rows, place)
        files, rows = place.files[name], place.rows[name]
        key = self._named.get(files, "") if place.is_mixture else files, rows
        if key not in self._loaded:
            fingerprint, selection = json.loads(key[0]) if key[0] else ("", None)
            self._loaded[key] = Dataset.load(self._directory, fingerprint, selection, rows)
        return self._loaded[key]

    def _of_round(self, rows: Dataset, place: Place) -> Dataset | None:
        """The rows, or the units, of a round of a stream."""
        if place.selection is None:
            return rows
        key = f"{place.fingerprint} {place.selection}", place.positions
        if key not in self._loaded:
            found = None
            with contextlib.suppress(ValueError, KeyError, TypeError):
                described = self._units[place.fingerprint, place.selection]
                found = rows.of_units(described, base64.b64decode(described["contents"]))
            self._loaded[key] = found if found is not None and found.starts[-1] == place.positions else None
        return self._loaded[key]

    def tell_missing(self, places: Iterable[Place], report: Report) -> None:
        """Reports the sources that are read, and whose files are not described."""
        missing: dict[str, Place] = {}
        for place in places:
            for name, weight in zip(place.names, place.weights, strict=True):
                if weight and self.of(place, name) is None:
                    missing.setdefault(name, place)
        for name, place in missing.items():
            what = "dataset" if place.selection is None else "dataset or of its selection"
            what = f"files of {name}" if name else what
            report.problem(f"the description of the {what} is missing or damaged: rows have no names")

    def are_related(self, one: Place, name: str, other: Place, new: str) -> bool:
        """Whether a source of a state has the order and the files of one of another, or the first of them."""
        if name not in one.files or new not in other.files:
            return False
        if name in one.rounds and new in other.rounds:
            return set(one.rounds[name].topics) == set(other.rounds[new].topics)
        if one.orders[name] != other.orders[new]:
            return False
        if one.files[name] == other.files[new]:
            return True
        older, newer = self.of(one, name), self.of(other, new)
        if older is not None and newer is not None:
            return older.begins(newer)
        if one.files[name] in other.earlier_files(new):
            return True
        # A log describes the files that it reads. What none has read as it is may have grown.
        are_unread = (older is not None or not one.reads(name)) and (
            newer is not None or not other.reads(new)
        )
        return are_unread and name == new and one.rows[name] <= other.rows[new]

    def names_now(self, one: Place, other: Place, renamed: Renamed) -> Mapping[str, str]:
        """The name in a later state of each source of one: it is another one if it has to be.

        Names that change places do so together.
        """
        kept = {old: new for old, new in renamed.items() if old in one.files and new in other.files}
        moved = {old for old in kept if not self.are_related(one, old, other, old)}
        while more := {old for old in kept if old in map(kept.get, moved) or kept[old] in moved} - moved:
            moved |= more
        names = {name: kept[name] or name if name in moved else name for name in one.names}
        return names if len(set(names.values())) == len(names) else {name: name for name in one.names}

    def share_a_source(self, one: Place, other: Place, renamed: Renamed) -> bool:
        """Whether a source of a state continues in another state, maybe under another name."""
        if one.is_mixture != other.is_mixture:
            return False
        pairs = [(name, new) for name in one.names for new in (name, renamed.get(name)) if new is not None]
        return any(self.are_related(one, name, other, new) for name, new in pairs)

    def counted(self, place: Place) -> str:
        """What positions are, in a word."""
        read = (name for name, weight in zip(place.names, place.weights, strict=True) if weight)
        found = {dataset.counted for name in read if (dataset := self.of(place, name)) is not None}
        return found.pop() if len(found) == 1 else "rows"

    def names(self, place: Place, name: str, spans: Intervals) -> Iterator[str]:
        """Where spans of a source are, by the order that a state has of it."""
        dataset, axis = self.of(place, name), place.axes[name]
        for number, positions in by_pass(spans):
            where = "" if name == ALONE else f"{name}: pass {number}: "
            if dataset is None:
                yield from (f"{where}positions {first}-{end - 1}" for first, end in positions.tolist())
                continue
            order = Order(place.orders[name], number, dataset, axis.ends_in(number))
            for part in chunks(positions, NAMED_AT_ONCE):
                yield from (f"{where}{line}" for line in dataset.name(order.rows(part)))
