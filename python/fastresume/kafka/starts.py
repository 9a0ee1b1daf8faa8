"""Where to begin and to stop in each partition, as users name it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fastresume.kafka.client import Client
from fastresume.kafka.place import Part
from fastresume.options.checks import quoted

_GROUP = "committed:"

_START = "'earliest', 'latest', a datetime, {partition: offset} or 'committed:group'"
_STOP = "None, 'end', a datetime or {partition: offset}"


def checked_start(given: object) -> Any:
    """Where to begin, checked.

    Raises:
        TypeError, ValueError: if it is no such thing.
    """
    is_group = isinstance(given, str) and given.startswith(_GROUP) and len(given) > len(_GROUP)
    if given in ("earliest", "latest") or is_group:
        return given
    return _of_place("start", given, _START)


def checked_stop(given: object) -> Any:
    """Where to stop, checked.

    Raises:
        TypeError, ValueError: if it is no such thing.
    """
    return given if given is None or given == "end" else _of_place("stop", given, _STOP)


def start_offsets(start: Any, parts: Iterable[Part], client: Client) -> dict[Part, int]:
    """The offset at which each partition begins.

    Raises:
        ValueError: if an offset is not there.
    """
    each = sorted(parts)
    bounds = client.bounds(each)
    lows = {part: low for part, (low, _) in bounds.items()}
    if start == "earliest":
        return lows
    if start == "latest":
        return {part: high for part, (_, high) in bounds.items()}
    if isinstance(start, datetime):
        return client.offsets_at(each, _milliseconds(start))
    if isinstance(start, str):
        named = client.committed(each, start.removeprefix(_GROUP))
    else:
        named = _by_part("start", start, each)
    for part, offset in named.items():
        low, high = bounds[part]
        if not low <= offset <= high:
            raise ValueError(f"start is offset {offset} of {part}, which has [{low}, {high})")
    return {**lows, **named}


def stop_offsets(stop: Any, parts: Iterable[Part], client: Client) -> dict[Part, int] | None:
    """The offset before which each partition stops; None for never. Others are not read."""
    each = sorted(parts)
    if stop is None:
        return None
    if stop == "end":
        return {part: high for part, (_, high) in client.bounds(each).items()}
    if isinstance(stop, datetime):
        return client.offsets_at(each, _milliseconds(stop))
    named = _by_part("stop", stop, each)
    if missing := [str(part) for part in each if part not in named]:
        raise ValueError(f"stop must name each partition, and {missing[0]} is missing: found {quoted(stop)}")
    return named


def _of_place(name: str, given: object, form: str) -> Any:
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(
                f"{name} is a datetime without a time zone: write datetime(..., tzinfo=timezone.utc)"
            )
        return given
    is_mapping = isinstance(given, Mapping) and bool(given)
    if is_mapping and all(isinstance(one, int) and one >= 0 for one in given.values()):  # type: ignore[attr-defined]
        return given
    raise TypeError(f"{name} must be {form}, found {quoted(given)}")


def _by_part(name: str, given: Mapping[Any, int], parts: list[Part]) -> dict[Part, int]:
    """Offsets by partitions, which are named by their numbers, as (topic, number) or as "topic:number"."""
    topics = {part.topic for part in parts}
    by_name: dict[Any, Part] = {str(part): part for part in parts}
    by_name.update({tuple(part): part for part in parts})
    if len(topics) == 1:
        by_name.update({part.partition: part for part in parts})
    for key in given:
        if key not in by_name:
            raise ValueError(
                f"{name} names the partition {quoted(key)}, which is not there: there are "
                f"{quoted([str(part) for part in parts])}"
            )
    return {by_name[key]: offset for key, offset in given.items()}


def _milliseconds(time: datetime) -> int:
    # Times of messages are whole milliseconds: the first one that is not before.
    return -((datetime.fromtimestamp(0, UTC) - time) // timedelta(milliseconds=1))
