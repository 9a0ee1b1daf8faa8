"""The format of delivery logs: records as bytes, written and read.

A log file is `MAGIC`, then records. A record is its length, a check of the length, a CRC-32 and a body. The
CRC-32 continues from the record before, so that no record can be taken out, moved or copied. A body is a
start (JSON: the cursor before the next batches, and the topology), a batch (packed numbers), what is masked
of the batch that follows (JSON: causes, each with its ranges of row numbers), or the digest of what its units
hold.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fastresume.buffers import Intervals, of_runs

MAGIC = b"fastresume audit 1\n"
HEADER = struct.Struct("<IBI")
FIXED = struct.Struct("<BQQ")
CONTENT_DIGEST = struct.Struct("<BQ")
START, BATCH, LAST_BATCH, MASKED, CONTENT = 1, 2, 3, 4, 5

# The keys of a state that are no place in the data: the user may reset the count of passes, and the checksum
# follows it.
_NO_PLACE = re.compile(r'"check":"[0-9a-f]*",|"(?:first_epoch|earlier_batches)":[0-9]+,')

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Masked = tuple[tuple[str, Intervals], ...]


def dataset_file(fingerprint: str) -> str:
    """The name of the file that describes a dataset."""
    return f"dataset-{fingerprint[:16]}.json"


def selection_file(selection: str) -> str:
    """The name of the file with the selected rows: their intervals, pairs of 8-byte integers."""
    return f"selection-{selection[:16]}.bin"


def units_file(fingerprint: str, selection: str) -> str:
    """The name of the file that describes the units of a dataset."""
    return f"units-{fingerprint[:16]}-{selection[:16]}.json"


def contents_file(fingerprint: str, selection: str) -> str:
    """The name of the file that says what each unit of a dataset holds: its digest, 8 bytes."""
    return f"contents-{fingerprint[:16]}-{selection[:16]}.bin"


def state_hash(text: str) -> int:
    """A 64-bit hash of a state's place in the data. `reset_epochs` does not change it."""
    return int.from_bytes(blake2b(_NO_PLACE.sub("", text).encode(), digest_size=8).digest(), "little")


