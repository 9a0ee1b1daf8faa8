"""What becomes of a value (docs/reference/shaping.md): casts, lengths and buckets."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from support.oracle.order import WORD

FLOATS = {"float16": (11, 15), "bfloat16": (8, 127), "float32": (24, 127), "float64": (53, 1023)}
"""Of each type, the digits of a number, and the exponent of the largest ones."""


def cast(value: bool | float, to: str, *, rounding: bool = False) -> bytes | None:
    """Return the bytes of a number in another type, or None if it does not fit; of any NaN, those of NaN.

    `rounding` lets integers become the nearest float, as floats always do.
    """
    is_float, is_finite = isinstance(value, float), math.isfinite(value)
    if to not in FLOATS:
        least, largest = bounds_of(to)
        if not is_finite or value != int(value) or not least <= value <= largest:
            return None
        return int(value).to_bytes(1 if to == "bool" else np.dtype(to).itemsize, "little", signed=least < 0)
    if not is_finite:
        return float_bytes(float(value), to)
    nearest = rounded(Fraction(value), *FLOATS[to])
    if nearest is None or (nearest != value and not is_float and not rounding):
        return None
    # Zeros, and what is so small that it becomes one, keep their sign.
    return float_bytes(math.copysign(float(nearest), value), to)


def bounds_of(to: str) -> tuple[int, int]:
    """Return the least and the largest number of a type of integers; a truth value is 0 or 1."""
    return (0, 1) if to == "bool" else (int(np.iinfo(to).min), int(np.iinfo(to).max))


def rounded(value: Fraction, digits: int, largest_exponent: int) -> Fraction | None:
    """Return the nearest float, of two the one with an even last digit; None beyond the largest one."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    # The smallest numbers are as far apart as those of the least exponent.
    exponent = max(exponent, 1 - largest_exponent)
    unit = Fraction(2) ** (exponent - digits + 1)
    nearest = round(value / unit) * unit  # Python rounds halves to even
    return nearest if abs(nearest) < Fraction(2) ** (largest_exponent + 1) else None


def float_bytes(value: float, to: str) -> bytes:
    """Return the bytes of a number that the type holds; of any NaN, those of the one without a sign."""
    value = math.nan if math.isnan(value) else value
    if to == "bfloat16":
        return struct.pack("<f", value)[2:]
    return struct.pack({"float16": "<e", "float32": "<f", "float64": "<d"}[to], value)


def padded(
    row: Sequence[bytes], size: int, empty: bytes, side: str = "right", keep: str | None = None
) -> tuple[list[bytes], int] | None:
    """Return a row of so many elements, and how many of these are its own; None of one that is too long.

    What is missing is `empty`, on that side; of a longer row the end is kept that `keep` names.
    """
    own = list(row)
    while len(own) > size:
        if keep is None:
            return None
        own.pop(-1 if keep == "head" else 0)
    whole = list(own)
    while len(whole) < size:
        whole.insert(len(whole) if side == "right" else 0, empty)
    return whole, len(own)


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return XXH64 of some bytes, as its specification says it: a 64-bit word."""
    one, two, three, four, five = XXH64_PRIMES

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> (64 - by)) % WORD

    def turned(lane: int, word: int) -> int:
        return rotated((lane + word * two) % WORD, 31) * one % WORD

    def word_at(place: int, size: int) -> int:
        return int.from_bytes(data[place : place + size], "little")

    place = 0
    if len(data) >= 32:
        lanes = [(seed + start) % WORD for start in (one + two, two, 0, -one)]
        while place + 32 <= len(data):
            lanes = [turned(lane, word_at(place + 8 * i, 8)) for i, lane in enumerate(lanes)]
            place += 32
        found = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) % WORD
        for lane in lanes:
            found = ((found ^ turned(0, lane)) * one + four) % WORD
    else:
        found = (seed + five) % WORD
    found = (found + len(data)) % WORD
    while place + 8 <= len(data):
        found = (rotated(found ^ turned(0, word_at(place, 8)), 27) * one + four) % WORD
        place += 8
    if place + 4 <= len(data):
        found = (rotated(found ^ word_at(place, 4) * one % WORD, 23) * two + three) % WORD
        place += 4
    while place < len(data):
        found = rotated(found ^ data[place] * five % WORD, 11) * one % WORD
        place += 1
    found = (found ^ found >> 33) * two % WORD
    found = (found ^ found >> 29) * three % WORD
    return found ^ found >> 32


XXH64_PRIMES = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def bucket(value: bytes | int, buckets: int, seed: int = 0) -> int:
    """Return the bucket of a text's bytes, or of an integer: version 1."""
    data = value if isinstance(value, bytes) else (value % WORD).to_bytes(8, "little")
    return xxh64(data, seed) * buckets // WORD
