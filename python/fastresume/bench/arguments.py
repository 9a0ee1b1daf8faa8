"""The arguments of `fastresume bench`; to tell of them imports neither torch nor a reader."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastresume._core import cores

NAMES = (
    "fastresume",
    "fastresume-stacked",
    "fastresume-shuffled",
    "fastresume-shuffled-columns",
    "fastresume-threads",
    "fastresume-thread",
    "pyarrow",
    "pyarrow-tensors",
    "pyarrow-dataset",
    "polars",
    "duckdb",
    "datasets",
    "dataloader",
    "torchdata",
    "numpy",
)
"""The names of all contenders, which `contenders` lists: to import these would import torch."""

PACK_NAMES = (
    "fastresume",
    "fastresume-indexed",
    "fastresume-shuffled",
    "pyarrow",
    "python",
    "datasets",
    "datasets-arrow",
    "grain",
    "litdata",
)
MIX_NAMES = (
    "fastresume",
    "fastresume-shuffled",
    "fastresume-threads",
    "pyarrow",
    "python",
    "datasets",
    "datasets-copied",
    "grain",
    "litdata",
)
"""The names of those that pack and of those that mix."""

PACKED_LENGTH = 2048


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="files, directories or glob patterns, of Parquet or of Arrow; addresses of stores, too",
    )
    command.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        type=_option,
        action="append",
        default=[],
        dest="storage_options",
        help="how a store is reached, as endpoint_url=http://localhost:9000; secrets are better left to the "
        "environment",
    )
    command.add_argument(
        "--columns",
        metavar="NAMES",
        type=_list,
        help="names or patterns, with commas (default: all that can be read)",
    )
    command.add_argument(
        "--pack",
        metavar="COLUMN[:LENGTH]",
        type=_packing,
        help="measure packing: lists of tokens, cut into sequences of LENGTH (default: "
        f"{PACKED_LENGTH}), in million tokens per second and per CPU second",
    )
    command.add_argument(
        "--mix",
        metavar="PATH:WEIGHT",
        type=_source,
        nargs="+",
        help="measure mixing, instead of PATH: rows of each of these datasets by its weight, until one "
        "has ended; their columns of numbers without nulls",
    )
    command.add_argument(
        "--batch-size", metavar="N", type=positive, help="(default: 4096; 8 sequences under --pack)"
    )
    command.add_argument("--rounds", metavar="N", type=positive, help="turns of each contender (default: 5)")
    command.add_argument(
        "--contenders",
        metavar="NAMES",
        type=_list,
        help=f"with commas, of {', '.join(NAMES)}, and readers of your own as MODULE:FUNCTION, which "
        "takes a task and gives batches: tensors by name, Arrow tables or polars frames. Under --pack of "
        f"{', '.join(PACK_NAMES)}; under --mix of {', '.join(MIX_NAMES)}",
    )
    command.add_argument(
        "--against",
        metavar="NAME",
        help="whom to compare with (default: polars; of Arrow's files, under --pack and --mix "
        "datasets; or pyarrow)",
    )
    command.add_argument(
        "--threads", metavar="N", type=positive, default=cores(), help="(default: %(default)s)"
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="seconds, not minutes: one round of fastresume-stacked, pyarrow and polars (or the contenders "
        "that are named; of Arrow's files, under --pack and --mix fastresume, pyarrow, datasets) over the "
        "first files, up to 64 MiB; no resumes. The report says what was left out",
    )
    command.add_argument("--no-resume", action="store_true", help="measure no resumes")
    command.add_argument("--json", metavar="FILE", type=Path, help="write every measurement")
    command.add_argument("--plot", metavar="FILE", type=Path, help="draw a picture, such as out.png")


def _list(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"expected names, with commas between them, found {text!r}")
    return names


def _option(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there or not name:
        raise argparse.ArgumentTypeError("expected NAME=VALUE")
    return name, value


def _packing(text: str) -> tuple[str, int]:
    """The column and the length in COLUMN[:LENGTH]; a name may have colons itself."""
    column, colon, length = text.rpartition(":")
    if colon and length.isdecimal():
        return column, positive(length)
    return text, PACKED_LENGTH


def _source(text: str) -> tuple[str, float]:
    """The path and the weight in PATH:WEIGHT."""
    path, _, share = text.rpartition(":")
    try:
        weight = float(share)
    except ValueError:
        weight = 0.0
    if not path or not 0 < weight < float("inf"):
        raise argparse.ArgumentTypeError(f"expected PATH:WEIGHT with a weight above 0, found {text!r}")
    return path, weight


def positive(text: str) -> int:
    """The positive number in an argument.

    Raises:
        ArgumentTypeError: if it is not one.
    """
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """The number of at least 0 in an argument.

    Raises:
        ArgumentTypeError: if it is not one.
    """
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, found {text!r}")
    return number