def key_of(source: str) -> int:
    """What the digest of a source's rows is made with, so that other sources' rows are others."""
    return int.from_bytes(blake2b(source.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def digest(rows: npt.NDArray[np.int64], key: int = 0) -> int:
    """The digest of a multiset of rows: the sum modulo 2^64 of SplitMix64's finalizer of row + 1.

    With a key, of these numbers, each combined with it by exclusive or.
    """
    words = rows.astype(np.uint64)
    words += np.uint64(1)
    words ^= np.uint64(key)
    return int(mix(words).sum(dtype=np.uint64))


def of_source(content: int, source: str) -> int:
    """The digest of what units of a source hold, such that other sources' units have others."""
    return content * (key_of(source) | 1) % (1 << 64)


def mix(words: Words) -> Words:
    """SplitMix64's finalizer of each word; overwrites the words."""
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= np.right_shift(words, np.uint64(27), out=shifted)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= np.right_shift(words, np.uint64(31), out=shifted)
    return words


def record(body: bytes, check: int) -> tuple[bytes, int]:
    """A record that follows one whose CRC-32 is `check`, and the CRC-32 of this record."""
    after = zlib.crc32(body, check)
    return HEADER.pack(len(body), length_check(len(body)), after) + body, after


def length_check(length: int) -> int:
    """One byte that changes with each bit of a length, so that damage is not mistaken for a torn end."""
    folded = length ^ length >> 16
    return (folded ^ folded >> 8 ^ 0xA5) & 0xFF


def varints(numbers: Sequence[int]) -> bytes:
    """The numbers as varints: seven bits per byte, the lowest first; the high bit says that more follow."""
    packed = bytearray()
    for number in numbers:
        while number >= 0x80:
            packed.append(number & 0x7F | 0x80)
            number >>= 7  # noqa: PLW2901  (the rest of it)
        packed.append(number)
    return bytes(packed)


@dataclass(frozen=True)
class Start:
    """A place at which a rank began to iterate.

    Of a mixture, `stage` is the state as the stage that begins has it. `sources` has the fingerprint and
    selection of each source's files, `renamed` the names that sources had in states, with those of now.
    `units` says of a stream's round how its units are made, in what rank 0 writes.
    """

    file: str
    offset: int
    cursor: str
    rank: int
    world_size: int
    batch_size: int
    cut: tuple[int, ...]
    tail: str
    on_iter: str
    continues: str | None
    stage: str | None = None
    sources: Mapping[str, tuple[str, str | None]] | None = None
    renamed: Mapping[str, str | None] = field(default_factory=dict)
    units: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Records:
    """The batches of log files, in their order: one array per property.

    `before` and `after` are the hashes of the states around a batch. `start` is the index of the `Start` that
    it follows. Equal records have equal `body`. `is_again` marks a record that repeats the one before it. The
    positions of record i are the rows `first[i]` to `first[i] + count[i]` of `ranges`; `count_dropped[i]`
    more are what the tail policy drops. `masked` has the masked rows of each: (cause, ranges), none for most.
    `content` is the digest of what units hold, these and those that the tail policy drops; None if it is not
    known.
    """

    start: Integers
    offset: Integers
    before: Words
    after: Words
    digest: Words
    epoch: Integers
    step: Integers
    is_last: npt.NDArray[np.bool_]
    is_again: npt.NDArray[np.bool_]
    body: Integers
    first: Integers
    count: Integers
    count_dropped: Integers
    ranges: Intervals
    masked: npt.NDArray[np.object_]
    content: npt.NDArray[np.object_]

    def moved(self, starts: int, ranges: int) -> Self:
        """The records, with indices shifted by the numbers of starts and ranges of files before them."""
        return replace(self, start=self.start + starts, first=self.first + ranges)


class DamageError(Exception):
    """What is wrong with a file, as a message for people."""


def read_log(path: Path) -> tuple[list[Start], Records, str | None]:
    """The starts and batches of a file up to its end or its first damage, and what is damaged.

    An incomplete last record is no damage: its batch was not handed over.
    """
    data = path.read_bytes()
    starts: list[Start] = []
    spans: list[tuple[int, int, int, int]] = []  # start, first and end byte of the body, hash of it
    masked: dict[int, Masked] = {}  # by the batch
    content: dict[int, int] = {}  # as well
    damage = None
    try:
        for at, end in _bodies(data):
            if data[at] == START:
                starts.append(_parse_start(path.name, at, data[at + 1 : end]))
            elif data[at] == MASKED and starts:
                masked[len(spans)] = _parse_masked(at, data[at + 1 : end])
            elif data[at] == CONTENT and end - at == CONTENT_DIGEST.size and starts:
                content[len(spans)] = CONTENT_DIGEST.unpack_from(data, at)[1]
            elif data[at] in (BATCH, LAST_BATCH) and starts:
                spans.append((len(starts) - 1, at, end, hash(data[at:end])))
            else:
                raise DamageError(f"at byte {at}: a record of kind {data[at]} is not expected here")
    except DamageError as found:
        damage = f"{path.name}: {found}"
    view, table = np.frombuffer(data, np.uint8), np.array(spans, np.int64).reshape(-1, 4)
    try:
        return starts, _parse_batches(view, table, starts, masked, content), damage
    except (DamageError, ValueError, IndexError):  # complete records with a body that no writer makes
        return starts, _parse_batches(view, table[:0], starts, {}, {}), f"{path.name}: a record is malformed"


def _bodies(data: bytes) -> Iterator[tuple[int, int]]:
    """The first and end byte of the body of each whole record."""
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data):
            return
        raise DamageError("it does not begin as a delivery log of this version does")
    at, check = len(MAGIC), zlib.crc32(MAGIC)
    view = memoryview(data)
    while at + HEADER.size <= len(data):
        length, folded, stored = HEADER.unpack_from(data, at)
        if folded != length_check(length) or length == 0:
            if not any(view[at:]):  # the machine died: the file had grown, but its end was not written yet
                return
            raise DamageError(f"at byte {at}: the length of a record is damaged")
        body, end = at + HEADER.size, at + HEADER.size + length
        if end > len(data):
            return
        if zlib.crc32(view[body:end], check) != stored:
            raise DamageError(f"at byte {at}: the checksum of a record is wrong, or one before it is missing")
        yield body, end
        at, check = end, stored


def _parse_start(name: str, at: int, text: bytes) -> Start:
    try:
        fields = json.loads(text)
        fields["cut"] = tuple(fields["cut"])
        start = Start(file=name, offset=at, **fields)
        state = json.loads(start.cursor)
        least = int("mixture" not in state["order"])  # under other weights its pass may be over already
        if not 0 <= start.rank < start.world_size or state["dataset"]["rows"] < least:
            raise ValueError(f"rank {start.rank} of {start.world_size}, {state['dataset']['rows']} rows")
        for key in ("fingerprint", "kind", "selection", "epoch", "consumed", "cuts"):
            _ = {**state, **state["dataset"], **state["order"]}[key]
        return start
    except (ValueError, TypeError, KeyError) as cause:
        raise DamageError(f"at byte {at}: a start record is not understood: {cause!r}") from None


def _parse_masked(at: int, text: bytes) -> Masked:
    try:
        return tuple(
            (str(cause), np.array(ranges, np.int64).reshape(-1, 2)) for cause, ranges in json.loads(text)
        )
    except (ValueError, TypeError) as cause:
        raise DamageError(f"at byte {at}: a record of masked rows is not understood: {cause!r}") from None


def masked_body(masked: Iterable[tuple[str, Integers]]) -> bytes:
    """The body of a record of rows that are masked, by cause."""
    ranges = []
    for cause, rows in masked:
        ordered = np.unique(rows)
        parts = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
        ranges.append([cause, [[int(part[0]), int(part[-1]) + 1] for part in parts if len(part)]])
    return bytes([MASKED]) + json.dumps(ranges).encode()


def _parse_batches(
    data: npt.NDArray[np.uint8],
    spans: Integers,
    starts: Sequence[Start],
    masked: Mapping[int, Masked],
    content: Mapping[int, int],
) -> Records:
    """The batch records whose bodies are at these spans."""
    start, at, end, body = spans.T
    fixed = np.ascontiguousarray(data[at[:, None] + np.arange(FIXED.size)])
    words = np.ascontiguousarray(fixed[:, 1:]).view("<u8").reshape(-1, 2).astype(np.uint64)
    is_last = fixed[:, 0] == LAST_BATCH
    after, row_digest = words.T
    of_start = np.array([state_hash(item.cursor) for item in starts], np.uint64)
    is_first = np.diff(start, prepend=-1) != 0
    before = np.roll(after, 1)
    before[is_first] = of_start[start[is_first]]
    # The numbers of a body: epoch, step, how many ranges, the ranges, and for a last batch the same of the
    # dropped.
    values, first, counts = _parse_varints(data, at + FIXED.size, end)
    epoch, step, count = (values[first + place] for place in range(3))
    is_range = np.ones(len(values), np.bool_)
    for place in range(3):
        is_range[first + place] = False
    count_dropped = np.zeros_like(count)
    of_last = (first + 3 + 2 * count)[is_last]
    count_dropped[is_last] = values[of_last]
    is_range[of_last] = False
    if not (3 + 2 * count + is_last * (1 + 2 * count_dropped) == counts).all():
        raise DamageError("a record is malformed")
    pairs = values[is_range].reshape(-1, 2)
    masks, contents = (np.full(len(spans), None, np.object_) for _ in range(2))
    kinds: tuple[tuple[npt.NDArray[np.object_], Mapping[int, object]], ...]
    kinds = (masks, masked), (contents, content)
    for column, of_batches in kinds:
        for number, found in of_batches.items():
            if number < len(spans):  # else the batch was not handed over
                column[number] = found
    first_range = np.cumsum(count + count_dropped) - count - count_dropped
    return Records(
        start=start,
        offset=at - HEADER.size,
        before=before,
        after=after,
        digest=row_digest,
        epoch=epoch,
        step=step,
        is_last=is_last,
        is_again=~is_first & (body == np.roll(body, 1)),
        body=body,
        first=first_range,
        count=count,
        count_dropped=count_dropped,
        ranges=np.column_stack([pairs[:, 0], pairs.sum(axis=1)]),
        masked=masks,
        content=contents,
    )


def _parse_varints(
    data: npt.NDArray[np.uint8], at: Integers, end: Integers
) -> tuple[Integers, Integers, Integers]:
    """All varints in the spans of bytes; the index of each span's first number, and how many it has."""
    packed = data[of_runs(np.column_stack([at, end]))]
    lengths = end - at
    is_end = packed < 0x80
    ends = np.flatnonzero(is_end)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)]
    counts = np.add.reduceat(is_end, np.cumsum(lengths) - lengths, dtype=np.int64) if len(at) else lengths
    place = np.arange(len(packed)) - np.repeat(starts, ends - starts + 1)
    values = (packed & 0x7F).astype(np.int64) << (7 * place)
    values = np.add.reduceat(values, starts) if len(starts) else values
    return values, np.cumsum(counts) - counts, counts
