"""What users pass, checked and in one form."""

from __future__ import annotations

import math
import operator
import os
import pathlib
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import numpy as np

SUMMARIES = ("/_metadata", "/_common_metadata")
"""How paths end of what Dask and Spark write beside the data: the footers of all files, or their columns."""

Path = str | os.PathLike[str]
Choice = TypeVar("Choice", bound=str)


class _Short(reprlib.Repr):
    """A `repr` of one line: of an array or frame that has more, its type and shape."""

    def repr_instance(self, x: object, level: int) -> str:
        """The text of anything that is no list, mapping, text or number."""
        text = super().repr_instance(x, level)
        shape = getattr(x, "shape", None) if "\n" in text else None
        if not isinstance(shape, tuple):
            return " ".join(text.split("\n"))
        dtype = str(getattr(x, "dtype", "")).removeprefix("torch.")
        return f"<{' '.join(filter(None, (type(x).__name__, dtype)))} {list(shape)}>"


def _short(letters: int) -> reprlib.Repr:
    short = _Short()
    short.maxstring = short.maxother = short.maxlong = letters
    short.maxdict = short.maxlist = short.maxtuple = 8
    return short


_SHORT, _SHORTER = _short(200), _short(40)
_SHORTER.maxlevel = 1

_LONGEST = 300
"""What is quoted in more letters is quoted without what its lists and mappings hold."""


def quoted(value: object) -> str:
    """The `repr` of what a user passed, for an error: its beginning and end where it is long.

    Examples:
        >>> quoted([1, "two"]), len(quoted("x" * 1_000_000)), quoted(np.zeros((20, 8)))
        ("[1, 'two']", 200, '<ndarray float64 [20, 8]>')
    """
    text = _SHORT.repr(value)
    return text if len(text) <= _LONGEST else _SHORTER.repr(value)


def kind_of(value: object) -> str:
    """The class of what a user passed, for an error; of a class itself, how to make an object of it.

    Examples:
        >>> kind_of(3), kind_of(dict)
        ('int', 'the class dict: call it, as dict(...)')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}: call it, as {value.__name__}(...)"
    return type(value).__name__


def integer(name: str, value: object) -> int:
    """The integer.

    Raises:
        TypeError: if it is not one; a bool is none.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, found {quoted(value)}")
    try:
        return operator.index(value)
    except TypeError:  # an array has the method, but only one of a single integer gives one
        raise TypeError(f"{name} must be an integer, found {quoted(value)}") from None


def scalar(value: object) -> object:
    """A number of numpy as Python's own, by the digits that numpy prints; anything else as it is.

    Examples:
        >>> scalar(np.float32(0.7)), scalar(np.array(3)), scalar("x")
        (0.7, 3, 'x')
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, (np.integer, np.bool_)) else value


def number(name: str, value: object, expected: str = "a number (int, float or bool)") -> bool | int | float:
    """The number, as Python's own; `expected` is what it might have been, in words.

    Raises:
        TypeError: if it is none.
        ValueError: if it is an integer of more than 64 bits.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    try:
        found = integer(name, value)
    except TypeError:
        raise TypeError(f"{name} must be {expected}, found {quoted(value)}") from None
    if not -(2**63) <= found < 2**64:
        raise ValueError(f"{name} must fit 64 bits, found {found}")
    return found


def positive(name: str, value: object) -> float:
    """The number, which is above 0 and finite.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not above 0, or not finite.
    """
    found = scalar(value)
    if isinstance(found, timedelta):
        raise TypeError(f"{name} must be a number, found {found!r}: write {name}={found.total_seconds():g}")
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TypeError(f"{name} must be a number, found {quoted(value)}")
    if not 0 < found < float("inf"):
        raise ValueError(f"{name} must be above 0 and finite, found {found}")
    return float(found)


