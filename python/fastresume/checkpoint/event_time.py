"""When to save by the time of events: whether the watermark of a stream moved far enough."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from fastresume.options.checks import quoted
from fastresume.reading.resumable import dataset_behind


class EventTime:
    """How far the watermark moved since the last save.

    Args:
        interval: how far it moves between saves.

    Raises:
        TypeError, ValueError: if it is no positive `timedelta`.
    """

    def __init__(self, interval: timedelta) -> None:
        if not isinstance(interval, timedelta):
            raise TypeError(f"save_by_event_time must be a datetime.timedelta, found {quoted(interval)}")
        if interval < timedelta(milliseconds=1):
            raise ValueError(f"save_by_event_time must be at least a millisecond, found {interval}")
        self._interval = np.timedelta64(interval // timedelta(milliseconds=1), "ms")
        self._saved: np.datetime64 | None = None

    def saved(self, loader: Any) -> None:
        """A save, or a resume, where a loader is now."""
        dataset = dataset_behind(loader)
        self._saved = getattr(dataset, "watermark", None) or self._saved

    def is_due(self, loader: Any) -> bool:
        """Whether the next save is due where a loader is now.

        Raises:
            TypeError: if it is no stream.
        """
        dataset = dataset_behind(loader)
        if dataset is None or not dataset._is_stream:
            raise TypeError(
                "save_by_event_time= follows the watermark of a stream: pass the Loader of a KafkaDataset, "
                f"found {type(loader).__name__}"
            )
        watermark: np.datetime64 | None = getattr(dataset, "watermark", None)
        if watermark is None:
            return False
        if self._saved is None:
            self._saved = watermark
        return bool(watermark - self._saved >= self._interval)
