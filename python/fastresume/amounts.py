"""Amounts as people read them: bytes in units, and numbers with a noun."""

from __future__ import annotations


def in_units(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """The number and the noun, in the plural if needed, which is the noun with an s if none is named."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