def at_least(least: int, name: str, value: object, bits: int = 53) -> int:
    """The integer, which is at least `least` and below 2 to the power of `bits`.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is less than `least`, or does not fit `bits` bits.
    """
    number = integer(name, value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, found {number}")
    if number >= 1 << bits:
        raise ValueError(f"{name} must be below 2**{bits}, found {number}")
    return number


def truth(name: str, value: object) -> bool:
    """The bool.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, found {quoted(value)}")
    return value


def one_of(name: str, value: Choice, choices: tuple[Choice, ...], *others: str) -> Choice:
    """The value, which is one of the choices; `others` are what else it might have been, in words.

    Raises:
        ValueError: if it is not.
    """
    if value not in choices:
        allowed = " or ".join([*map(repr, choices), *others])
        raise ValueError(f"{name} must be {allowed}, found {quoted(value)}")
    return value


def nearest(number: int, divisor: int) -> str:
    """The nearest multiples, in words."""
    below = number // divisor * divisor
    return "the nearest: " + " and ".join(str(found) for found in (below, below + divisor) if found)


def path_generations(paths: Path | Sequence[Path] | Sequence[Sequence[Path]]) -> list[list[str]]:
    """The paths of each generation, as strings: of a list of lists one each, else one alone.

    A day without files makes no generation.

    Raises:
        TypeError: if some entries are lists and others paths; if it is a table in memory.
    """
    given: object = paths
    kind = type(paths).__name__
    if _package(paths) == "datasets":
        way = "dataset['train']" if isinstance(given, Mapping) else "dataset"
        way += f".select_columns({quoted(getattr(paths, 'column_name', 'x'))})" * kind.endswith("Column")
        raise TypeError(f"paths must name files, found a datasets.{kind}: write fr.ArrowDataset({way})")
    if is_table(paths):  # to iterate over one gives the names of its columns, or their values
        kept = "frame" if kind.endswith("Frame") else "table"
        kept += ".collect()" if hasattr(type(paths), "collect") else ""
        raise TypeError(
            f"paths must name files, found a {kind}: write it to a Parquet file first, or "
            f"fr.ArrowDataset({kept}) if it stays in memory"
        )
    made = "source" if all(hasattr(type(paths), name) for name in ("segments", "read")) else table_of(paths)
    if made is not None:
        raise TypeError(f"paths must name files, found {quoted(paths)}: write fr.ArrowDataset({made})")
    if isinstance(paths, (str, os.PathLike)):
        return [path_list(paths)]
    entries = _sequence("paths", paths)  # once: it may be a generator
    are_lists = [isinstance(entry, (list, tuple)) for entry in entries]
    if not any(are_lists):
        return [path_list(cast("Sequence[Path]", entries))]
    if not all(are_lists):
        raise TypeError(
            "paths must be paths, or lists of paths (generations, one after another), found both: "
            f"{quoted(paths)}"
        )
    return [path_list(cast("Sequence[Path]", entry)) for entry in entries if entry] or [[]]


def _package(value: object) -> str:
    """The package that the class of a value is of, or a class that it extends."""
    packages = [of.__module__.partition(".")[0] for of in type(value).__mro__]
    return "datasets" if "datasets" in packages else packages[0]


def is_table(value: object) -> bool:
    """Whether it is a table in memory, a frame, or a dataset of the hub's package."""
    # Its class is asked: a lazy frame of polars warns if it is.
    return any(hasattr(type(value), name) for name in ("columns", "column_names"))


def table_of(value: object) -> str | None:
    """Code that makes a table of arrays, tensors or groups in memory; None of others, and of texts."""
    tensors = getattr(value, "tensors", None)
    if isinstance(tensors, tuple) and tensors:  # a TensorDataset
        some = list(enumerate(tensors[:4]))
        each = [f"'x{number}': {_column_of(f'dataset.tensors[{number}]', one)}" for number, one in some]
        return f"pyarrow.table({{{', '.join([*each, *['...'] * (len(tensors) > len(some))])}}})"
    if hasattr(value, "agg") and hasattr(value, "__iter__") and not hasattr(value, "dtypes"):
        is_polars = type(value).__module__.startswith("polars")
        return "groups.agg(polars.all())" if is_polars else "groups.agg(list).reset_index()"
    kind = str(getattr(getattr(value, "dtype", None), "kind", ""))
    if not hasattr(value, "__array__") or kind in ("O", "U", "S", "T") or not getattr(value, "ndim", 0):
        return None
    if getattr(value.dtype, "names", None):  # type: ignore[attr-defined]
        return "pyarrow.table({name: array[name] for name in array.dtype.names})"
    return f"pyarrow.table({{'x': {_column_of('tensor' if hasattr(value, 'detach') else 'array', value)}}})"


def _column_of(name: str, value: Any) -> str:
    """Code that makes a column of an array or tensor: lists of one length of what has more dimensions."""
    if hasattr(value, "detach"):
        name += ".detach()" * bool(value.requires_grad) + ".cpu()" * (value.device.type != "cpu")
        name += ".float()" * (str(value.dtype) == "torch.bfloat16") + ".numpy()"
    if value.ndim < 2:
        return name
    size = math.prod(value.shape[1:])
    return f"pyarrow.FixedSizeListArray.from_arrays({name}.reshape(-1), {size})"


def path_list(paths: Path | Sequence[Path]) -> list[str]:
    """The paths as strings.

    Raises:
        TypeError: if one is no path.
        ValueError: if one is a summary of other files, which has no rows, or names another machine.
    """
    entries = [paths] if isinstance(paths, (str, os.PathLike)) else _sequence("paths", paths)
    named = [
        text("paths", os.fspath(entry) if isinstance(entry, os.PathLike) else entry) for entry in entries
    ]
    found = [local_path(path) for path in named]
    for path in found:
        if f"/{path}".endswith(SUMMARIES) and pathlib.Path(path).is_file():
            raise ValueError(
                f"paths holds {path!r}, a summary of the files beside it: write their directory, "
                f"{str(pathlib.Path(path).parent)!r}"
            )
    return found


def local_path(path: str) -> str:
    """The path that a text names: `~` is the home directory, and `file://` before a path is removed.

    Raises:
        ValueError: if it names another machine.
    """
    if path.startswith("file://"):
        host, slash, rest = path.removeprefix("file://").partition("/")
        if host not in ("", "localhost") or not slash:
            raise ValueError(f"paths holds {path!r}: file:// names a path of this machine, as file:///data/x")
        # A URL writes `%20` for a space; a glob's `?` and `#` are letters of paths here.
        return unquote(f"/{rest}")
    return str(pathlib.Path(path).expanduser()) if path.startswith("~") else path


def one_path(name: str, value: object) -> str:
    """The path as a string, with the home directory for `~`.

    Raises:
        TypeError: if it is not one.
        ValueError: if it is empty, an address, or a pattern that is not there by that name.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path, found {quoted(value)}")
    if not path:
        raise ValueError(f"{name} is an empty path")
    if is_address(path):
        raise ValueError(f"{name} must be a local path, found the address {path!r}")
    if any(sign in path for sign in "*?") and not os.path.lexists(local_path(path)):
        raise ValueError(
            f"{name} must be one path, found the pattern {path!r}: write its name without * and ?"
        )
    return local_path(path)


def path_or_address(name: str, value: object) -> str:
    """The path, or the address of an object, as a string.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is empty, or an address that `pathlib` took a slash from.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return path if isinstance(path, str) and "://" in path else one_path(name, value)


def is_address(path: str) -> bool:
    """Whether it is an address, also as `pathlib` writes it: `s3:/bucket`, with one slash."""
    found = re.match(r"[A-Za-z][\w+.-]*:(?=/)", path)
    return found is not None and not os.path.lexists(found[0])


def _sequence(argument: str, given: object) -> list[object]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        way = ": write its .files" if hasattr(given, "files") else ""
        way = ": write the path that it was made with" if hasattr(given, "read_row_group") else way
        raise TypeError(f"{argument} must be a string or a list of them, found {quoted(given)}{way}")
    if isinstance(given, Mapping):
        raise TypeError(
            f"{argument} must be a string or a list of them, found a {type(given).__name__}: write "
            "list(mapping.values()), or make a dataset of each"
        )
    if hasattr(given, "read"):
        name = getattr(given, "name", None)
        advice = (
            f"its path, {quoted(name)}" if isinstance(name, str) else "fr.ArrowDataset(table), of its rows"
        )
        raise TypeError(f"{argument} must be a string or a list of them, found an open file: write {advice}")
    return list(given)


def text_or_bytes(argument: str, value: object) -> str | bytes:
    """The string, or bytes, also of a scalar of pyarrow.

    Raises:
        TypeError: if it is neither.
    """
    found = of_arrow(value)
    if not isinstance(found, (str, bytes)):
        raise TypeError(f"{argument} must be a string or bytes, found {quoted(value)}")
    return found


def of_arrow(value: object) -> object:
    """A scalar of pyarrow as Python's own; anything else as it is."""
    return value.as_py() if callable(getattr(value, "as_py", None)) else value  # type: ignore[attr-defined]


def text(argument: str, value: object) -> str:
    """The string, one of those that an argument holds.

    Raises:
        TypeError: if it is not one.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must hold strings, found {quoted(value)}")
    return value
