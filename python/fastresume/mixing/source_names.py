"""The names of a mixture's sources, in their order."""

from __future__ import annotations

from typing import Any

from fastresume.options.unknown import refuse_attribute

_OF_MAPPINGS = {
    "get": "mixture.datasets.get(name)",
    "items": "mixture.datasets.items()",
    "keys": "mixture.datasets.keys()",
    "values": "mixture.datasets.values()",
}


class SourceNames(tuple[str, ...]):
    """Names, counted from 0: `mixture.datasets` has what they name."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """The name of a number; a name is refused.

        Raises:
            TypeError: for a name.
        """
        if isinstance(index, str):
            raise TypeError(f"mixture.sources are names alone: write mixture.datasets[{index!r}]")
        return super().__getitem__(index)

    def __getattr__(self, name: str) -> Any:
        """Says what to write for a method that mappings have."""
        refuse_attribute(self, name, "mixture.sources", _OF_MAPPINGS)
